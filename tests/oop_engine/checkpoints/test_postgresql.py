"""Results in a table of a PostgreSQL server are those of one run, whoever is killed, with the types that it has."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Generator
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.drive.overwriting import check_files
from oop_engine.rewrite.passes import together
from oop_engine.sinks import PostgresqlSink, sink_for
from oop_engine.sinks.committed_table import Growing, Table
from operators.data.page import Page
from tests.examples import mostly_slow
from tests.oop_engine.checkpoints.dying import child
from tests.oop_engine.checkpoints.scenarios import sliding
from tests.oop_engine.checkpoints.server import MISSING, THERE, Server, serving
from tests.oop_engine.checkpoints.simulated_disk import Crash
from tests.oop_engine.checkpoints.test_databases import SCHEMA, Dying, page, run

SERVED = pytest.mark.skipif(not THERE, reason=MISSING)


@pytest.fixture(scope="session")
def running() -> Generator[Server]:
    with serving(Server.new()) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Generator[Server]:
    """Give a server without tables of another test."""
    yield running
    running.query("DROP SCHEMA public CASCADE")
    running.query("CREATE SCHEMA public")


@pytest.fixture
def tables(server: Server) -> Generator[Any]:
    """Give what opens a table of the server, which the end of a test closes."""
    opened: list[Table] = []

    def opening(*key: str, schema: oop.Schema = SCHEMA) -> Table:
        opened.append(PostgresqlSink(server.uri, "t", key).table_of(schema))
        return opened[-1]

    yield opening
    for table in opened:
        table.close()


def rows(server: Server, table: str = "results") -> list[tuple[Any, ...]]:
    return server.query(f'SELECT * FROM "{table}"')


def others(server: Server) -> list[str]:
    """Return the tables and how many rows they have."""
    names = server.query("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
    return sorted(f"{name} {len(rows(server, str(name)))}" for (name,) in names)


def answer(files: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in sliding(files).to_arrow().to_pylist())


@SERVED
@pytest.mark.parametrize("dies_at", mostly_slow(range(3, 120, 29), every=3))
def test_the_machine_stops_anywhere_and_the_table_is_that_of_one_run(
    server: Server, dies_at: int, tmp_path: Path, files: Path
) -> None:
    def work(dies_at: int) -> None:
        try:
            run(sliding(files), tmp_path, Dying(dies_at), f"{server.uri}?table=by%20%3F%25k")
        except Crash:
            return

    # The death of a process ends its session.
    for attempt in range(3):
        assert child(lambda n=attempt: work(dies_at if n < 2 else 0)) == 0
    assert Counter(rows(server, "by ?%k")) == answer(files)
    assert [name.rpartition(" ")[0] for name in others(server)] == ["by ?%k", "by ?%k_staged", "oop_engine_results"]
    assert rows(server, "by ?%k_staged") == []


@SERVED
def test_a_process_is_killed_at_any_time(server: Server, tmp_path: Path, files: Path) -> None:
    def whole() -> None:
        sliding(files).to(server.uri).run(checkpoint=tmp_path / "job", every=0.01)

    delays = [0.01 * number for number in range(1, 31)]
    killed = 0
    while (ended := child(whole, after=delays.pop(0) if delays else None)) != 0:
        killed += ended == -signal.SIGKILL
    assert killed > 1
    assert Counter(rows(server)) == answer(files)


@pytest.mark.slow
@SERVED
def test_a_server_is_killed_and_the_job_goes_on_when_it_is_back(server: Server, tmp_path: Path, files: Path) -> None:
    failed: list[str] = []
    # Before a part is staged, before its checkpoint is committed, and after: at the first part, and the second.
    for called, first, dies_at in (("sync", True, 1), ("sync", False, 1), ("publish", False, 2), ("sync", False, 0)):
        original = getattr(Table, called)
        calls = iter(range(1, 1000))

        def killing(
            table: Table, kept: Any, numbers: Any = calls, dies: int = dies_at, first: bool = first, o: Any = original
        ) -> None:
            dies_now = next(numbers) == dies
            if dies_now and first:
                server.kill()
            o(table, kept)
            if dies_now and not first:
                server.kill()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Table, called, killing)
            try:
                sliding(files).to(server.uri).run(checkpoint=tmp_path / "job", every=0.01)
            except oop.WriteFailed as error:
                failed.append(str(error))
        server.start_again()
    assert failed and all("run the same again" in text for text in failed)
    assert Counter(rows(server)) == answer(files)


@SERVED
def test_a_reader_sees_what_was_committed_and_the_next_run_moves_the_rest(server: Server, tables: Any) -> None:
    table = tables()
    table.begin(table.fresh())
    table(page(("a", 1, 1)))
    kept = table.cut(1, ended=False)
    table(page(("b", 2, 1)))
    table.sync(kept)
    assert rows(server, "t") == []
    table.close()
    again = tables()
    assert not again.overtaken(kept)
    again.begin(kept)
    again.publish(kept)
    assert rows(server, "t") == [("a", 1, 1)]
    again(page(("c", 3, 1)))
    again.commit()
    assert again.overtaken(kept)
    with pytest.raises(oop.SinkError, match="does not know of"):
        again.begin(kept)
    server.query("DELETE FROM t_staged")
    lost = again.cut(3, ended=False) | {"rows": 9}
    with pytest.raises(oop.SinkError, match="lacks results"):
        again.publish(lost)


@SERVED
def test_a_key_replaces_results_and_a_sign_takes_them_away(server: Server, tables: Any) -> None:
    schema = oop.Schema.of(k="string", ip="ip", n="int64", sign="int64")
    table = tables("k", "ip", schema=schema)
    table.begin(table.fresh())
    one, other = (ip_address(text).packed for text in ("::ffff:10.0.0.1", "::1"))
    given = [("a", one, 1, 1), (None, other, 2, 1), ("a", one, 1, -1), ("a", one, 3, 1)]
    table(Page.of_rows(schema, [*given, ("b", None, 4, 1), ("b", None, 4, -1)]))
    table.commit()
    assert sorted(row[2] for row in rows(server, "t")) == [2, 3]
    table(Page.of_rows(schema, [("a", one, 3, -1), (None, other, 5, 1)]))
    table.commit()
    assert rows(server, "t") == [(None, ip_address("::1"), 5, 1)]


@SERVED
def test_a_second_run_is_kept_out(server: Server, tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables()
    table.begin(table.fresh())
    monkeypatch.setattr("oop_engine.sinks.dialect_postgresql.PATIENCE", 0.05)
    with pytest.raises(oop.WriteFailed, match='another run writes the table "t"'):
        tables().fresh()
    table.close()
    assert tables().fresh()["rows"] == 0


@SERVED
def test_postgresql_keeps_types(server: Server) -> None:
    schema = oop.Schema.of(
        ts=pa.timestamp("ns"), ip="ip", big="uint64", small="uint8", x="float32", half=pa.float16(), ok="bool",
        many=pa.list_(pa.int64()), raw=pa.binary(), name=pa.dictionary(pa.int32(), pa.string()), none="string",
        took=pa.duration("ns"), price=pa.decimal128(9, 2), wide=pa.decimal256(50, 1), day=pa.date32(),
        nothing=pa.null(), last=pa.struct([("a", pa.int16()), ("t", pa.string())]), texts=pa.list_(pa.string()),
        deep=pa.list_(pa.list_(pa.int64())), far=pa.timestamp("s"),
    )  # fmt: skip
    given = (
        1_767_323_045_000_001_999, "10.0.0.1", 2**64 - 1, 7, 0.5, np.float16(1.5), True, [1, None], b"\x01\xff", "n",
        None, 1_500_000_001, Decimal("1.25"), Decimal("2.5"), date(2026, 1, 2), None, {"a": 3, "t": "x\x00\\u0000"},
        ['"', "\\,{}\n", "", None, "NULL"], [[1], [2, 3]], 2**62,
    )  # fmt: skip
    oop.rows([given, (None,) * len(given)], schema).to(server.uri).run()
    columns = ", ".join(f'"{name}"' for name in schema.names[:-1])
    found, nulls = server.query(f"SELECT {columns}, far::text FROM results")
    assert found == (
        datetime(2026, 1, 2, 3, 4, 5, 1, UTC), ip_address("10.0.0.1"), Decimal(2**64 - 1), 7, 0.5, 1.5, True, [1, None],
        b"\x01\xff", "n", None, 1.500000001, Decimal("1.25"), Decimal("2.5"), date(2026, 1, 2), None,
        {"a": 3, "t": "x\ufffd\\u0000"}, ['"', "\\,{}\n", "", None, "NULL"], [[1], [2, 3]], "infinity",
    )  # fmt: skip
    assert nulls == (None,) * len(given)
    types = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'results'::regclass"
    assert [name for (name,) in server.query(f"{types} AND attnum > 0 ORDER BY attnum")] == [
        "timestamp with time zone", "inet", "numeric(20,0)", "smallint", "real", "real", "boolean", "bigint[]", "bytea",
        "text", "text", "double precision", "numeric(9,2)", "numeric(50,1)", "date", "text", "jsonb", "text[]", "jsonb",
        "timestamp with time zone",
    ]  # fmt: skip


@SERVED
def test_text_is_kept_but_for_the_character_that_postgresql_lacks(server: Server) -> None:
    texts = ["", "a\x00b", '"', "\\.", "\\N", "é\r\n,", "NULL", None]
    oop.rows([(text, i) for i, text in enumerate(texts)], oop.Schema.of(text="string", i="int64")).to(server.uri).run()
    assert [text for text, _ in sorted(rows(server), key=lambda row: row[1])] == ["", "a\ufffdb", *texts[2:]]


@SERVED
@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (oop.Schema.of(ts="int64", between=pa.month_day_nano_interval()), 'no type for the column "between"'),
        (oop.Schema.of(ts="int64", **{"x" * 64: "int64"}), "no names of more than 63 bytes"),
    ],
)
def test_columns_that_postgresql_cannot_have_are_named(server: Server, schema: oop.Schema, told: str) -> None:
    with pytest.raises(oop.SinkError, match=told):
        oop.rows([], schema).to(server.uri).run()
    assert others(server) == []


@SERVED
def test_names_that_differ_in_capitals_are_two(server: Server) -> None:
    oop.rows([(1, 2)], oop.Schema.of(a="int64", A="int64")).to(f"{server.uri}?table=Results").run()
    oop.rows([(3,)], oop.Schema.of(ts="int64")).to(server.uri).run()
    assert rows(server, "Results") == [(1, 2)] and rows(server) == [(3,)]
    with pytest.raises(oop.SinkError, match=rf'"{server.uri.replace("postgres@", "")}" has a table "results" already'):
        oop.rows([(3,)], oop.Schema.of(ts="int64")).to(server.uri).run()


@SERVED
def test_a_run_that_fails_leaves_no_table(server: Server) -> None:
    def broken() -> Any:
        yield 1, 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        oop.rows(broken(), oop.Schema.of(ts="int64", v="int64"), slack=1).to(server.uri).run()
    assert others(server) == ["oop_engine_results 0"]


@SERVED
def test_results_of_an_endless_run_are_kept(server: Server) -> None:
    with pytest.raises(ZeroDivisionError), sink_for(server.uri, endless=True).opened(SCHEMA) as deliver:
        assert isinstance(deliver, Growing)
        deliver(page(("a", 1, 1)))
        raise ZeroDivisionError
    assert rows(server) == [("a", 1, 1)]


def test_a_password_in_a_name_is_refused_and_not_repeated() -> None:
    for text in (
        "postgresql://me:hidden@h/d",
        "postgres://me@h/d?password=hidden",
        "postgresql://me@h/d?sslpassword=hidden",
    ):
        with pytest.raises(oop.SinkError, match=r"PGPASSWORD or write it to ~/.pgpass") as told:
            sink_for(text)
        assert "hidden" not in str(told.value)


@SERVED
def test_a_password_comes_from_the_environment_and_is_nowhere_else(
    server: Server, tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "never-shown")
    output = sliding(files).to(f"{server.uri}?sslmode=prefer")
    outcome = output.run(checkpoint=tmp_path / "job", every=0.01)
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert written and not any(b"never-shown" in data for data in written)
    assert "never-shown" not in f"{outcome} {output}"


@pytest.mark.parametrize("text", ["postgresql:results", "postgresql://host", "postgresql:///", "postgresql://h/d#x"])
def test_names_without_a_database_are_refused(text: str) -> None:
    with pytest.raises(oop.SinkError, match="names no database"):
        sink_for(text)


def test_names_of_databases() -> None:
    assert sink_for("postgres://me@h:5433/flows?table=t&key=k,wid&sslmode=require") == PostgresqlSink(
        "postgresql://me@h:5433/flows?sslmode=require", "t", ("k", "wid")
    )
    assert sink_for("postgresql:///flows") == PostgresqlSink("postgresql:///flows")


def test_psycopg_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "oop_engine.sinks.dialect_postgresql", raising=False)
    with pytest.raises(oop.SinkError, match=r"psycopg is not installed.*\n  Run pip install 'oop-engine\[postgresql"):
        oop.rows([(1,)], oop.Schema.of(ts="int64")).to("postgresql:///d").run()


def test_a_server_that_is_not_there_and_options_that_it_lacks_are_named() -> None:
    stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    with pytest.raises(
        oop.WriteFailed, match=r'"postgresql://127.0.0.1:1/d": .*refused [^\t\n]*\n  Nothing of the last'
    ):
        stream.to("postgresql://me@127.0.0.1:1/d").run()
    with pytest.raises(oop.WriteFailed, match='invalid URI query parameter: "tabel"'):
        stream.to("postgresql://me@127.0.0.1:1/d?tabel=x").run()


def test_two_results_in_one_table_are_refused() -> None:
    stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    target = "postgresql://127.0.0.1:1/d?table=t"
    with pytest.raises(oop.SinkError, match="the results of output 0"):
        check_files(together([stream.node]), [sink_for(target), sink_for(target)])
