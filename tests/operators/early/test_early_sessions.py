"""Sessions fire at ticks behind their begin, whatever the order of arrival, and the changes add up to the answer."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, first, last
from operators.kernels.ranked.layout import MERGES
from operators.protocol import Emit, Operator
from operators.testing import Script, check_operator, streams
from operators.window.session import SessionWindow
from operators.window_aggregate.early import sessions
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.early.sessions import EarlySessions
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive_early import naive_refined
from tests.naive_early_sessions import naive_early_sessions
from tests.operators.planted import found_out
from tests.operators.ranked.cases import ANSWERS, FUNCTIONS, SCHEMA, scripts, scripts_with_nulls


@attrs.frozen
class Asked:
    """Sessions, when they fire, and what is made of it."""

    gap: int
    every: int
    after: tuple[int, ...]
    by: tuple[str, ...]
    refinement: str

    def sessions(self, kind: type[EarlySessions] = EarlySessions) -> EarlySessions:
        discards = self.refinement == "discard"
        window = SessionWindow("ts", gap=self.gap)
        return kind(window, FUNCTIONS, self.by, every=self.every, after=self.after, discards=discards)  # type: ignore[arg-type]

    def operator(self, kind: type[EarlySessions] = EarlySessions) -> Operator:
        made = self.sessions(kind)
        return Chain([made, Refine(self.by)]) if self.refinement == "retract" else made

    def naive(self, table: Sequence[Row]) -> list[Row]:
        discard = self.refinement == "discard"
        found = naive_early_sessions(self.gap, self.every, self.after, ANSWERS, self.by, table, discard=discard)
        return naive_refined(found, [*ANSWERS, "window_end"]) if self.refinement == "retract" else found

    def final(self, table: Sequence[Row]) -> list[Row]:
        whole = attrs.evolve(self, refinement="accumulate")
        return [row for row in whole.naive(table) if row["final"]]


@st.composite
def asked(draw: st.DrawFn, refinement: str, most: int = 5) -> Asked:
    every = draw(st.integers(0, most))
    after = draw(st.lists(st.integers(1, 12), min_size=not every, max_size=3))
    return Asked(draw(st.integers(1, 6)), every, tuple(after), draw(st.sampled_from([(), ("k",)])), refinement)


@pytest.mark.parametrize("refinement", ["accumulate", "discard", "retract"])
def test_every_order_paging_and_punctuation_gives_the_naive_answer(refinement: str) -> None:
    @share(1)
    @given(asked(refinement), scripts_with_nulls)
    def check(one: Asked, script: Script) -> None:
        check_operator(one.operator, script, naive=one.naive)

    check()


@share(1)
@given(asked("retract"), scripts)
def test_up_to_each_promise_the_changes_add_up_to_the_final_answer(one: Asked, script: Script) -> None:
    check_operator(one.operator, script, changes=one.final)


@given(asked("accumulate"), scripts)
def test_final_results_are_those_of_sessions_that_do_not_fire(one: Asked, script: Script) -> None:
    plain = SlicingAggregate({"": SessionWindow("ts", gap=one.gap)}, FUNCTIONS, one.by)
    right = sorted(map(str, rows(drive(plain, [*script, END]))))
    found = [row for row in rows(drive(one.operator(), [*script, END])) if row.pop("final")]
    assert all(row.pop("fired") == row["window_end"] for row in found)
    assert sorted(map(str, found)) == right


@given(asked("retract"), streams(SCHEMA, group=("k",), tuples=12, promises=("linear",)))
def test_nothing_is_held_in_the_end(one: Asked, script: Script) -> None:
    operator = one.operator()
    drive(operator, [*script, END])
    assert operator.statistics()["state_tuples"] == 0  # type: ignore[attr-defined]


def ticks(*times: int, k: str = "a") -> Page:
    return Page.of(SCHEMA, {"ts": times, "k": [k] * len(times), "v": [1] * len(times)})


ONE = Asked(5, 3, (), ("k",), "accumulate")


def fired(elements: Sequence[Page | Punctuation], one: Asked = ONE) -> list[tuple[object, ...]]:
    found = rows(drive(one.operator(), elements))
    return [(row["n"], row["wid"], row["window_end"], row["fired"], row["final"]) for row in found]


def test_a_session_fires_before_the_tuple_of_that_tick_and_goes_on_until_its_gap() -> None:
    assert fired([ticks(10, 13), before("ts", 13)]) == [(1, 10, 15, 13, False)]
    assert fired([ticks(13, 10), before("ts", 18)]) == [
        (1, 10, 15, 13, False), (2, 10, 18, 16, False), (2, 10, 18, 18, True)
    ]  # fmt: skip
    # A firing at the end of a session is its final result.
    assert fired([ticks(10), END], attrs.evolve(ONE, every=5)) == [(1, 10, 15, 15, True)]
    assert fired([ticks(10, 13, 16), END], attrs.evolve(ONE, every=0, after=(4,), refinement="discard")) == [
        (2, 10, 18, 14, False), (1, 10, 21, 21, True)
    ]  # fmt: skip


def test_many_firings_leave_on_one_promise() -> None:
    found = fired([ticks(*range(0, 20_000, 4)), END], attrs.evolve(ONE, every=1))
    assert len(found) == 19_996 + 5 and found[-1] == (5000, 0, 20_001, 20_001, True)


def test_functions_of_the_first_and_last_tuple_to_come_have_those_before_the_firing() -> None:
    window = SessionWindow("ts", gap=5)
    operator = EarlySessions(window, {"one": first("v"), "other": last("v")}, every=4)
    page = Page.of(SCHEMA, {"ts": [7, 3, 4], "k": ["a"] * 3, "v": [7, 3, 4]})
    found = [(row["one"], row["other"], row["fired"]) for row in rows(drive(operator, [page, END]))]
    assert found == [(3, 4, 7), (7, 4, 11), (7, 4, 12)]


class Apart(EarlySessions):
    """Lets each tuple wait by itself."""

    def _bind(self, schema: Schema) -> None:
        super()._bind(schema)
        self._sessions.rule[MERGES] = 0


@st.composite
def many(draw: st.DrawFn) -> list[Page | Punctuation]:
    """Return pages of tuples that come up to some ticks late, with promises of all groups and of one now and then."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    late, dense, script = draw(st.integers(0, 20)), draw(st.integers(1, 4)), list[Page | Punctuation]()
    low = {"a": 0, "b": 0, "c": 0}
    for at in range(0, 120, 10):
        k = rng.choice(["a", "b", "c"], 10 * dense).tolist()
        ts = np.maximum(at + rng.integers(0, 12, 10 * dense) - rng.integers(0, late + 1, 10 * dense), 0)
        kept = [tick >= low[key] for tick, key in zip(ts, k, strict=True)]
        one = {"ts": ts, "k": k, "v": rng.integers(0, 9, 10 * dense)}
        script.append(Page.of(SCHEMA, one).select(np.array(kept)))
        if rng.random() < 0.5:
            low = {key: max(bound, at - late) for key, bound in low.items()}
            script.append(before("ts", at - late))
        if rng.random() < 0.3:
            low["b"] = max(low["b"], at + 4)
            script.append(Punctuation({"k": Equals("b"), "ts": Below(at + 4)}))
    return script


