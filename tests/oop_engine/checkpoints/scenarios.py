"""Small queries over real files, with the answer of a run that nothing disturbs, compared as multisets."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import trio
import trio.abc

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.disk import Disk
from oop_engine.drive.checkpoints.job import Job
from oop_engine.drive.runtime import run_plan
from oop_engine.rewrite.passes import together
from oop_engine.sinks import Csv, Ndjson
from oop_engine.sinks.committed import STAGE
from oop_engine.sources.generator import packets
from oop_engine.sources.recording import write_pcap
from tests.oop_engine.schedules import scheduled

PAGE: Final = 40


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


def data(folder: Path) -> None:
    """Write the files that the scenarios read."""
    luck = random.Random(7)
    rows = [{"ts": i + luck.randint(0, 20), "k": luck.randint(0, 4), "v": luck.randint(0, 99)} for i in range(1200)]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "rows.parquet", row_group_size=300)
    arrow_csv.write_csv(table, folder / "rows.csv")
    others = [{"ts": 3 * i + luck.randint(0, 9), "k": luck.randint(0, 4), "w": luck.randint(0, 9)} for i in range(400)]
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


SCENARIOS: Final[dict[str, tuple[Callable[[Path], Stream], str]]] = {
    "sliding": (sliding, "out.parquet"),
    "sessions": (sessions, "out.ndjson"),
    "joined": (joined, "out.csv"),
    "captured": (captured, "out.parquet"),
    "melded": (melded, "out.arrow"),
}


def run(name: str, files: Path, place: Path, *, seed: int, disk: Disk | None = None, every: float = 0.08) -> int:
    """Run a scenario, or go on with it, with results and job in a folder; return how many checkpoints there were."""
    make, target = SCENARIOS[name]
    output = make(files).to(place / target)
    plan = together([output.stream.node])
    job = Job.begin(place / "job", plan, [output.sink], every=every, disk=disk)
    if job.ended is not None:
        return 0

    async def main() -> None:
        await run_plan(plan, tuple(job.outputs), page_rows=PAGE, inbox=seed % 3, threads=False, job=job)

    with scheduled(seed):
        trio.run(main, clock=Steps())
    return len(job.pauses)


def answer(name: str, files: Path) -> Counter[str]:
    """Return the rows of a run that nothing disturbs."""
    make, target = SCENARIOS[name]
    results = Path(target)
    table = make(files).to_arrow()
    if results.suffix in (".csv", ".ndjson"):
        # As they read after they were written.
        sink = io.BytesIO()
        encoder = Csv() if results.suffix == ".csv" else Ndjson()
        schema = make(files).schema
        sink.write(encoder.open(schema))
        for page in make(files):
            sink.write(encoder.write(page))
        return Counter(sink.getvalue().decode().splitlines())
    return _rows(table)


def found(name: str, place: Path, disk: Disk) -> Counter[str]:
    """Return the rows of the results that a reader sees."""
    _, target = SCENARIOS[name]
    path = place / target
    if path.suffix in (".csv", ".ndjson"):
        return Counter((disk.read(path) or b"").decode().splitlines())
    rows: Counter[str] = Counter()
    for part in disk.names(path):
        if part.startswith("part-"):
            content = pa.BufferReader(disk.read(path / part) or b"")
            table = pq.read_table(content) if path.suffix == ".parquet" else pa.ipc.open_file(content).read_all()
            rows += _rows(oop.arrow(table).to_arrow())
    assert disk.names(path / STAGE) == []
    return rows


def _rows(table: pa.Table) -> Counter[str]:
    return Counter(repr([str(np.asarray(value)) for value in row.values()]) for row in table.to_pylist())
