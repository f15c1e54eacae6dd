"""Window joins: Q-d beside DuckDB's batch join, a lull, a sparse input, skew.

    python tests/benchmarks/bench_join.py [tuples a stream] [runs]

Q-d: two streams, equality on srcIP (50 k addresses), band of 2 s, a fifth of the tuples late by up to 2 s; 10 k and
100 k tuples a second of event time on each stream, which gives 0.8 and 8 pairs a left tuple. Pages of 65,536 tuples in
memory, the exact promise after each page. DuckDB joins the same tables, in memory too, counting and giving the pairs.
Joins that keep order are compared by `oop-engine figures 7-6 7-7`. Runs are interleaved; medians are
printed, and ratios of medians.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema
from operators.join import Band, OAJoin
from operators.protocol import Element, Operator
from punctuation import END, before

SECOND = 1_000_000_000
PAGE = 1 << 16
PACKETS = Schema.of(ts=pa.timestamp("ns", "UTC"), srcIP=pa.uint32(), length=pa.int32(), progress=["ts"])
Script = list[tuple[int, Element]]


def packets(n: int, rate: int, seed: int, *, late: float = 0.2, keys: int = 50_000) -> pa.RecordBatch:
    """Make one stream of Q-d in order of arrival."""
    rng = np.random.default_rng(seed)
    times = 1_700_000_000 * SECOND + np.arange(n) * (SECOND // rate)
    times -= np.where(rng.random(n) < late, rng.integers(0, 2 * SECOND, n), 0)
    columns = [
        pa.array(times).view(pa.timestamp("ns", "UTC")),
        pa.array((rng.integers(0, keys, n) + (10 << 24)).astype(np.uint32)),
        pa.array(rng.integers(60, 1500, n).astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PACKETS.arrow)


def in_turn(schema: Schema, *batches: pa.RecordBatch, page: int = PAGE) -> Script:
    """Give pages of the streams in turn, each followed by the exact promise on ts."""
    script: Script = []
    bounds: list[np.ndarray] = []
    for batch in batches:
        ticks = Page(schema, batch).ticks("ts")
        bounds.append(np.minimum.accumulate(ticks[::-1])[::-1])
    for start in range(0, max(map(len, bounds)), page):
        for port, batch in enumerate(batches):
            if start < batch.num_rows:
                script.append((port, Page(schema, batch.slice(start, page))))
            if start + page < batch.num_rows:
                script.append((port, before("ts", int(bounds[port][start + page]))))
    return [*script, *((port, END) for port in range(len(batches)))]


@attrs.frozen
class Measured:
    seconds: float
    pairs: int
    peak: int


def run(make: Callable[[], Operator], script: Script, schema: Schema = PACKETS) -> Measured:
    """Drive a join through a script."""
    join, pairs = make(), 0
    join.output_schema(schema, schema)

    def emit(element: Element) -> None:
        nonlocal pairs
        pairs += len(element) if isinstance(element, Page) else 0

    start = perf_counter()
    for port, element in script:
        if isinstance(element, Page):
            join.process(element, emit, port)
        else:
            join.punctuate(element, emit, port)
    seconds = perf_counter() - start
    return Measured(seconds, pairs, join.statistics()["peak_state_tuples"])  # type: ignore[attr-defined]


def best(what: str, n: int, runs: list[Measured], more: str = "") -> float:
    seconds = median(m.seconds for m in runs)
    print(
        f"{what:46} {seconds:7.3f} s {n / seconds / 1e6:7.2f} M input tuples/s {runs[0].pairs:>12,} pairs"
        f"  peak state {runs[0].peak:>9,} tuples  {more}"
    )
    return seconds


def duckdb_join(left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[Callable[[], int]]:
    """Give the batch join of Q-d as a count, and with its pairs as Arrow batches."""
    import duckdb

    connection = duckdb.connect()
    connection.register("arrow_l", pa.table(left))
    connection.register("arrow_r", pa.table(right))
    connection.sql("CREATE TABLE l AS SELECT epoch_ns(ts) AS ts, srcIP, length FROM arrow_l")
    connection.sql("CREATE TABLE r AS SELECT epoch_ns(ts) AS ts, srcIP, length FROM arrow_r")
    where = f"FROM l JOIN r ON l.srcIP = r.srcIP AND r.ts > l.ts - {2 * SECOND} AND r.ts < l.ts + {2 * SECOND}"

    def counted() -> int:
        return int(connection.execute(f"SELECT count(*) {where}").fetchall()[0][0])

    def given() -> int:
        reader = pa.RecordBatchReader.from_stream(connection.sql(f"SELECT l.*, r.* {where}"))
        return sum(batch.num_rows for batch in reader)

    yield counted
    yield given


def timed(work: Callable[[], int]) -> Measured:
    start = perf_counter()
    pairs = work()
    return Measured(perf_counter() - start, pairs, 0)


def qd(n: int, rate: int, runs: int) -> None:
    left, right = packets(n, rate, 1), packets(n, rate, 2)
    script = in_turn(PACKETS, left, right)
    counted, given = duckdb_join(left, right)
    band = Band("ts", "ts", left=2 * SECOND, right=2 * SECOND)
    ours: list[Measured] = []
    theirs: list[Measured] = []
    whole: list[Measured] = []
    run(lambda: OAJoin(band, [("srcIP", "srcIP")]), script[:40])
    for _ in range(runs):
        theirs.append(timed(counted))
        whole.append(timed(given))
        ours.append(run(lambda: OAJoin(band, [("srcIP", "srcIP")]), script))
    assert ours[0].pairs == theirs[0].pairs == whole[0].pairs
    print(f"\nQ-d, 2 x {n:,} tuples, {rate:,} a second on each stream, medians of {runs} interleaved runs")
    a = best("DuckDB batch join, count(*)", 2 * n, theirs)
    b = best("DuckDB batch join, pairs as Arrow batches", 2 * n, whole)
    c = best("OA-Join, pairs as pages", 2 * n, ours)
    print(f"OA-Join takes {c / b:.2f} times DuckDB's time with pairs, {c / a:.2f} times counting (at most 3 wanted)")


def lull() -> None:
    """Let the left input fall silent for an hour; a timer promises for it, ten times a second."""
    rate = 1_000
    right = packets(3_600 * rate, rate, 3, late=0.0)
    origin = int(Page(PACKETS, right).ticks("ts")[0])
    join = OAJoin(Band("ts", "ts", left=2 * SECOND, right=2 * SECOND), [("srcIP", "srcIP")], kind="right")
    join.output_schema(PACKETS, PACKETS)
    alone = 0

    def emit(element: Element) -> None:
        nonlocal alone
        alone += len(element) if isinstance(element, Page) else 0

    start = perf_counter()
    for tenth in range(36_000):
        now = origin + (tenth + 1) * SECOND // 10
        join.process(Page(PACKETS, right.slice(tenth * rate // 10, rate // 10)), emit, 1)
        join.punctuate(before("ts", now), emit, 1)
        join.punctuate(before("ts", now - SECOND, assumed=True), emit, 0)
    seconds = perf_counter() - start
    print(
        f"\nA lull of an hour on the left, 1,000 tuples/s on the right, a timer a second behind: peak state "
        f"{join.statistics()['peak_state_tuples']:,} tuples, {alone:,} of {right.num_rows:,} right tuples released"
        f" while it lasts, {right.num_rows / seconds / 1e6:.2f} M tuples/s in pages of 100"
    )


def sparse(n: int, rate: int, runs: int) -> None:
    """Join a dense stream with a sparse one, all tuples indexed at once and adaptively."""
    dense = packets(n, 100_000, 4)
    few = packets(max(2, n * rate // 100_000), rate, 5)
    bounds = [np.minimum.accumulate(Page(PACKETS, b).ticks("ts")[::-1])[::-1] for b in (dense, few)]
    script: Script = []
    page = 1 << 14
    for start in range(0, n, page):
        first, last = (min(at, n) * few.num_rows // n for at in (start, start + page))
        script.append((0, Page(PACKETS, dense.slice(start, page))))
        if last > first:
            script.append((1, Page(PACKETS, few.slice(first, last - first))))
        for port, at in ((0, start + page), (1, last)):
            if at < len(bounds[port]):
                script.append((port, before("ts", int(bounds[port][at]))))
    script += [(0, END), (1, END)]
    band = Band("ts", "ts", left=2 * SECOND, right=2 * SECOND)
    found: dict[int, list[Measured]] = {0: [], 8: []}
    for _ in range(runs):
        for patience, measured in found.items():
            measured.append(run(lambda p=patience: OAJoin(band, [("srcIP", "srcIP")], patience=p), script))
    assert found[0][0].pairs == found[8][0].pairs
    print(f"\n{n:,} tuples at 100,000/s with {few.num_rows:,} at {rate}/s, medians of {runs} interleaved runs")
    a = best("every tuple indexed (patience=0)", n, found[0])
    b = best("adaptive (patience=8)", n, found[8])
    print(f"Adaptive takes {b / a:.2f} times the time of indexed")


def skew(n: int) -> None:
    """Join two streams of one key, band of 50 us, while ever more tuples outside the band are held."""
    print(f"\nOne key, 2 x {n:,} tuples at 100,000/s, band 50 us: what is outside the band costs nothing")
    for behind in (0, 1, 10, 20):
        sides = [packets(n, 100_000, seed, late=0.0, keys=1) for seed in (6, 7)]
        script: Script = []
        for port, element in in_turn(PACKETS, *sides, page=1 << 14):
            if not isinstance(element, Page) and not element.is_end:
                bound = element.bound("ts")
                assert isinstance(bound, int)
                element = before("ts", bound - behind * SECOND)
            script.append((port, element))
        best(f"promises {behind} s behind", 2 * n, [run(lambda: OAJoin(MICROS, [("srcIP", "srcIP")]), script)])


MICROS = Band("ts", "ts", left=SECOND // 20_000, right=SECOND // 20_000)


def main(n: int, runs: int) -> None:
    qd(n, 10_000, runs)
    qd(n // 2, 100_000, runs)
    lull()
    for rate in (1, 20, 1_000):
        sparse(n, rate, runs)
    skew(min(n, 2_000_000))


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 5_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