@pytest.mark.parametrize("refinement", ["accumulate", "discard"])
def test_tuples_in_runs_give_what_each_by_itself_gives(refinement: str) -> None:
    @share(10)
    @given(asked(refinement, most=15), many())
    def check(one: Asked, script: list[Page | Punctuation]) -> None:
        given = [*script, END]
        found, right = (drive(one.operator(kind), given) for kind in (EarlySessions, Apart))
        assert rows(found) == rows(right) and punctuations(found) == punctuations(right)

    check()


def test_tuples_that_no_firing_can_part_wait_as_one() -> None:
    def held(*elements: Page | Punctuation) -> dict[str, int]:
        sessions = ONE.sessions()
        drive(sessions, elements)
        return {name: sessions.statistics()[name] for name in ("waiting", "state_tuples")}

    assert held(ticks(1, 2)) == {"waiting": 2, "state_tuples": 2}
    # No session begins before 10, so none fires before 13, wherever it begins.
    assert held(before("ts", 10), ticks(12, 11, 12)) == {"waiting": 1, "state_tuples": 1}
    assert held(before("ts", 10), ticks(12, 13)) == {"waiting": 2, "state_tuples": 2}
    # The open session fires at 3 and 6: tuples join it up to there, and wait behind that.
    opened = [ticks(0), before("ts", 1)]
    assert held(*opened, ticks(2, 1)) == {"waiting": 0, "state_tuples": 1}
    assert held(*opened, ticks(2, 3)) == {"waiting": 1, "state_tuples": 2}
    # What lies a gap apart is of two sessions.
    assert held(before("ts", 10), ticks(10, 15)) == {"waiting": 2, "state_tuples": 2}


