"""Results of a job in a table of a database are those of a run that nobody stopped, and revised ones are replaced."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.job import Job
from oop_engine.rewrite.passes import together
from oop_engine.sinks import DuckdbSink, SqliteSink, sink_for
from oop_engine.sinks.committed_table import META, Growing, Table
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from operators.data.page import Page
from punctuation import before
from tests.examples import mostly_slow
from tests.oop_engine.checkpoints.dying import child
from tests.oop_engine.checkpoints.scenarios import run_job, sliding
from tests.oop_engine.checkpoints.simulated_disk import Crash

SCHEMA = oop.Schema.of(k="string", n="int64", wid="int64")


KINDS = {"sqlite": SqliteSink, "duckdb": DuckdbSink}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Give the scheme of a kind of databases, which is the suffix of its files too."""
    return request.param


@contextmanager
def opened(path: Path) -> Generator[Any]:
    """Open a database of either kind, and commit what is done to it."""
    if path.suffix == ".duckdb":
        with duckdb.connect(path) as database:
            yield database
    else:
        with closing(sqlite3.connect(path)) as database, database:
            yield database


def rows(path: Path, table: str = "results") -> list[tuple[Any, ...]]:
    with opened(path) as database:
        return database.execute(f'SELECT * FROM "{table}"').fetchall()


def others(path: Path) -> list[str]:
    """Return the tables and how many rows they have, but for those of results."""
    with opened(path) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
        counts = [database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names]
    return sorted(f"{name} {count}" for name, count in zip(names, counts, strict=True))


def table_at(path: Path, key: Sequence[str] = (), schema: oop.Schema = SCHEMA) -> Table:
    return KINDS[path.suffix[1:]](path, "t", tuple(key)).table_of(schema)


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


def run(stream: Stream, place: Path, disk: RealDisk, target: str, failures: int = 0) -> Job:
    output = stream.to(target)
    plan = together([output.stream.node])
    job = Job.begin(place / "job", plan, [output.sink], every=0.02, disk=disk, checkpoint_failures=failures)
    if job.ended is None:
        run_job(plan, job, seed=4)
    return job


class Failing(RealDisk):
    """A disk that does not make the second and third checkpoint the ones that count."""

    commits = 0

    def rename(self, old: Path, new: Path) -> None:
        self.commits += new.name == "CURRENT"
        if self.commits in (2, 3):
            raise WriteFailed(f'"{new}": input/output error.\n  Try again.')
        super().rename(old, new)


def test_results_of_checkpoints_that_failed_come_with_the_next(kind: str, tmp_path: Path, files: Path) -> None:
    job = run(sliding(files), tmp_path, Failing(), f"{kind}:///{tmp_path}/out.{kind}", failures=2)
    assert len(job.alarms) == job.failed == 2
    assert 'checkpoint 2 could not be written: "' in job.alarms[1], job.alarms
    with opened(tmp_path / f"out.{kind}") as database:
        ((rows,),) = database.execute("SELECT count(*) FROM results").fetchall()
    assert rows == sliding(files).to_arrow().num_rows


@pytest.mark.parametrize("dies_at", mostly_slow(range(3, 120, 9), but=range(12, 120, 27)))
def test_the_machine_stops_anywhere_and_the_table_is_that_of_one_run(
    kind: str, dies_at: int, tmp_path: Path, files: Path
) -> None:
    target = f"{kind}:///{tmp_path}/out.{kind}?table=by%20k"
    for attempt in range(3):
        try:
            run(sliding(files), tmp_path, Dying(dies_at if attempt < 2 else 0), target)
        except Crash:
            continue
    found = Counter(rows(tmp_path / f"out.{kind}", "by k"))
    assert found == Counter(map(tuple, (row.values() for row in sliding(files).to_arrow().to_pylist())))
    assert others(tmp_path / f"out.{kind}")[1:] == ["by k_staged 0", f"{META} 1"]


