"""What leaves a filter with an expensive condition, and when, written from the definition: one tuple at a time.

Everything has its place in the order of arrival. A promise leaves when no tuple before it that it covers is left; until
then it is true up to the lowest of these. A tuple leaves when it is decided and no promise before it that covers it is
left; nobody is asked about it before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

Verdict: TypeAlias = bool | None


@attrs.define(eq=False)
class Tuple:
    """A tuple with what cheap conditions say of it, None where they leave it open, and the answer."""

    name: int
    ts: int
    cheap: Verdict
    answer: bool
    answered: bool = False


@attrs.define(eq=False)
class Promise:
    """A promise that no later tuple is below the bound."""

    bound: int


@attrs.define
class NaiveDeferred:
    """Keep what has not left, in order of arrival."""

    waiting: list[Tuple | Promise] = attrs.field(factory=list)

    def arrive(self, one: Tuple | Promise) -> list[int | str]:
        """Take one more, and return the names of tuples and the bounds of promises that leave now."""
        self.waiting.append(one)
        return self._leave()

    def promised(self) -> int:
        """Return up to where promises that wait are true: the lowest tuple before one of them that it covers."""
        found = [-100]
        for place, one in enumerate(self.waiting):
            if isinstance(one, Promise):
                times = [other.ts for other in self.waiting[:place] if isinstance(other, Tuple)]
                found.append(min(times))
        return max(found)

    def answer(self, chosen: Callable[[int], bool]) -> list[int | str]:
        """Answer those of the tuples about which somebody is asked that are chosen."""
        for place, one in enumerate(self.waiting):
            if isinstance(one, Tuple) and one.cheap is None and self._free(place, one) and chosen(one.name):
                one.answered = True
        return self._leave()

    def _free(self, place: int, one: Tuple) -> bool:
        return not any(isinstance(other, Promise) and one.ts < other.bound for other in self.waiting[:place])

    def _leave(self) -> list[int | str]:
        left: list[int | str] = []
        while True:
            for place, one in enumerate(self.waiting):
                if isinstance(one, Promise):
                    if any(isinstance(other, Tuple) and other.ts < one.bound for other in self.waiting[:place]):
                        continue
                    left.append(f"< {one.bound}")
                else:
                    if not self._free(place, one) or (one.cheap is None and not one.answered):
                        continue
                    if one.answer if one.cheap is None else one.cheap:
                        left.append(one.name)
                del self.waiting[place]
                break
            else:
                return left
