"""Each planted bug of a join is found: swapped ranges, wrong rounding, a tick too early or too late, lost order."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import pytest
from hypothesis import given

from operators.data.page import Bools, Int64s, Page
from operators.join import Band, JoinWindow, OAJoin, SameWindow
from operators.join.promises import Promises
from operators.protocol import Element, Emit, State
from operators.testing import Script
from punctuation import Punctuation, before
from tests.examples import share
from tests.operators.join.joining import ON, TIMES, WINDOWS, Case, scripts
from tests.operators.planted import found_out


def caught_by(make: Callable[[], OAJoin], case: Case) -> int:
    """Give the law that a script shows to be broken; hypothesis fails when it finds none."""

    return found_out(lambda script: case.check(make, script), scripts("linear", "group", tuples=5))


@attrs.frozen
class SwappedBand(Band):
    """Let a tuple stay as long as the other input's RANGE says, as the printed formulas do."""

    def _steps(self, port: int) -> tuple[int, int]:
        own, other = super()._steps(port)
        return other, own


@attrs.frozen
class HalfOpenBand(Band):
    """Let tuples exactly a range apart meet on one side, as in 5.2.1."""

    def partners(self, ticks: Int64s, port: int) -> tuple[Int64s, Int64s]:
        low, high = super().partners(ticks, port)
        return (low - 1, high) if port == 0 else (low, high + 1)


@attrs.frozen
class EarlyBand(Band):
    """Purge a tick too early."""

    def settled(self, bound: int, port: int) -> int:
        return super().settled(bound, port) + 1


@attrs.frozen
class LateBand(Band):
    """Purge a tick too late."""

    def settled(self, bound: int, port: int) -> int:
        return super().settled(bound, port) - 1


@attrs.frozen
class OwnRangeBand(Band):
    """Purge by the other input's RANGE."""

    def settled(self, bound: int, port: int) -> int:
        return super().settled(bound, 1 - port)


