"""Send again what a server did not take: one policy for every sink that has a server on the other side."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from oop_engine.sinks.errors import WriteFailed

T = TypeVar("T")


class Refused(Exception):
    """Report that a server did not take what it was sent. It may take it later where it is to be sent `again`."""

    def __init__(self, why: str, *, again: bool = True, after: float | None = None) -> None:
        super().__init__(why)
        self.again = again
        self.after = after
        """Seconds that the server asks to wait for, if it does."""


@attrs.frozen
class Retry:
    """Try so many times, with pauses that double from `first` to `most` seconds.

    >>> Retry(attempts=4, first=0.5, most=1.5).pauses()
    [0.5, 1.0, 1.5]
    """

    attempts: int = 8
    first: float = 0.25
    most: float = 15.0
    sleep: Callable[[float], None] = attrs.field(default=time.sleep, repr=False)

    def pauses(self) -> list[float]:
        """Return the seconds between the tries."""
        return [min(self.most, self.first * 2**n) for n in range(self.attempts - 1)]

    def call(self, function: Callable[[], T], where: str) -> T:
        """Call a function until it raises no Refused; WriteFailed, which names `where`, if it does to the last."""
        for pause in [*self.pauses(), None]:
            try:
                return function()
            except Refused as error:
                if error.again and pause is not None:
                    self.sleep(pause if error.after is None else min(self.most, error.after))
                    continue
                tried = f" after {self.attempts} tries" if error.again else ""
                raise WriteFailed(f'"{where}" did not take results{tried}: {error}.') from error
        raise AssertionError("the last pause is None")


RETRY: Final = Retry()
