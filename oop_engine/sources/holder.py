"""A reading that makes its own promises can say who of those that it hears holds them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

if TYPE_CHECKING:
    from oop_engine.sources.live.report import ExporterReport


@attrs.frozen
class Holder:
    """Say who holds a promise back.

    - `name`: who it is, such as `exporter 192.0.2.3`.
    - `bound`: how far it is, in ticks of the attribute; None where it has said nothing.
    - `facts`: what is known of it that may explain that, a clause each.
    - `released`: when it is waited for no more, if it stays silent, in ns since 1970; None where it is always.
    - `moves`: its bound rises with the clock.
    - `skew`: by how much its clock is behind ours, in ns, less than 0 where it is ahead; None where nothing tells.
    """

    name: str
    bound: int | None
    facts: tuple[str, ...] = ()
    released: int | None = None
    moves: bool = False
    skew: int | None = None


@attrs.frozen
class Sooner:
    """Say which setting of a reading would have promised something by now, and what that would have cost.

    - `setting`: its name, such as `idle`; `length`: its value, in ns.
    - `late`: how many records it would have made late so far, of those `counted`; `exact`: all of them were.
    """

    setting: str
    length: int
    late: int
    counted: int
    exact: bool


@runtime_checkable
class NamesHolder(Protocol):
    """A reader that knows who holds its promises back, and what would not wait for it."""

    def sooner(self, attribute: str, need: int) -> Sooner | None:
        """Return the setting with which `[attribute < need]` would be promised by now; None where none is known."""
        ...

    def holder(self, attribute: str) -> Holder | None:
        """Return who holds the promise on an attribute back now; None where nobody does."""
        ...


@runtime_checkable
class ReportsExporters(Protocol):
    """A reader that hears exporters, and knows what came of each."""

    def exporters(self) -> Sequence[ExporterReport]:
        """Return a report of each."""
        ...
