"""Find datagrams of flow exports in captures, by the decoder of packets: UDP to the ports of collectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture import Capture
from oop_engine.sources.capture import decode as d
from oop_engine.sources.capture.batch import decode_headers
from oop_engine.sources.capture.formats import Format
from oop_engine.sources.capture.rows import Rows
from oop_engine.sources.capture.supply import Supply
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.stored import any_stored
from operators.kernels.data.byte_order import each_be

PORTS: Final = frozenset({2055, 2056, 4432, 4739, 6343, 9555, 9995, 9996})
"""Where collectors listen by custom: NetFlow 2055, 2056, 9555, 9995 and 9996, IPFIX 4739 and 4432, sFlow 6343."""


_WALKED: Final = 65_536


@attrs.define
class CapturedDatagrams:
    """The datagrams of one capture to these ports, all ports where there are none; what was passed over is counted."""

    capture: Capture
    ports: frozenset[int] = PORTS
    cut: int = 0
    """Datagrams of which the capture has only a part."""
    fragmented: int = 0
    """Datagrams that came in fragments, which are not put together."""
    found: bool = False
    """Whether there was a datagram that begins as one of flow exports does."""
    _start: Mapping[str, object] | None = attrs.field(init=False, default=None)

    def blocks(self) -> Iterator[Datagrams]:
        """Return the datagrams as they were captured; each block is good until the next is asked for."""
        self.cut = self.fragmented = 0
        self.found = False
        if (start := self._start) is not None:
            cut, fragmented, place = start["cut"], start["fragmented"], start["place"]
            assert isinstance(cut, int) and isinstance(fragmented, int) and isinstance(place, dict)
            self.cut, self.fragmented, self.found = cut, fragmented, bool(start["found"])
            self.capture.seek(place)
            self._start = None
        return self.capture.read(_Located(self, np.array(sorted(self.ports), np.uint16)))

    def mark(self) -> Mapping[str, object] | None:
        """Return where the next record of the capture is, behind the block given last; None for packed captures."""
        if (place := self.capture.mark()) is None:
            return None
        return {"place": place, "cut": self.cut, "fragmented": self.fragmented, "found": self.found}

    def seek(self, mark: Mapping[str, object]) -> None:
        """Let the next reading begin at a mark of another reading of the same file."""
        self._start = mark

    def locate(self, data: NDArray[np.uint8], rows: Rows, count: int, ports: NDArray[np.uint16]) -> Datagrams:
        packets = decode_headers(
            data, rows.offset[:count], rows.caplen[:count], rows.length[:count], rows.link[:count],
            "srcIP", "srcPort", "destPort", "proto", "payload_length",
        )  # fmt: skip
        seen = packets["seen"]
        chosen = (packets["proto"] == 17) & (seen & d.HAS_PORTS != 0)
        if len(ports):
            chosen &= np.isin(packets["destPort"], ports)
        whole = seen & d.HAS_FRAGMENT == 0
        self.fragmented += int(np.count_nonzero(chosen & ~whole))
        kept = np.flatnonzero(chosen & whole & (seen & d.HAS_PAYLOAD != 0))
        offset, caplen = rows.offset[kept], rows.caplen[kept]
        start = _transport(data, offset, caplen, rows.length[kept], rows.link[kept])
        said = each_be(data, offset + start + 4, 2)
        length = packets["payload_length"][kept]
        length = np.where((said >= 8) & (said - 8 < length), said - 8, length)
        here = np.maximum(caplen - start - 8, 0)
        self.cut += int(np.count_nonzero(here < length))
        found = Datagrams(
            data,
            offset + start + 8,
            np.minimum(here, length).astype(np.int32),
            rows.ts[kept],
            packets["srcIP"].reshape(-1, 2)[kept].reshape(-1),
            packets["srcPort"][kept].astype(np.int32),
        )
        self.found = self.found or any_stored(found)
        return found


@attrs.define
class _Located:
    """The datagrams of the packets that one walk found; they stay where they are captured."""

    datagrams: CapturedDatagrams
    wanted: NDArray[np.uint16]
    holds: bool = False
    _rows: Rows = attrs.field(factory=lambda: Rows.empty(_WALKED))
    _data: NDArray[np.uint8] = attrs.field(factory=lambda: np.zeros(0, np.uint8))
    _count: int = 0

    def take(self, form: Format, supply: Supply, at: int) -> tuple[int, int, int, int]:
        position, self._count, untimed, why = form.walk(supply.data, at, supply.end, self._rows)
        self._data = supply.data
        return position, self._count, untimed, why

    def give(self) -> Datagrams:
        return self.datagrams.locate(self._data, self._rows, self._count, self.wanted)


def _transport(
    data: NDArray[np.uint8], offset: NDArray[np.int64], caplen: NDArray[np.int32], length: NDArray[np.int32],
    link: NDArray[np.int32],
) -> NDArray[np.int64]:  # fmt: skip
    """Return where in each packet its UDP header begins.

    The decoder of packets knows but does not tell. It finds ports as soon as the first four bytes of the header are
    there, so the shortest part of a packet in which it finds them ends with those four.
    """
    without, found = np.zeros(len(offset), np.int32), caplen.copy()
    while (found - without > 1).any():
        part = (without + found) // 2
        ported = decode_headers(data, offset, part, length, link)["seen"] & d.HAS_PORTS != 0
        found = np.where(ported, part, found)
        without = np.where(ported, without, part)
    return found.astype(np.int64) - 4
