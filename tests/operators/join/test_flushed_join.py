"""A flushed join gives what the join gives: tuples without a partner later, as often as asked, and never too late."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.join import Band, FlushedJoin, OAJoin, SameWindow
from operators.join.shape import Kind
from operators.testing import Script, check_operator
from punctuation import END, Punctuation, before
from tests.examples import mostly_slow, share
from tests.operators.join.joining import LEFT, ON, RIGHT, WINDOWS, Case, scripts

TS = Schema.of(ts=pa.int64(), progress=["ts"])


def times(*ts: int) -> Page:
    return Page.of(TS, {"ts": list(ts)})


def flushed(*, every: int, delay: int) -> FlushedJoin:
    join = FlushedJoin(OAJoin(SameWindow("ts", "ts", size=10), kind="anti"), every=every, delay=delay)
    join.output_schema(TS, TS)
    return join


def given_out(join: FlushedJoin, *elements: tuple[int, Page | Punctuation]) -> tuple[list[object], list[str]]:
    found = drive(join, list(elements))
    return [row["ts"] for row in rows(found)], [str(e) for e in found if isinstance(e, Punctuation)]


@pytest.mark.parametrize("kind", mostly_slow(("left", "right", "full", "anti"), but=("full",)))
@share(0.2)
@given(data=st.data(), script=scripts("linear", "group"))
def test_a_flush_changes_when_tuples_leave_and_never_which(kind: Kind, data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    every, delay = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
    page_rows = data.draw(st.sampled_from([1, 1 << 16]))
    case = Case(window, meets, kind=kind)
    check_operator(
        lambda: FlushedJoin(OAJoin(window, ON, kind=kind, page_rows=page_rows), every=every, delay=delay),
        script,
        naive=case.naive,
        settled=case.settled if delay == 0 else None,
        promised=case.promised if delay == 0 else None,
        kept=case.kept if delay == 0 else None,
    )


@share(0.5)
@given(data=st.data(), script=scripts("linear"))
def test_what_is_told_of_a_held_promise_lets_it_leave(data: st.DataObject, script: Script) -> None:
    window, _ = WINDOWS[data.draw(st.sampled_from(["open band", "tumbling", "closed band"]))]
    every, delay = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))

    def fresh(until: int) -> FlushedJoin:
        join = FlushedJoin(OAJoin(window, ON, kind="anti"), every=every, delay=delay)
        join.output_schema(LEFT, RIGHT)
        drive(join, [*script][:until])
        return join

    for until in range(len([*script])):
        join = fresh(until)
        held = join.held_back("s", None)
        waiting = [promise for _, promise in join._promises if promise.bound("s") is not None]
        assert (held is None) == (not waiting)
        if held is None:
            continue
        assert 0 < held.tuples <= join.statistics()["waiting"]
        assert join.held_back("s", 10**9) is None
        for port, name, bound in held.promises:
            other = fresh(until)
            found = drive(other, [(port, before(name, bound))])
            assert waiting[0] in found and len(rows(found)) >= held.tuples
        if held.coming is not None:
            other = fresh(until)
            # Tuples that nothing is promised of, and that have no partner.
            late = Page.of_rows(RIGHT, [(10_000 + n, "none", 0) for n in range(held.coming)])
            assert waiting[0] in drive(other, [(1, late)])
            assert waiting[0] not in drive(fresh(until), [(1, late.slice(0, held.coming - 1))])


def test_one_tuple_leaves_for_every_so_many_that_come_and_its_promise_after_it() -> None:
    join = flushed(every=2, delay=9)
    assert given_out(join, (0, times(1, 2, 3)), (0, before("ts", 10))) == ([], ["[ts < 1]"])
    assert given_out(join, (1, before("ts", 10))) == ([], [])
    assert given_out(join, (1, times(11))) == ([], [])
    assert given_out(join, (1, times(12))) == ([1], [])
    assert given_out(join, (0, times(13, 14))) == ([2], [])
    assert join.statistics()["waiting"] == 1
    assert given_out(join, (1, times(15, 16))) == ([3], ["[ts < 10]"])
    assert join.statistics()["waiting"] == 0


def test_what_is_settled_leaves_at_most_so_many_windows_later() -> None:
    join = flushed(every=0, delay=2)
    assert given_out(join, (0, times(1, 11)), (0, before("ts", 50))) == ([], ["[ts < 1]"])
    assert given_out(join, (1, before("ts", 10)), (1, before("ts", 20))) == ([], [])
    assert given_out(join, (1, before("ts", 29))) == ([], [])
    assert given_out(join, (1, before("ts", 30))) == ([1], ["[ts < 11]"])
    assert given_out(join, (1, before("ts", 39))) == ([], [])
    assert given_out(join, (1, before("ts", 40))) == ([11], ["[ts < 50]"])


def test_the_end_of_an_input_lets_all_that_waits_leave() -> None:
    join = flushed(every=0, delay=9)
    assert given_out(join, (0, times(1, 2)), (1, before("ts", 10))) == ([], [])
    assert given_out(join, (1, END))[0] == [1, 2]
    assert given_out(join, (0, times(3)))[0] == [3]
    assert given_out(join, (0, END)) == ([], ["[END]"])
    assert len(join) == join.statistics()["state_tuples"] == 0


def test_pairs_wait_for_nothing() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    join = FlushedJoin(OAJoin(Band("ts", "ts", left=3, right=3), kind="left"), every=0, delay=9)
    join.output_schema(schema, schema)
    found = drive(join, [(0, times(1, 9)), (1, before("ts", 8)), (1, times(10))])
    assert rows(found) == [{"ts": 9, "right_ts": 10}]


def test_a_saved_state_whose_queue_does_not_fit_its_counts_is_refused() -> None:
    join = flushed(every=0, delay=9)
    given_out(join, (0, times(1, 2)), (1, before("ts", 10)))
    with pytest.raises(ValueError, match="2 waiting tuples, not 5"):
        flushed(every=0, delay=9).restore({**join.state(), "queued": 5})
