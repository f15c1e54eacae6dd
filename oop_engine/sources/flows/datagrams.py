"""Datagrams are byte ranges of one array, with when and from where each came."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows.entries import Given
from punctuation import NO_TIME


@attrs.frozen(eq=False)
class Datagrams:
    """Datagram i is data[offset[i] : offset[i] + length[i]]; it came at arrival[i] (ns since 1970, or NO_TIME) from
    the 16 bytes of address[2i : 2i + 2], as they lie in memory, and port[i]. Where `addressed` is False nobody knows
    from where.
    """

    data: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    arrival: NDArray[np.int64]
    address: NDArray[np.uint64]
    port: NDArray[np.int32]
    addressed: bool = True

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def tables(self) -> Given:
        """Return them for the kernels."""
        return self.data, self.offset, self.length, self.arrival, self.address, self.port

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Datagrams:
        """Return some of them: those that a mask of shape (n,) keeps, or those of these numbers in this order."""
        address = self.address.reshape(-1, 2)[which].reshape(-1)
        offset, length, arrival, port = (part[which] for part in (self.offset, self.length, self.arrival, self.port))
        return attrs.evolve(self, offset=offset, length=length, arrival=arrival, address=address, port=port)

    @classmethod
    def of(
        cls,
        payloads: list[bytes],
        *,
        arrival: list[int] | None = None,
        exporters: list[tuple[bytes, int]] | None = None,
    ) -> Datagrams:
        """Make datagrams of byte strings; `exporters` are 16-byte addresses and ports."""
        length = np.array([len(payload) for payload in payloads], np.int32)
        count = len(payloads)
        data = np.frombuffer(b"".join(payloads) or b"\0", np.uint8)
        addresses = np.zeros(2 * count, np.uint64)
        ports = np.zeros(count, np.int32)
        if exporters is not None:
            addresses = np.frombuffer(b"".join(address for address, _ in exporters), np.uint64).copy()
            ports = np.array([port for _, port in exporters], np.int32)
        return cls(
            data,
            np.cumsum(length, dtype=np.int64) - length,
            length,
            np.full(count, NO_TIME, np.int64) if arrival is None else np.array(arrival, np.int64),
            addresses,
            ports,
            exporters is not None,
        )
