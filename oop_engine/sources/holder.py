"""A reading that makes its own promises can say who of those that it hears holds them back."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import attrs


@attrs.frozen
class Holder:
    """Say who holds a promise back.

    - `name`: who it is, such as `exporter 192.0.2.3`.
    - `bound`: how far it is, in ticks of the attribute; None where it has said nothing.
    - `facts`: what is known of it that may explain that, a clause each.
    - `released`: when it is waited for no more, if it stays silent, in ns since 1970; None where it is always.
    - `moves`: its bound rises with the clock.
    """

    name: str
    bound: int | None
    facts: tuple[str, ...] = ()
    released: int | None = None
    moves: bool = False


@runtime_checkable
class NamesHolder(Protocol):
    """A reader that knows who holds its promises back."""

    def holder(self, attribute: str) -> Holder | None:
        """Return who holds the promise on an attribute back now; None where nobody does."""
        ...
