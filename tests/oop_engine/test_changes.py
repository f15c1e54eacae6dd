"""Results that come early, late, or both: whoever reads them counts each window once, as if all had come in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from operators.data.page import Page
from tests.examples import share

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
LATENESS = 1000
"""More than any tuple is late, so that no result may lack one."""
WINDOWS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: oop.tumbling(10),
    "sliding": lambda: oop.sliding(10, 4),
    "gaps": lambda: oop.sliding(4, 7),
    "session": lambda: oop.session(4),
}
TOLD = ("sign", "revision", "fired", "final")
"""What tells how a result was given, and is not the same in all that stand."""


@attrs.frozen
class Asked:
    """A windowed aggregate, and what relates its results to each other."""

    window: str
    by: tuple[str, ...]
    refine: str
    early: int | None
    lateness: bool

    def over(self, stream: oop.Stream) -> oop.Stream:
        windowed = stream.window(WINDOWS[self.window]())
        options: dict[str, Any] = {"early": self.early, "lateness": LATENESS if self.lateness else 0}
        functions = {"n": oop.count(), "total": oop.sum("v"), "most": oop.max("v")}
        return windowed.aggregate(**functions, by=self.by, refine=self.refine, **options)  # type: ignore[arg-type]

    def exact(self, stream: oop.Stream) -> oop.Stream:
        functions = {"n": oop.count(), "total": oop.sum("v"), "most": oop.max("v")}
        return stream.window(WINDOWS[self.window]()).aggregate(**functions, by=self.by)


@st.composite
def asked(draw: st.DrawFn, *refine: str) -> Asked:
    window = draw(st.sampled_from(sorted(WINDOWS)))
    early = None if window == "session" else draw(st.sampled_from([None, 1, 3]))
    lateness = early is None or draw(st.booleans())
    by = draw(st.sampled_from([(), ("k",)]))
    return Asked(window, by, draw(st.sampled_from(refine)), early, lateness)


LINEAR: dict[str, Callable[[oop.Stream], oop.Stream]] = {
    "nothing": lambda s: s,
    "a computed attribute": lambda s: s.derive(twice="total * 2"),
    "a choice of windows": lambda s: s.filter("window_start > 3"),
    "a lookup": lambda s: s.lookup({"n": [1, 2], "word": ["one", "two"]}, on="n"),
    "a choice by results": lambda s: s.filter("n > 1"),
    "two streams": lambda s: oop.meld(s, s.filter("most > 4")),
}
REVISED = ("nothing", "a computed attribute", "a choice of windows")
"""What may be between results that revisions replace and who reads them."""
READERS: dict[str, Callable[[oop.Stream], oop.Stream]] = {
    "window": lambda s: s.window(9, wattr="window_end").aggregate(oop.sum("n"), oop.max("most"), x=oop.count()),
    "session": lambda s: s.window(oop.session(3, wattr="window_start")).aggregate(oop.sum("n")),
    "groups": lambda s: s.aggregate(oop.count(), oop.sum("total"), by="most"),
    "distinct": lambda s: s.distinct("n", "most"),
    "top": lambda s: s.top(2, "total", within="window_start"),
    "join": lambda s: s.join(s, ("n", "most"), range=5, wattr="window_end").aggregate(oop.count(), by="n"),
    "outer join": lambda s: s.join(s, "n", range=2, wattr="window_end", kind="left").aggregate(oop.count(), by="n"),
}


def source(rows: list[tuple[int, str, int]], size: int, *, slack: int | None = 0) -> oop.Stream:
    """Make a stream of pages of a size; without slack for tuples that come late, each promises all that came."""
    if slack is None:
        return oop.rows(sorted(rows), SCHEMA, punctuate=oop.ordered("ts"))
    pages = [rows[at : at + size] for at in range(0, len(rows), size)]
    batches = [pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in p], SCHEMA) for p in pages]
    return oop.arrow(pa.Table.from_batches(batches, SCHEMA), slack=slack)


def bag(stream: oop.Stream) -> Counter[str]:
    rows = stream.to_arrow().to_pylist()
    return Counter(str(sorted((n, v) for n, v in row.items() if not n.endswith(TOLD))) for row in rows)


ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=14)


@share(8)
@given(st.data(), asked("accumulate", "retract"), ROWS, st.integers(1, 5))
def test_who_reads_results_that_change_gets_what_stands_in_the_end(
    data: st.DataObject, one: Asked, rows: list[tuple[int, str, int]], size: int
) -> None:
    slack = 0 if one.lateness else 40
    between = REVISED if one.refine == "accumulate" and one.lateness else tuple(LINEAR)
    linear, reader = LINEAR[data.draw(st.sampled_from(between))], READERS[data.draw(st.sampled_from(sorted(READERS)))]
    found = bag(reader(linear(one.over(source(rows, size, slack=slack)))))
    assert found == bag(reader(linear(one.exact(source(rows, size, slack=None)))))


@share(4)
@given(asked("retract"), ROWS, st.integers(1, 5))
def test_signs_add_up_to_the_exact_answer_at_each_promise(
    one: Asked, rows: list[tuple[int, str, int]], size: int
) -> None:
    exact = one.exact(source(rows, size, slack=None)).to_arrow().to_pylist()
    net: Counter[str] = Counter()
    for page in one.over(source(rows, size, slack=0 if one.lateness else 40)):
        assert isinstance(page, Page)
        for row in page.rows():
            key = str([row[name] for name in exact[0]] + [row.get(name) for name in ("fired", "final", "revision")])
            net[key] += row["sign"]  # type: ignore[operator]
            assert net[key] in (0, 1), "a result is taken back as it was given, and stands once"
    standing = Counter(key.rpartition(", ")[0].rsplit(", ", 2)[0] for key, count in net.items() if count)
    assert standing == Counter(str([row[name] for name in exact[0]]).rstrip("]") for row in exact)


@share(2)
@given(asked("discard").filter(lambda one: one.window != "session"), ROWS, st.integers(1, 5))
def test_what_is_new_adds_up_to_the_whole(one: Asked, rows: list[tuple[int, str, int]], size: int) -> None:
    def summed(stream: oop.Stream) -> list[str]:
        found = stream.aggregate(oop.sum("n"), oop.sum("total"), oop.max("most"), by=(*one.by, "wid"))
        return sorted(map(str, found.to_arrow().to_pylist()))

    found = one.over(source(rows, size, slack=0 if one.lateness else 40))
    assert summed(found) == summed(one.exact(source(rows, size, slack=None)))


def test_a_late_tuple_of_a_window_that_fired_early_changes_the_final_result_alone() -> None:
    stream = source([(1, "a", 1), (7, "a", 1), (12, "a", 1), (3, "a", 5), (40, "a", 1)], 1)
    found = stream.window(10).aggregate(oop.count(), early=5, lateness=50).to_arrow().to_pylist()
    assert [(r["fired"], r["final"], r["revision"], r["count"]) for r in found if r["wid"] == 0] == [
        (5, False, 0, 1), (10, True, 0, 2), (10, True, 1, 3),
    ]  # fmt: skip


def test_what_refine_says_is_said_once_and_of_something() -> None:
    windowed = source([(1, "a", 1)], 1).window(10)
    with pytest.raises(oop.PlanError, match=r'refine="retract"\): every window is given once'):
        windowed.aggregate(oop.count(), refine="retract")
    with pytest.raises(oop.PlanError, match="relate to those before them in one way"):
        windowed.aggregate(oop.count(), early=oop.early(5, refine="discard"), refine="retract")
    with pytest.raises(oop.PlanError, match="write 'accumulate', 'discard', 'retract'"):
        windowed.aggregate(oop.count(), lateness=5, refine="often")  # type: ignore[arg-type]
    with pytest.raises(
        oop.PlanError,
        match=r"(?s)comes late to \[SESSION 5.*Write refine=\"retract\"",
    ):
        source([(1, "a", 1)], 1).window(oop.session(5)).aggregate(oop.count(), lateness=5, refine="discard")


@pytest.mark.parametrize(
    ("written", "options"),
    [
        ("EARLY 3 RETRACT, LATENESS 1000", {"early": 3, "lateness": 1000, "refine": "retract"}),
        ("EARLY 3, LATENESS 1000 RETRACT", {"early": 3, "lateness": 1000, "refine": "retract"}),
        ("LATENESS 1000 RETRACT", {"lateness": 1000, "refine": "retract"}),
        ("LATENESS 1000 DISCARD", {"lateness": 1000, "refine": "discard"}),
        ("EARLY AT 50 % DISCARD, LATENESS 1000", {"early": oop.early(at=0.5), "lateness": 1000, "refine": "discard"}),
        ("EARLY 3, LATENESS 1000", {"early": 3, "lateness": 1000}),
    ],
)
def test_query_text_says_the_same(written: str, options: dict[str, Any]) -> None:
    rows = [(1, "a", 1), (7, "b", 1), (12, "a", 1), (3, "a", 5), (40, "a", 1), (2, "b", 2)]
    text = oop.query(f"SELECT k, count(*) AS n [RANGE 10, WA ts, {written}] FROM M GROUP BY k", M=source(rows, 1))
    stream = source(rows, 1).window(10).aggregate(n=oop.count(), by="k", **options)
    assert text.to_arrow().to_pylist() == stream.to_arrow().to_pylist() != []
    assert text.schema.names == stream.schema.names


def test_words_that_contradict_each_other_are_refused() -> None:
    text = "SELECT count(*) [RANGE 10, WA ts, EARLY 5 DISCARD, LATENESS 50 RETRACT] FROM M"
    with pytest.raises(oop.LanguageError, match="EARLY says DISCARD and LATENESS RETRACT"):
        oop.query(text, M=source([(1, "a", 1)], 1))
