"""Small queries over real files, with the answer of a run that nothing disturbs, compared as multisets."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import trio
import trio.abc

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.checkpoints.job import Job
from oop_engine.drive.limit import Limit, Policy
from oop_engine.drive.outcome import Marking, collect, marked, shedding_of
from oop_engine.drive.runtime import run_plan
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Late, Plan
from oop_engine.rewrite.passes import together
from oop_engine.sinks import Csv, Ndjson
from oop_engine.sinks.committed import STAGE
from oop_engine.sinks.disk import Disk
from oop_engine.sinks.pagelog import Segment
from oop_engine.sources.generator import packets
from oop_engine.sources.recording import write_pcap
from operators.data.page import Page
from tests.oop_engine.checkpoints.simulated_disk import Crash, SimulatedDisk
from tests.oop_engine.schedules import scheduled

PAGE: Final = 40
Make: TypeAlias = Callable[[Path], Stream]


class Steps(trio.abc.Clock):
    """A clock that takes a step whenever it is asked, so that checkpoints come at the same places of a schedule."""

    def __init__(self) -> None:
        self._now = 0.0

    def start_clock(self) -> None:
        return None

    def current_time(self) -> float:
        self._now += 0.001
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0 if deadline <= self._now else min(deadline - self._now, 0.001)


FEW: Final = 700
"""Tuples for runs that are killed at each operation on the disk: half as many operations, and windows of each kind."""


def data(folder: Path, tuples: int = 1200) -> None:
    """Write the files that the scenarios read."""
    luck = random.Random(7)
    rows = [{"ts": i + luck.randint(0, 20), "k": luck.randint(0, 4), "v": luck.randint(0, 99)} for i in range(tuples)]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "rows.parquet", row_group_size=300)
    arrow_csv.write_csv(table, folder / "rows.csv")
    others = [
        {"ts": 3 * i + luck.randint(0, 9), "k": luck.randint(0, 4), "w": luck.randint(0, 9)} for i in range(tuples // 3)
    ]
    (folder / "others.ndjson").write_text("".join(json.dumps(row) + "\n" for row in others))
    write_pcap(packets(900, rate=300, seed=3), folder / "packets.pcap")


def sliding(folder: Path) -> Stream:
    stream = oop.read(folder / "rows.parquet")
    return stream.window(range=40, slide=10).aggregate(oop.count(), oop.sum("v"), oop.median("v"), by="k")


def sessions(folder: Path) -> Stream:
    return oop.read(folder / "rows.csv", slack=30).windows(s=oop.session(3), t=oop.tumbling(25)).aggregate(
        oop.count(), oop.max("v"), by="k"
    )  # fmt: skip


def joined(folder: Path) -> Stream:
    left, right = oop.read(folder / "rows.csv"), oop.read(folder / "others.ndjson")
    return left.join(right, on="k", range=6)


def captured(folder: Path) -> Stream:
    stream = oop.pcap(folder / "packets.pcap")
    wide = stream.filter("length > 60").window(range="200 ms").aggregate(oop.count(), oop.sum("length"), by="proto")
    return wide.distinct("proto", "count")


def melded(folder: Path) -> Stream:
    both = oop.meld(oop.read(folder / "rows.parquet"), oop.read(folder / "rows.csv").filter("v > 30"))
    return both.window(range=60).aggregate(oop.count(), oop.min("v"), by="k")


def crowded(folder: Path) -> Stream:
    """Give groups of which a limit has no room for all."""
    stream = oop.read(folder / "rows.csv").derive(g="v % 20 + 100 * (ts / 200 % 2)")
    return stream.window(range=40, slide=20).aggregate(oop.count(), oop.sum("v"), by="g")


QUERIES: Final[dict[str, tuple[Make, str]]] = {
    "sliding": (sliding, "out.parquet"),
    "sessions": (sessions, "out.ndjson"),
    "joined": (joined, "out.csv"),
    "captured": (captured, "out.parquet"),
    "melded": (melded, "out.arrow"),
    "logged": (melded, "out.pages"),
}

LIMITS: Final[dict[str, tuple[int, Policy]]] = {"parts on disk": (20_000, "spill"), "refused groups": (9_000, "shed")}
"""By scenario, how many bytes operators may hold, and what becomes of more."""


def limit_of(name: str) -> Limit | None:
    """Return the limit of one run of a scenario, None where it has none."""
    return Limit(*LIMITS[name]) if name in LIMITS else None


def _rows_of(folder: Path) -> Stream:
    return oop.read(folder / "rows.parquet")


def _lines_of(folder: Path, slack: int = 30, late: Late = "drop") -> Stream:
    return oop.read(folder / "rows.csv", slack=slack, late=late)


def _by(strategy: str) -> Make:
    return lambda f: _rows_of(f).window(range=40, slide=10).aggregate(
        oop.count(), oop.sum("v"), by="k", strategy=strategy
    )  # fmt: skip


OPERATORS: Final[dict[str, Make]] = {
    **{f"strategy {name}": _by(name) for name in ("wid", "panes", "slicing", "buffer", "adaptive", "negative")},
    "largest values": lambda f: _rows_of(f).window(range=40, slide=20).aggregate(oop.top_k("v", 3), by="k"),
    "spread of values": lambda f: _rows_of(f).window(range=50, slide=10).aggregate(oop.stddev("v"), oop.median("v")),
    "revisions": lambda f: _lines_of(f, 2, "revise").window(range=40, slide=20).aggregate(
        oop.count(), by="k", lateness=30
    ),
    "late tuples": lambda f: _lines_of(f, 3).window(range=40, slide=20).aggregate(oop.count(), by="k"),
    "promises by key": lambda f: oop.read(
        f / "rows.csv", punctuate=oop.by_key("k", slack=3, idle=60)
    ).window(range=40, slide=20).aggregate(oop.count(), by="k"),
    "early results": lambda f: _lines_of(f).window(range=60).aggregate(oop.count(), by="k", early=oop.early(every=20)),
    "rows by time": lambda f: _lines_of(f).windows(c=oop.counted(50)).aggregate(oop.count(), oop.sum("v")),
    "rows by arrival": lambda f: _rows_of(f).window(range="100 rows", slide="50 rows", wattr="row_num").aggregate(
        oop.sum("v")
    ),
    "latest": lambda f: _lines_of(f).windows(a=oop.latest(10, every=20)).aggregate(oop.sum("v")),
    "every fifth tuple": lambda f: _lines_of(f).windows(b=oop.slide_by_rows(30, 5)).aggregate(oop.sum("v")),
    "landmark": lambda f: _rows_of(f).window(range="ALL", slide=100).aggregate(oop.count(), by="k"),
    "distinct": lambda f: _rows_of(f).distinct("k", "v"),
    "no window": lambda f: _rows_of(f).aggregate(oop.count(), oop.sum("v"), by="k"),
    "windows of windows": lambda f: _rows_of(f).window(range=20).aggregate(oop.count(), by="k").window(
        range=60, wattr="window_start"
    ).aggregate(oop.max("count"), by="k"),
    "outer join": lambda f: _lines_of(f).join(oop.read(f / "others.ndjson"), on="k", range=6, kind="left"),
    "tumbling join": lambda f: _rows_of(f).join(oop.read(f / "others.ndjson"), on="k", tumbling=20),
    "spread": lambda f: _rows_of(f).derive(e="ts + 7").spread("v", step=5, end="e").window(range=20).aggregate(
        oop.sum("v")
    ),
    "bills": lambda f: _rows_of(f).derive(e="ts + 7").dedup(
        keys="k", observers="v", end="e", reach=1, step=5, mark="twice"
    ).window(range=5).aggregate(oop.sum("v"), n=oop.count(), by="k").billing("sum_v", per=60, n=oop.sum("n")),
    "parts on disk": crowded,
    "refused groups": crowded,
}  # fmt: skip
"""Further operators, whose states are different; each becomes a scenario."""
SCENARIOS: Final[dict[str, tuple[Make, str]]] = {
    **QUERIES,
    **{name: (make, "out.parquet") for name, make in OPERATORS.items()},
}


def run(
    name: str, files: Path, place: Path, *, seed: int, disk: Disk | None = None, every: float = 0.08, threads: int = 1,
    failures: int = 0,
) -> int:  # fmt: skip
    """Run a scenario, or go on with it, with results and job in a folder; return how many checkpoints there were."""
    make, target = SCENARIOS[name]
    output = make(files).to(place / target)
    plan, limit = together([output.stream.node]), limit_of(name)
    marking = shedding_of(limit, plan, 0, output.stream.node)
    schemas = None if marking is None else [marking.schema]
    job = Job.begin(
        place / "job", plan, [output.sink], every=every, disk=disk, schemas=schemas, checkpoint_failures=failures
    )
    if job.ended is not None:
        return 0
    run_job(plan, job, seed=seed, threads=threads, limit=limit, marking=marking)
    return len(job.pauses)


def crashed(name: str, files: Path, place: Path, *, dies_at: int) -> SimulatedDisk:
    """Run a scenario on a disk that dies at an operation, and return what is durable then."""
    disk = SimulatedDisk(seed=1, dies_at=dies_at)
    try:
        run(name, files, place, seed=1, disk=disk, every=0.02)
    except Crash:
        disk.crash()
    return disk


def run_job(
    plan: Plan, job: Job, *, seed: int, page_rows: int = PAGE, threads: int = 1, limit: Limit | None = None,
    marking: Marking | None = None,
) -> None:  # fmt: skip
    """Run a plan as a job under the schedule of a seed."""
    outputs = tuple(marked(marking, output) for output in job.outputs)

    async def main() -> None:
        await run_plan(
            plan, outputs, page_rows=page_rows, inbox=seed % 3, waiting=False, job=job, threads=threads, limit=limit
        )

    with scheduled(seed):
        trio.run(main, clock=Steps())


def answer(name: str, files: Path) -> Counter[str]:
    """Return the rows of a run that nothing disturbs."""
    make, target = SCENARIOS[name]
    results, node = Path(target), make(files).node
    plan = together([node])
    table = collect(plan, node, limit=limit_of(name)).table
    if results.suffix in (".csv", ".ndjson"):
        # As they read after they were written.
        sink = io.BytesIO()
        encoder = Csv() if results.suffix == ".csv" else Ndjson()
        limit = limit_of(name)
        marking = shedding_of(limit, plan, 0, node)
        schema = make(files).schema if marking is None else marking.schema
        sink.write(encoder.open(schema))
        for _, page in Run(plan, limit=limit):
            if isinstance(page, Page):
                sink.write(encoder.write(page if marking is None else marking.mark(page)))
        return Counter(sink.getvalue().decode().splitlines())
    return _rows(table)


def found(name: str, place: Path, disk: Disk) -> Counter[str]:
    """Return the rows of the results that a reader sees."""
    return found_in(place / SCENARIOS[name][1], disk)


def found_in(path: Path, disk: Disk) -> Counter[str]:
    """Return the rows of the results in a place that a reader sees."""
    if path.suffix in (".csv", ".ndjson"):
        return Counter((disk.read(path) or b"").decode().splitlines())
    if path.suffix == ".pages":
        return _logged(path, disk)
    parts = [disk.read(path / part) or b"" for part in disk.names(path) if part.startswith("part-")]
    assert disk.names(path / STAGE) == []
    return _rows_in(parts, parquet=path.suffix == ".parquet")


def _logged(path: Path, disk: Disk) -> Counter[str]:
    """Return the rows of a page log, none of whose segments is in no epoch, or in two."""
    segments = [
        s for name in disk.names(path / "epochs") for s in Segment.all_of(disk.read(path / "epochs" / name) or b"")
    ]
    assert sorted(segment.file for segment in segments) == disk.names(path / "segments")
    assert disk.size(path / "END") == 0
    return _rows_in([disk.read(path / "segments" / segment.file) or b"" for segment in segments])


def _rows_in(files: Sequence[bytes], *, parquet: bool = False) -> Counter[str]:
    """Return the rows of several files of results."""
    buffers = [pa.BufferReader(content) for content in files]
    tables = [pq.read_table(buffer) if parquet else pa.ipc.open_file(buffer).read_all() for buffer in buffers]
    return _rows(oop.arrow(pa.concat_tables(tables)).to_arrow()) if tables else Counter()


def _rows(table: pa.Table) -> Counter[str]:
    return Counter(repr([_shown(value) for value in row.values()]) for row in table.to_pylist())


def _shown(value: object) -> str:
    return str(np.asarray(value)) if isinstance(value, list) else str(value)
