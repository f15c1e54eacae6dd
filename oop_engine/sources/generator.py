"""Packet streams made from a seed: Zipf sources, and the disorder, skew and lulls that the papers measure.

    main = packets(10**6, rate=10**5, disorder=Band(2 * SECOND), late_share=0.2)
    main.batches()      Arrow record batches in arrival order
    main.elements()     pages, with the promise at each block's end for Blocks, and END

The same parameters give the same bytes, whatever `batch_rows`. Times are nanoseconds since 1970. Durations are text
such as "2 s", or integers, which count nanoseconds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.distinct import distinct
from operators.data.durations import duration_ns
from operators.data.page import Int64s, Page
from operators.data.schema import IP_TYPE, Schema, ip_field
from operators.protocol import Element
from punctuation import END, NEVER, before

SECOND = 1_000_000_000
START = 1_795_255_200 * SECOND
"""2026-11-21T10:00:00Z, at which a stream starts when nothing else is said."""

_CHUNK = 65_536
_GUIDE = 1 << 16
_Words: TypeAlias = npt.NDArray[np.uint64]
_MAPPED = np.uint64(0xFFFF << 32)
_SOURCES, _DESTINATIONS = 10 << 24, (172 << 24) + (16 << 16)

# 256 equally likely kinds of packets: port and protocol, TCP flags, length on the wire.
_PORTS = np.repeat(np.array([443, 80, 53, 22, 123, 25, 8080, 3306], np.uint16), [120, 50, 40, 14, 8, 8, 8, 8])
_UDP = (_PORTS == 53) | (_PORTS == 123)
_FLAGS = np.repeat(np.array([0x10, 0x18, 0x02, 0x12, 0x11, 0x04], np.uint8), [128, 64, 24, 20, 16, 4])
_LENGTHS = np.concatenate([np.linspace(60, 120, 112), np.linspace(120, 1400, 64), np.full(80, 1514)]).astype(np.int32)


def _nanoseconds(duration: int | str) -> int:
    """Return a duration, text such as "2 s" or nanoseconds, in nanoseconds; ValueError for anything else."""
    if not isinstance(duration, str):
        if isinstance(duration, bool) or not isinstance(duration, Integral):
            raise ValueError(f'{duration!r} is no duration; write text such as "2 s", or an integer of nanoseconds')
        return int(duration)
    ns = duration_ns(duration)
    if ns.denominator != 1:
        raise ValueError(f'"{duration}" is no whole number of nanoseconds')
    return int(ns)


@attrs.frozen
class Band:
    """Delay tuples by up to `max`; arrival against time is then a band (Fig 6-8).

    - `max`: such as "2 s", or an integer of nanoseconds. ValueError if it is negative.
    - `shape`: "uniform" between 0 and max, or "exponential" with a mean of max / 5, cut at max.

    >>> stream = oop.packets(1_000, disorder=oop.Band("5 ms"), slack="5 ms")
    >>> stream.run().statistics.late
    0
    """

    max: int = attrs.field(converter=_nanoseconds, validator=attrs.validators.ge(0))
    shape: str = attrs.field(
        default="uniform", kw_only=True, validator=attrs.validators.in_(("uniform", "exponential"))
    )


@attrs.frozen
class Blocks:
    """Hold back what falls into a block of `length` and emit it at the block's end, in any order (Fig 6-9).

    `length` is such as "1 minute", or an integer of nanoseconds.

    >>> stream = oop.packets(1_000, disorder=oop.Blocks("5 ms"), punctuate=oop.blocks(length="5 ms"))
    >>> stream.run().statistics.late
    0
    """

    length: int = attrs.field(converter=_nanoseconds, validator=attrs.validators.gt(0))


@attrs.define
class _Tuples:
    """Columns of tuples under way: event time, arrival, rank of the source, random bits for the rest."""

    ts: Int64s
    arrival: Int64s
    source: npt.NDArray[np.int32]
    bits: _Words

    def take(self, indices: npt.NDArray[np.intp] | slice) -> _Tuples:
        return _Tuples(self.ts[indices], self.arrival[indices], self.source[indices], self.bits[indices])

    def __len__(self) -> int:
        return len(self.ts)

    def __add__(self, other: _Tuples) -> _Tuples:
        mine, more = attrs.astuple(self, recurse=False), attrs.astuple(other, recurse=False)
        return _Tuples(*(np.concatenate(pair) for pair in zip(mine, more, strict=True)))


@attrs.frozen
class _Shares:
    """Bounded Zipf: rank k of 1..n has a share proportional to k ** -s. A guide table leaves few steps to search."""

    ends: npt.NDArray[np.float64]
    guide: npt.NDArray[np.int32]

    @classmethod
    def of(cls, n: int, s: float) -> _Shares:
        shares = np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -s)
        ends = (shares / shares[-1])[:-1]
        return cls(ends, np.searchsorted(ends, np.arange(_GUIDE + 1) / _GUIDE, side="right").astype(np.int32))

    def find(self, drawn: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Return the place of each drawn number in [0, 1) among the shares, shape (n,)."""
        place = (drawn * _GUIDE).astype(np.int32)
        low, high = self.guide[place], self.guide[place + 1]
        searched = np.flatnonzero(low < high)
        while len(searched):
            middle = (low[searched] + high[searched]) >> 1
            above = self.ends[middle] <= drawn[searched]
            low[searched] = np.where(above, middle + 1, low[searched])
            high[searched] = np.where(above, high[searched], middle)
            searched = searched[low[searched] < high[searched]]
        return low


