"""A table that is replaced: which row a tuple gets depends on its own time alone, not on when the file was read."""

from __future__ import annotations

import datetime
import doctest
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import oop_engine as oop
from oop_engine.api import versions as api
from oop_engine.sources import versions as module
from oop_engine.sources.errors import SourceError
from oop_engine.sources.versions import Reloaded, moment_in, stamp
from operators.errors import SchemaError
from punctuation import Punctuation
from tests.examples import share

SECOND = 10**9
BEGIN = 1_764_244_800  # 2025-11-27T12:00:00Z
TIME = pa.timestamp("ns", "UTC")
FLOWS = oop.Schema.of(ts=TIME, port=pa.int64(), x=pa.int64())
TABLES = st.dictionaries(st.integers(1, 3), st.sampled_from("ab"), max_size=3)


@attrs.define
class Clock:
    """A clock that stands until it is moved."""

    now: int = BEGIN * SECOND

    def __call__(self) -> int:
        return self.now


def text_of(table: dict[int, str]) -> str:
    return "port,name\n" + "".join(f"{port},{name}\n" for port, name in table.items())


def naive(told: Sequence[tuple[int, dict[int, str]]], times: Sequence[tuple[int, int]]) -> list[str | None]:
    """Give each (time, port) the name in the last version that holds at that time."""
    found: list[str | None] = []
    for time, port in times:
        held = [table for at, table in told if at <= time]
        found.append(held[-1].get(port) if held else None)
    return found


def flows(times: Sequence[tuple[int, int]], **options: Any) -> oop.Stream:
    rows = [((BEGIN + time) * SECOND, port, x) for x, (time, port) in enumerate(times)]
    return oop.rows(rows, FLOWS, **options)


def names(stream: oop.Stream) -> list[str | None]:
    table = stream.to_arrow().sort_by("x")
    return table["name"].to_pylist()


@share(1)
@given(
    st.lists(st.tuples(st.integers(0, 9), TABLES), max_size=4, unique_by=lambda version: version[0]),
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), min_size=1, max_size=8),
)
def test_each_tuple_gets_the_version_of_its_own_time(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[int, dict[int, str]]], times: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("versions")
    told = [(0, {1: "a"}), *((at + 1, table) for at, table in told)]
    for at, table in told:
        (folder / f"ports.{stamp((BEGIN + at) * SECOND)}.csv").write_text(text_of(table))
    told.sort(key=lambda version: version[0])
    expected = naive(told, times)
    table = oop.versions(folder, key="port", types={"port": pa.int64(), "name": pa.string()})
    assert names(flows(times).lookup(table, "port", valid_from="since")) == expected
    as_stream = oop.arrow(table, name="ports")
    assert names(flows(times).lookup(as_stream, "port", valid_from="since", wait=True)) == expected


def test_text_names_the_versions_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "ports.2025-11-27.csv").write_text(text_of({1: "one"}))
    (tmp_path / "ports.2025-11-27T12:00:05Z.csv").write_text(text_of({1: "uno"}))
    text = f'SELECT x, v.name FROM M LOOKUP "versions:{tmp_path}/*.csv" AS v ON port = v.port VALID FROM v.since'
    assert names(oop.query(text, M=flows([(1, 1), (6, 1), (9, 2)]))) == ["one", "uno", None]
    named = oop.query(
        "SELECT x, v.name FROM M LOOKUP v ON port = v.port VALID FROM v.since",
        M=flows([(1, 1)]), tables={"v": f"versions:{tmp_path}"},
    )  # fmt: skip
    assert names(named) == ["one"]


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("hosts.2026-11-27.csv", "2026-11-27T00:00:00+00:00"),
        ("hosts-20261127.parquet", "2026-11-27T00:00:00+00:00"),
        ("20261127T1230Z.csv", "2026-11-27T12:30:00+00:00"),
        ("hosts_2026-11-27_12-30-15.csv", "2026-11-27T12:30:15+00:00"),
        ("hosts 2026-11-27 12:30:15,25.csv", "2026-11-27T12:30:15.250000+00:00"),
        ("hosts.20261327.csv", None),
        ("hosts.csv", None),
        ("h120261127.csv", None),
    ],
)
def test_times_are_read_from_names(name: str, time: str | None) -> None:
    found = moment_in(name)
    assert (
        found is None if time is None else found == int(datetime.datetime.fromisoformat(time).timestamp() * 100) * 10**7
    )


