"""LOOKUP says in a query what `Stream.lookup` says in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands

FLOWS = [(1, "10.1.2.3", "10.9.9.9", 6), (2, "8.8.8.8", "10.1.2.3", 17), (3, "2001:db8::1", "8.8.8.8", 1)]
SCHEMA = oop.Schema.of(ts="int64", srcIP="ip", destIP="ip", proto="int16")
TABLES: Mapping[str, Any] = {
    "hosts": {"ip": ["10.1.2.3", "8.8.8.8"], "name": ["gate", "dns"]},
    "nets": {"network": ["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0"], "site": ["all", "north", "world"], "ts": [1, 2, 3]},
    "Protocols": {"proto": [6, 17], "name": ["tcp", "udp"]},
    "owners": {"ip": ["8.8.8.8", "8.8.8.8"], "since": [0, 2], "owner": ["old", "new"]},
}


def answer(text: str) -> list[dict[str, Any]]:
    flows = oop.rows(FLOWS, SCHEMA)
    return oop.query(text, F=flows, tables=TABLES).to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT ts, hosts.name FROM F LOOKUP hosts ON srcIP = hosts.ip", [(1, "gate"), (2, "dns"), (3, None)]),
        ("SELECT ts, name FROM F lookup Hosts ON hosts.ip = F.srcIP", [(1, "gate"), (2, "dns"), (3, None)]),
        ("SELECT ts, name FROM F INNER LOOKUP hosts ON srcIP = ip", [(1, "gate"), (2, "dns")]),
        (
            "SELECT s.name AS a, d.name AS b FROM F LOOKUP hosts AS s ON srcIP = s.ip LOOKUP hosts AS d ON"
            " destIP = d.ip",
            [("gate", None), ("dns", "gate"), (None, "dns")],
        ),
        (
            "SELECT n.network, n.ts AS t FROM F LEFT LOOKUP nets AS n ON srcIP = n.network WHERE n.site <> 'world'",
            [("10.1.0.0/16", 2)],
        ),
        ("SELECT protocols.* FROM F LOOKUP protocols ON F.proto = protocols.proto", [("tcp",), ("udp",), (None,)]),
        (
            "SELECT * FROM F INNER LOOKUP Protocols ON proto = Protocols.proto WHERE ts = 1",
            [(1, "10.1.2.3", "10.9.9.9", 6, "tcp")],
        ),
        (
            "SELECT o.owner FROM F LOOKUP owners AS o ON destIP = o.ip VALID FROM o.since",
            [(None,), (None,), ("new",)],
        ),
        (
            "SELECT o.owner FROM (SELECT destIP, ts - 2 AS at FROM F) LOOKUP owners AS o ON destIP = o.ip"
            " VALID FROM since AT at",
            [(None,), (None,), ("old",)],
        ),
        (
            "SELECT p.name, count(*) AS n FROM F LOOKUP Protocols AS p ON proto = p.proto GROUP BY p.name"
            " HAVING p.name IS NOT NULL ORDER BY p.name DESC LIMIT 1",
            [("udp", 1)],
        ),
        (
            "SELECT name, p.name AS p FROM F LOOKUP hosts ON srcIP = hosts.ip LOOKUP Protocols AS p ON proto = p.proto"
            " WHERE hosts.name = 'dns' AND p.name = 'udp' AND row_num = 1",
            [("dns", "udp")],
        ),
        (
            "SELECT h.name, o.owner FROM F LOOKUP hosts AS h ON srcIP = h.ip LOOKUP owners AS o ON h.ip = o.ip"
            " VALID FROM o.since",
            [("gate", None), ("dns", "new"), (None, None)],
        ),
        (
            "SELECT name, count(*) [RANGE TUMBLING 10, WA ts] FROM F LOOKUP hosts ON destIP = hosts.ip GROUP BY name"
            " HAVING name = 'dns'",
            [("dns", 1, 0, 0, 10)],
        ),
    ],
)  # fmt: skip
def test_a_query_looks_up_in_tables(text: str, rows: list[tuple[object, ...]]) -> None:
    assert [tuple(row.values()) for row in answer(text)] == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT name FROM F LOOKUP host ON srcIP = host.ip", 'no table "host"(.|\n)*"hosts"'),
        ("SELECT name FROM hosts", r"It is a table(.|\n)*FROM \.\.\. LOOKUP hosts ON"),
        ("SELECT h.nam FROM F LOOKUP hosts AS h ON srcIP = h.ip", 'table h has no column "nam"(.|\n)*"name"'),
        ("SELECT h.name FROM F LOOKUP hosts AS h ON srcIP = h.adr", 'no column "adr"(.|\n)*h has ip, name'),
        ("SELECT h.name FROM F LOOKUP hosts AS h ON srcip = h.ip", 'no attribute "srcip"(.|\n)*"srcIP"'),
        ("SELECT h.name FROM F LOOKUP hosts AS h ON srcIP > h.ip", "columns that are equal to attributes"),
        ("SELECT h.name FROM F LOOKUP hosts AS h ON srcIP = h.ip OR ts = 1", "columns that are equal to attributes"),
        ("SELECT h.name FROM F LOOKUP hosts AS h ON srcIP = x.ip", '"x.ip" is of no table or stream(.|\n)*h.ip'),
        ("SELECT 1 AS a FROM F LOOKUP Protocols AS p ON srcIP = p.proto", "srcIP. is of type ip, and p.proto of int64"),
        ("SELECT name FROM F LOOKUP hosts ON srcIP = hosts.ip LOOKUP hosts ON destIP = hosts.ip", "AS other"),
        ("SELECT name FROM F LOOKUP hosts AS F ON srcIP = ip", "name of another input"),
        ("SELECT name FROM F LOOKUP 'hosts.csv' AS h ON srcIP = h.ip", 'no file "hosts.csv"'),
        ("SELECT name FROM F LOOKUP hosts", "expected AS or ON"),
        (
            "SELECT A.ts FROM F A [RANGE 3, WA ts], F AS B [RANGE 3, WA ts] LOOKUP hosts ON srcIP = ip",
            "expected",
        ),
        (
            "SELECT A.ts FROM F AS A [RANGE 3, WA ts], F AS B [RANGE 3, WA ts] LOOKUP hosts ON srcIP = ip",
            "over one stream(.|\n)*before the join",
        ),
        ("SELECT o.owner FROM F LOOKUP owners AS o ON srcIP = o.ip", "rows 1 and 2 have the same key"),
    ],
)  # fmt: skip
def test_what_a_lookup_cannot_mean_is_refused_where_it_stands(text: str, message: str) -> None:
    with pytest.raises(oop.LanguageError, match=message) as error:
        answer(text)
    assert error.value.line == 1


def test_names_of_protocols_and_ports_need_no_table() -> None:
    packets = oop.rows([(1, 6, 22), (2, 58, 53), (3, 250, 1)], oop.Schema.of(ts="int64", proto="uint8", port="uint16"))
    text = (
        "SELECT p.name AS a, q.name AS b FROM M LOOKUP protocols AS p ON proto = p.proto"
        " LOOKUP ports AS q ON port = q.port"
    )
    rows = oop.query(text, M=packets).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [("tcp", "ssh"), ("icmpv6", "dns"), (None, None)]


def test_a_query_without_tables_says_how_they_are_given() -> None:
    with pytest.raises(oop.LanguageError, match=r'--table hosts=hosts.csv(.|\n)*LOOKUP "hosts.csv" AS hosts'):
        oop.query("SELECT name FROM M LOOKUP hosts ON srcIP = hosts.ip", M=oop.rows(FLOWS, SCHEMA))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flows.csv").write_text("ts,srcIP\n1,10.1.2.3\n2,8.8.8.8\n")
    (tmp_path / "hosts.csv").write_text("ip,name\n10.1.2.3,gate\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "written",
    [
        ["SELECT ts, hosts.name FROM F LOOKUP hosts ON srcIP = hosts.ip", "--table", "hosts=hosts.csv"],
        ["SELECT ts, hosts.name FROM F LOOKUP 'hosts.csv' ON srcIP = hosts.ip"],
    ],
)
def test_the_command_line_names_tables(folder: Path, written: list[str]) -> None:
    done = CliRunner().invoke(
        commands, ["query", *written, "-s", "F=flows.csv", "--types", "srcIP=ip", "--to", "out.csv"]
    )
    assert done.exit_code == 0, done.output
    assert (folder / "out.csv").read_text() == 'ts,name\n1,"gate"\n2,\n'


@pytest.mark.parametrize(
    ("given", "message"), [(["hosts.csv"], "write NAME=PATH"), (["h=a.csv", "h=b.csv"], "given twice")]
)
def test_a_table_needs_a_name_and_has_one_file(folder: Path, given: list[str], message: str) -> None:
    options = [part for table in given for part in ("--table", table)]
    done = CliRunner().invoke(commands, ["query", "SELECT ts FROM F", "-s", "F=flows.csv", *options])
    assert done.exit_code == 2 and message in done.output


def test_a_job_goes_on_with_the_same_table_alone(folder: Path) -> None:
    def job() -> list[str]:
        flows = oop.table("flows.csv", types={"srcIP": "ip"})
        text = "SELECT name, count(*) [RANGE TUMBLING 10, WA ts] FROM F LOOKUP hosts ON srcIP = hosts.ip GROUP BY name"
        oop.query(text, F=flows, tables={"hosts": "hosts.csv"}).to(folder / "out.csv").run(checkpoint=folder / "job")
        return (folder / "out.csv").read_text().splitlines()

    first = job()
    assert job() == first and len(first) == 3
    (folder / "hosts.csv").write_text("ip,name\n10.1.2.3,door\n")
    with pytest.raises(oop.CheckpointError, match=r'"lookup hosts on srcIP = ip".*: its table has another content'):
        job()


NAMES = [(0, "10.1.2.3", "gate"), (2, "10.1.2.3", "door"), (1, "8.8.8.8", "dns"), (3, "8.8.8.8", None)]
ROWS = oop.Schema.of(ts="int64", ip="ip", name="string")


def changing(text: str) -> list[tuple[object, ...]]:
    """Return what a query over flows and a stream of names gives in the end."""
    names = oop.rows(NAMES, ROWS)
    table = oop.query(text, F=oop.rows(FLOWS, SCHEMA), Names=names, tables=TABLES).to_arrow()
    signs = table["sign"].to_pylist() if "sign" in table.column_names else [1] * table.num_rows
    counts: dict[tuple[object, ...], int] = {}
    kept = [name for name in table.column_names if name != "sign"]
    for row, sign in zip(table.select(kept).to_pylist(), signs, strict=True):
        counts[tuple(row.values())] = counts.get(tuple(row.values()), 0) + sign
    return sorted((row for row, count in counts.items() for _ in range(count)), key=str)


@pytest.mark.parametrize("how", ["", " WAIT", " REVISE 5"])
def test_a_stream_is_a_table_that_changes(how: str) -> None:
    text = f"SELECT F.ts, n.name FROM F LOOKUP names AS n ON srcIP = n.ip{how}"
    assert changing(text.replace("SELECT", "SELECT sign,") if how != " WAIT" else text) == [
        (1, "gate"), (2, "dns"), (3, None),
    ]  # fmt: skip


def test_a_stream_says_when_its_rows_are_valid_and_what_must_be_found() -> None:
    text = "SELECT F.ts, n.name, n.ts AS since FROM F INNER LOOKUP Names AS n ON destIP = n.ip VALID FROM n.ts WAIT"
    assert changing(text) == [(2, "door", 2), (3, None, 3)]


def test_windows_follow_a_lookup_that_waits() -> None:
    text = "SELECT name, count(*) AS n FROM F LOOKUP Names AS n ON destIP = n.ip WAIT GROUP BY name"
    assert changing(text) == [("door", 1), (None, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT name FROM F LOOKUP hosts ON srcIP = hosts.ip WAIT", "is a table, which is there at once"),
        ("SELECT name FROM F LOOKUP Names AS n ON srcIP = n.ip REVISE 5 s", r'"ts" is a number(.|\n)*plain number'),
        ("SELECT name FROM F LOOKUP Names AS n ON ts = n.ip", "and n.ip of ip"),
        ("SELECT name FROM F LOOKUP Name AS n ON srcIP = n.ip", r'no table "Name"(.|\n)*"Names"'),
    ],
)
def test_what_does_not_go_with_a_stream_of_rows_is_refused(text: str, message: str) -> None:
    with pytest.raises((oop.LanguageError, oop.PlanError), match=message):
        changing(text)


def test_what_a_lookup_took_back_is_not_counted() -> None:
    text = "SELECT name, count(*) AS n FROM F LOOKUP Names AS n ON srcIP = n.ip{} GROUP BY name"
    once, again = (changing(text.format(waits)) for waits in (" WAIT", ""))
    assert sorted(map(str, once)) == sorted(map(str, again)) != []


def test_python_says_how_a_stream_of_rows_is_looked_up() -> None:
    flows, names = oop.rows(FLOWS, SCHEMA), oop.rows(NAMES, ROWS)
    with pytest.raises(oop.PlanError, match="a tuple that waits is never given anew"):
        flows.lookup(names, ("srcIP", "ip"), wait=True, revise=5)
    with pytest.raises(oop.PlanError, match="wait and revise are for streams of rows"):
        flows.lookup({"ip": ["8.8.8.8"], "name": ["dns"]}, ("srcIP", "ip"), wait=True)
    waiting = flows.lookup(names, ("srcIP", "ip"), name="names", columns=["name"], required=True, wait=True)
    outcome = waiting.run(threads=2)
    assert outcome.table["name"].to_pylist() == ["gate", "dns"]
    assert "lookup names on srcIP = ip: 1 tuple without a row in names left out" in outcome.statistics.notes
    assert "a late row takes back" in flows.lookup(names, ("srcIP", "ip"), name="names", revise=9).explain()


def test_a_checkpoint_keeps_what_a_lookup_holds(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("ts,ip\n1,8.8.8.8\n5,10.1.2.3\n")
    (tmp_path / "names.csv").write_text("ts,ip,name\n0,8.8.8.8,dns\n6,10.1.2.3,gate\n")
    flows, names = (oop.table(tmp_path / name, types={"ip": "ip"}) for name in ("flows.csv", "names.csv"))
    for _ in range(2):
        found = flows.lookup(names, "ip", name="names", columns=["name"], wait=True)
        found.to(tmp_path / "out.csv").run(checkpoint=tmp_path / "job")
        assert sorted((tmp_path / "out.csv").read_text().splitlines()) == [
            '1,8.8.8.8,"dns"',
            "5,10.1.2.3,",
            "ts,ip,name",
        ]


def test_results_are_limited_within_a_column_of_a_table() -> None:
    text = "SELECT p.name, ts FROM F LOOKUP Protocols AS p ON proto = p.proto ORDER BY ts DESC LIMIT 1 WITHIN p.name"
    assert sorted(map(str, answer(text))) == [
        "{'name': 'tcp', 'ts': 1}",
        "{'name': 'udp', 'ts': 2}",
        "{'name': None, 'ts': 3}",
    ]
