"""Options records tell of the exporter: how it samples, when its clock began, when flows time out; no more is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from oop_engine.sources.flows.entries import BY_INTERFACE, BY_SAMPLER, VARIABLE
from oop_engine.sources.flows.templates import V9_SCOPE, Template

_RATES: Final = frozenset({(0, 34), (0, 50), (0, 305), (0, 309), (0, 311)})
_INIT: Final = (0, 160)
_ACTIVE: Final = (0, 36)
_INACTIVE: Final = (0, 37)
_NS: Final = 1_000_000_000
_SAMPLERS: Final = ((0, 48), (0, 302))
_INTERFACES: Final = ((V9_SCOPE, 2), (0, 10))
_MOST_RATE: Final = 0xFFFFFFFF


@attrs.frozen
class Announced:
    """What an options record announces: the rate of all (kind 0), of a sampler or of an interface; or the init time; or
    after how long, in ns, a flow is reported that goes on (`active`) or that has ended (`inactive`).
    """

    kind: int = 0
    key: int = 0
    rate: int = 1
    init: int | None = None
    active: int | None = None
    inactive: int | None = None


def of_interest(template: Template) -> bool:
    """Tell whether records of an options template are read."""
    read = _RATES | {_INIT, _ACTIVE, _INACTIVE}
    return any(field.key in read for field in template.fields)


def read_options(template: Template, body: bytes, most: int) -> Iterator[Announced]:
    """Give what the first `most` records of a set announce; ValueError for a record that ends beyond it."""
    at = 0
    while most > 0 and at + template.least <= len(body):
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
            if length:
                values.setdefault(field.key, body[at : at + length])
            at += length
        yield from _announced(values)


def _announced(values: Mapping[tuple[int, int], bytes]) -> Iterator[Announced]:
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
    for kind, keys in ((BY_SAMPLER, _SAMPLERS), (BY_INTERFACE, _INTERFACES)):
        for key in keys:
            if (number := _number(values.get(key), 8)) is not None:
                yield Announced(kind, number, rate)
                return
    yield Announced(rate=rate)


def _rate(values: Mapping[tuple[int, int], bytes]) -> int | None:
    """Give how many packets one sampled packet stands for, rounded."""
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
