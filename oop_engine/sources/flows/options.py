"""Read options records on the exporter: how it samples, when its clock began, when flows time out."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from oop_engine.sources.flows.entries import (
    BY_EGRESS,
    BY_INGRESS,
    BY_INTERFACE,
    BY_SAMPLER,
    BY_TEMPLATE,
    VARIABLE,
)
from oop_engine.sources.flows.templates import V9_SCOPE, Template

_RATES: Final = frozenset({(0, 34), (0, 50), (0, 305), (0, 309), (0, 311)})
_INIT: Final = (0, 160)
_ACTIVE: Final = (0, 36)
_INACTIVE: Final = (0, 37)
_NS: Final = 1_000_000_000
_SAMPLERS: Final = ((0, 48), (0, 302))
_WHOLE: Final = frozenset({(V9_SCOPE, 1), (0, 130), (0, 131), (0, 143), (0, 144), (0, 149)})
"""Scopes that are all an exporter says under one domain."""
_NARROW: Final = {
    (V9_SCOPE, 2): BY_INTERFACE, (0, 10): BY_INGRESS, (0, 14): BY_EGRESS, (V9_SCOPE, 5): BY_TEMPLATE,
    (0, 145): BY_TEMPLATE,
}  # fmt: skip
"""What a rate may hold for so that records tell whether it is theirs."""
_MOST_RATE: Final = 0xFFFFFFFF


@attrs.frozen
class Announced:
    """The content of an options record: the rate of all (kind 0), of a sampler, an interface or a template; or the init
    time; or after how long, in ns, a flow is reported that goes on (`active`) or that has ended (`inactive`).

    A rate for anything else, a line card or a cache, is `unused`: no record tells whether it is of that.
    """

    kind: int = 0
    key: int = 0
    rate: int = 1
    unused: bool = False
    init: int | None = None
    active: int | None = None
    inactive: int | None = None


def of_interest(template: Template) -> bool:
    """Return whether records of an options template are read."""
    read = _RATES | {_INIT, _ACTIVE, _INACTIVE}
    return any(field.key in read for field in template.fields)


_READ: Final = _RATES | {_INIT, _ACTIVE, _INACTIVE, (0, 306), (0, 310), *_SAMPLERS, *_NARROW}


def read_options(template: Template, body: bytes, most: int) -> Iterator[Announced]:
    """Yield what the first `most` records of a set announce; ValueError for a record that ends beyond it."""
    scopes = [field.key for field in template.fields[: template.scopes] if field.length and field.key not in _WHOLE]
    for values in option_records(template, body, most, _READ):
        yield from _announced(values, scopes)


def option_records(
    template: Template, body: bytes, most: int, read: frozenset[tuple[int, int]]
) -> Iterator[dict[tuple[int, int], bytes]]:
    """Yield of the first `most` records of a set the fields to be read; ValueError for one that ends beyond it."""
    at, least = 0, template.least
    if all(field.length != VARIABLE for field in template.fields):
        wanted: dict[tuple[int, int], tuple[int, int]] = {}
        for field in template.fields:
            if field.length and field.key in read:
                wanted.setdefault(field.key, (at, at + field.length))
            at += field.length
        slices = [(key, first, last) for key, (first, last) in wanted.items()]
        for start in range(0, min(most, len(body) // least) * least, least):
            yield {key: body[start + first : start + last] for key, first, last in slices}
        return
    while most > 0 and at + least <= len(body):
        most -= 1
        values: dict[tuple[int, int], bytes] = {}
        for field in template.fields:
            length = field.length
            if length == VARIABLE:
                length = body[at] if at < len(body) else len(body)
                at += 1
                if length == 255:
                    (length,) = struct.unpack_from(">H", body, at) if at + 2 <= len(body) else (len(body),)
                    at += 2
            if at + length > len(body):
                raise ValueError("an options record reaches beyond its set")
            if length and field.key in read:
                values.setdefault(field.key, body[at : at + length])
            at += length
        yield values


def _announced(values: Mapping[tuple[int, int], bytes], scopes: Sequence[tuple[int, int]]) -> Iterator[Announced]:
    init = _number(values.get(_INIT), 8)
    if init is not None:
        yield Announced(init=init)
    active, inactive = _number(values.get(_ACTIVE), 4), _number(values.get(_INACTIVE), 4)
    if active is not None or inactive is not None:
        yield Announced(
            active=None if active is None else active * _NS, inactive=None if inactive is None else inactive * _NS
        )
    rate = _rate(values)
    if rate is None:
        return
    for key in _SAMPLERS:
        if (number := _number(values.get(key), 8)) is not None:
            yield Announced(BY_SAMPLER, number, rate)
            return
    told = [key for key in _NARROW if key in values]
    if not told and not scopes:
        yield Announced(rate=rate)
        return
    number = _number(values[told[0]], 8) if len(told) == 1 and set(scopes) <= set(told) else None
    yield Announced(unused=True) if number is None else Announced(_NARROW[told[0]], number, rate)


def _rate(values: Mapping[tuple[int, int], bytes]) -> int | None:
    """Return how many packets one sampled packet stands for, rounded."""
    for key in ((0, 34), (0, 50)):
        if (rate := _number(values.get(key), 8)) is not None:
            return min(max(rate, 1), _MOST_RATE)
    taken, spaced = _number(values.get((0, 305)), 8), _number(values.get((0, 306)), 8)
    if taken is not None:
        if spaced is None:
            return min(max(taken, 1), _MOST_RATE)
        return min(max((taken + spaced + taken // 2) // max(taken, 1), 1), _MOST_RATE)
    size, population = _number(values.get((0, 309)), 8), _number(values.get((0, 310)), 8)
    if size and population is not None:
        return min(max((population + size // 2) // size, 1), _MOST_RATE)
    probability = values.get((0, 311), b"")
    if len(probability) in (4, 8):
        (share,) = struct.unpack(">f" if len(probability) == 4 else ">d", probability)
        if 1 / _MOST_RATE <= share <= 1:
            return round(1 / share)
    return None


def _number(value: bytes | None, most: int) -> int | None:
    """Read an unsigned number that may stand in an int64."""
    if value is None or not 1 <= len(value) <= most or (len(value) == 8 and value[0] & 0x80):
        return None
    return int.from_bytes(value, "big")
