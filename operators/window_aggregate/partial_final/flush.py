"""A flush says which partial aggregates leave a low-level table before another group needs their place, and when.

A slice is old when no later tuple can be in it: below the last promise, or for an ordered stream below its last tuple.
Old groups may leave at once, which makes a surge at every window's end, or little by little (thesis 8.3.3). The delay m
bounds how late: after a promise `[wid_from < w]` nothing of a window below w - m is in the table, and `[wid_from < w -
m]` or more has been promised on.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class CompleteFlush:
    """All that is old leaves on the promise that makes it old."""

    every: int = attrs.field(default=0, init=False, repr=False)
    delay: int = attrs.field(default=0, init=False, repr=False)


@attrs.frozen
class InOrderFlush:
    """One old group leaves every `every` tuples; where the input is in window order, so is the output (Fig 8-6).

    So before a group of the new window may leave, all of the old one have to; and before a window begins, all that is
    left of the one before the last. Corrected as in docs/semantics.md rows 38 to 40.
    """

    every: int = attrs.field(default=1, kw_only=True)
    delay: int = attrs.field(default=1, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        _at_least(1, "every", self.every)


@attrs.frozen
class SlowFlush:
    """One old group leaves every `every` tuples, without order, at most `delay` windows late (thesis 8.3.3)."""

    every: int = attrs.field(default=160, kw_only=True)
    delay: int = attrs.field(default=2, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _at_least(1, "every", self.every)
        _at_least(0, "delay", self.delay)


@attrs.frozen
class LazyFlush:
    """Old groups leave when another needs the place, and at most `delay` windows late (thesis 8.3.3)."""

    every: int = attrs.field(default=0, init=False, repr=False)
    delay: int = attrs.field(default=2, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _at_least(0, "delay", self.delay)


Flush: TypeAlias = CompleteFlush | InOrderFlush | SlowFlush | LazyFlush


def _at_least(least: int, what: str, value: int) -> None:
    if value < least:
        raise ValueError(f"flush: {what} is a whole number from {least} on, not {value!r}")
