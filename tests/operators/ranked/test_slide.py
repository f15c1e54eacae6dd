"""Windows that slide by tuples answer what `extent()` says, and hold a bin a distinct value and no tuple."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Int64s, Page, Row
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, SchemaError
from operators.functions import count, max, sum
from operators.functions.protocol import Slots
from operators.kernels.ranked import bins as kernels
from operators.kernels.ranked import ranked as queue_kernels
from operators.kernels.ranked.layout import KEYS
from operators.protocol import Element
from operators.testing import Script, check_operator
from operators.window.counted import SlideByRank, SlideByRows, SlideByTuple, SlideWindow
from operators.window.protocol import LIMIT
from operators.window_aggregate.stores.ranked import bins, queues, slide, slots
from operators.window_aggregate.stores.ranked.slide import SlideAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_ranked import naive_ranked
from tests.operators.planted import found_out, mutated
from tests.operators.ranked.cases import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    Mode,
    by_k,
    by_number,
    by_rank,
    by_rows,
    by_tuple,
    check_windows,
    modes,
    scripts,
    scripts_with_nulls,
    sizes,
)


def check(window: SlideWindow, mode: Mode, script: Script, *, order_matters: bool = False) -> None:
    by, partition = mode
    check_operator(
        lambda: SlideAggregate(window, FUNCTIONS, by, partition=partition),
        script,
        naive=lambda table: naive_ranked(window, ANSWERS, by, table, partition=partition),
        order_matters=order_matters,
    )


def page(ts: Sequence[int | None], k: Sequence[str] | None = None, v: Sequence[int | None] | None = None) -> Page:
    return Page.of(SCHEMA, {"ts": ts, "k": k or ["a"] * len(ts), "v": v or [1] * len(ts)})


def counts(window: SlideWindow, script: Sequence[Element], **options: bool) -> list[tuple[object, object]]:
    return [(r["wid"], r["n"]) for r in rows(drive(SlideAggregate(window, {"n": count()}, **options), script))]


@share(1)
@given(st.one_of(by_tuple, by_rank, by_number), modes, scripts)
def test_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: SlideWindow, mode: Mode, script: Script
) -> None:
    check(window, mode, script)


@share(1)
@given(by_rows, modes, scripts_with_nulls)
def test_windows_at_every_nth_arrival_depend_on_the_arrival_order_and_on_nothing_else(
    window: SlideWindow, mode: Mode, script: Script
) -> None:
    check(window, mode, script, order_matters=True)


@given(st.one_of(by_tuple, by_rank), scripts)
def test_what_is_behind_a_partitions_bound_is_out_and_promised(window: SlideWindow, script: Script) -> None:
    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        bounds = {k: (bound, over) for k, _, bound, over in by_k(tables[0], progress[0])}
        found: list[Row] = []
        for row in naive_ranked(window, ANSWERS, ("k",), tables[0]):
            bound, over = bounds[row["k"]]
            if over or (bound is not None and int(str(row["wid"])) < bound):
                found.append(row)
        return found

    def promised(_: object, progress: Sequence[Progress]) -> list[Punctuation]:
        if progress[0].ended:
            return [END]
        bound = progress[0].bound("ts")
        if bound is None:
            return []
        begin, end = int(bound) - window.size + 1, int(bound) + 1
        return [before("wid", bound), before("window_start", begin), before("window_end", end)]

    check_operator(
        lambda: SlideAggregate(window, FUNCTIONS, ("k",)), script, settled=settled, promised=promised, laws={1, 3}
    )


@given(st.one_of(by_tuple, by_rank, by_number), scripts)
def test_state_is_one_bin_for_each_distinct_beginning_and_end_that_can_still_matter(
    window: SlideWindow, script: Script
) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        held = 0
        for _, times, bound, over in by_k(tables[0], progress[0]):
            if not over:
                ids = {ts for ts in times} | {ts + window.size for ts in times}
                held += len([i for i in ids if bound is None or i >= bound])
                # The number of ranks that are gone, by partition.
                held += isinstance(window, SlideByRank)
        return held

    check_operator(lambda: SlideAggregate(window, FUNCTIONS, ("k",)), script, kept=kept, laws={2})


class Counted:
    """An array that counts how often one of its values is read or set."""

    def __init__(self, values: Int64s) -> None:
        self.values, self.times = values, 0

    def __getitem__(self, place: int) -> int:
        self.times += 1
        return int(self.values[place])

    def __setitem__(self, place: int, value: int) -> None:
        self.times += 1
        self.values[place] = value


def test_a_tuple_costs_what_it_overlaps_and_a_search_however_many_bins_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted, for count and max: aggregates that are combined, and keys of bins that are read or moved."""
    combined = [0]
    keys = [0]
    plain, enter = slots.Pool.combine, getattr(kernels.enter, "py_func", kernels.enter)

    def combining(own: slots.Pool, into: Slots, source: Slots) -> None:
        combined[-1] += len(into)
        plain(own, into, source)

    def entering(*given: Any) -> object:
        tables = given[5]
        counted = Counted(tables[KEYS])
        found = enter(*given[:5], (*tables[:KEYS], counted, *tables[KEYS + 1 :]), *given[6:])
        keys[-1] += counted.times
        return found

    monkeypatch.setattr(slots.Pool, "combine", combining)
    monkeypatch.setattr(bins.kernels, "enter", entering)

    def most(bins_before: int) -> tuple[int, int]:
        operator = SlideAggregate(SlideByTuple("ts", size=20), {"n": count(), "m": max("v")})
        drive(operator, [page(list(range(0, 2 * bins_before, 4)))])
        combined[:], keys[:] = [], []
        last = 2 * bins_before
        for ts in (last, last + 4, last + 2, last - 7, last + 8, last - 1):
            combined.append(0)
            keys.append(0)
            drive(operator, [page([ts])])
        # The end of the bins is at most 28 ahead of the last tuple, so all these are among the last twenty.
        return builtins.max(combined), builtins.max(keys)

    combined_of_few, keys_of_few = most(50)
    combined_of_many, keys_of_many = most(20_000)
    # A new bin for its value and one for its end; the tuple itself goes into each of those that it reaches.
    assert 0 < combined_of_many == combined_of_few <= 2 + 3 + 2 * 13
    # Two searches look at as many more keys as the number of bins has more binary digits.
    assert 0 < keys_of_many <= keys_of_few + 2 * 10