@attrs.frozen
class CeilingWindow(SameWindow):
    """Round the bound up to the end of its window, as Fig 7-2 prints it."""

    def settled(self, bound: int, port: int) -> int:
        return -(-(bound - self.origin) // self.size) * self.size + self.origin


@attrs.frozen
class TruncatedWindow(SameWindow):
    """Divide as C does, towards zero."""

    def partners(self, ticks: Int64s, port: int) -> tuple[Int64s, Int64s]:
        first = np.trunc((ticks - self.origin) / self.size).astype(np.int64) * self.size + self.origin
        return first, first + (self.size - 1)


BAND: dict[str, int] = {"left": 3, "right": 2}
WRONG_WINDOWS: dict[str, tuple[JoinWindow, str, set[int]]] = {
    "swapped ranges": (SwappedBand("s", "t", **BAND), "open band", {1, 2, 10}),
    "half-open band": (HalfOpenBand("s", "t", **BAND), "open band", {1, 2, 6, 10}),
    "purge a tick early": (EarlyBand("s", "t", **BAND), "open band", {1, 3, 7, 10}),
    "purge a tick late": (LateBand("s", "t", **BAND), "open band", {2, 3}),
    "purge by the other range": (OwnRangeBand("s", "t", **BAND), "open band", {1, 2, 3, 10}),
    "ceiling for floor": (CeilingWindow("s", "t", size=3), "tumbling", {1, 3, 7, 10}),
    "truncation for floor": (TruncatedWindow("s", "t", size=3), "tumbling", {1, 2, 6, 10}),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", WRONG_WINDOWS)
def test_a_wrong_window_is_caught(bug: str) -> None:
    window, name, laws = WRONG_WINDOWS[bug]
    assert caught_by(lambda: OAJoin(window, ON), Case(*WINDOWS[name])) in laws


@attrs.define(eq=False)
class OvertakingJoin(OAJoin):
    """Emit promises before the tuples they let out."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        held: list[Element] = []
        super().punctuate(punctuation, held.append, port)
        for element in sorted(held, key=lambda e: isinstance(e, Page)):
            emit(element)


@attrs.define(eq=False)
class BoastfulJoin(OAJoin):
    """Pass on an input's promise as it is."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        super().punctuate(punctuation, emit, port)
        if not punctuation.is_end:
            bound = punctuation.bound(TIMES[port])
            if bound is not None:
                emit(before(TIMES[port], bound))


@attrs.define(eq=False)
class SweepingJoin(OAJoin):
    """Take a promise of one key for one of all."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        patterns = {name: pattern for name, pattern in punctuation.patterns if name == TIMES[port]}
        super().punctuate(Punctuation(patterns) if patterns else punctuation, emit, port)


@attrs.define(eq=False)
class DeafJoin(OAJoin):
    """Ignore promises of single keys."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if set(punctuation.attributes) <= {TIMES[port]}:
            super().punctuate(punctuation, emit, port)


@attrs.define(eq=False)
class HoardingJoin(OAJoin):
    """Store what has met all its partners."""

    def _keep(
        self,
        shape: object,
        page: Page,
        port: int,
        tuples: object,
        stays: Bools | None,
        plain: bool,
        emit: Emit,
    ) -> None:
        super()._keep(shape, page, port, tuples, None, plain, emit)  # type: ignore[arg-type]


@attrs.define(eq=False)
class ForgetfulJoin(OAJoin):
    """Forget when saved which tuples had a partner."""

    def state(self) -> State:
        state = super().state()
        for name, value in state.items():
            if name.endswith("matched") and isinstance(value, np.ndarray):
                state[name] = np.zeros_like(value)
        return state


@attrs.define(eq=False)
class TwofoldJoin(OAJoin):
    """Give a tuple without a partner when it comes and again when it goes."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        before_it = self._counts["results"]
        super().process(page, emit, port)
        if port == 0 and len(page) and self._counts["results"] == before_it:
            super()._emit_alone(self._fitted(), 0, lambda i: page.batch.column(i), len(page), emit)


WRONG_JOINS: dict[str, tuple[type[OAJoin], str, set[int]]] = {
    "promise before its results": (OvertakingJoin, "left", {3}),
    "an input's promise passed on": (BoastfulJoin, "inner", {3}),
    "a key's promise taken for all": (SweepingJoin, "inner", {1, 3, 6, 10}),
    "a key's promise ignored": (DeafJoin, "inner", {2, 3}),
    "what needs no storing stored": (HoardingJoin, "inner", {2}),
    "partners forgotten when saved": (ForgetfulJoin, "left", {9}),
    "tuples without a partner given twice": (TwofoldJoin, "left", {3, 10}),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", WRONG_JOINS)
def test_a_wrong_join_is_caught(bug: str) -> None:
    wrong, kind, laws = WRONG_JOINS[bug]
    window, meets = WINDOWS["open band"]
    law = caught_by(lambda: wrong(window, ON, kind=kind), Case(window, meets, kind=kind))  # type: ignore[arg-type]
    assert law in laws


def test_a_box_one_tick_too_large_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    corner = Promises._corner

    def larger(self: Promises, left: int, right: int) -> tuple[int, int]:
        above, beside = corner(self, left, right)
        return above + 1, beside + 1

    monkeypatch.setattr(Promises, "_corner", larger)
    window, meets = WINDOWS["open band"]
    assert caught_by(lambda: OAJoin(window, ON), Case(window, meets)) == 3


@pytest.mark.parametrize("kind", ["inner", "left"])
@share(1)
@given(script=scripts("linear", "group", tuples=5))
def test_the_same_join_without_a_bug_passes(kind: str, script: Script) -> None:
    window, meets = WINDOWS["open band"]
    case = Case(window, meets, kind=kind)
    case.check(lambda: OAJoin(window, ON, kind=kind), script)  # type: ignore[arg-type]
