"""A page log shows whole epochs alone, each once, whatever its writer lived through."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks import sink_for
from oop_engine.sinks.claim import claim
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.pagelog import PageLog, PageLogSink
from operators.data.page import Page

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


def test_every_131_072_tuples_are_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
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


@pytest.fixture(params=[True, False], ids=["links", "no links"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system, and one that has no hard links."""

    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not request.param:
        monkeypatch.setattr(os, "link", refuse)


def at_once(*tasks: Callable[[], object]) -> list[object]:
    """Run tasks at the same time; give what each gave, or the SinkError that it raised."""
    begin = Barrier(len(tasks))

    def run(task: Callable[[], object]) -> object:
        begin.wait()
        try:
            return task()
        except SinkError as error:
            return error

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


@pytest.mark.usefixtures("links")
def test_of_two_who_claim_a_name_one_has_it(tmp_path: Path) -> None:
    assert claim(tmp_path / "a", b"1")
    assert not claim(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob(".*.part"))


@pytest.mark.usefixtures("links")
def test_appends_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    for k in range(10):
        segments = [log.seal(SCHEMA.arrow, [page(4 * k + i).batch]) for i in range(4)]
        at_once(*(lambda s=segment: log.append([s]) for segment in segments))
    assert sorted(rows(tmp_path)) == list(range(40))


@pytest.mark.usefixtures("links")
def test_of_two_other_epochs_of_one_number_at_the_same_time_one_is_refused(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    for k in range(10):
        segments = [log.seal(SCHEMA.arrow, [page(2 * k + i).batch]) for i in range(2)]
        told = at_once(*(lambda k=k, s=segment: log.publish(k, [s]) for segment in segments))
        assert sorted(map(type, told), key=str) == [bool, SinkError]
        assert log.epoch(k) == (segments[told.index(True)],)
    again = [log.seal(SCHEMA.arrow, [page(7).batch]) for _ in range(2)]
    assert sorted(map(str, at_once(*(lambda s=s: log.publish(10, [s]) for s in again)))) == ["False", "True"]


def test_two_who_begin_a_log_at_the_same_time_have_one_schema(tmp_path: Path) -> None:
    other = pa.schema([("y", pa.int64())])
    for k in range(10):
        log = PageLog(tmp_path / str(k))
        told = at_once(lambda log=log: log.begin(SCHEMA.arrow), lambda log=log: log.begin(other))
        assert sorted(map(type, told), key=str) == [type(None), SinkError]


def test_what_is_never_null_and_what_may_be_go_into_one_log(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    never = pa.schema([pa.field("n", pa.int64(), nullable=False), ("s", pa.list_(pa.field("element", inner, False)))])
    maybe = pa.schema([("n", pa.int64()), ("s", pa.list_(pa.struct([("a", pa.int64())])))])
    for folder, schemas in (("a", (never, maybe)), ("b", (maybe, never))):
        for schema in schemas:
            PageLog(tmp_path / folder).begin(schema)
        assert PageLog(tmp_path / folder).schema().equals(schemas[0])


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"ts": pa.int32(), "x": pa.string()}, r"\n  ts: int64 there, int32 to be written\.\n  Select and cast"),
        ({"ts": pa.int64()}, r"\n  x: string there, absent to be written"),
        ({"ts": pa.int64(), "x": pa.string(), "z": pa.int8()}, r"\n  z: absent there, int8 to be written"),
        ({"x": pa.string(), "ts": pa.int64()}, r"the same in another order"),
    ],
)
def test_attributes_that_do_not_fit_a_log_are_told_with_their_types(
    tmp_path: Path, wanted: dict[str, pa.DataType], words: str
) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    with pytest.raises(SinkError, match=words):
        log.begin(pa.schema(wanted))


def test_what_is_staged_is_not_seen(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA.arrow)
    log.seal(SCHEMA.arrow, [page(1, 2).batch])
    (tmp_path / "epochs" / ".0000000000.json.0.part").write_text('{"segm')
    assert log.epochs() == []


def test_a_folder_without_a_log_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="is no page log"):
        PageLog(tmp_path).schema()
