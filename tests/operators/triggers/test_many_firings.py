"""More firings in a page than a kernel has room for at once are those of smaller pages, in each family of triggers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver, rows
from operators.expression import Column
from operators.functions import count, max, sum
from operators.protocol import Element, Operator
from operators.signals import Event, HearsSignals
from operators.window import LandmarkWindow, SlidingWindow
from operators.window.counted import CountWindow
from operators.window.edges import NumberedEdges
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.early.sessions import EarlySessions
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.condition import Condition, Rows, Until
from operators.window_aggregate.triggers.counted import TriggeredCounts
from operators.window_aggregate.triggers.landmark import TriggeredLandmark
from operators.window_aggregate.triggers.predicates import TriggeredPredicates
from operators.window_aggregate.triggers.sessions import TriggeredSessions
from punctuation import END, before
from tests.examples import mostly_slow

SCHEMA: Final = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS: Final = {"n": count(), "total": sum("v"), "most": max("v")}
BY: Final = ("k",)
FLUSH: Final = Event("flush")
TUPLES: Final = 3_300
"""More than three times as many as the kernels that give results in portions have room for."""
WIDE: Final = SlidingWindow("ts", size=60, slide=20)
TENS: Final = NumberedEdges(EdgeWindow("ts", lambda tick: tick // 10 * 10 + 10))
SESSION: Final = SessionWindow("ts", gap=3)
PREDICATE: Final = PredicateWindow("ts", Column("v") > 3, leave=Column("v") < 1)
CONDITIONS: Final[dict[str, Condition]] = {
    "each tuple": Rows(1),
    "each, until the event": Until(Rows(1), FLUSH),
}
Made = Callable[[Condition, bool], Operator]
FAMILIES: Final[dict[str, Made]] = {
    "windows": lambda condition, discards: TriggeredAggregate(
        WIDE, FUNCTIONS, BY, condition=condition, discards=discards, tagged=False
    ),
    "windows with a lateness": lambda condition, _: TriggeredAggregate(
        WIDE, FUNCTIONS, BY, condition=condition, tagged=False, lateness=7
    ),
    "edges": lambda condition, discards: TriggeredAggregate(
        TENS, FUNCTIONS, BY, condition=condition, discards=discards, tagged=False
    ),
    "landmark": lambda condition, discards: Chain(
        [
            Bucket(LandmarkWindow("ts", slide=1_500)),
            TriggeredLandmark(LandmarkWindow("ts", slide=1_500), FUNCTIONS, BY, condition=condition, discards=discards),
        ]
    ),
    "sessions": lambda condition, discards: TriggeredSessions(
        SESSION, FUNCTIONS, BY, condition=condition, discards=discards
    ),
    "sessions with a lateness": lambda condition, _: TriggeredSessions(
        SESSION, FUNCTIONS, BY, condition=condition, lateness=4
    ),
    "rows": lambda condition, discards: TriggeredCounts(
        CountWindow("ts", size=5, slide=2), FUNCTIONS, BY, condition=condition, discards=discards
    ),
    "predicates": lambda condition, discards: TriggeredPredicates(
        PREDICATE, FUNCTIONS, BY, condition=condition, discards=discards
    ),
}


def stream(groups: int, seed: int) -> Page:
    """Make a page of tuples, each at a time of its own, a little out of order."""
    rng = np.random.default_rng(seed)
    times = np.arange(TUPLES) + rng.integers(0, 4) * (np.arange(TUPLES) // 100)
    order = np.argsort(np.arange(TUPLES) + rng.integers(0, 5, TUPLES), kind="stable")
    values = {"ts": times[order], "k": rng.integers(0, groups, TUPLES), "v": rng.integers(0, 6, TUPLES)}
    return Page.of(SCHEMA, values)


def given(operator: Operator, page: Page, size: int, *, promise: int | None = None) -> list[str]:
    """Run over pages of a size, then a signal, a promise and END, and give what all results are in the end."""
    found: list[Element] = []
    operator.output_schema(SCHEMA)
    if promise is not None:
        deliver(operator, before("ts", promise), found.append)
    for at in range(0, len(page), size):
        deliver(operator, page.slice(at, min(at + size, len(page))), found.append)
    _hear(operator, found)
    deliver(operator, before("ts", TUPLES // 2), found.append)
    _hear(operator, found)
    deliver(operator, END, found.append)
    # Pages are read when all of them were given: none may share the memory of another.
    return sorted(map(str, rows(found)))


def _hear(operator: Operator, found: list[Element]) -> None:
    parts: Sequence[object] = operator.operators if isinstance(operator, Chain) else (operator,)
    for part in parts:
        if isinstance(part, HearsSignals) and FLUSH in part.signals():
            part.signal(FLUSH, found.append)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("condition", mostly_slow(CONDITIONS, but=("each tuple",)))
@pytest.mark.parametrize("groups", [1, 1_500])
def test_a_page_in_which_thousands_fire_gives_what_small_pages_give(name: str, condition: str, groups: int) -> None:
    page = stream(groups, groups)
    one, other = (FAMILIES[name](CONDITIONS[condition], groups > 1) for _ in range(2))
    # Sessions fire once no tuple before their begin can come.
    found = given(one, page, TUPLES, promise=0)
    assert found == given(other, page, 211, promise=0)
    assert len(found) > (1_024 if groups > 1 else 500)


@pytest.mark.parametrize("discards", [False, True])
def test_sessions_that_fire_thousands_of_times_on_event_time(discards: bool) -> None:
    made = [EarlySessions(SESSION, FUNCTIONS, BY, every=1, discards=discards) for _ in range(2)]
    page = stream(40, 3)
    found = given(made[0], page, TUPLES)
    assert found == given(made[1], page, 211) and len(found) > 3 * 1_024