@given(st.integers(0, 2**62))
def test_a_stamp_is_read_as_it_was_written(at: int) -> None:
    assert moment_in(f"hosts.{stamp(at)}.csv") == at


def test_versions_that_cannot_be_are_refused(tmp_path: Path) -> None:
    first = tmp_path / "p.20251127.csv"
    first.write_text(text_of({1: "a"}))
    with pytest.raises(SchemaError, match='no column "prt" to tell rows apart'):
        oop.versions(first, key="prt")
    other = tmp_path / "p.2025-11-27.csv"
    other.write_text(text_of({1: "a"}))
    with pytest.raises(SourceError, match="would both hold from one time"):
        oop.versions(tmp_path)
    other.rename(tmp_path / "p.csv")
    with pytest.raises(SourceError, match="has no time"):
        oop.versions(tmp_path)
    (tmp_path / "p.csv").rename(tmp_path / "p.20251128.csv")
    (tmp_path / "p.20251128.csv").write_text("port\n1\n")
    with pytest.raises(SchemaError, match='no column "name"'):
        oop.versions(tmp_path)
    (tmp_path / "p.20251128.csv").write_text("port,name\n1,a\n1,b\n")
    with pytest.raises(SchemaError, match="20251128"):
        oop.versions(tmp_path)
    with pytest.raises(oop.PlanError, match="needs files"):
        oop.versions()


@attrs.define
class Watched:
    """A file that a reading watches, under a clock that the test moves."""

    folder: Path
    clock: Clock = attrs.field(factory=Clock)
    keys: tuple[str, ...] = ("port",)

    @property
    def file(self) -> Path:
        return self.folder / "ports.csv"

    def write(self, table: dict[int, str] | str) -> None:
        part = self.folder / "ports.new"
        part.write_text(table if isinstance(table, str) else text_of(table))
        os.utime(part, ns=(self.clock.now, self.clock.now))
        part.rename(self.file)

    def source(self, **options: Any) -> Reloaded:
        types = {"port": pa.int64(), "name": pa.string()}
        return Reloaded(self.file, self.keys, self.folder / "kept", types=types, clock=self.clock, **options)


