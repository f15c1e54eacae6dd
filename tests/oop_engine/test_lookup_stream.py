"""A stream is looked up in tables as users have them: files, frames, columns and rows."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.api.lookup import Reference
from oop_engine.drive.meter import OperatorStatistics
from operators.streams import lanes

SCHEMA = oop.Schema.of(ts="int64", srcIP="ip", proto="uint8", port="int32")
FLOWS = [(1, "10.1.2.3", 6, 22), (2, "8.8.8.8", 17, 53), (3, "2001:db8::1", 1, 0), (14, None, 6, 80)]
PROTOCOLS = {"proto": [6, 17], "name": ["tcp", "udp"]}


def flows() -> oop.Stream:
    return oop.rows(FLOWS, SCHEMA)


def names(stream: oop.Stream, name: str = "name") -> list[object]:
    return stream.to_arrow()[name].to_pylist()


def lookup_statistics(outcome: oop.Outcome) -> OperatorStatistics:
    return next(told for told in outcome.statistics.operators if told.label.startswith("lookup"))


@pytest.mark.parametrize(
    "table",
    [
        PROTOCOLS,
        pa.table(PROTOCOLS),
        pa.record_batch(PROTOCOLS),
        [{"proto": 6, "name": "tcp"}, {"proto": 17, "name": "udp"}],
        pa.table({"proto": pa.array([6, 17], pa.int16()), "name": pa.array(["tcp", "udp"], pa.large_string())}),
        pa.table({"proto": [6, 17], "name": pa.array(["tcp", "udp"]).dictionary_encode()}),
    ],
    ids=["columns", "table", "batch", "rows", "other types", "dictionary"],
)
def test_a_table_may_have_any_form(table: Reference) -> None:
    assert names(flows().lookup(table, "proto", name="protocols")) == ["tcp", "udp", None, "tcp"]


def test_files_name_their_tables(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("ip,name\n10.1.2.3,gate\n2001:DB8:0::1,six\n")
    pq.write_table(pa.table(PROTOCOLS), tmp_path / "protocols.parquet")
    stream = flows().lookup(tmp_path / "hosts.csv", ("srcIP", "ip"))
    stream = stream.lookup(str(tmp_path / "protocols.parquet"), "proto", columns={"protocol": "name"})
    assert names(stream) == ["gate", None, "six", None]
    assert names(stream.filter("hosts.name = 'gate'").project("protocol"), "protocol") == ["tcp"]
    assert "lookup hosts on srcIP = ip" in stream.explain()


def test_names_that_are_taken_get_that_of_their_table() -> None:
    table = {"proto": [6], "port": [1], "name": ["tcp"]}
    added = flows().schema.names
    assert flows().lookup(table, "proto", name="p").schema.names == [*added, "p_port", "name"]
    assert flows().lookup(table, "proto", prefix="q_").schema.names == [*added, "q_port", "q_name"]
    assert flows().lookup(table, "proto", columns=["name"]).schema.names == [*added, "name"]


def test_a_lookup_holds_no_window_and_takes_late_tuples_as_without_it() -> None:
    stream = oop.rows(FLOWS, SCHEMA).lookup(PROTOCOLS, "proto")
    windows = stream.window(range=10).aggregate(oop.count(), by="name").to_arrow()
    assert sorted(windows.select(["window_start", "name", "count"]).to_pylist(), key=str) == [
        {"window_start": 0, "name": "tcp", "count": 1},
        {"window_start": 0, "name": "udp", "count": 1},
        {"window_start": 0, "name": None, "count": 1},
        {"window_start": 10, "name": "tcp", "count": 1},
    ]


def test_tuples_without_a_row_are_counted_and_dropped_where_one_is_required() -> None:
    kept = flows().lookup(PROTOCOLS, "proto").run()
    assert lookup_statistics(kept).details["not_found"] == 1
    outcome = flows().lookup(PROTOCOLS, "proto", required=True).run()
    assert outcome.table["name"].to_pylist() == ["tcp", "udp", "tcp"]
    assert "lookup table on proto: 1 tuple without a row in table left out" in outcome.statistics.notes


def test_columns_that_nobody_reads_are_neither_read_nor_brought() -> None:
    plan = flows().lookup({**PROTOCOLS, "note": ["a", "b"]}, "proto").project("ts", "name").explain()
    assert "brings name" in plan and "brings name, note" not in plan
    assert "(read 2 of 4)" in plan


def test_on_spark_a_lookup_runs_in_every_partition() -> None:
    stream = flows().lookup(PROTOCOLS, "proto").window(range=10).aggregate(oop.count(), by="name")
    front = stream.explain(spark=True).partition("keyed ")[0]
    assert "in any order" in front and "lookup table on proto" in front


def test_threads_give_the_same() -> None:
    stream = flows().lookup(PROTOCOLS, "proto", required=True).aggregate(oop.count(), by="name")
    outcome = stream.run(threads=2)
    assert sorted(outcome.table.to_pylist(), key=str) == [{"name": "tcp", "count": 2}, {"name": "udp", "count": 1}]
    assert lookup_statistics(outcome).details["not_found"] == 1


def test_times_of_a_table_are_compared_in_the_unit_of_the_stream() -> None:
    stream = oop.rows(
        [(1_500_000_000, 7), (3_000_000_000, 7), (500_000_000, 7)],
        pa.schema([("ts", pa.timestamp("ns", "UTC")), ("k", pa.int64())]),
    )
    versions = {"k": [7, 7], "since": pa.array([1, 2], pa.timestamp("s")), "v": ["one", "two"]}
    assert names(stream.lookup(versions, "k", valid_from="since"), "v") == ["one", "two", None]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({6: "tcp"}, {"on": "proto"}, r'6: .tcp. is no column(.|\n)*\{"proto": \[6, 17\]'),
        ({"proto": [6], "name": "tcp"}, {"on": "proto"}, "'name': 'tcp' is no column"),
        (7, {"on": "proto"}, "int is no table"),
        (PROTOCOLS, {"on": ("proto", "prto")}, 'no column "prto"(.|\n)*"proto"'),
        (PROTOCOLS, {"on": "srcip"}, 'no attribute "srcip"(.|\n)*"srcIP"'),
        (PROTOCOLS, {"on": []}, "say what is looked up"),
        (PROTOCOLS, {"on": [("port", "proto"), ("proto", "proto")]}, "names a column of the table twice"),
        (PROTOCOLS, {"on": "proto", "columns": "name"}, r'write columns=\["name"\]'),
        (PROTOCOLS, {"on": "proto", "columns": ["nam"]}, 'no column "nam"'),
        (PROTOCOLS, {"on": "proto", "columns": {"a": "name"}, "prefix": "x_"}, "leave out prefix='x_'"),
        (PROTOCOLS, {"on": "proto", "types": {"proto": "int"}}, "types are for files"),
        ({"proto": [6]}, {"on": "proto"}, "this adds nothing"),
        (PROTOCOLS, {"on": ("srcIP", "proto")}, '"srcIP" is of type ip, and table.proto of int64(.|\n)*types={"proto"'),
        ({"ip": ["10.0.0.1", "gate"], "v": [1, 2]}, {"on": ("srcIP", "ip")}, 'ip: "gate" is no IP address'),
        (
            {"net": ["10.0.0.0/8"], "port": [22], "v": [1]},
            {"on": [("srcIP", "net"), "port"]},
            "a column of networks is looked up by itself",
        ),
        ({"net": ["10.0.0.0/8"], "since": [1]}, {"on": ("srcIP", "net"), "valid_from": "since"}, "equal keys"),
        (
            {"proto": [6], "since": ["May"], "v": [1]},
            {"on": "proto", "valid_from": "since"},
            '"ts" is of type int64, and since of string',
        ),
    ],
)
def test_what_does_not_fit_is_refused(table: Reference, options: dict[str, Any], message: str) -> None:
    with pytest.raises((oop.PlanError, oop.SchemaError), match=message):
        flows().lookup(table, **options)


@pytest.mark.parametrize("wait", [True, False])
def test_a_stream_of_rows_is_looked_up_by_key_in_threads(wait: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWS", "KEYED_ROWS", "ENOUGH"):
        monkeypatch.setattr(lanes, name, 1)
    draw = random.Random(1)
    flows = pa.table(
        {"ts": sorted(draw.choices(range(8000), k=4000)), "k": draw.choices(range(300), k=4000), "n": range(4000)}
    )
    names = pa.table(
        {"ts": range(0, 8000, 2), "k": draw.choices(range(300), k=4000), "v": draw.choices(range(9), k=4000)}
    )
    looked = oop.arrow(flows, punctuate=oop.slack(9, on="ts")).lookup(
        oop.arrow(names), "k", name="names", columns=["v"], wait=wait
    )
    wanted = oop.arrow(flows).lookup(names, "k", name="names", columns=["v"], valid_from="ts").to_arrow()
    for threads in (1, 3):
        outcome = looked.run(threads=threads)
        counts = Counter[tuple[int, int | None]]()
        for row in outcome.table.to_pylist():
            counts[row["n"], row["v"]] += row.get("sign", 1)
        assert set(counts.values()) <= {0, 1}
        assert sorted(map(str, +counts)) == sorted(str((row["n"], row["v"])) for row in wanted.to_pylist())
