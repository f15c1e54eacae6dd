"""A template is compiled to a plan: which field of a record becomes which column, and how.

A field whose length its type cannot have is left out and counted, never read as something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.schema import ADDRESSES, ENDS, STARTS, Column
from oop_engine.sources.flows.templates import Field, Template

_TIMES: Final[Mapping[int, tuple[int, tuple[int, ...]]]] = {
    150: (e.SECONDS, (4, 8)), 151: (e.SECONDS, (4, 8)), 152: (e.MILLISECONDS, (8,)), 153: (e.MILLISECONDS, (8,)),
    154: (e.NTP_MICROSECONDS, (8,)), 155: (e.NTP_MICROSECONDS, (8,)),
    156: (e.NTP_NANOSECONDS, (8,)), 157: (e.NTP_NANOSECONDS, (8,)),
    158: (e.DELTA_MICROSECONDS, (1, 2, 3, 4)), 159: (e.DELTA_MICROSECONDS, (1, 2, 3, 4)),
    21: (e.UPTIME, (4,)), 22: (e.UPTIME, (4,)),
    322: (e.SECONDS, (4, 8)), 323: (e.MILLISECONDS, (8,)),
    324: (e.NTP_MICROSECONDS, (8,)), 325: (e.NTP_NANOSECONDS, (8,)),
}  # fmt: skip
_DATES: Final = {
    "dateTimeSeconds": (e.SECONDS, (4, 8)),
    "dateTimeMilliseconds": (e.MILLISECONDS, (8,)),
    "dateTimeMicroseconds": (e.NTP_MICROSECONDS, (8,)),
    "dateTimeNanoseconds": (e.NTP_NANOSECONDS, (8,)),
}
_DURATIONS: Final = {161: 1_000_000, 162: 1_000}
_INIT: Final = (0, 160)
_HEADS: Final = {
    "sampling": e.H_RATE,
    "exporter_port": e.H_PORT,
    "domain": e.H_DOMAIN,
    "version": e.H_VERSION,
    "export_ts": e.H_EXPORT,
    "arrival_ts": e.H_ARRIVAL,
    "lost": e.H_LOST,
    "received": e.H_RECEIVED,
}
_RATES: Final = ((0, 50), (0, 34))
_ANNOUNCED: Final = (
    ((0, 14), range(1, 5), (e.BY_EGRESS, e.BY_INTERFACE)),
    ((0, 10), range(1, 5), (e.BY_INGRESS, e.BY_INTERFACE)),
    ((0, 302), range(1, 9), (e.BY_SAMPLER,)),
    ((0, 48), range(1, 9), (e.BY_SAMPLER,)),
)
"""The elements by which a record tells for which announced rate it is, those behind before the ones before them."""
_RIVALS: Final = {
    "srcPort": ((0, 182), (0, 180)), "destPort": ((0, 183), (0, 181)),
    "src_mask": ((0, 9), (0, 29)), "dest_mask": ((0, 13), (0, 30)),
}  # fmt: skip
"""Elements of which a record has one that is not 0, whichever of them its template has."""


@attrs.frozen
class Place:
    """The place of a field: its segment in a record, its distance from the segment's beginning, its length."""

    segment: int
    offset: int
    length: int


@attrs.frozen
class Plan:
    """The steps that read the records of a template; see `fill`."""

    operations: NDArray[np.int32]
    has: NDArray[np.uint8]
    """One entry a column: whether the plan fills it."""
    segments: NDArray[np.int32]
    least: int
    mismatched: int
    """Fields left out since their type cannot have such a length."""

    def only(self, kept: Mapping[int, int]) -> Plan:
        """Return the plan for a part of the columns: `kept` has their new numbers, -1 for those left out."""
        operations = np.array(
            [
                (kept[column], kind, *where, kept[extra] if kind == e.AFTER else extra, factor)
                for column, kind, *where, extra, factor in self.operations.tolist()
                if kept[column] >= 0
            ],
            np.int32,
        ).reshape(-1, e.O_WIDTH)
        has = np.zeros(sum(number >= 0 for number in kept.values()), np.uint8)
        for column, number in kept.items():
            if number >= 0:
                has[number] = self.has[column]
        return attrs.evolve(self, operations=operations, has=has)


def places(fields: Sequence[Field]) -> tuple[dict[tuple[int, int], Place], list[int]]:
    """Return where each element first stands, and the bytes of fixed fields in each segment."""
    found: dict[tuple[int, int], Place] = {}
    segments = [0]
    for field in fields:
        if field.length:  # a field of no bytes is absent
            found.setdefault(field.key, Place(len(segments) - 1, segments[-1], field.length))
        if field.length == e.VARIABLE:
            segments.append(0)
        else:
            segments[-1] += field.length
    return found, segments


def compile_plan(template: Template, columns: Sequence[Column]) -> Plan:
    """Compile a template for these columns, which stand in the order of the decoder's layout."""
    found, segments = places(template.fields)
    writer = _Writer(found, {column.name: number for number, column in enumerate(columns)})
    ordered = sorted(enumerate(columns), key=lambda entry: entry[1].name != "ts")
    for number, column in ordered:
        writer.column(number, column)
    writer.after(columns)
    has = np.zeros(len(columns), np.uint8)
    has[list(writer.filled)] = 1
    operations = np.array(writer.operations, np.int32).reshape(-1, e.O_WIDTH)
    return Plan(operations, has, np.array(segments, np.int32), template.least, len(writer.mismatched))