def told(chunks: Sequence[Any]) -> list[Any]:
    """Give rows as (second, port, name), and promises as seconds."""
    found: list[Any] = []
    for chunk in chunks:
        if isinstance(chunk, Punctuation):
            bound = chunk.bound("since")
            assert isinstance(bound, int)
            found.append(bound // SECOND - BEGIN)
        else:
            since = chunk.column("since").cast(pa.int64()).to_pylist()
            rows = zip(since, chunk.column("port").to_pylist(), chunk.column("name").to_pylist(), strict=True)
            found += [(at // SECOND - BEGIN, port, name) for at, port, name in rows]
    return found


def test_a_version_is_taken_when_it_has_settled_and_holds_from_then_on(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.write({1: "a", 2: "b"})
    reader = watched.source().open(["since", "port", "name"], 100)
    assert told([*reader.look()]) == [0]
    watched.clock.now += SECOND
    assert told([*reader.look()]) == [(1, 1, "a"), (1, 2, "b"), 1]
    watched.clock.now += 4 * SECOND
    assert told([*reader.look()]) == [5]
    watched.write({1: "c"})
    assert told([*reader.look()]) == []
    watched.clock.now += SECOND
    assert told([*reader.look()]) == [(6, 1, "c"), (6, 2, None), 6]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "ports.20251127T120001.000000000Z.csv", "ports.20251127T120006.000000000Z.csv",
    ]  # fmt: skip
    assert reader.notes() == ["ports: 2 versions taken"]


def test_what_is_half_written_or_wrong_is_not_taken_and_said(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.write({1: "a"})
    reader = watched.source().open(["since", "port", "name"], 100)
    watched.clock.now += 2 * SECOND
    assert told([*reader.look()]) == [(2, 1, "a"), 2]
    for wrong in ("port,name\n1,b\n2,", "port,name\n1,b\n1,c\n", "port\n1\n", "port,name\nx,b\n"):
        watched.clock.now += 3 * SECOND
        watched.write(wrong)
        watched.clock.now += 3 * SECOND
        assert all(isinstance(one, int) for one in told([*reader.look()]))
    assert len(reader.notes()) == 5 and all("holds on" in note for note in reader.notes()[1:])
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["ports.20251127T120002.000000000Z.csv"]
    # One that grows on while it is looked at is taken when it stays as it is.
    watched.write(text_of({1: "d"}))
    assert told([*reader.look()]) == []
    watched.clock.now += SECOND // 2
    with open(watched.file, "a") as file:
        file.write("2,e\n")
    os.utime(watched.file, ns=(watched.clock.now, watched.clock.now))
    watched.clock.now += SECOND // 2
    assert not any(isinstance(one, tuple) for one in told([*reader.look()]))
    watched.clock.now += SECOND
    assert [row[1:] for row in told([*reader.look()]) if isinstance(row, tuple)] == [(1, "d"), (2, "e")]


@share(1)
@given(st.lists(TABLES, min_size=1, max_size=5), st.integers(0, 8), st.integers(0, 5))
def test_a_run_that_begins_anew_or_goes_on_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, tables: list[dict[int, str]], taken: int, dies: int
) -> None:
    watched = Watched(tmp_path_factory.mktemp("reloaded"))
    watched.write(tables[0])
    reader = watched.source().open(["since", "port", "name"], 2)
    first: list[Any] = []
    for number, table in enumerate(tables):
        watched.write(table)
        watched.clock.now += 3 * SECOND
        first += told([*reader.look()])
        if number == dies:
            # Another run takes what was kept, and goes on.
            reader = watched.source().open(["since", "port", "name"], 2)
            reader.seek(None, 0, sum(isinstance(row, tuple) for row in first))
            reader.stop()
            first += [row for row in told([*reader.chunks()]) if isinstance(row, tuple)]
    rows = [row for row in first if isinstance(row, tuple)]
    again = watched.source().open(["since", "port", "name"], 3)
    taken = min(taken, len(rows))
    again.seek(None, 0, taken)
    again.stop()
    assert [row for row in told([*again.chunks()]) if isinstance(row, tuple)] == rows[taken:]
    assert again.progress() == (len(rows), None)
    if rows:
        kept = oop.versions(tmp_path_factory.getbasetemp() / watched.folder.name / "kept", key="port")
        assert len(kept) == len(rows)


def test_every_promise_is_true(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.write({1: "a"})
    reader = watched.source().open(["since", "port", "name"], 100)
    bound = -(10**6)
    for step in range(40):
        if step % 7 == 0:
            watched.write({1: f"v{step}"})
        # A clock that goes back promises nothing anew.
        watched.clock.now += SECOND * (-1 if step % 11 == 5 else 1)
        for one in told([*reader.look()]):
            if isinstance(one, tuple):
                assert one[0] >= bound
            else:
                assert one > bound
                bound = one


def test_a_run_waits_for_no_idle_file_and_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text(text_of({1: "one"}))
    os.utime(tmp_path / "ports.csv", (BEGIN, BEGIN))
    rows = [(i, 1, i) for i in range(50)]
    shape = oop.Schema.of(ts=TIME, port=pa.int64(), x=pa.int64())
    data = pa.table(
        {name: pa.array([row[k] for row in rows], shape.arrow.field(name).type) for k, name in enumerate(shape.names)}
    )
    for number in range(2):
        table = oop.reloaded(
            tmp_path / "ports.csv", key="port", keep=tmp_path / "kept", every="10 ms", lasting="100 ms",
            types={"port": pa.int64()},
        )  # fmt: skip
        stream = oop.arrow(data).lookup(table, "port", valid_from="since", wait=True)
        statistics = stream.to(tmp_path / f"out{number}.ndjson").run(checkpoint=tmp_path / f"job{number}")
        found = [json.loads(line) for line in (tmp_path / f"out{number}.ndjson").read_text().splitlines()]
        # All of them are of 1970, and the version holds from now on.
        assert [row["name"] for row in found] == [None] * 50
        # The second run promises the moment of the kept version before its rows. Where the stream has ended by then,
        # nobody wants them, and they are not read.
        unread = "ports was not read to its end: what is behind shows in no result" in statistics.notes
        taken = next(note for note in statistics.notes if note.startswith("ports: "))
        assert taken == "ports: 1 version taken" or (number and unread and taken == "ports: 0 versions taken")
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_text_names_a_file_that_is_replaced(tmp_path: Path) -> None:
    hosts, kept = tmp_path / "hosts.csv", tmp_path / "kept"
    kept.mkdir()
    (kept / "hosts.2020-01-01.csv").write_text("name,ip\nsix,10.0.0.6\nfour,10.0.0.4\n")
    hosts.write_text("name,ip\nsix,10.0.0.6\n")
    os.utime(hosts, (BEGIN, BEGIN))
    shape = oop.Schema.of(ts=TIME, a="ip", b="ip")
    times = [datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2019, 2021)]
    flows = oop.rows([(times[0], "10.0.0.6", "10.0.0.6"), (times[1], "10.0.0.6", "10.0.0.4")], shape)
    named = f"reloaded:{hosts}?keep={kept}&every=10ms"
    # Two lookups, one of them in a query within, read the file once. It is no longer read when the flows are over.
    text = (
        f'SELECT F.ts, one, h.name AS two FROM (SELECT ts, b, h.name AS one FROM F LOOKUP "{named}" AS h ON a = h.ip'
        " WAIT) AS F LOOKUP hosts AS h ON b = h.ip VALID FROM since WAIT"
    )
    outcome = oop.query(text, F=flows, tables={"hosts": named}).run()
    assert [row["one"] for row in outcome.table.to_pylist()] == [None, "six"]
    assert [row["two"] for row in outcome.table.to_pylist()] == [None, "four"]
    assert sum(note.startswith("hosts:") for note in outcome.statistics.notes) == 1
    assert len(list(kept.iterdir())) <= 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("hosts.csv", "keep=FOLDER"),
        ("?keep=kept", "it names no file"),
        ("hosts.csv?kep=kept", 'no option. Did you mean "keep"'),
        ("nowhere.csv?keep=kept", "there is no such file"),
        ("hosts.csv?keep=kept&every=soon", "every"),
    ],
)
def test_what_names_no_file_that_is_replaced_is_refused(
    table: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.csv").write_text(text_of({1: "one"}))
    text = "SELECT x, h.name FROM M LOOKUP h ON port = h.port WAIT"
    with pytest.raises(oop.LanguageError, match=re.escape(said)):
        oop.query(text, M=flows([(1, 1)]), tables={"h": f"reloaded:{table}"})
    with pytest.raises(oop.PlanError, match=r"in Python write oop.reloaded"):
        flows([(1, 1)]).lookup(f"reloaded:{table}", "port")
    twice = text.replace(" WAIT", " WAIT LOOKUP h AS g ON x = g.name WAIT")
    with pytest.raises(oop.LanguageError, match="one lookup finds its rows by port, and another by name"):
        oop.query(twice, M=flows([(1, 1)]), tables={"h": "reloaded:hosts.csv?keep=kept"})


def test_without_a_file_the_columns_are_those_of_the_first_version(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no such file"):
        oop.reloaded(tmp_path / "ports.csv", keep=tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "ports.20251127.csv").write_text(text_of({1: "one"}))
    stream = oop.reloaded(tmp_path / "ports.csv", keep=tmp_path / "kept", lasting="1 ms")
    assert stream.project("port", "name").to_arrow().to_pylist() == [{"port": 1, "name": "one"}]


def test_the_examples_in_docstrings_run() -> None:
    for room, scope in ((module, {}), (api, {"oop": oop})):
        result = doctest.testmod(room, extraglobs=scope)
        assert result.attempted and not result.failed