@attrs.frozen
class Generated:
    """A stream that can be generated any number of times. Made by `packets`."""

    n: int
    rate: float
    sources: int
    zipf: float
    disorder: Band | Blocks | None
    late_share: float
    skew: int
    lulls: tuple[tuple[int, int], ...]
    start: int
    seed: int
    link: str
    batch_rows: int
    arrival: bool

    @property
    def schema(self) -> pa.Schema:
        """Return the attributes of the packets; `arrival_ts` last, if it was asked for."""
        time = pa.timestamp("ns", "UTC")
        fields = [
            pa.field("ts", time),
            ip_field("srcIP"),
            ip_field("destIP"),
            pa.field("srcPort", pa.uint16()),
            pa.field("destPort", pa.uint16()),
            pa.field("proto", pa.uint8()),
            pa.field("length", pa.int32()),
            pa.field("flags", pa.uint8()),
        ]
        return pa.schema([*fields, *([pa.field("arrival_ts", time)] if self.arrival else [])])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the tuples in arrival order, `batch_rows` at a time."""
        held: list[pa.RecordBatch] = []
        rows = 0
        for tuples, _ in self._arriving():
            held.append(self._batch(tuples))
            rows += len(tuples)
            if rows >= self.batch_rows:
                whole = pa.concat_batches(held)
                full = rows // self.batch_rows * self.batch_rows
                for first in range(0, full, self.batch_rows):
                    yield whole.slice(first, self.batch_rows)
                held, rows = [whole.slice(full)], rows - full
        if rows:
            yield pa.concat_batches(held)

    def elements(self, *, page_rows: int = 8192) -> Iterator[Element]:
        """Yield the tuples as pages; for Blocks with `[ts < the block's end]` after each block; END at last."""
        schema = Schema(self.schema, progress=["ts"] if isinstance(self.disorder, Blocks) else [])
        for tuples, bound in self._arriving():
            batch = self._batch(tuples)
            for first in range(0, len(batch), page_rows):
                yield Page(schema, batch.slice(first, page_rows))
            if bound is not None:
                yield before("ts", bound)
        yield END

    def _arriving(self) -> Iterator[tuple[_Tuples, int | None]]:
        """Yield tuples in arrival order, with the bound that is known after them."""
        made = self._chunks()
        if isinstance(self.disorder, Blocks):
            yield from self._blocks(made, self.disorder)
        elif self.disorder is None:
            for tuples, _ in made:
                yield tuples, None
        else:
            yield from ((tuples, None) for tuples in _in_arrival_order(made, self.skew))

    def _chunks(self) -> Iterator[tuple[_Tuples, int]]:
        """Yield tuples in order of time, each chunk from a generator of its own, and a bound on what follows them."""
        heavy = _Shares.of(self.sources, self.zipf)
        for number, first in enumerate(range(0, self.n, _CHUNK)):
            length = min(_CHUNK, self.n - first)
            random = self._random(number)
            places = np.arange(first, first + length)
            gap = SECOND / self.rate
            ts = self._timed(places * gap + random.random(length) * gap)
            arrival = ts + self.skew
            if isinstance(self.disorder, Band):
                arrival += self._delays(random, length, self.disorder)
            source = heavy.find(random.random(length))
            bits = random.integers(0, 2**64, length, np.uint64)
            follows = int(self._timed(np.array([(first + length) * gap]))[0]) if first + length < self.n else NEVER
            yield _Tuples(ts, arrival, source, bits), follows

    def _random(self, *place: int) -> np.random.Generator:
        link = zlib.crc32(self.link.encode())
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed, link), spawn_key=place)))

    def _timed(self, active: npt.NDArray[np.float64]) -> Int64s:
        """Return the time after some active time: lulls pass without packets."""
        ts = self.start + active.astype(np.int64)
        for lull, length in sorted(self.lulls):
            ts += np.where(ts >= self.start + lull, length, 0)
        return ts

    def _delays(self, random: np.random.Generator, length: int, band: Band) -> Int64s:
        drawn = random.random(length) if band.shape == "uniform" else random.exponential(0.2, length).clip(0, 1)
        delays = (drawn * band.max).astype(np.int64)
        return np.where(random.random(length) < self.late_share, delays, 0)

    def _blocks(self, made: Iterator[tuple[_Tuples, int]], blocks: Blocks) -> Iterator[tuple[_Tuples, int | None]]:
        held: _Tuples | None = None
        for chunk, follows in made:
            held = chunk if held is None else held + chunk
            numbers = (held.ts - self.start) // blocks.length
            complete = numbers if follows == NEVER else numbers[numbers < (follows - self.start) // blocks.length]
            for number in distinct(complete).tolist():
                first, last = np.searchsorted(numbers, (number, number + 1))
                block = held.take(self._random(1, number).permutation(np.arange(first, last)))
                bound = self.start + (number + 1) * blocks.length
                # The router sends the whole block at its end, within a hundredth of the next.
                block.arrival = bound + self.skew + np.arange(len(block)) * (blocks.length // 100) // len(block)
                yield block, bound
            held = held.take(slice(len(complete), None))

    def _batch(self, tuples: _Tuples) -> pa.RecordBatch:
        bits = tuples.bits
        kind = (bits & 255).astype(np.intp)
        udp = _UDP[kind]
        # Distinct sources stay distinct: multiplying by an odd number permutes the 24 bits.
        host = (tuples.source.astype(np.uint64) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFF)
        time = pa.timestamp("ns", "UTC")
        arrays = [
            pa.array(tuples.ts).view(time),
            _addresses(np.uint64(_SOURCES) + host),
            _addresses(np.uint64(_DESTINATIONS) + ((bits >> np.uint64(8)) & np.uint64(0x3FF))),
            pa.array((32_768 + ((bits >> np.uint64(24)) & np.uint64(0x3FFF))).astype(np.uint16)),
            pa.array(_PORTS[kind]),
            pa.array(np.where(udp, 17, 6).astype(np.uint8)),
            pa.array(_LENGTHS[((bits >> np.uint64(40)) & np.uint64(255)).astype(np.intp)]),
            pa.array(_FLAGS[((bits >> np.uint64(48)) & np.uint64(255)).astype(np.intp)], mask=udp),
        ]
        if self.arrival:
            arrays.append(pa.array(tuples.arrival).view(time))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def packets(
    n: int,
    *,
    rate: float = 100_000,
    sources: int = 10_000,
    zipf: float = 1.1,
    disorder: Band | Blocks | None = None,
    late_share: float = 1.0,
    skew: int | str = 0,
    lulls: Iterable[tuple[int | str, int | str]] = (),
    start: int = START,
    seed: int = 0,
    link: str = "Main1",
    batch_rows: int = 65_536,
    arrival: bool = False,
) -> Generated:
    """Describe a stream of n packets, `rate` a second; nothing is generated yet.

    `zipf`: the k-th busiest of `sources` has a share proportional to k ** -zipf (0: all alike). `disorder` delays
    `late_share` of the tuples (Band) or shuffles blocks. `skew`: everything arrives that much later. `lulls`: pairs
    (start, length) from the stream's start, in which no packet is sent. `arrival` adds the attribute arrival_ts.
    Streams of different `link` differ. ValueError for numbers out of range.
    """
    if n < 0 or rate <= 0 or batch_rows < 1:
        raise ValueError(f"n = {n}, rate = {rate}, batch_rows = {batch_rows}: n is not negative, the others positive")
    if not 1 <= sources <= 1 << 24:
        raise ValueError(f"sources = {sources}: there are 1 to {1 << 24:,} of them (10.0.0.0/8)")
    if not 0 <= late_share <= 1:
        raise ValueError(f"late_share = {late_share}: a share lies between 0 and 1")
    silent = tuple((_nanoseconds(begin), _nanoseconds(length)) for begin, length in lulls)
    if any(begin < 0 or length < 0 for begin, length in silent):
        raise ValueError(f"lulls = {silent}: pairs of when silence begins and how long it lasts, neither negative")
    late = _nanoseconds(skew)
    return Generated(n, rate, sources, zipf, disorder, late_share, late, silent, start, seed, link, batch_rows, arrival)


def _in_arrival_order(made: Iterator[tuple[_Tuples, int]], skew: int) -> Iterator[_Tuples]:
    """Sort by arrival; what a later tuple might precede is held back, so memory is the tuples of one band."""
    held: _Tuples | None = None
    for chunk, follows in made:
        tuples = chunk if held is None else held + chunk
        tuples = tuples.take(np.argsort(tuples.arrival, kind="stable"))
        out = len(tuples) if follows == NEVER else int(np.searchsorted(tuples.arrival, follows + skew))
        yield tuples.take(slice(0, out))
        held = tuples.take(slice(out, None))


def _addresses(hosts: _Words) -> pa.Array:
    words = np.zeros((len(hosts), 2), np.uint64)
    words[:, 1] = (_MAPPED | hosts).byteswap()
    return pa.Array.from_buffers(IP_TYPE, len(hosts), [None, pa.py_buffer(words)])
