"""An alert follows complete windows, whatever the order of arrival, and what early results said is made good."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.alerts import alerts as module
from operators.alerts.alerts import Alerts
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.expression import Column
from operators.functions import count
from operators.kernels.alerts import follow as kernels
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import Operator
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.early.firing import Fire, Part
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.condition import Rows
from punctuation import END, Punctuation, before
from tests.examples import share
from tests.naive_alerts import naive_alerts
from tests.naive_early import naive_early
from tests.operators.planted import found_out, mutated

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
RESULTS = Schema.of(
    n=pa.int64(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64(), progress=["window_end"]
)
FUNCTIONS = {"n": count()}


@attrs.frozen
class Asked:
    """An alert over windows that fire so many ticks behind their begin."""

    window: SlidingWindow
    after: tuple[int, ...]
    by: tuple[str, ...]
    least: int
    most: int
    windows: int
    exactly: bool
    """Whether a window that grows beyond `least` is no longer what the alert is about."""

    def holds(self, row: Row) -> bool:
        n = int(row["n"])  # type: ignore[arg-type]
        return n == self.least if self.exactly else n >= self.least

    def operator(self) -> Operator:
        when = Column("n") == self.least if self.exactly else Column("n") >= self.least
        alerts = Alerts(
            "busy", when, self.by, slide=self.window.slide, windows=self.windows,
            clear=Column("n") <= self.most,
        )  # fmt: skip
        if not self.after:
            return Chain([SlicingAggregate({"": self.window}, FUNCTIONS, self.by), alerts])
        computed: dict[str, SlidingWindow] = {}
        parts: dict[str, Part] = {}
        for after in (*self.after, self.window.size):
            origin = self.window.origin - self.window.size + after
            computed[f"{after}"] = attrs.evolve(self.window, size=after, origin=origin)
            parts[f"{after}"] = Part("", after, self.window.size, None)
        slicing = SlicingAggregate(computed, FUNCTIONS, self.by, named=True)  # type: ignore[arg-type]
        return Chain([slicing, Fire(parts, named=False), alerts])

    def naive(self, table: Sequence[Row]) -> list[Row]:
        after = [*self.after, self.window.size]
        results = naive_early({"": self.window}, {"": after}, {"n": len}, self.by, table)
        if not self.after:
            results = [{key: row[key] for key in row if key not in ("fired", "final")} for row in results]
        return naive_alerts(
            results, "busy", self.holds, lambda row: int(row["n"]) <= self.most,  # type: ignore[arg-type]
            by=self.by, slide=self.window.slide, windows=self.windows,
        )  # fmt: skip


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    size, slide = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    least = draw(st.integers(1, 3))
    return Asked(
        SlidingWindow("ts", size=size, slide=slide, origin=draw(st.integers(-2, 2))),
        tuple(sorted(draw(st.sets(st.integers(1, size - 1), max_size=2)))) if size > 1 else (),
        draw(st.sampled_from([(), ("k",)])),
        least,
        draw(st.integers(0, least - 1)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
    )


@share(1)
@given(asked(), streams(SCHEMA, group=("k",), nulls=("ts", "k"), tuples=14))
def test_alerts_keep_the_laws_and_are_the_naive_answer(one: Asked, script: Script) -> None:
    check_operator(one.operator, script, naive=one.naive)


@share(1)
@given(asked(), st.integers(1, 3), streams(SCHEMA, group=("k",), tuples=14))
def test_alerts_follow_windows_that_fire_as_tuples_arrive(one: Asked, least: int, script: Script) -> None:
    fires = TriggeredAggregate(one.window, FUNCTIONS, one.by, condition=Rows(least))
    results = drive(Chain([Bucket(one.window), fires]), [*(element for _, element in script), END])
    alerts = attrs.evolve(one, after=()).operator().operators[-1]  # type: ignore[attr-defined]
    moments: list[Row] = []
    found: list[Row] = []
    bound = BEFORE_ALL
    for element in results:
        made = rows(drive(alerts, [element]))
        if isinstance(element, Page):
            moments += [row if row["final"] else row | {"fired": bound - 1} for row in element.plain_rows()]
            assert all(row["event"] == "provisional" for row in made)
        else:
            promised = element.bound("window_end")
            bound = promised if isinstance(promised, int) else bound
        found += made
    naive = naive_alerts(
        moments, "busy", one.holds, lambda row: int(row["n"]) <= one.most,  # type: ignore[arg-type]
        by=one.by, slide=one.window.slide, windows=one.windows,
    )  # fmt: skip
    right = [row if row["event"] != "provisional" else row | {"fired": None} for row in naive]
    told = [{name: value for name, value in row.items() if name != "firing"} for row in found]
    assert bag(told) == bag([{name: value for name, value in row.items() if name != "firing"} for row in right])


def bag(found: Sequence[Row]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ slide < bound", "+ slide <= bound"),
        ("if count >= needed:", "if count > needed:"),
    ],
)
def test_a_planted_bug_is_found(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.kernels, "follow", mutated(kernels, "follow", (old, new)).follow)

    def check(case: tuple[Asked, Script]) -> None:
        check_operator(case[0].operator, case[1], naive=case[0].naive, laws=(3, 7, 10))

    cases = st.tuples(asked(), streams(SCHEMA, group=("k",), tuples=14))
    assert found_out(check, cases) in (3, 7, 10)


def events(operator: Alerts, *given: Page | Punctuation) -> list[tuple[object, ...]]:
    return [(row["event"], row["n"], row["wid"], row["windows"]) for row in rows(drive(operator, given))]


def page(*counts: int | None, since: int = 0) -> Page:
    """Return a result of each window; none where the count is None."""
    table = [(n, wid, 10 * wid, 10 * wid + 10) for wid, n in enumerate(counts, since) if n is not None]
    return Page.of_rows(RESULTS, table)


def busy(windows: int = 1, clear: int | None = None) -> Alerts:
    below = None if clear is None else Column("n") < clear
    return Alerts("busy", Column("n") > 10, slide=10, windows=windows, clear=below)


def test_it_opens_after_so_many_windows_in_a_row_and_stays_open_between_two_thresholds() -> None:
    alerts = busy(windows=3, clear=5)
    assert events(alerts, page(11, 12, 9, 11, 11, 20, 7, 11, 4), before("window_end", 51)) == []
    assert events(alerts, before("window_end", 61)) == [("open", 20, 5, 3)]
    assert events(alerts, END) == [("update", 7, 6, 4), ("update", 11, 7, 5), ("close", 4, 8, 5)]
    assert alerts.statistics()["state_tuples"] == 0


def test_a_window_without_a_result_ends_a_run_and_closes_an_alert() -> None:
    assert events(busy(windows=2), page(11, None, 11, None), END) == []
    assert events(busy(windows=2), page(11, 11, None, 11), END) == [("open", 11, 1, 2), ("close", None, 2, 2)]


def test_a_group_that_vanishes_is_closed_by_the_promise_alone_and_forgotten() -> None:
    alerts = busy()
    assert events(alerts, page(11), before("window_end", 20)) == [("open", 11, 0, 1)]
    assert alerts.statistics()["open_now"] == 1
    assert events(alerts, before("window_end", 21)) == [("close", None, 1, 1)]
    assert (alerts.statistics()["open_now"], alerts.statistics()["state_tuples"]) == (0, 0)


def test_of_results_that_are_given_again_the_last_one_counts() -> None:
    arrow = pa.schema([*RESULTS.arrow, pa.field("revision", pa.int64())])
    given = [(11, 0, 0, 10, 0), (12, 0, 0, 10, 2), (3, 0, 0, 10, 1), (11, 1, 10, 20, 0), (4, 1, 10, 20, 1)]
    revised = Page.of_rows(Schema(arrow, progress=["window_end"]), given)
    assert events(busy(), revised, END) == [("open", 12, 0, 1), ("close", 4, 1, 1)]


def test_what_it_cannot_follow_is_refused_in_words() -> None:
    with pytest.raises(SchemaError, match=r"alert\(when=.*of type int64.*\n.*count > 100"):
        Alerts("busy", Column("n") + 1, slide=10).output_schema(RESULTS)
    with pytest.raises(SchemaError, match="windows is 0; write a number from 1"):
        Alerts("busy", Column("n") > 1, slide=10, windows=0)
    with pytest.raises(SchemaError, match="windows is 18446744073709551616; write a number from 1"):
        Alerts("busy", Column("n") > 1, slide=10, windows=2**64)
    named = Schema(pa.schema([*RESULTS.arrow, pa.field("since", pa.int64())]))
    with pytest.raises(SchemaError, match='"since" is the name of what an alert says'):
        Alerts("busy", Column("n") > 1, slide=10).output_schema(named)


def test_many_groups_are_followed_at_once() -> None:
    schema = Schema(pa.schema([pa.field("k", pa.int64()), *RESULTS.arrow]), progress=["window_end"])
    groups = np.arange(5000)
    columns = {
        "k": groups,
        "n": groups % 20,
        "wid": groups * 0,
        "window_start": groups * 0,
        "window_end": groups * 0 + 10,
    }
    operator = Alerts("busy", Column("n") > 10, ("k",), slide=10)
    assert len(rows(drive(operator, [Page.of(schema, columns), before("window_end", 11)]))) == 9 * 250
    assert operator.statistics()["open_now"] == 9 * 250
