"""A promise on any attributes travels through a whole plan: what is promised before each tuple stays what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from operators.testing import Script, streams
from punctuation import Below, Equals, OneOf, Punctuation
from tests.examples import share

NAMES = ("ts", "k", "x")
SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])
GRID = [a.ravel() for a in np.meshgrid(np.arange(-50, 70), np.array(["a", "b", ""], object), np.arange(-9, 10))]
"""Every tuple without a null that a script may have, and many more: a promise is the set of those that it excludes."""
Sets = npt.NDArray[np.bool_]
Seen = tuple[tuple[object, ...], bytes]


def excluded(promise: Punctuation) -> Sets:
    """Return which tuples of the grid a promise excludes, none for one on attributes that the source lacks."""
    if not set(promise.attributes) <= set(NAMES):
        return np.zeros(len(GRID[0]), np.bool_)
    return promise.mask(dict(zip(NAMES, GRID, strict=True)), len(GRID[0]))


def seen(elements: Sequence[Element]) -> tuple[list[Seen], bytes]:
    """Return each tuple with all that was promised before it, and what was promised before the end."""
    tuples: list[Seen] = []
    promised = np.zeros(len(GRID[0]), np.bool_)
    for element in elements:
        if isinstance(element, Page):
            tuples += [(tuple(row[name] for name in NAMES), promised.tobytes()) for row in element.plain_rows()]
        elif not element.is_end:
            promised = promised | excluded(element)
    return tuples, promised.tobytes()


def run(stream: Stream, page_rows: int = 8192) -> list[Element]:
    return [element for _, element in Run(Plan((stream.node,)), page_rows)]


def source(script: Script) -> Stream:
    return oop.pages([element for _, element in script], SCHEMA)


def looked_up(stream: Stream) -> Stream:
    return stream.lookup(pa.table({"k": ["a", "b"], "name": ["first", "second"]}), on="k", name="names")


def melded(stream: Stream) -> Stream:
    return stream.filter(lambda t: t["ts"] % 2 == 0).meld(stream.filter(lambda t: t["ts"] % 2 != 0))


def positive(stream: Stream) -> Stream:
    return stream.filter(lambda t: t["x"] >= 0)


def all_of_them(stream: Stream) -> Stream:
    derived = looked_up(positive(stream).derive(y=lambda t: t["x"] + 1).number("n"))
    return melded(derived).distinct(*NAMES, "name").project(*NAMES)


AT_ONCE: dict[str, Callable[[Stream], Stream]] = {
    "filter": positive,
    "derive": lambda stream: stream.derive(y=lambda t: t["x"] + 1),
    "number": lambda stream: stream.number("n"),
    "lookup": looked_up,
    "meld": melded,
    "distinct": lambda stream: stream.distinct(*NAMES),
    "project": lambda stream: stream.project("x", "ts", "k"),
    "all of them": all_of_them,
}
WAITING: dict[str, Callable[[Stream], Stream]] = {
    "group by": lambda stream: stream.aggregate(oop.count(), by=NAMES),
    "reorder": lambda stream: stream.reorder(slack=99),
    "all of them": lambda stream: all_of_them(stream).reorder(slack=99).aggregate(oop.count(), by=NAMES),
}


@pytest.mark.parametrize("plan", AT_ONCE)
@share(1)
@given(streams(SCHEMA, group=("k",)))
def test_before_each_tuple_a_plan_has_promised_what_its_source_had(plan: str, script: Script) -> None:
    wanted, at_the_end = seen([element for _, element in script])
    if plan in ("filter", "all of them"):
        wanted = [(values, promised) for values, promised in wanted if isinstance(values[2], int) and values[2] >= 0]
    if plan in ("distinct", "all of them"):
        wanted = list({values: (values, promised) for values, promised in reversed(wanted)}.values())
    found, promised = seen(run(AT_ONCE[plan](source(script))))
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert promised == at_the_end


@pytest.mark.parametrize("plan", WAITING)
@share(1)
@given(streams(SCHEMA, group=("k",)))
def test_an_operator_that_holds_tuples_lets_those_go_that_a_promise_ends_and_passes_it_on(
    plan: str, script: Script
) -> None:
    """No tuple comes behind a promise that excludes it, and what the source had promised has left before the end."""
    found = run(WAITING[plan](source(script)))
    promises: list[Punctuation] = []
    for element in found:
        if isinstance(element, Page):
            assert not [row for row in element.plain_rows() if any(promise.matches(row) for promise in promises)]
        elif not element.is_end:
            promises.append(element)
    _, at_the_end = seen([element for _, element in script])
    assert seen(found)[1] == at_the_end


@pytest.mark.parametrize(
    ("promise", "on", "wanted"),
    [
        (Punctuation({"k": Equals("a")}), ["k"], ["a from 0", "[k = a]"]),
        (Punctuation({"k": OneOf(["a", "c"])}), ["k"], ["a from 0", "[k = a]"]),
        (Punctuation({"k": Equals("a"), "x": Equals(1)}), ["k", "x"], ["a from 0", "[k = a, x = 1]"]),
        (Punctuation({"k": Equals("a"), "ts": Below(20)}), ["k"], ["a from 0", "[k = a, wid < 2]"]),
        (Punctuation({"ts": Below(20)}), ["k"], ["a from 0", "b from 0", "[wid < 2]"]),
    ],
    ids=str,
)
def test_a_promise_of_both_sources_goes_through_a_join_to_the_windows_behind_it(
    promise: Punctuation, on: list[str], wanted: list[str]
) -> None:
    def sent(ts: list[int], later: int) -> Stream:
        tuples = Page.of(SCHEMA, {"ts": ts, "k": ["a", "b"], "x": [1, 1]})
        return oop.pages([tuples, promise, Page.of(SCHEMA, {"ts": [later], "k": ["b"], "x": [2]})], SCHEMA)

    pairs = all_of_them(sent([1, 2], 30)).join(all_of_them(sent([2, 3], 31)), on=on, range=5)
    found: list[str] = []
    for element in run(pairs.window(range=10, slide=10, wattr="ts").aggregate(oop.count(), by=["k", "x"])):
        if isinstance(element, Page):
            found += sorted(f"{row['k']} from {row['window_start']}" for row in element.plain_rows())
        else:
            found.append(str(element))
    until = found.index("b from 30")
    assert [one for one in found[:until] if one in wanted] == wanted, "before the tuples behind the promise"
    early = found[: found.index(wanted[-1])]
    assert ("b from 0" in early) == ("b from 0" in wanted), "and nothing that it does not end"