def test_a_run_does_not_reach_over_a_firing_of_the_session_that_it_may_turn_out_to_be_of() -> None:
    one = attrs.evolve(ONE, gap=3, every=10)
    found = fired([ticks(0, 2, 4), before("ts", 5), ticks(9, 11), ticks(6, 8), END], one)
    assert found == [(6, 0, 12, 10, False), (7, 0, 14, 14, True)]


def test_saved_states_of_single_tuples_go_on() -> None:
    old = ONE.sessions()
    given = drive(old, [ticks(0, 2, 7), before("ts", 3)])
    state = {name: value for name, value in old.state().items() if name != "sessions.reach"}
    state["sessions.version"] = 1
    new = ONE.sessions()
    new.restore(state)
    given += drive(new, [ticks(4, 8), END])
    assert rows(given) == rows(drive(ONE.operator(), [ticks(0, 2, 7), before("ts", 3), ticks(4, 8), END]))


def test_what_is_promised_of_early_results() -> None:
    given = [ticks(3), before("ts", 5), ticks(6), before("ts", 7), Punctuation({"k": Equals("a"), "ts": Below(8)})]

    def said(one: Asked) -> list[str]:
        return [str(promise) for promise in punctuations(drive(one.operator(), given))]

    assert said(ONE) == [
        "[wid < 3]", "[window_start < 3]", "[fired < 6]", "[window_end < 6]",
        # The result at 6 told that the session ends at 8; one that takes it back tells so again.
        "[fired < 8]", "[window_end < 8]", "[fired < 9, k = a]",
    ]  # fmt: skip
    assert not any("fired" in promise for promise in said(attrs.evolve(ONE, refinement="retract")))


def test_open_sessions_are_known_with_the_promise_that_completes_each() -> None:
    operator = ONE.sessions()
    drive(operator, [ticks(3, 6), before("ts", 7), ticks(20, k="b")])
    held = operator.open_windows().plain_rows()
    assert [(row["k"], row["wid"], row["window_end"]) for row in held] == [("a", 3, 11), ("b", 20, 25)]
    assert operator.closed_by(3) == before("ts", 11) and operator.closed_by(20) == before("ts", 25)
    with pytest.raises(LookupError, match="no session of this id"):
        operator.closed_by(4)


def test_what_cannot_be_is_refused() -> None:
    window = SessionWindow("ts", gap=5000)
    with pytest.raises(SchemaError, match="more than 1,000 times while nothing comes"):
        EarlySessions(window, {"n": count()}, every=2)
    with pytest.raises(SchemaError, match="at least one tick behind"):
        EarlySessions(window, {"n": count()})
    with pytest.raises(SchemaError, match='"fired" is the name of what tells'):
        EarlySessions(window, {"fired": count()}, every=100).output_schema(SCHEMA)


class TooLate(EarlySessions):
    """Takes a tuple at the tick of a firing into its result."""

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        super()._advance(bound + 1, assumed, emit)


def test_tuples_of_the_tick_of_a_firing_in_its_result_are_found_out() -> None:
    def check(case: tuple[Asked, Script]) -> None:
        one, script = case
        check_operator(lambda: one.operator(TooLate), script, naive=one.naive)

    assert found_out(check, st.tuples(asked("retract"), scripts)) in (7, 10)


def test_examples() -> None:
    assert doctest.testmod(sessions).failed == 0
