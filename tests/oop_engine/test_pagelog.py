"""A page log shows whole epochs alone, each once, whatever its writer lived through."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks import sink_for
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.pagelog import PageLog, PageLogSink
from operators.page import Page

SCHEMA = oop.Schema.of(ts=pa.int64(), x=pa.string())


def page(*times: int) -> Page:
    return Page.of(SCHEMA, {"ts": list(times), "x": [str(t) for t in times]})


def rows(folder: Path) -> list[int]:
    log = PageLog(folder)
    return [
        t for epoch in log.epochs() for segment in epoch for batch in log.read(segment) for t in batch["ts"].to_pylist()
    ]


def test_a_run_leaves_its_results_and_its_end(tmp_path: Path) -> None:
    packets = oop.packets(5_000, sources=20)
    talkers = packets.window(range="10 ms").aggregate(oop.count(), by="srcIP")
    PageLogSink(tmp_path / "out.pages")
    talkers.to(PageLogSink(tmp_path / "out.pages")).run()
    log = PageLog(tmp_path / "out.pages")
    read = pa.Table.from_batches(b for epoch in log.epochs() for s in epoch for b in log.read(s))
    assert log.ended
    assert log.schema().equals(talkers.schema.arrow, check_metadata=True)
    assert sorted(read["count"].to_pylist()) == sorted(talkers.run().table["count"].to_pylist())


def test_every_131_072_tuples_are_an_epoch(tmp_path: Path) -> None:
    with PageLogSink(tmp_path / "log").opened(SCHEMA) as deliver:
        for k in range(5):
            deliver(page(*range(60_000 * k, 60_000 * (k + 1))))
    assert [sum(s.rows for s in epoch) for epoch in PageLog(tmp_path / "log").epochs()] == [180_000, 120_000]
    assert rows(tmp_path / "log") == list(range(300_000))


def test_a_run_that_fails_leaves_whole_epochs_and_no_end(tmp_path: Path) -> None:
    def fails() -> None:
        with PageLogSink(tmp_path / "log").opened(SCHEMA) as deliver:
            deliver(page(*range(140_000)))
            deliver(page(140_000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert rows(tmp_path / "log") == list(range(140_000))
    assert not PageLog(tmp_path / "log").ended


def test_a_run_that_cannot_be_repeated_leaves_all_that_was_released(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), sink_for(tmp_path / "kept.pages", endless=True).opened(SCHEMA) as deliver:
        deliver(page(1, 2))
        raise ZeroDivisionError
    assert rows(tmp_path / "kept.pages") == [1, 2] and not PageLog(tmp_path / "kept.pages").ended


def test_a_log_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    with PageLogSink(tmp_path / "log").opened(SCHEMA) as deliver:
        deliver(page(1))
    with pytest.raises(SinkError, match="exists already"), PageLogSink(tmp_path / "log").opened(SCHEMA):
        pass
    assert rows(tmp_path / "log") == [1]


def test_an_epoch_published_twice_is_there_once(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    first, again = (log.seal(SCHEMA.arrow, [page(1, 2).batch]) for _ in range(2))
    assert log.publish(0, [first])
    assert not log.publish(0, [again])
    log.discard([again])
    assert rows(tmp_path) == [1, 2]


def test_an_epoch_of_another_writer_is_refused(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    log.publish(0, [log.seal(SCHEMA.arrow, [page(1, 2).batch])])
    with pytest.raises(SinkError, match=r"epoch 0 .* has 2 rows, and now 3 are to be written"):
        log.publish(0, [log.seal(SCHEMA.arrow, [page(7, 8, 9).batch])])
    with pytest.raises(SinkError, match="lacks epoch 1; epoch 2 cannot follow"):
        log.publish(2, [])
    with pytest.raises(SinkError, match="other attributes: ts, x"):
        log.begin(pa.schema([("y", pa.int64())]))


def test_what_is_staged_is_not_seen(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    log.seal(SCHEMA.arrow, [page(1, 2).batch])
    (tmp_path / "epochs" / ".0000000000.json.0.part").write_text('{"segm')
    assert log.epochs() == []


def test_a_folder_without_a_log_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="is no page log"):
        PageLog(tmp_path).schema()
