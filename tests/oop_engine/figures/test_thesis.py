"""Each figure of the thesis at a tiny size, and its verdict on made-up numbers both ways."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pytest

import oop_engine as oop
from oop_engine.figures.drawn import draw
from oop_engine.figures.figure import Figure, Measured, Size
from oop_engine.figures.thesis import (
    adaptive,
    buffering,
    disorder,
    expensive,
    joins,
    low_level,
    memory,
    panes,
    promises,
    retention,
    slack,
    sustained,
)


def outcome(figure: Figure, rows: list[dict[str, object]]) -> str:
    return figure.judge(Measured.of(rows)).outcome


def test_a_band_is_told_from_points_outside_it() -> None:
    starts = [x / 10 for x in range(1000)]

    def points(delays: list[float]) -> list[dict[str, object]]:
        return [{"series": "f", "start": s, "arrival": s + d} for s, d in zip(starts, delays, strict=True)]

    full = [(n * 37 % 32) / 10 for n in range(1000)]
    assert outcome(disorder.FIG_6_8, points(full)) == "holds"
    assert outcome(disorder.FIG_6_8, points([*full[:-1], 4.0])) == "does not hold"
    assert outcome(disorder.FIG_6_8, points([0.1] * 1000)) == "does not hold"


def test_blocks_are_told_from_overlaps_and_order() -> None:
    def points(starts: list[float]) -> Measured:
        return Measured(pa.table({"series": ["f"] * len(starts), "position": range(len(starts)), "start": starts}))

    shuffled = [block * 60.0 + n * 31 % 60 for block in range(4) for n in range(60)]
    assert disorder.FIG_6_9.judge(points(shuffled)).outcome == "holds"
    assert disorder.FIG_6_9.judge(points(sorted(shuffled))).outcome == "does not hold"
    assert disorder.FIG_6_9.judge(points([*shuffled[60:], *shuffled[:60]])).outcome == "does not hold"


def test_a_rate_from_a_ring_is_judged_where_the_query_limits_it_and_levels_have_cores_of_their_own() -> None:
    def rows(ratio: float, *, limit: str = "query", cores: int = 4, few: float = 1.0) -> list[dict[str, object]]:
        rates = {"IOP, 2": 0.4, "OOP (sf), 2": 0.4, "OOP, 2": 0.4 * ratio, "IOP, 1": 0.6}
        found = [(name, 1_000, few) for name in ("IOP, 2", "OOP (sf), 2", "OOP, 2")]
        found += [(name, 66_000, rate) for name, rate in rates.items()]
        return [
            {"series": name, "groups": n, "rate": rate, "low": 100 * rate, "high": 5.0, "limit": limit, "cores": cores}
            for name, n, rate in found
        ]

    assert outcome(sustained.TABLE_8_1, rows(2)) == "holds"
    assert outcome(sustained.TABLE_8_1, rows(1.2)) == "does not hold"
    for other in (rows(2, limit="sender"), rows(2, cores=2), rows(2, few=0.0)):
        assert outcome(sustained.TABLE_8_1, other) == "not comparable"
    said = sustained.TABLE_8_1.judge(Measured.of(rows(2, cores=2))).why
    assert said.startswith("It needs 3 cores, one each for the sender, the low level and the high level. They share 2")


def test_wid_is_faster_only_where_it_is() -> None:
    def rows(wid: list[float], buffered: list[float]) -> list[dict[str, object]]:
        series = {buffering.WID: wid, buffering.BUFFERING: buffered, buffering.SCAN: [0.1] * 3}
        return [
            {"series": name, "slide": slide, "seconds": seconds}
            for name, values in series.items()
            for slide, seconds in zip((1, 100, 4000), values, strict=True)
        ]

    assert outcome(buffering.FIG_6_10, rows([5, 1, 0.2], [50, 4, 0.2])) == "holds"
    assert outcome(buffering.FIG_6_10, rows([5, 1, 0.2], [4, 0.5, 0.2])) == "does not hold"
    assert outcome(buffering.FIG_6_10, rows([5, 1, 0.2], [6, 2, 0.9])) == "does not hold"


def naive_counts(ts: list[int], ends: range, reach: int, allow: int, *, consistent: bool) -> dict[int, int]:
    """Count tuples by window, each window closed by the first tuple that is `allow` beyond its end."""
    counts, closed, high = dict.fromkeys(ends, 0), set[int](), -(10**18)
    for t in ts:
        own = [end for end in ends if end - reach <= t < end]
        if not (consistent and closed.intersection(own)):
            for end in own:
                counts[end] += end not in closed
        high = max(high, t)
        closed |= {end for end in ends if end <= high - allow}
    return counts


def test_slack_is_as_wrong_as_a_loop_over_its_tuples_finds() -> None:
    n, rate, block = 600, 0.25, slack.BLOCK
    measured = block.measure(n, rate)
    table = oop.packets(n, rate=rate, disorder=block.disorder, zipf=0.0).to_arrow()
    ts = [int(t) - slack.START for t in table["ts"].cast(pa.int64()).to_pylist()]
    ends = range(block.range, max(ts) - 1090 * slack.SECOND, block.slide)
    # All windows can take a tuple, also those that are not compared.
    every = range(block.slide, max(ts) + 2 * block.range, block.slide)
    true = {end: sum(end - block.range <= t < end for t in ts) for end in ends}
    for name in (slack.CONSISTENT, slack.GENEROUS):
        for allow, error in measured.along(name, "slack", "error").items():
            counts = naive_counts(
                ts, every, block.range, round(allow * slack.SECOND), consistent=name == slack.CONSISTENT
            )
            wrong = [counts[end] != true[end] for end in ends]
            assert error == pytest.approx(100 * sum(wrong) / len(wrong)), (name, allow)
    assert len(ends) > 0 and measured.along(slack.PUNCTUATION, "slack", "error") == {None: 0}
    waits = [measured.along(name, "slack", "latency") for name in (slack.CONSISTENT, slack.GENEROUS, slack.PUNCTUATION)]
    assert all(each and all(wait >= 0 for wait in each.values()) for each in waits), "each run has both metrics"
    both = [measured.along(name, "slack", "error") for name in (slack.CONSISTENT, slack.GENEROUS)]
    assert all(both[0][allow] >= both[1][allow] for allow in both[0])


@pytest.mark.parametrize(("figure", "run"), [(slack.FIG_6_11, slack.BAND), (slack.FIG_6_12, slack.BLOCK)])
def test_each_run_is_written_with_its_latency_and_its_error(
    figure: Figure, run: slack.Experiment, tmp_path: Path
) -> None:
    assert draw(figure, Size("tiny"), tmp_path).verdict is not None
    rows = pc.read_csv(tmp_path / f"{figure.name}.csv").to_pylist()
    runs = [(name, amount) for name in (slack.CONSISTENT, slack.GENEROUS) for amount in run.slacks]
    assert [(row["series"], row["slack"]) for row in rows] == [(slack.PUNCTUATION, None), *runs]
    assert all(row["latency"] >= 0 and 0 <= row["error"] <= 100 for row in rows)
    punctuation, consistent, generous = rows[0], rows[1 : 1 + len(run.slacks)], rows[1 + len(run.slacks) :]
    assert punctuation["error"] == 0 < consistent[0]["error"]
    assert all(one["error"] >= other["error"] for one, other in zip(consistent, generous, strict=True))


def tradeoff(punctuation: tuple[float, float], **series: list[tuple[float, float, float]]) -> list[dict[str, object]]:
    points = {slack.PUNCTUATION: [(None, *punctuation)], slack.CONSISTENT: series["c"], slack.GENEROUS: series["g"]}
    return [
        {"series": name, "slack": allow, "latency": wait, "error": error}
        for name, values in points.items()
        for allow, wait, error in values
    ]


def test_punctuation_dominates_slack_or_does_not() -> None:
    consistent, generous = [(0, 0.1, 9.0), (1, 0.2, 4.0), (2, 0.9, 0.0)], [(0, 0.1, 5.0), (1, 0.2, 1.0), (2, 0.9, 0.0)]
    assert outcome(slack.FIG_6_11, tradeoff((0.0, 0.0), c=consistent, g=generous)) == "holds"
    assert outcome(slack.FIG_6_11, tradeoff((0.5, 0.0), c=consistent, g=generous)) == "does not hold"
    assert outcome(slack.FIG_6_11, tradeoff((0.0, 0.1), c=consistent, g=generous)) == "does not hold"
    assert outcome(slack.FIG_6_11, tradeoff((0.0, 0.0), c=generous, g=consistent)) == "does not hold"
    flat = [(*point[:2], 5.0) for point in consistent]
    assert outcome(slack.FIG_6_11, tradeoff((0.0, 0.0), c=flat, g=generous)) == "does not hold"


def test_one_slack_is_best_or_none_is() -> None:
    right = [(0, 0.1, 100.0), (434, 0.3, 40.0), (491, 1.0, 0.0), (600, 90.0, 0.0)]
    assert outcome(slack.FIG_6_12, tradeoff((0.0, 0.0), c=right, g=right)) == "holds"
    never = [(*point[:2], 3.0) for point in right]
    assert outcome(slack.FIG_6_12, tradeoff((0.0, 0.0), c=never, g=right)) == "does not hold"
    rising = [(0, 0.1, 100.0), (434, 80.0, 40.0), (491, 85.0, 0.0), (600, 90.0, 0.0)]
    assert outcome(slack.FIG_6_12, tradeoff((0.0, 0.0), c=rising, g=right)) == "does not hold"


def test_a_group_is_complete_at_the_promise_that_says_so() -> None:
    def rows(joint: int, individual: int) -> list[dict[str, object]]:
        first = {joins.JOINT: joint, joins.INDIVIDUAL: individual}
        return [
            {"series": name, "number": number, "completes": number >= at}
            for name, at in first.items()
            for number in (2, 3, 4, 5)
        ]

    assert outcome(joins.FIG_7_5, rows(3, 5)) == "holds"
    assert outcome(joins.FIG_7_5, rows(2, 5)) == outcome(joins.FIG_7_5, rows(3, 3)) == "does not hold"
    assert joins.FIG_7_5.judge(joins.measure_promises(Size("tiny"))).outcome == "holds"


def bands(other: str, **factors: tuple[float, float]) -> list[dict[str, object]]:
    """Let a join take so many times what OA-Join takes, at a band of 1 s and of 9 s."""
    columns = ("held", "ms", "seconds")
    ours = [{"series": joins.OA, "band": band, **dict.fromkeys(columns, 10.0)} for band in (1, 9)]
    theirs = [
        {"series": other, "band": band, **{name: 10 * factors.get(name, (2, 4))[at] for name in columns}}
        for at, band in enumerate((1, 9))
    ]
    return [*ours, *theirs]


def test_joins_are_compared_at_each_band() -> None:
    assert outcome(joins.FIG_7_6, bands(joins.OPOB)) == "holds"
    for worse in ({"held": (1.2, 4.0)}, {"held": (2.0, 2.0)}, {"ms": (0.9, 4.0)}, {"seconds": (0.5, 0.9)}):
        assert outcome(joins.FIG_7_6, bands(joins.OPOB, **worse)) == "does not hold", worse
    assert outcome(joins.FIG_7_7, bands(joins.OPIB)) == "holds"
    assert outcome(joins.FIG_7_7, bands(joins.OPIB, held=(0.9, 2))) == "does not hold"


def skewed(ours: list[float], theirs: list[float]) -> list[dict[str, object]]:
    return [
        {"series": name, "late": late, "held": held, "seconds": held}
        for name, values in ((memory.OOP, ours), (memory.IOP, theirs))
        for late, held in zip((0, 10, 40), values, strict=True)
    ]


def test_memory_is_flat_or_grows() -> None:
    for figure in (memory.FIG_8_8, memory.FIG_8_10, memory.FIG_8_11):
        assert outcome(figure, skewed([10, 10, 11], [20, 100, 400])) == "holds"
        assert outcome(figure, skewed([10, 100, 399], [20, 100, 400])) == "does not hold"
        assert outcome(figure, skewed([10, 10, 11], [20, 20, 20])) == "does not hold"
    assert outcome(memory.FIG_8_9, skewed([10, 20, 46], [10, 20, 40])) == "holds"
    assert outcome(memory.FIG_8_9, skewed([10, 20, 50], [10, 20, 40])) == "does not hold"
    assert outcome(memory.FIG_8_9, skewed([10, 23, 40], [10, 20, 40])) == "does not hold"


def test_panes_pay_in_most_cells_or_do_not() -> None:
    def rows(small: float, named: float, large: float) -> list[dict[str, object]]:
        cells = ((1, small), (20, named), (50, large))
        return [{"series": "5 panes a window", "tuples": tuples, "ratio": ratio} for tuples, ratio in cells]

    assert outcome(panes.FIG_6_15, rows(1.3, 0.3, 0.2)) == "holds"
    for numbers in ((1.3, 0.7, 0.2), (0.1, 0.3, 0.2), (1.3, 0.3, 1.1)):
        assert outcome(panes.FIG_6_15, rows(*numbers)) == "does not hold", numbers


def adapted(**ratios: tuple[float, float]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for at, place in enumerate(("DS1", "DS5")):
        rows.append({"series": adaptive.EAGER, "place": place, "kB": 10.0, "ms": 10.0, "seconds": 10.0})
        found = {name: 10 * ratios.get(name, (0.9, 0.8))[at] for name in ("kB", "ms", "seconds")}
        rows.append({"series": adaptive.ADAPTIVE, "place": place, **found})
    return rows


def test_adaptive_aggregation_is_compared_with_eager() -> None:
    for figure in (adaptive.FIG_6_19, adaptive.FIG_6_19_SKEW):
        assert outcome(figure, adapted()) == "holds"
        for name in ("kB", "ms", "seconds"):
            assert outcome(figure, adapted(**{name: (1.2, 1.1)})) == "does not hold", name
    assert outcome(adaptive.FIG_6_19, adapted(kB=(0.8, 0.9))) == "does not hold"


def test_groups_of_a_data_set_are_as_skewed_as_the_table_says() -> None:
    window = adaptive.SlidingWindow("ts", size=adaptive.SECOND, slide=adaptive.SECOND)
    shares = [adaptive.data(40_000, 40_000, window, share).small for share in adaptive.SHARES.values()]
    assert shares == pytest.approx([0.39, 0.66, 0.77, 0.82, 0.87], abs=0.03)


def test_what_a_join_retains_is_compared_with_its_windows() -> None:
    def rows(**changed: float) -> list[dict[str, object]]:
        found = {f"OOP: {retention.LEFT}": 1.9, f"OOP: {retention.RIGHT}": 7.0, f"IOP: {retention.LEFT}": 0.0}
        found |= {f"IOP: {retention.RIGHT}": 7.0, f"IOP: {retention.SORTED}": changed.get("sort", 4.8)}
        found |= {f"OOP: {retention.RIGHT}": changed.get("right", 7.0)}
        return [
            {"series": name, "minute": at, "retained": minutes if at > 9 else 0.0}
            for name, minutes in found.items()
            for at in range(1, 13)
        ]

    assert outcome(retention.FIG_8_4, rows()) == "holds"
    assert outcome(retention.FIG_8_4, rows(right=5.0)) == outcome(retention.FIG_8_4, rows(sort=2.0)) == "does not hold"


def test_an_output_buffer_grows_with_its_window_or_does_not() -> None:
    def rows(waiting: list[int], ours: int) -> list[dict[str, object]]:
        series = {f"IOP, RANGE {at} min": pairs for at, pairs in enumerate(waiting, 1)}
        series |= {f"OOP, RANGE {at} min": ours for at in (1, 2, 3)}
        return [{"series": name, "minute": at, "pairs": pairs} for name, pairs in series.items() for at in range(1, 13)]

    assert outcome(retention.FIG_8_5, rows([10, 40, 90], 0)) == "holds"
    assert (
        outcome(retention.FIG_8_5, rows([10, 20, 30], 0))
        == outcome(retention.FIG_8_5, rows([10, 40, 90], 1))
        == "does not hold"
    )


def test_a_ring_loses_tuples_where_a_read_takes_too_long() -> None:
    read = low_level.READ
    steady = low_level.Reads(low_level.np.full(10, 0.001), 0, 0, None)
    assert not steady.lost(read / 0.001 * 0.99, 3 * read)
    assert steady.rate(10**12) == pytest.approx(1e9, rel=0.02)
    stalled = low_level.Reads(low_level.np.array([0.001] * 5 + [0.01] + [0.001] * 5), 0, 0, None)
    # While it stalls, rate times 10 ms come, beside the page that is being read.
    assert stalled.lost(2.1 * read / 0.01, 3 * read) and not stalled.lost(1.9 * read / 0.01, 3 * read)
    assert stalled.stall == 0.01
    quicker = low_level.least([steady, low_level.Reads(low_level.np.full(10, 0.0005), 0, 0, None)])
    assert quicker.seconds.tolist() == [0.0005] * 10


def rates(few: float, many: float, larger: float, cpu: float) -> list[dict[str, object]]:
    """Let OOP take so many times the rate of IOP; IOP have so much of its rate in a larger table, and so much CPU."""
    rows: list[dict[str, object]] = []
    for table in low_level.TABLES:
        for groups in (66, 260):
            own = 4.0 * (larger if table == "2" and groups == 260 else 1)
            gain = few if groups == 66 else many
            rows.append({"series": f"{low_level.IOP}, {table}", "groups": groups, "rate": own, "cpu": cpu})
            rows.extend(
                {"series": f"{name}, {table}", "groups": groups, "rate": own * gain, "cpu": 90.0}
                for name in (low_level.SLOW, low_level.OOP)
            )
    return rows


def test_out_of_order_takes_a_higher_rate_or_does_not() -> None:
    assert outcome(low_level.FIG_8_7, rates(1.0, 2.0, 0.8, 50.0)) == "holds"
    for numbers in ((2.0, 2.0, 0.8, 50.0), (1.0, 1.2, 0.8, 50.0), (1.0, 2.0, 1.2, 50.0), (1.0, 2.0, 0.8, 95.0)):
        assert outcome(low_level.FIG_8_7, rates(*numbers)) == "does not hold", numbers


def test_promises_cost_little_or_much() -> None:
    def rows(together: float, each: float) -> list[dict[str, object]]:
        left = {promises.TOGETHER: together, promises.EACH: each}
        points = [(name, percent, rate) for name in left for percent, rate in ((0, 1.0), (15, left[name]))]
        return [{"series": name, "percent": percent, "rate": rate} for name, percent, rate in points]

    assert outcome(promises.FIG_RATIO, rows(0.9, 0.8)) == "holds"
    assert outcome(promises.FIG_RATIO, rows(0.9, 0.1)) == outcome(promises.FIG_RATIO, rows(0.5, 0.9)) == "does not hold"


def test_answers_of_an_expensive_condition_come_when_their_time_is_over() -> None:
    later = expensive.Later(100)
    for number in range(50):
        later.submit(number, lambda own=number: own * 2)
    came: dict[int, int] = {}
    for later.now in range(0, 501, 10):
        for number, answer in later.answers():
            assert answer == 2 * number and number not in came
            came[number] = later.now
    assert len(came) == 50 and max(came.values()) <= 500 and len(set(came.values())) > 10


@pytest.mark.parametrize("way", [expensive.OOP, expensive.MERGE, expensive.SLACK])
def test_a_count_behind_an_expensive_condition_is_that_of_a_loop(way: str) -> None:
    whole = expensive.stream(9, 40)
    counts: dict[int, int] = {}
    for ts, cheap, x in zip(*(whole[name].tolist() for name in ("ts", "cheap", "x")), strict=True):
        if cheap or x < 50:
            end = (ts // expensive.WINDOW + 1) * expensive.WINDOW
            counts[end] = counts.get(end, 0) + 1
    found = expensive.run(way, whole, 300)
    assert found.counts == counts and found.held > 0 and found.latency > 0


@pytest.mark.parametrize("places", [4_000, 8_000])
def test_tables_that_flush_out_of_order_hand_on_no_more_than_one_that_flushes_in_order(places: int) -> None:
    """Counted: the partial aggregates that the high level takes, where the table has a place for each group."""
    window = low_level.tumbling("ts", 64_000)
    elements = low_level.tagged(4_000, 64_000, window)
    found = {
        name: low_level.reads(elements, places, flush, window, check=True)
        for name, flush in low_level.flushes().items()
    }
    assert len({reads.total for reads in found.values()}) == 1
    for name in (low_level.SLOW, low_level.OOP):
        assert found[name].partials < found[low_level.IOP].partials


def test_a_merge_behind_an_expensive_condition_holds_more_than_is_held_out_of_order() -> None:
    """By the clock of the experiment, so that what is held is the same in each run: more, the slower answers are."""
    whole, more = expensive.stream(12, 100), list[int]()
    for delay in (50, 200, 800):
        ours, merged = (expensive.run(way, whole, delay) for way in (expensive.OOP, expensive.MERGE))
        assert ours.counts == merged.counts and sum(ours.counts.values()) > 1_000
        more.append(merged.held - ours.held)
    assert 0 < more[0] < more[1] < more[2]


def test_an_expensive_condition_costs_a_merge_memory_and_slack_latency_or_does_not() -> None:
    def judged(merge: tuple[float, float] = (20, 90), slack: float = 2.0, ours: float = 1.0) -> str:
        values = {expensive.OOP: ((10, 30), ours), expensive.MERGE: (merge, 1.0), expensive.SLACK: ((10, 30), slack)}
        rows: list[dict[str, object]] = [
            {"series": way, "delay": delay, "held": held[delay], "latency": latency}
            for way, (held, latency) in values.items()
            for delay in (0, 1)
        ]
        return outcome(expensive.FIG_8_3, rows)

    assert judged() == "holds"
    assert judged(merge=(9, 90)) == judged(merge=(20, 35)) == judged(slack=0.9) == judged(ours=1.1) == "does not hold"