def test_a_process_is_killed_at_any_time(kind: str, tmp_path: Path, files: Path) -> None:
    target = f"{kind}:///{tmp_path}/out.{kind}"

    def whole() -> None:
        sliding(files).to(target).run(checkpoint=tmp_path / "job", every=0.01)

    delays = [0.02 * number for number in range(1, 12)]
    while child(whole, after=delays.pop(0) if delays else None):
        continue
    assert Counter(rows(tmp_path / f"out.{kind}")) == Counter(
        map(tuple, (row.values() for row in sliding(files).to_arrow().to_pylist()))
    )


def page(*found: tuple[str | None, int, int]) -> Page:
    return Page.of_rows(SCHEMA, found)


def test_a_reader_sees_what_was_committed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{kind}"
    table = table_at(path)
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
    again = table_at(path)
    assert not again.overtaken(kept)
    # The commit of the second was not made.
    again.begin(kept)
    assert rows(path, "t") == [("a", 1, 1)] and others(path) == [f"{META} 1", "t 1", "t_staged 0"]
    again.close()


def test_what_was_committed_is_moved_by_the_next_run(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{kind}"
    table = table_at(path)
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    kept = table.cut(1, ended=False)
    table.sync(kept)
    table.close()
    again = table_at(path)
    again.begin(kept)
    assert rows(path, "t") == [("a", 1, 1)]
    again(page(("b", 2, 2)))
    again.commit()
    assert again.overtaken(kept)
    with pytest.raises(oop.SinkError, match="does not know of"):
        again.begin(kept)
    with opened(path) as database:
        database.execute("DROP TABLE t")
    with pytest.raises(oop.SinkError, match="lacks the table"):
        again.begin(again.cut(9, ended=False))
    again.close()


def test_results_that_are_lost_from_a_database_are_found_out(kind: str, tmp_path: Path) -> None:
    table = table_at(tmp_path / f"out.{kind}")
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    kept = table.cut(1, ended=False)
    with pytest.raises(oop.SinkError, match="lacks results"):
        table.publish(kept)
    table.close()


def test_a_key_replaces_results_that_are_revised(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{kind}"
    table = table_at(path, ("k", "wid"))
    table.begin(table.fresh())
    table(page(("a", 1, 1), (None, 2, 1), ("a", 3, 2), ("a", 4, 1)))
    table.commit()
    assert sorted(rows(path, "t"), key=str) == [("a", 3, 2), ("a", 4, 1), (None, 2, 1)]
    table(page((None, 5, 1), ("b", 6, 1)))
    table.commit()
    assert sorted(rows(path, "t"), key=str) == [("a", 3, 2), ("a", 4, 1), ("b", 6, 1), (None, 5, 1)]
    table.close()


def test_a_sign_takes_results_away(kind: str, tmp_path: Path) -> None:
    path, schema = tmp_path / f"out.{kind}", oop.Schema.of(k="string", n="int64", sign="int64")
    table = table_at(path, ("k",), schema)
    table.begin(table.fresh())
    table(Page.of_rows(schema, [("a", 1, 1), ("b", 2, 1), ("a", 1, -1), ("a", 3, 1), ("b", 2, -1)]))
    table.commit()
    assert rows(path, "t") == [("a", 3, 1)]
    table(Page.of_rows(schema, [("a", 3, -1)]))
    table.commit()
    assert rows(path, "t") == []
    table.close()


def test_late_tuples_replace_the_rows_of_their_windows(kind: str, tmp_path: Path, files: Path) -> None:
    stream = oop.read(files / "rows.csv", slack=2, late="revise").window(range=40, slide=20)
    revised = stream.aggregate(oop.count(), by="k", lateness=30)
    path = tmp_path / f"out.{kind}"
    revised.to(f"{kind}:///{path}?key=k,wid").run(checkpoint=tmp_path / "job", every=0.01)
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


def test_duckdb_keeps_types(tmp_path: Path) -> None:
    schema = oop.Schema.of(
        ts=pa.timestamp("ns"), ip="ip", big="uint64", small="uint8", x="float32", half=pa.float16(), ok="bool",
        many=pa.list_(pa.int64()), raw=pa.binary(), name=pa.dictionary(pa.int32(), pa.string()), none="string",
        took=pa.duration("ns"), price=pa.decimal128(9, 2), wide=pa.decimal256(50, 1), day=pa.date32(),
        nothing=pa.null(), last=pa.struct([("a", pa.int16())]),
    )  # fmt: skip
    given = (
        1_767_323_045_000_000_001, "10.0.0.1", 2**64 - 1, 7, 0.5, np.float16(1.5), True, [1, 2], b"\x01\xff", "n", None,
        1_500_000_001, Decimal("1.25"), Decimal("2.5"), date(2026, 1, 2), None, {"a": 3},
    )  # fmt: skip
    oop.rows([given], schema).to(tmp_path / "all.duckdb").run()
    (found,) = rows(tmp_path / "all.duckdb")
    assert found[1:] == (
        "10.0.0.1", 2**64 - 1, 7, 0.5, 1.5, True, [1, 2], b"\x01\xff", "n", None, 1.500000001, Decimal("1.25"), "2.5",
        date(2026, 1, 2), None, {"a": 3},
    )  # fmt: skip
    with opened(tmp_path / "all.duckdb") as database:
        assert database.execute("SELECT epoch_ns(ts) FROM results").fetchone() == given[:1]
        types = database.execute("SELECT column_type FROM (DESCRIBE results)").fetchall()
    assert [name for (name,) in types] == [
        "TIMESTAMP_NS", "VARCHAR", "UBIGINT", "UTINYINT", "FLOAT", "FLOAT", "BOOLEAN", "BIGINT[]", "BLOB", "VARCHAR",
        "VARCHAR", "DOUBLE", "DECIMAL(9,2)", "VARCHAR", "DATE", "VARCHAR", "STRUCT(a SMALLINT)",
    ]  # fmt: skip


def test_a_type_that_duckdb_lacks_is_named(tmp_path: Path) -> None:
    schema = oop.Schema.of(ts="int64", halves=pa.list_(pa.float16()))
    with pytest.raises(oop.SinkError, match=r'no type for the column "halves", which is list<.*halffloat>'):
        oop.rows([(1, [])], schema).to(tmp_path / "out.duckdb").run()


def test_duckdb_takes_pages_with_dictionaries_of_their_own(tmp_path: Path) -> None:
    path, schema = tmp_path / "out.duckdb", oop.Schema.of(k=pa.dictionary(pa.int32(), pa.string()), n="int64")
    table = table_at(path, ("k",), schema)
    table.begin(table.fresh())
    for found in ([("a", 1), ("b", 2)], [("c", 3), ("a", 4)]):
        table(Page.of_rows(schema, found))
    table.commit()
    assert sorted(rows(path, "t")) == [("a", 4), ("b", 2), ("c", 3)]
    table.close()


def test_another_process_reads_duckdb_between_writes_and_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    table = table_at(path)
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    table.commit()
    reads = (
        "import duckdb, sys\nopen_one = duckdb.connect(sys.argv[1])\n"
        "print(open_one.execute('SELECT * FROM t').fetchall(), flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", reads, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "[('a', 1, 1)]\n"
        table(page(("b", 2, 1)))
        writer = threading.Thread(target=table.commit)
        writer.start()
        # The reader holds the file, and is let go.
        writer.join(0.2)
        assert writer.is_alive()
        reader.stdin.close()
        writer.join(20)
    assert rows(path, "t") == [("a", 1, 1), ("b", 2, 1)]
    table.close()


def test_duckdb_is_asked_for_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "oop_engine.sinks.dialect_duckdb", raising=False)
    with pytest.raises(oop.SinkError, match=r"package duckdb is not installed.\n  Run pip install 'oop-engine\[duckdb"):
        oop.rows([(1,)], oop.Schema.of(ts="int64")).to(tmp_path / "out.duckdb").run()


def test_a_table_that_is_there_is_not_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine.{kind}"
    with opened(path) as database:
        database.execute("CREATE TABLE Results (x INT)")
        database.execute("CREATE TABLE others (x INT)")
    stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    with pytest.raises(oop.SinkError, match='has a table "results" already'):
        stream.to(path).run()
    stream.to(f"{kind}:///{path}?table=mine").run()
    assert rows(path, "mine") == [(1,)] and "others 0" in others(path)


def test_a_run_that_fails_leaves_no_table(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{kind}"

    def broken() -> Any:
        yield 1, 1
        raise ZeroDivisionError

    stream = oop.rows(broken(), oop.Schema.of(ts="int64", v="int64"), slack=1)
    with pytest.raises(ZeroDivisionError):
        stream.to(path).run()
    assert others(path) == [f"{META} 0"]
    # One that was killed has left its table, without rows.
    table = KINDS[kind](path).table_of(stream.schema)
    table.begin(table.fresh())
    table(Page.of_rows(stream.schema, [(1, 1)]))
    table.sync(table.cut(1, ended=False))
    table.close()
    oop.rows([(2, 2)], stream.schema).to(path).run()
    assert rows(path) == [(2, 2)]


def test_results_of_an_endless_run_are_kept(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{kind}"
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
        ("duckdb:results.db", "names no file"),
        ("duckdb:///a.db?tabel=x", r'"tabel" is no option of it.\n  Write duckdb:///results.duckdb\?'),
    ],
)
def test_names_of_databases_are_checked(text: str, told: str) -> None:
    with pytest.raises(oop.SinkError, match=told):
        sink_for(text)


def test_names_of_databases() -> None:
    assert sink_for("duckdb:///a.db?table=hosts&key=k,wid") == DuckdbSink(Path("a.db"), "hosts", ("k", "wid"))
    assert sink_for("x/out.DuckDB") == DuckdbSink(Path("x/out.DuckDB"))
    assert sink_for("sqlite:///a.db?table=hosts&key=k,wid") == SqliteSink(Path("a.db"), "hosts", ("k", "wid"))
    assert sink_for("sqlite:////tmp/a%20b") == SqliteSink(Path("/tmp/a b"))
    assert sink_for("x/out.SQLite3") == SqliteSink(Path("x/out.SQLite3"))


def test_columns_that_databases_cannot_tell_apart_and_keys_that_are_none_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(oop.SinkError, match='Did you mean "wid"'):
        KINDS[kind](tmp_path / f"a.{kind}", key=("wdi",)).table_of(SCHEMA)
    with pytest.raises(oop.SinkError, match="capitals"):
        KINDS[kind](tmp_path / f"a.{kind}").table_of(oop.Schema.of(a="int64", A="int64"))
    with pytest.raises(oop.SinkError, match="is a folder"):
        KINDS[kind](tmp_path).table_of(SCHEMA).fresh()


def test_a_database_that_cannot_be_written_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(oop.WriteFailed, match=r"none/out\..*(unable to open|No such file)"):
        KINDS[kind](tmp_path / "none" / f"out.{kind}").table_of(SCHEMA).fresh()


def test_a_file_that_is_no_database_is_named(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"out.{kind}").write_bytes(b"something else" * 100)
    with pytest.raises(oop.WriteFailed, match=r"out\..*not a( valid DuckDB)? database"):
        oop.rows([(1,)], oop.Schema.of(ts="int64")).to(tmp_path / f"out.{kind}").run()


def test_the_command_writes_to_a_database(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("ts,v\n" + "".join(f"{i},{i % 7}\n" for i in range(3000)))
    text = "SELECT v, count(*) [RANGE 100, WA ts] FROM Main GROUP BY v"
    for checkpoint in ([], ["--checkpoint", "job"]):
        target = f"{kind}:///out.{kind}?table=t{len(checkpoint)}"
        done = CliRunner().invoke(commands, ["query", text, "-s", "Main=rows.csv", "--to", target, *checkpoint])
        assert done.exit_code == 0, done.output
    assert sorted(rows(Path(f"out.{kind}"), "t0")) == sorted(rows(Path(f"out.{kind}"), "t2"))
    assert len(rows(Path(f"out.{kind}"), "t0")) == 7 * 30
