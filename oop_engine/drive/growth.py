"""A state that takes a large part of the memory is told while there is time to end the run, with how fast it grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from oop_engine.drive.memory import most
from oop_engine.drive.meter import OperatorStatistics
from oop_engine.report.bounds import amount

SHARE: Final = 8
"""A state is told from this part of the memory on, an eighth, and each time it has doubled since."""
_EVERY: Final = 1.0
"""Seconds between two looks at the operators."""
REMEDY: Final = "a shorter window, fewer attributes to group by, or promises that come earlier keep it smaller"


@attrs.define(eq=False)
class Growth:
    """Look at the states of a running plan now and then, and give a line for each that has become large."""

    memory: int = attrs.field(factory=most)
    """Bytes that this process may use."""
    _last: tuple[float, Sequence[int]] | None = attrs.field(init=False, default=None)
    _told: dict[int, int] = attrs.field(init=False, factory=dict)

    def due(self, now: float) -> bool:
        """Return whether it is time to look again, by a clock in seconds."""
        return self._last is None or now - self._last[0] >= _EVERY

    def look(self, operators: Sequence[OperatorStatistics], now: float) -> Iterator[str]:
        """Yield a line for each operator whose state is large, or has doubled since that was said."""
        sizes = [operator.details.get("state_bytes", 0) for operator in operators]
        then, before = self._last or (now, sizes)
        self._last = now, sizes
        for place, (operator, size) in enumerate(zip(operators, sizes, strict=True)):
            if size < max(self.memory // SHARE, 2 * self._told.get(place, 0)):
                continue
            self._told[place] = size
            rate = (size - before[place]) / (now - then) if now > then and place < len(before) else 0.0
            yield f"{held(operator.label, operator.details, size)}{self._ahead(size, rate)}; {REMEDY}"

    def _ahead(self, size: int, rate: float) -> str:
        """Say when the memory will be full."""
        if rate <= 0:
            return f", of {amount(self.memory)} of memory"
        left = max(0.0, self.memory - size) / rate
        when = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min" if left < 7200 else f"{left / 3600:.0f} h"
        return f", and grows by {amount(rate)} a second; at this rate {amount(self.memory)} of memory last {when}"


def large(operators: Sequence[OperatorStatistics]) -> Iterator[str]:
    """Yield a line for each operator whose state was large at its peak."""
    bound = most() // SHARE
    for operator in operators:
        peak = operator.details.get("peak_state_bytes", 0)
        if peak >= bound:
            yield f"{held(operator.label, operator.details, peak)} at its peak; {REMEDY}"


def spilled(operators: Sequence[OperatorStatistics]) -> Iterator[str]:
    """Yield a line for each operator a part of whose state went to disk."""
    for operator in operators:
        if times := operator.details.get("spills", 0):
            size, peak = operator.details.get("spilled_bytes", 0), operator.details.get("peak_state_bytes", 0)
            yield (
                f"{operator.label} wrote {amount(size)} to temporary files, as memory is limited: parts went there"
                f" {times:,} times, and at most {amount(peak)} were in memory"
            )


def shed(operators: Sequence[OperatorStatistics]) -> Iterator[str]:
    """Yield a line for each operator that refused groups."""
    for operator in operators:
        if windows := operator.details.get("shed_windows", 0):
            refused, partly = operator.details.get("shed", 0), operator.details.get("shed_partly", 0)
            some = f", and {partly:,} in some of their windows" if partly else ""
            yield (
                f"{operator.label} refused {refused:,} tuples of new groups{some}, as memory is limited: results of"
                f" {windows:,} {'window' if windows == 1 else 'windows'} lack groups and are marked incomplete"
            )


def held(label: str, details: Mapping[str, int], size: int) -> str:
    """Say how large the state of an operator is, and what it is made of."""
    number, what = max((details.get("groups", 0), "groups"), (details.get("state_tuples", 0), "entries"))
    made = f" ({number:,} {what} of {size / number:,.0f} bytes)" if number else ""
    return f"{label} holds {amount(size)}{made}"