def test_figure_6_5_walks_through_its_five_tuples() -> None:
    # t1 .. t4 at 0, 4, 8, 12 with RANGE 10, then t5 out of order at 2: Ss4 is initialised from Es1, Ss5 from Ss1.
    script = [page([ts]) for ts in (0, 4, 8, 12, 2)]
    assert counts(SlideByTuple("ts", size=10), [*script, before("ts", 5)]) == [(0, 1), (2, 2), (4, 3)]
    assert counts(SlideByTuple("ts", size=10), [*script, END])[3:] == [(8, 4), (12, 3)]


@pytest.mark.parametrize(
    ("size", "script", "wanted"),
    [
        (5, [page([0]), page([5]), END], [(0, 1), (5, 1)]),
        (10, [page([1, 2]), before("ts", 3), page([4]), END], [(1, 1), (2, 2), (4, 3)]),
        (4, [page([1, 5, 12]), before("ts", 99), END], [(1, 1), (5, 1), (12, 1)]),
        (3, [page([1, 1, 2]), END], [(1, 2), (2, 3)]),
    ],
    ids=["an end bin and a start bin meet", "the base survives purging", "A4", "two tuples of one value"],
)
def test_the_counterexamples_of_the_evidence(size: int, script: list[Element], wanted: list[tuple[int, int]]) -> None:
    assert counts(SlideByTuple("ts", size=size), script) == wanted


