"""A pace says how finely an attribute must be promised; the paces of several readers make one that serves them all."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs
import pyarrow as pa

from operators.data.durations import tick_ns
from operators.data.schema import Schema

TIMES_A_LENGTH: Final = 4
"""Promises that a window asks for within its RANGE or gap, when tuples set its edges."""


@attrs.frozen
class Pace:
    """The granularity of the promises on an attribute: origin + k * step; without a step, as finely as is cheap.

    An `optional` promise only lets state go sooner: it is made where the attribute is seen to rise, and no other pace
    becomes finer for it.
    """

    step: int | None
    origin: int = 0
    optional: bool = attrs.field(default=False, kw_only=True)

    def and_also(self, other: Pace) -> Pace:
        """Return the coarsest pace that serves both."""
        if self.optional != other.optional:
            return other if self.optional else self
        if self.step is None or other.step is None:
            return Pace(None, optional=self.optional)
        step = gcd(self.step, other.step)
        if (difference := self.origin - other.origin) % step:
            step = gcd(step, difference)
        return Pace(step, self.origin % step)


Paces: TypeAlias = dict[str, Pace]


class Windowed(Protocol):
    """Any window specification."""

    @property
    def wattr(self) -> str: ...


@runtime_checkable
class Paced(Protocol):
    """A window that says how finely its attribute must be promised."""

    @property
    def promise_pace(self) -> Pace:
        """Return the edges of the windows, or steps that are short beside windows whose edges the tuples set."""
        ...


def want(paces: Paces, name: str, pace: Pace) -> None:
    """Ask for a pace on top of those that are asked for already."""
    paces[name] = paces[name].and_also(pace) if name in paces else pace


def finely(schema: Schema, name: str, times_a_second: int) -> Pace:
    """Return a pace of so many promises a second on an attribute that is a time, as fine as is cheap on another."""
    tick = tick_ns(schema.field(name).type)
    return Pace(None) if tick is None else Pace(max(1, 1_000_000_000 // tick // times_a_second))


def within(length: int) -> Pace:
    """Return a pace of some promises within a length."""
    return Pace(max(1, length // TIMES_A_LENGTH))


def pace_of(window: Windowed, schema: Schema) -> Pace:
    """Return how finely a window's attribute must be promised: where it does not say, ten times a second."""
    return window.promise_pace if isinstance(window, Paced) else finely(schema, window.wattr, 10)


def group_promises(names: Iterable[str], wanted: Paces, schema: Schema) -> Paces:
    """Ask for promises that end groups of attributes: once a second on the times among these, else where they rise."""
    names = tuple(names)
    paces = {name: pace for name, pace in wanted.items() if name in names}
    for name in names:
        if pa.types.is_temporal(schema.field(name).type):
            want(paces, name, finely(schema, name, 1))
    if not any(schema.progressing(name) for name, pace in paces.items() if not pace.optional):
        # No time lets groups go, so whatever of them is promised does, where it rises.
        for name in filter(schema.progressing, names):
            want(paces, name, Pace(None, optional=True))
    return paces
