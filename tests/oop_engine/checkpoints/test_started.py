"""A run in a thread of its own is stopped in order, and goes on from its checkpoint."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import trio

import oop_engine as oop
from oop_engine.sources.live import LiveFlows, LiveReader
from tests.oop_engine.checkpoints.exporters import PROTOCOLS, RECORDS, RULES, datagram, host, outputs, windows_in
from tests.oop_engine.live.collector import bound, senders


def collecting(place: Path, many: int, lasting: int | None = None) -> tuple[oop.Output, list[LiveReader]]:
    """Return windows over what comes to a socket, to which so many datagrams of each exporter were sent."""
    readers: list[LiveReader] = []
    listening = bound() if many else None
    with senders(*map(host, PROTOCOLS)) as out:
        for exporter, protocol in zip(out, PROTOCOLS, strict=True):
            for k in range(many):
                assert listening is not None
                exporter.sendto(datagram(protocol, k, int(time.time())), listening.getsockname())
    source = LiveFlows(listening or "127.0.0.1:0", rules=RULES, label="Flows", opened=readers.append, lasting=lasting)
    return outputs(oop.from_source(source), place, 3600)[1], readers


def test_a_started_run_is_stopped_and_goes_on(tmp_path: Path) -> None:
    output, readers = collecting(tmp_path, 4)
    with output.start(checkpoint=tmp_path / "job", every=0.05, journal=0.05) as started:
        while started.statistics.tuples < 4 * RECORDS * len(PROTOCOLS):
            assert not started.ended
        assert "running" in repr(started)
        stopped = started.stop()
    assert stopped.interrupted and started.ended and stopped.tuples == 4 * RECORDS * len(PROTOCOLS)
    assert pq.ParquetDataset(tmp_path / "windows.parquet").files == []
    again, _ = collecting(tmp_path, 0, lasting=1)
    ended = again.start(checkpoint=tmp_path / "job").wait(60)
    assert not ended.interrupted and ended.tuples == stopped.tuples
    table = pq.read_table(tmp_path / "windows.parquet")
    # They were open while nobody listened.
    assert set(table["incomplete"].to_pylist()) == {True}
    found = windows_in(oop.arrow(table).to_arrow())
    assert sum(count for count, _ in found.values()) == stopped.tuples
    assert "nothing was read" in again.start(checkpoint=tmp_path / "job").wait(60).notes[0]
    assert len(readers) == 1


def test_an_asynchronous_run_has_checkpoints_too(tmp_path: Path) -> None:
    rows = oop.rows([(k, k) for k in range(100)], oop.Schema.of(ts="int64", v="int64"))
    output = rows.window(range=10).aggregate(oop.sum("v")).to(tmp_path / "out.csv")

    async def run() -> oop.Statistics:
        return await output.run_async(checkpoint=tmp_path / "job", every="10 ms")

    assert trio.run(run).tuples == 100
    assert "nothing was read" in trio.run(run).notes[0]


def test_an_option_that_no_run_has_is_refused_wherever_it_is_given(tmp_path: Path) -> None:
    output = oop.rows([(1,)], oop.Schema.of(ts="int64")).to(tmp_path / "out.csv")
    wrong: dict[str, Any] = {"evry": "1 s"}
    with pytest.raises(
        TypeError, match="no option 'evry'; those that keep it are checkpoint, checkpoint_failures, drop_state"
    ):
        oop.run_outputs([output], **wrong)
    with pytest.raises(TypeError, match="no option 'evry'"):
        output.start(**wrong).wait(60)
    with pytest.raises(TypeError, match="no option 'evry'"):
        trio.run(lambda: output.run_async(**wrong))
    assert not (tmp_path / "out.csv").exists()


def test_the_error_of_a_run_is_that_of_waiting_for_it(tmp_path: Path) -> None:
    started = oop.rows([(1,)], oop.Schema.of(ts="int64")).to(tmp_path / "out.csv").start(journal="1 s")
    with pytest.raises(oop.PlanError, match="add checkpoint="):
        started.wait(60)
    assert started.ended and started.statistics.tuples == 0
    output, _ = collecting(tmp_path, 0)
    endless = output.start(checkpoint=tmp_path / "job")
    with pytest.raises(TimeoutError):
        endless.wait(0.001)
    endless.stop()