def test_each_tuple_of_a_value_may_have_its_row() -> None:
    assert counts(SlideByTuple("ts", size=3, each=True), [page([1, 1, 2]), END]) == [(1, 2), (1, 2), (2, 3)]
    assert counts(SlideByRank("ts", size=3, rows=2, each=True), [page([1, 1, 1, 1]), END]) == [(1, 4), (1, 4)]


def test_ranks_go_on_after_their_tuples_are_gone() -> None:
    script = [page([1, 2, 3]), before("ts", 4), page([7, 5]), before("ts", 6), page([6]), END]
    assert counts(SlideByRank("ts", size=1, rows=2), script) == [(2, 1), (5, 1), (7, 1)]


READ = "self.windows.weigh(runs.queues, runs.ends, runs.values, weights)"
BASE_LOST = [
    # The base that was and the one that would be are free, and there is none.
    (
        "bases[g] = items[start + n - 1]\n",
        "bases[g] = -1\n        gone[freed] = items[start + n - 1]\n        freed += 1\n",
    ),
    ("            gone[freed] = bases[g]\n            freed += 1\n            bases[g] = -1\n", ""),
]
BUGS = {
    "row 8, end bins are output too": (
        slide,
        "BinStore",
        mutated(
            bins,
            "open",
            (READ, f"{READ}\n        {READ}".replace("values, weights)", "values + self.size, weights)", 1)),
        ),
    ),
    "row 9, a bin at the same id is no seed": (
        bins,
        "kernels",
        mutated(kernels, "enter", ("while p < stop and keys[p] <= x:", "while p < stop and keys[p] < x:")),
    ),
    "row 10, no base is kept": (bins, "kernels", mutated(kernels, "purge", *BASE_LOST)),
    "row 11, one bin a tuple": (
        bins,
        "kernels",
        mutated(kernels, "distinct", ("if first or value != run_values[runs - 1]:", "if True:")),
    ),
    "row 12, ranks begin anew after a purge": (
        bins,
        "kernels",
        mutated(kernels, "multiples", ("        ranks[parts[j]] = rank", "")),
    ),
    "a window leaves while its last value may still come": (
        queues,
        "kernels",
        mutated(queue_kernels, "below", ("if keys[middle] < bounds[j]:", "if keys[middle] <= bounds[j]:")),
    ),
    "a tuple stays one tick too long": (
        bins,
        "kernels",
        mutated(kernels, "enter", ("while values[low] <= keys[p] - size:", "while values[low] < keys[p] - size:")),
    ),
    "the back stack is not added": (
        slots,
        "kernels",
        mutated(queue_kernels, "sweep", ("        if reach > split:\n", "        if reach > split + 1:\n")),
    ),
}