@attrs.define
class _Writer:
    """The operations of one plan, as they are found."""

    found: Mapping[tuple[int, int], Place]
    numbers: Mapping[str, int]
    operations: list[tuple[int, ...]] = attrs.field(factory=list)
    filled: set[int] = attrs.field(factory=set)
    mismatched: set[tuple[int, int]] = attrs.field(factory=set)

    def add(self, column: int, kind: int, place: Place | None = None, extra: int = 0, factor: int = 0) -> None:
        where = (place.segment, place.offset, place.length) if place is not None else (0, 0, 0)
        self.operations.append((column, kind, *where, extra, factor))
        if kind != e.OTHER:
            self.filled.add(column)

    def fitting(self, key: tuple[int, int], lengths: Sequence[int]) -> Place | None:
        """Return where an element stands, if it has one of these lengths."""
        place = self.found.get(key)
        if place is not None and place.length not in lengths:
            self.mismatched.add(key)
            return None
        return place

    def column(self, number: int, column: Column) -> None:
        name = column.name
        if name == "ts":
            self.time(number, STARTS)
        elif name == "end_ts":
            self.time(number, ENDS)
        elif name in ADDRESSES:
            four, six = ADDRESSES[name]
            if (place := self.fitting((0, six), (16,))) is not None:
                self.add(number, e.BYTES, place)
            if (place := self.fitting((0, four), (4,))) is not None:
                self.add(number, e.IPV4_SET if number in self.filled else e.IPV4, place)
        elif name == "exporter":
            self.add(number, e.FROM_EXPORTER)
        elif name == "sampling":
            self.sampling(number)
        elif name in _HEADS and not column.elements:
            self.add(number, e.FROM_HEAD, extra=_HEADS[name])
        else:
            self.plain(number, column)

    def plain(self, number: int, column: Column) -> None:
        """Fill a column from the first of its elements that is there and fits, of rivals from the one that is set."""
        kind, size = column.type, column.width
        rivals = _RIVALS.get(column.name, ())
        for key in column.elements:
            if kind in _DATES:
                operation, lengths = _DATES[kind]
            elif kind in ("string", "octetArray"):
                operation = e.VARYING_TEXT if kind == "string" else e.VARYING
                lengths = (*range(1, 4097), e.VARIABLE)
            elif kind == "boolean":
                operation, lengths = e.BOOLEAN, (1,)
            elif column.address:
                operation, lengths = (e.IPV4, (4,)) if kind == "ipv4Address" else (e.BYTES, (16,))
            elif kind == "macAddress":
                operation, lengths = e.BYTES, (6,)
            elif kind.startswith("float"):
                operation, lengths = e.UNSIGNED, (4, 8)[: size // 4]
            else:
                operation = e.SIGNED if kind.startswith("signed") else e.UNSIGNED
                lengths = range(1, size + 1)
            place = self.fitting(key, lengths)
            if place is not None:
                if kind == "float64" and place.length == 4:
                    operation = e.FLOAT32
                self.add(number, operation if number not in self.filled else e.UNSIGNED_SET, place)
                if key not in rivals:
                    return

    def time(self, number: int, keys: Sequence[tuple[int, int]]) -> None:
        for key in keys:
            kind, lengths = _TIMES[key[1]]
            place = self.fitting(key, lengths)
            if place is None:
                continue
            if kind == e.UPTIME and (init := self.fitting(_INIT, (8,))) is not None:
                self.add(number, e.OTHER, init)
                kind = e.UPTIME_SINCE
            self.add(number, kind, place)
            return

    def sampling(self, number: int) -> None:
        """Take the rate of the exporter, the template, what the record names, the record itself: the last there is."""
        numeric = range(1, 5)
        self.add(number, e.FROM_HEAD, extra=e.H_RATE)
        self.add(number, e.OF_TEMPLATE, extra=1 << e.BY_TEMPLATE)
        for key, lengths, kinds in _ANNOUNCED:
            if (place := self.fitting(key, lengths)) is not None:
                self.add(number, e.SAMPLER, place, sum(1 << kind for kind in kinds))
        if (taken := self.fitting((0, 305), numeric)) is not None:
            if (spaced := self.fitting((0, 306), numeric)) is not None:
                self.add(number, e.OTHER, spaced)
                self.add(number, e.RATE_SPACED, taken)
            else:
                self.add(number, e.RATE, taken)
        for key in _RATES:
            if (place := self.fitting(key, numeric)) is not None:
                self.add(number, e.RATE, place)

    def after(self, columns: Sequence[Column]) -> None:
        """Compute the end of a flow whose template has its start and duration, or the start by its end."""
        start, end = self.numbers.get("ts"), self.numbers.get("end_ts")
        if start is None or end is None or (start in self.filled) == (end in self.filled):
            return
        given, missing = (start, end) if start in self.filled else (end, start)
        for element, factor in _DURATIONS.items():
            if (place := self.fitting((0, element), range(1, 5))) is not None:
                self.add(missing, e.AFTER, place, given, factor if given == start else -factor)
                return
