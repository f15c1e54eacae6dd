"""Results of a job in a table of SQLite are those of a run that nobody stopped, and revised ones are replaced."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.job import Job
from oop_engine.rewrite.passes import together
from oop_engine.sinks import SqliteSink, sink_for
from oop_engine.sinks.committed_table import META, Growing, Table
from oop_engine.sinks.disk import RealDisk
from operators.data.page import Page
from punctuation import before
from tests.oop_engine.checkpoints.dying import child
from tests.oop_engine.checkpoints.scenarios import run_job, sliding
from tests.oop_engine.checkpoints.simulated_disk import Crash

SCHEMA = oop.Schema.of(k="string", n="int64", wid="int64")


def rows(path: Path, table: str = "results") -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as database:
        found = database.execute(f'SELECT * FROM "{table}"').fetchall()
    database.close()
    return found


def others(path: Path) -> list[str]:
    """Return the tables and how many rows they have, but for those of results."""
    with sqlite3.connect(path) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = [database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names]
    database.close()
    return sorted(f"{name} {count}" for name, count in zip(names, counts, strict=True))


@attrs.define
class Dying(RealDisk):
    """A disk whose machine stops before its n-th change."""

    dies_at: int
    done: int = 0

    def _step(self) -> None:
        self.done += 1
        if self.done == self.dies_at:
            raise Crash

    def _put(self, path: Path, data: bytes, how: int) -> None:
        self._step()
        super()._put(path, data, how)

    def _sync(self, path: Path) -> None:
        self._step()
        super()._sync(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)


def run(stream: Stream, place: Path, disk: RealDisk, target: str) -> None:
    output = stream.to(target)
    plan = together([output.stream.node])
    job = Job.begin(place / "job", plan, [output.sink], every=0.02, disk=disk)
    if job.ended is None:
        run_job(plan, job, seed=4)


@pytest.mark.parametrize("dies_at", range(3, 120, 9))
def test_the_machine_stops_anywhere_and_the_table_is_that_of_one_run(dies_at: int, tmp_path: Path, files: Path) -> None:
    target = f"sqlite:///{tmp_path}/out.sqlite?table=by%20k"
    for attempt in range(3):
        try:
            run(sliding(files), tmp_path, Dying(dies_at if attempt < 2 else 0), target)
        except Crash:
            continue
    found = Counter(rows(tmp_path / "out.sqlite", "by k"))
    assert found == Counter(map(tuple, (row.values() for row in sliding(files).to_arrow().to_pylist())))
    assert others(tmp_path / "out.sqlite")[1:] == ["by k_staged 0", f"{META} 1"]


def test_a_process_is_killed_at_any_time(tmp_path: Path, files: Path) -> None:
    target = f"sqlite:///{tmp_path}/out.sqlite"

    def whole() -> None:
        sliding(files).to(target).run(checkpoint=tmp_path / "job", every=0.01)

    delays = [0.02 * number for number in range(1, 12)]
    while child(whole, after=delays.pop(0) if delays else None):
        continue
    assert Counter(rows(tmp_path / "out.sqlite")) == Counter(
        map(tuple, (row.values() for row in sliding(files).to_arrow().to_pylist()))
    )


def page(*found: tuple[str | None, int, int]) -> Page:
    return Page.of_rows(SCHEMA, found)


def test_a_reader_sees_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    table = Table(path, SCHEMA, "t", ())
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    kept = table.cut(1, ended=False)
    table(page(("b", 2, 1)))
    table.sync(kept)
    assert rows(path, "t") == []
    table.publish(kept)
    table.publish(kept)
    assert rows(path, "t") == [("a", 1, 1)]
    later = table.cut(2, ended=True)
    table.sync(later)
    table.close()
    again = Table(path, SCHEMA, "t", ())
    assert not again.overtaken(kept)
    # The commit of the second was not made.
    again.begin(kept)
    assert rows(path, "t") == [("a", 1, 1)] and others(path) == [f"{META} 1", "t 1", "t_staged 0"]
    again.close()


def test_what_was_committed_is_moved_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    table = Table(path, SCHEMA, "t", ())
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    kept = table.cut(1, ended=False)
    table.sync(kept)
    table.close()
    again = Table(path, SCHEMA, "t", ())
    again.begin(kept)
    assert rows(path, "t") == [("a", 1, 1)]
    again(page(("b", 2, 2)))
    again.commit()
    assert again.overtaken(kept)
    with pytest.raises(oop.SinkError, match="does not know of"):
        again.begin(kept)
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE t")
    with pytest.raises(oop.SinkError, match="lacks the table"):
        again.begin(again.cut(9, ended=False))
    again.close()


def test_results_that_are_lost_from_a_database_are_found_out(tmp_path: Path) -> None:
    table = Table(tmp_path / "out.sqlite", SCHEMA, "t", ())
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    kept = table.cut(1, ended=False)
    with pytest.raises(oop.SinkError, match="lacks results"):
        table.publish(kept)
    table.close()


def test_a_key_replaces_results_that_are_revised(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    table = Table(path, SCHEMA, "t", ("k", "wid"))
    table.begin(table.fresh())
    table(page(("a", 1, 1), (None, 2, 1), ("a", 3, 2), ("a", 4, 1)))
    table.commit()
    assert sorted(rows(path, "t"), key=str) == [("a", 3, 2), ("a", 4, 1), (None, 2, 1)]
    table(page((None, 5, 1), ("b", 6, 1)))
    table.commit()
    assert sorted(rows(path, "t"), key=str) == [("a", 3, 2), ("a", 4, 1), ("b", 6, 1), (None, 5, 1)]
    table.close()


def test_a_sign_takes_results_away(tmp_path: Path) -> None:
    path, schema = tmp_path / "out.sqlite", oop.Schema.of(k="string", n="int64", sign="int64")
    table = Table(path, schema, "t", ("k",))
    table.begin(table.fresh())
    table(Page.of_rows(schema, [("a", 1, 1), ("b", 2, 1), ("a", 1, -1), ("a", 3, 1), ("b", 2, -1)]))
    table.commit()
    assert rows(path, "t") == [("a", 3, 1)]
    table(Page.of_rows(schema, [("a", 3, -1)]))
    table.commit()
    assert rows(path, "t") == []
    table.close()


def test_late_tuples_replace_the_rows_of_their_windows(tmp_path: Path, files: Path) -> None:
    stream = oop.read(files / "rows.csv", slack=2, late="revise").window(range=40, slide=20)
    revised = stream.aggregate(oop.count(), by="k", lateness=30)
    path = tmp_path / "out.sqlite"
    revised.to(f"sqlite:///{path}?key=k,wid").run(checkpoint=tmp_path / "job", every=0.01)
    last: dict[tuple[int, int], dict[str, Any]] = {}
    table = revised.to_arrow()
    for row in table.to_pylist():
        last[row["k"], row["wid"]] = row
    assert len(last) < table.num_rows
    assert sorted(rows(path)) == sorted(tuple(row.values()) for row in last.values())


def test_values_are_those_of_ndjson(tmp_path: Path) -> None:
    schema = oop.Schema.of(
        ts=pa.timestamp("ns"), ip="ip", big="uint64", small="uint8", x="float64", ok="bool", many=pa.list_(pa.int64()),
        raw=pa.binary(), none="string",
    )  # fmt: skip
    given = [("2026-01-02T03:04:05Z", "10.0.0.1", 2**64 - 1, 7, 0.5, True, [1, 2], b"\x01\xff", None)]
    stream = oop.rows([(1_767_323_045_000_000_000, *given[0][1:])], schema)
    stream.to(tmp_path / "all.sqlite").run()
    stream.to(tmp_path / "all.ndjson").run()
    (found,) = rows(tmp_path / "all.sqlite")
    told = json.loads((tmp_path / "all.ndjson").read_text())
    assert found == (
        told["ts"], told["ip"], str(2**64 - 1), 7, 0.5, 1, json.dumps(told["many"]), told["raw"], None,
    )  # fmt: skip
    with sqlite3.connect(tmp_path / "all.sqlite") as database:
        assert database.execute("SELECT typeof(big), typeof(ts) FROM results").fetchone() == ("text", "text")


def test_a_table_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE Results (x)")
        database.execute("CREATE TABLE others (x)")
    stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    with pytest.raises(oop.SinkError, match='has a table "results" already'):
        stream.to(path).run()
    stream.to(f"sqlite:///{path}?table=mine").run()
    assert rows(path, "mine") == [(1,)] and "others 0" in others(path)


def test_a_run_that_fails_leaves_no_table(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"

    def broken() -> Any:
        yield 1, 1
        raise ZeroDivisionError

    stream = oop.rows(broken(), oop.Schema.of(ts="int64", v="int64"), slack=1)
    with pytest.raises(ZeroDivisionError):
        stream.to(path).run()
    assert others(path) == [f"{META} 0"]
    # One that was killed has left its table, without rows.
    table = SqliteSink(path).table_of(stream.schema)
    table.begin(table.fresh())
    table(Page.of_rows(stream.schema, [(1, 1)]))
    table.sync(table.cut(1, ended=False))
    table.close()
    oop.rows([(2, 2)], stream.schema).to(path).run()
    assert rows(path) == [(2, 2)]


def test_results_of_an_endless_run_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    sink = sink_for(path, endless=True)
    with pytest.raises(ZeroDivisionError), sink.opened(SCHEMA) as deliver:
        assert isinstance(deliver, Growing)
        deliver(page(("a", 1, 1)))
        assert deliver.held
        deliver(before("wid", 2))
        raise ZeroDivisionError
    assert rows(path) == [("a", 1, 1)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sqlite:results.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///a.db?tabel=x", '"tabel" is no option'),
    ],
)
def test_names_of_databases_are_checked(text: str, told: str) -> None:
    with pytest.raises(oop.SinkError, match=told):
        sink_for(text)


def test_names_of_databases() -> None:
    assert sink_for("sqlite:///a.db?table=hosts&key=k,wid") == SqliteSink(Path("a.db"), "hosts", ("k", "wid"))
    assert sink_for("sqlite:////tmp/a%20b") == SqliteSink(Path("/tmp/a b"))
    assert sink_for("x/out.SQLite3") == SqliteSink(Path("x/out.SQLite3"))


def test_columns_that_sqlite_cannot_tell_apart_and_keys_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(oop.SinkError, match='Did you mean "wid"'):
        SqliteSink(tmp_path / "a.sqlite", key=("wdi",)).table_of(SCHEMA)
    with pytest.raises(oop.SinkError, match="capitals"):
        SqliteSink(tmp_path / "a.sqlite").table_of(oop.Schema.of(a="int64", A="int64"))
    with pytest.raises(oop.SinkError, match="is a folder"):
        SqliteSink(tmp_path).table_of(SCHEMA).fresh()


def test_a_database_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(oop.WriteFailed, match=r"none/out\.sqlite.*unable to open"):
        SqliteSink(tmp_path / "none" / "out.sqlite").table_of(SCHEMA).fresh()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "out.sqlite").write_bytes(b"something else" * 100)
    with pytest.raises(oop.WriteFailed, match=r"out\.sqlite.*not a database"):
        oop.rows([(1,)], oop.Schema.of(ts="int64")).to(tmp_path / "out.sqlite").run()


def test_the_command_writes_to_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("ts,v\n" + "".join(f"{i},{i % 7}\n" for i in range(3000)))
    text = "SELECT v, count(*) [RANGE 100, WA ts] FROM Main GROUP BY v"
    for checkpoint in ([], ["--checkpoint", "job"]):
        target = f"sqlite:///out.db?table=t{len(checkpoint)}"
        done = CliRunner().invoke(commands, ["query", text, "-s", "Main=rows.csv", "--to", target, *checkpoint])
        assert done.exit_code == 0, done.output
    assert sorted(rows(Path("out.db"), "t0")) == sorted(rows(Path("out.db"), "t2"))
    assert len(rows(Path("out.db"), "t0")) == 7 * 30