@pytest.mark.parametrize("bug", mostly_slow(BUGS, every=3))
def test_planted_bugs_are_found_out(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, changed = BUGS[bug]
    changed = changed if name == "kernels" else getattr(changed, name)
    window = SlideByRank("ts", size=3, rows=2) if "row 12" in bug else SlideByTuple("ts", size=3)
    monkeypatch.setattr(module, name, changed)
    assert found_out(lambda script: check(window, ((), None), script), scripts) in (3, 4, 5, 7, 9, 10)


def test_group_wise_promises_release_single_partitions() -> None:
    operator = SlideAggregate(SlideByTuple("ts", size=5), FUNCTIONS, ("k",))
    promise = Punctuation({"k": Equals("a"), "ts": Below(3)})
    early = drive(operator, [page([1, 2, 3], ["a", "b", "a"]), promise])
    assert [(r["k"], r["wid"]) for r in rows(early)] == [("a", 1)]
    assert [str(p) for p in punctuations(early)] == ["[k = a, wid < 3]"]
    # A tuple of a is late below its own bound; one of b is not.
    late = drive(operator, [page([2, 1], ["a", "b"]), before("ts", 3)])
    assert [(r["k"], r["wid"], r["n"]) for r in rows(late)] == [("b", 1, 1), ("b", 2, 2)]
    assert operator.statistics()["late_for_some"] == 1


def test_windows_of_the_whole_stream_have_a_result_for_every_group_in_reach() -> None:
    operator = SlideAggregate(SlideByTuple("ts", size=3), {"n": count()}, ("k",), partition=())
    found = rows(drive(operator, [page([1, 2, 4], ["a", "b", "a"]), END]))
    wanted = [(1, "a", 1), (2, "a", 1), (2, "b", 1), (4, "a", 1), (4, "b", 1)]
    assert sorted((r["wid"], r["k"], r["n"]) for r in found) == wanted


def test_a_late_tuple_counts_in_the_windows_that_are_still_open_and_defines_none() -> None:
    script = [page([8, 12]), before("ts", 10), page([9, 3, 11]), END]
    operator = SlideAggregate(SlideByTuple("ts", size=5), {"n": count()})
    assert [(r["wid"], r["n"]) for r in rows(drive(operator, script))] == [(8, 1), (11, 3), (12, 4)]
    assert (operator.statistics()["late"], operator.statistics()["late_for_some"]) == (1, 1)
    strict = SlideAggregate(SlideByTuple("ts", size=5), {"n": count()}, consistent=True)
    assert [(r["wid"], r["n"]) for r in rows(drive(strict, script))] == [(8, 1), (11, 2), (12, 3)]
    assert (strict.statistics()["late"], strict.statistics()["late_for_some"]) == (2, 0)


@given(sizes, st.booleans(), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=14))
def test_a_stream_that_breaks_its_promises_gives_what_had_come_when_each_window_left(
    size: int, consistent: bool, events: list[tuple[bool, int]]
) -> None:
    script: list[Element] = []
    wanted: list[tuple[object, object]] = []
    defined: set[int] = set()
    arrived: list[int] = []
    bound = -1
    for is_promise, value in [*events, (True, 99)]:
        if is_promise:
            script.append(before("ts", value))
            bound, before_now = builtins.max(bound, value), bound
            for wid in sorted(wid for wid in defined if before_now <= wid < bound):
                wanted.append((wid, len([v for v in arrived if wid - size < v <= wid])))
        else:
            script.append(page([value]))
            if value >= bound:
                defined.add(value)
            if value >= bound or not consistent:
                arrived.append(value)
    assert counts(SlideByTuple("ts", size=size), script, consistent=consistent) == wanted


@given(st.one_of(by_tuple, by_rank), modes, scripts)
def test_no_slot_is_lost(window: SlideWindow, mode: Mode, script: Script) -> None:
    operator = SlideAggregate(window, FUNCTIONS, mode[0], partition=mode[1])
    for port, element in script:
        drive(operator, [(port, element)])
        if isinstance(element, Page):
            store = operator._store
            assert len(store.pool) == len(store.bins) + int((store.bases >= 0).sum())


def test_late_tuples_count_before_the_first_bin_of_a_stream_too() -> None:
    script = [before("ts", 10), page([9, 8, 2]), page([10, 13]), END]
    assert counts(SlideByTuple("ts", size=5), script) == [(10, 3), (13, 3)]


def test_late_tuples_of_new_groups_leave_nothing_behind() -> None:
    operator = SlideAggregate(SlideByTuple("ts", size=5), {"n": count()}, ("k", "v"), partition=("k",))
    over = Punctuation({"k": Equals("a"), "ts": Below(20)})
    drive(operator, [page([30], ["a"], [1]), over, page([1, 2], ["a", "a"], [2, 3])])
    assert (operator.statistics()["groups"], operator.statistics()["late"]) == (1, 2)
    found = rows(drive(operator, [page([31], ["a"], [2]), END]))
    assert sorted((r["v"], r["wid"], r["n"]) for r in found) == [(1, 30, 1), (1, 31, 1), (2, 31, 1)]


@given(st.one_of(by_tuple, by_rank, by_number, by_rows), modes, scripts)
def test_windows_are_counted_each_once_however_many_groups_are_in_it(
    window: SlideWindow, mode: Mode, script: Script
) -> None:
    by, partition = mode
    check_windows(
        lambda: SlideAggregate(window, FUNCTIONS, by, partition=partition),
        script,
        by if partition is None else partition,
    )


