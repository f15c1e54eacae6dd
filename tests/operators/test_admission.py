"""Groups that are admitted have exactly the results of a run without a limit, and each window counts the others."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive
from operators.functions import count, median, sum
from operators.join import Band, OAJoin
from operators.protocol import Element, Operator, Promises
from operators.rows.distinct import Distinct
from operators.streams.lanes import KeyLanes
from operators.window import LandmarkWindow, SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate import admission as module
from operators.window_aggregate.admission import Admission, reckoned, why_not_admitted
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from punctuation import END, Equals, Punctuation, before

SCHEMA: Final = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
FUNCTIONS: Final = {"n": count(), "total": sum("v")}
SLIDING: Final = SlidingWindow("ts", size=4, slide=2)
TUMBLING: Final = SlidingWindow("ts", size=3, slide=3)
_Tuple = tuple[int, str, int]
_Group = tuple[str, str, int]


def bucketed(strategy: str) -> Operator:
    return WindowAggregate(SLIDING, FUNCTIONS, ("k",), strategy=strategy)  # pyright: ignore[reportArgumentType]


OPERATORS: Final[dict[str, Callable[[], Operator]]] = {
    "by window": lambda: bucketed("wid"),
    "panes": lambda: bucketed("panes"),
    "tumbling": lambda: SlicingAggregate({"": TUMBLING}, FUNCTIONS, ("k",)),
    "two windows": lambda: SlicingAggregate({"a": TUMBLING, "b": SLIDING}, FUNCTIONS, ("k",), named=True),
    "revised": lambda: SlicingAggregate({"": SLIDING}, FUNCTIONS, ("k",), lateness=3),
    "groups": lambda: GroupAggregate(FUNCTIONS, ("k",)),
}


def elements_of(seed: int) -> list[_Tuple | int]:
    """Return tuples with promises between them, now and then with more keys at once."""
    luck = np.random.default_rng(seed)
    found: list[_Tuple | int] = []
    at = bound = 0
    for _ in range(36):
        at += int(luck.integers(0, 3))
        keys = 12 if at % 20 < 10 else 3
        found += [(max(bound - 2, at - int(luck.integers(0, 4))), f"k{luck.integers(keys)}", int(luck.integers(9)))
                  for _ in range(int(luck.integers(1, 4)))]  # fmt: skip
        if luck.integers(3) == 0:
            bound = max(bound, at - 3)
            found.append(bound)
    return found


def pages_of(elements: list[_Tuple | int], cut: int) -> Iterator[Element]:
    """Yield pages of at most so many tuples, and promises between them."""
    rows: list[_Tuple] = []
    for element in (*elements, 10**6):
        if isinstance(element, int) or len(rows) == cut:
            if rows:
                yield Page.of_rows(SCHEMA, rows)
            rows = []
        if not isinstance(element, int):
            rows.append(element)
        elif element < 10**6:
            yield before("ts", element)
    yield END


def driven(admission: Admission, elements: Iterator[Element], *, saving: bool = False) -> list[Page]:
    """Return what it gives behind a bucket where it wants one, saved and restored between any two calls."""
    windows = getattr(admission.operator, "window", None)
    bucket = None if windows is None else Bucket(windows)
    found: list[Element] = []
    for element in elements:
        given: list[Element] = []
        if bucket is None:
            given.append(element)
        else:
            deliver(bucket, element, given.append)
        for one in given:
            deliver(admission, one, found.append)
            if saving:
                state = decode_state(encode_state(admission.state()))
                restored = Admission(admission.operator, admission.limit)
                restored.restore(state)
                admission = restored
    counts.clear()
    counts.update({(one.window, one.wid): one.tuples for one in admission.refused()})
    return [element for element in found if isinstance(element, Page)]


counts: Final[dict[tuple[str, int], int]] = {}


def results(pages: list[Page]) -> dict[_Group, tuple[int, int]]:
    """Return count and sum of each group, the last revision."""
    found: dict[_Group, tuple[int, int]] = {}
    for page in pages:
        for row in page.rows():
            found[row.get("window", ""), row["k"], row.get("wid", 0)] = (row["n"], row["total"])
    return found


def naive(operator: Operator, limit: int, elements: list[_Tuple | int]) -> tuple[set[_Group], Counter[tuple[str, int]]]:
    """Return the groups that have all their tuples, and the tuples that each window refused, one tuple at a time."""
    sliced, named = isinstance(operator, SlicingAggregate), getattr(operator, "windows", None)
    windows: dict[str, SlidingWindow | None] = dict(named) if named else {"": getattr(operator, "window", None)}
    late = getattr(operator, "lateness", 0)
    schema = SCHEMA if sliced or windows[""] is None else Bucket(SLIDING).output_schema(SCHEMA)
    key, cell = reckoned(operator, schema)
    known: dict[str, dict[str, int]] = {}
    waits: dict[str, int] = {}
    cells: Counter[int] = Counter()
    closed = dict.fromkeys(windows, -(10**9))
    opens = dict.fromkeys(windows, -(10**9))
    whole, refused = set[_Group](), Counter[tuple[str, int]]()

    def held() -> int:
        return cells.total() + len(known) * key + 3 * len("".join(known))

    for element in elements:
        if isinstance(element, int):
            for name, window in windows.items():
                if window is not None:
                    opens[name] = max(opens[name], window.complete(element - late))
            bound = element - late if sliced else opens[""]
            if windows.get("", 1) is not None:
                for end in [end for end in cells if end <= bound]:
                    del cells[end]
                for name in [name for name, end in waits.items() if end <= bound]:
                    del known[name], waits[name]
            continue
        ts, k, _ = element
        inside = {"": range(1)}
        horizon = 1
        timed = {name: window for name, window in windows.items() if window is not None}
        if timed:
            spans = {name: [int(a[0]) for a in window.wids(np.array([ts]))] for name, window in timed.items()}
            inside = {name: range(max(first, opens[name]), last) for name, (first, last) in spans.items()}
            ends = [timed[name].extent(last - 1)[1] for name, (first, last) in spans.items() if first < last]
            horizon = max(ends, default=0) if sliced else spans[""][1]
        if not any(inside.values()):
            continue
        if k not in known:
            exact = any(wids and wids[-1] >= closed[name] for name, wids in inside.items())
            if not exact or held() + key + cell + 3 * len(k) > limit:
                for name, wids in inside.items():
                    refused.update((name, wid) for wid in wids)
                    closed[name] = max([closed[name], *(wid + 1 for wid in wids)])
                continue
            known[k], waits[k] = dict(closed), -(10**9)
        if horizon > waits[k]:
            waits[k] = horizon
            cells[horizon] += cell
        for name, wids in inside.items():
            for wid in wids:
                if wid < known[k][name]:
                    refused[name, wid] += 1
                else:
                    whole.add((name, k, wid))
    return whole, refused


@pytest.mark.parametrize("name", OPERATORS)
def test_groups_that_are_admitted_are_whole_and_each_window_counts_the_others(name: str) -> None:
    shed = admitted_again = 0
    for seed, limit in ((0, 1_000), (3, 2_000)):
        elements, operator = elements_of(seed), OPERATORS[name]()
        free = results(driven(Admission(operator, 1 << 40), pages_of(elements, 5)))
        assert not counts
        found = results(driven(Admission(operator, limit), pages_of(elements, 1 + seed)))
        whole, refused = naive(operator, limit, elements)
        assert found == {group: free[group] for group in whole}
        assert counts == refused
        totals = Counter[tuple[str, int]]()
        for (window, _, wid), (n, _) in free.items():
            totals[window, wid] += n
        for (window, _, wid), (n, _) in found.items():
            totals[window, wid] -= n
        assert +totals == refused
        shed += refused.total()
        admitted_again += len({wid for _, _, wid in whole} - {wid for _, wid in refused})
    assert shed
    assert admitted_again or name == "groups"


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_refused_depends_on_no_page_and_no_restart(name: str) -> None:
    operator = OPERATORS[name]()
    elements = elements_of(1)
    found = [results(driven(Admission(operator, 1_500), pages_of(elements, cut))) for cut in (1, 1_000)]
    found.append(results(driven(Admission(operator, 1_500), pages_of(elements, 7), saving=True)))
    assert counts
    assert found[1:] == found[:1] * 2


@pytest.mark.parametrize("name", ["tumbling", "two windows", "revised"])
def test_promises_in_a_page_let_go_where_they_stand(name: str) -> None:
    operator = OPERATORS[name]()
    elements = elements_of(3)
    rows = [element for element in elements if not isinstance(element, int)]
    places = np.cumsum([not isinstance(element, int) for element in elements])
    bounds = [(int(places[at]), element) for at, element in enumerate(elements) if isinstance(element, int)]
    positions, values = (np.array(column, np.int64) for column in zip(*bounds, strict=True))
    promises = Promises("ts", positions, values)
    together, apart = Admission(operator, 1_500), Admission(operator, 1_500)
    found: list[Element] = []
    together.process_with(Page.of_rows(SCHEMA, rows), promises, found.append)
    together.punctuate(END, found.append)
    want = results(driven(apart, pages_of(elements, 1_000)))
    assert results([element for element in found if isinstance(element, Page)]) == want
    assert {(one.window, one.wid): one.tuples for one in together.refused()} == counts
    assert counts


def test_functions_that_keep_values_stop_new_groups_too() -> None:
    admission = Admission(SlicingAggregate({"": TUMBLING}, {"m": median("v")}, ("k",)), 1_000_000)
    many = 300_000
    page = Page.of(SCHEMA, {"ts": np.zeros(many, np.int64), "k": ["a"] * many, "v": np.arange(many)})
    drive(admission, [page])
    drive(admission, [Page.of_rows(SCHEMA, [(1, "b", 1), (1, "a", 1)])])
    assert [(one.wid, one.tuples) for one in admission.refused()] == [(0, 1)]
    assert admission.statistics()["shed"] == 1


def test_the_counts_of_the_last_windows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOLD", 2)
    admission = Admission(OPERATORS["tumbling"](), 1)
    elements: list[_Tuple | int] = [element for at in range(0, 12, 3) for element in ((at, "a", 1), at + 3)]
    driven(admission, pages_of(elements, 1))
    assert [(one.wid, one.start, one.end, one.tuples) for one in admission.refused()] == [(2, 6, 9, 1), (3, 9, 12, 1)]
    assert admission.statistics()["shed_windows"] == 4


REFUSED: Final[dict[str, tuple[Operator, str]]] = {
    "distinct": (Distinct(("k",)), "missing in results of other groups"),
    "join": (OAJoin(Band("ts", "ts", left=1, right=1), (("k", "k"),)), "missing in results of other groups"),
    "no groups": (SlicingAggregate({"": TUMBLING}, FUNCTIONS), "no groups"),
    "sessions": (SlicingAggregate({"": SessionWindow("ts", gap=2)}, FUNCTIONS, ("k",)), "SessionWindow"),
    "landmark": (WindowAggregate(LandmarkWindow("ts", slide=2), FUNCTIONS, ("k",)), "LandmarkWindow"),
    "fine": (SlicingAggregate({"": SlidingWindow("ts", size=1 << 30, slide=1)}, FUNCTIONS, ("k",)), "1,073,741,824"),
    "by time": (GroupAggregate(FUNCTIONS, ("ts",)), "end one by one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_refusing_has_no_meaning_a_sentence_says_why(name: str) -> None:
    operator, why = REFUSED[name]
    assert why in why_not_admitted(operator, SCHEMA)


def test_a_saved_state_goes_on_with_the_limit_alone() -> None:
    admission = Admission(OPERATORS["tumbling"](), 1_000)
    drive(admission, [Page.of_rows(SCHEMA, [(1, "a", 1)])])
    with pytest.raises(ValueError, match='policy "shed" again'):
        KeyLanes(admission.operator, 2, [("k",)], [pa.string()]).restore(admission.state())
    with pytest.raises(ValueError, match="without groups that were refused"):
        Admission(admission.operator, 1_000).restore(admission.operator.state())


def test_a_promise_on_groups_passes() -> None:
    admission = Admission(OPERATORS["tumbling"](), 1_000)
    promise = Punctuation({"k": Equals("a")})
    assert drive(admission, [Page.of_rows(SCHEMA, [(1, "a", 1)]), promise])


def test_examples_run() -> None:
    assert doctest.testmod(module).failed == 0
