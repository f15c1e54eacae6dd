"""What checkpoints cost: throughput and pause of Q-a with 100 k groups, and saving and restoring 1 M groups.

    python tests/benchmarks/bench_checkpoints.py [tuples] [runs] [groups]

Q-a (tumbling 10 s count and sum(length) by srcIP, the data of bench_windows) runs to a folder of Parquet parts, with
the first and the last checkpoint alone, and with one every half second, alternately. The difference of least CPU times,
divided by the checkpoints, is what one costs; of that, one in 10 s is the loss that is printed. Both must give the same
rows, and all tuples must be in them. Then an operator with so many groups is copied, encoded, committed with all its
syncs, read back and restored, and must give the same results as the one that was not; CPU times, the least of five.
Last, a run over a capture of half as many packets goes on from a checkpoint at 90 %.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench_windows import generate

import oop_engine as oop
from oop_engine.drive.checkpoints.job import opened
from oop_engine.drive.checkpoints.store import Checkpoint, Store
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import run_to_end
from oop_engine.rewrite.passes import together
from oop_engine.sinks.disk import RealDisk
from oop_engine.sources.generator import packets as generated
from oop_engine.sources.recording import write_pcap
from operators.data.page import Page
from operators.data.saved import encode_state, restore
from operators.data.schema import Schema
from operators.drive import drive
from operators.functions import count, sum
from operators.window import tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END


def run(path: Path, every: float) -> tuple[float, float, list[float], pa.Table]:
    """Run Q-a; return the CPU time, the time, the pauses and the rows."""
    windows = oop.read(path).window(range="10 s").aggregate(oop.count(), oop.sum("length"), by="srcIP")
    with tempfile.TemporaryDirectory() as folder:
        output = windows.to(Path(folder, "out.parquet"))
        plan = together([output.stream.node])
        with opened(Path(folder, "job"), plan, [output.sink], every=every) as job:
            cpu, time = process_time(), perf_counter()
            run_to_end(plan, tuple(job.outputs), job=job)
            spent = process_time() - cpu, perf_counter() - time
        table = pq.read_table(Path(folder, "out.parquet")).sort_by(
            [("window_start", "ascending"), ("srcIP", "ascending")]
        )
        return *spent, job.pauses, table


def throughput(tuples: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.parquet")
        generate(path, tuples)
        run(path, 3600)
        plain, kept = [], []
        for _ in range(runs):
            plain.append(run(path, 3600))
            kept.append(run(path, 0.5))
        expected = plain[0][3]
        assert pc.sum(expected["count"]).as_py() == tuples
        assert all(found[3].equals(expected) for found in (*plain, *kept))
        least = [min(found[0] for found in some) for some in (plain, kept)]
        number = min(len(found[2]) for found in kept) - min(len(found[2]) for found in plain)
        each = max(0.0, least[1] - least[0]) / max(1, number)
        pauses = sorted(pause for found in kept for pause in found[2])
        print(f"Q-a, {tuples:,} tuples: {least[0]:.2f} s of CPU time, {least[1]:.2f} s with {number} checkpoints more")
        print(f"a checkpoint: {1e3 * each:.0f} ms of CPU time; one every 10 s takes {each * 10:.2f} %")
        print(f"pauses: median {1e3 * pauses[len(pauses) // 2]:.1f} ms, longest {1e3 * pauses[-1]:.1f} ms")


def state(groups: int) -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
    keys = np.random.default_rng(1).permutation(groups)
    values = [np.arange(groups) % 1000, keys, np.arange(groups) % 77]
    page = Page(schema, pa.RecordBatch.from_arrays([pa.array(v) for v in values], schema=schema.arrow))
    window, functions = tumbling("ts", 1000), {"n": count(), "total": sum("v")}
    operator = WindowAggregate(window, functions, ("k",))
    for element in drive(Bucket(window), [page]):
        drive(operator, [element])
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder, "job"), RealDisk())
        store.begin()
        times: dict[str, float] = {}
        for epoch in range(5):
            marks = [process_time()]
            copied = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in operator.state().items()}
            marks.append(process_time())
            encoded = encode_state(copied)
            marks.append(process_time())
            store.commit(Checkpoint(epoch, {}, {"sum": encoded}))
            marks.append(process_time())
            found = store.read(lambda found: True)
            assert found is not None
            marks.append(process_time())
            fresh = WindowAggregate(window, functions, ("k",))
            restore(fresh, found.states["sum"].decoded())
            marks.append(process_time())
            for name, begin, end in zip(
                ("copy", "encode", "commit", "read", "restore"), marks, marks[1:], strict=False
            ):
                times[name] = min(times.get(name, 1e9), end - begin)
        told = ", ".join(f"{name} {1e3 * spent:.0f} ms" for name, spent in times.items())
        save = times["copy"] + times["encode"] + times["commit"]
        print(f"{groups:,} groups, {len(encoded) / 1e6:.0f} MB: {told}")
        print(f"saved in {1e3 * save:.0f} ms, restored in {1e3 * (times['read'] + times['restore']):.0f} ms")
    rows = [pa.Table.from_batches([e.batch for e in drive(o, [END]) if isinstance(e, Page)]) for o in (operator, fresh)]
    assert rows[0].num_rows == groups and rows[0].sort_by("k").equals(rows[1].sort_by("k"))


def resume(packets: int) -> None:
    """Print what a run over a capture reads again that goes on from a checkpoint at 90 %."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.pcap")
        write_pcap(generated(packets, rate=100_000, seed=1), path)
        windows = oop.pcap(path).window(range="10 s").aggregate(oop.count(), oop.sum("length"), by="srcIP")
        began = perf_counter()
        windows.to(Path(folder, "whole.parquet")).run()
        whole = perf_counter() - began
        output = windows.to(Path(folder, "out.parquet"))
        plan = together([output.stream.node])
        with (
            opened(Path(folder, "job"), plan, [output.sink]) as job,
            Circuit(plan, crossed=lambda place, port, element: job.outputs[0](element)) as circuit,
        ):
            job.place(circuit)
            circuit.prepare()
            job.restore(circuit)
            chunks = circuit.open(0)
            while circuit.placings[0].tuples < 0.9 * packets:
                for page in circuit.pages(0, next(chunks)):
                    circuit.give(0, 0, page)
            taken, at = circuit.placings[0].tuples, circuit.placings[0].at
            job.commit(job.take(circuit))
        began = perf_counter()
        output.run(checkpoint=Path(folder, "job"))
        again = perf_counter() - began
        assert (
            pq.read_table(Path(folder, "out.parquet")).num_rows == pq.read_table(Path(folder, "whole.parquet")).num_rows
        )
        print(f"capture of {packets:,} packets: {whole:.2f} s; from {taken / packets:.0%} on in {again:.2f} s", end="")
        print(f", {taken - at:,} packets of it again")


if __name__ == "__main__":
    tuples, runs, groups = (int(given) for given in (*sys.argv[1:], *("20000000", "5", "1000000")[len(sys.argv) - 1 :]))
    throughput(tuples, runs)
    state(groups)
    resume(tuples // 2)