def test_tuples_without_a_value_are_counted() -> None:
    operator = SlideAggregate(SlideByTuple("ts", size=5), {"n": count()})
    assert len(rows(drive(operator, [page([1, None, LIMIT, -LIMIT]), END]))) == 1
    assert operator.statistics()["without_value"] == 3


def test_arrival_numbers_may_be_those_given_before_a_filter() -> None:
    window = SlideByRows("ts", size=10, rows=2, number="v")
    assert counts(window, [page([5, 12, 9], v=[1, 4, 5]), END]) == [(5, 1), (9, 2)]
    counting_here = SlideByRows("ts", size=10, rows=2)
    assert counts(counting_here, [page([5, 12, 9], v=[1, 4, 5]), END]) == [(12, 3)]


@pytest.mark.parametrize("bound", [2**63, float("inf")])
def test_a_bound_beyond_every_value_releases_every_window(bound: int | float) -> None:
    script = [page([1, LIMIT - 1]), before("ts", bound)]
    assert counts(SlideByTuple("ts", size=LIMIT), script) == [(1, 1), (LIMIT - 1, 2)]


def test_addresses_and_times_are_keys_and_window_bounds() -> None:
    schema = Schema(pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), ip_field("ip")]), progress=["ts"])
    address = bytes(10) + b"\xff\xff\x0a\x00\x00\x00"
    operator = SlideAggregate(SlideByTuple("ts", size=10), {"n": count()}, ("ip",))
    assert operator.output_schema(schema).field("window_end").type == pa.timestamp("us", "UTC")
    found = rows(drive(operator, [Page.of(schema, {"ts": [1, 2, 11], "ip": [address, None, address]}), END]))
    assert {(r["ip"], r["n"], r["window_end"]) for r in found} == {(address, 1, 2), (None, 1, 3), (address, 1, 12)}


def test_a_sum_that_does_not_fit_names_the_aggregate_the_window_and_the_group() -> None:
    operator = SlideAggregate(SlideByTuple("ts", size=10), {"total": sum("v")}, ("k",))
    with pytest.raises(AggregateOverflow, match="total of window 2, k = a"):
        drive(operator, [page([1, 2], v=[2**63 - 1, 1]), END])


def test_what_does_not_fit_is_refused_with_a_way_out() -> None:
    with pytest.raises(SchemaError, match="an integer, a time or a decimal"):
        SlideAggregate(SlideByTuple("k", size=1), FUNCTIONS).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="Name k in `by` too"):
        SlideAggregate(SlideByTuple("ts", size=1), FUNCTIONS, ("v",), partition=("k",))
    with pytest.raises(SchemaError, match="arrival numbers are integers"):
        SlideAggregate(SlideByRows("ts", size=1, rows=2, number="k"), FUNCTIONS).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="two results are named k"):
        SlideAggregate(SlideByTuple("ts", size=1), {"k": count()}, ("k",)).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="RANGE must be at least one tick"):
        SlideByTuple("ts", size=0)


def test_one_end_after_another_and_tuples_in_between() -> None:
    script = [END, page([1]), END, END, page([21, 22]), before("ts", 22), END]
    assert counts(SlideByRank("ts", size=5, rows=1), script) == [(1, 1), (21, 1), (22, 2)]
    assert counts(SlideByRows("ts", size=5, rows=2), script) == [(22, 2)]


def test_a_million_tuples_of_a_few_values_hold_a_few_bins() -> None:
    operator = SlideAggregate(SlideByTuple("ts", size=4), {"n": count(), "most": max("v")})
    for start in range(0, 40, 4):
        ts = [start + i % 4 for i in range(2000)]
        drive(operator, [page(ts), before("ts", start + 4)])
    assert operator.statistics()["peak_state_tuples"] <= 3 * 4
    assert operator.statistics()["results"] == 40
