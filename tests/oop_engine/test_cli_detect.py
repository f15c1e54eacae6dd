"""`oop-engine detect` finds each attack that is hidden in traffic once, and raises no other alarm."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from oop_engine.cli import commands
from oop_engine.cli.detect import ATTACKS
from oop_engine.cli.detecting import KINDS
from tests.attacks import FLOWS, SECOND, flows, scenario


def detect(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, ["detect", *map(str, arguments)], prog_name="oop-engine")


@pytest.mark.parametrize("what", ["packets", "flows"])
def test_each_attack_opens_one_alert_that_closes_and_nothing_else_does(tmp_path: Path, what: str) -> None:
    packets, truth = scenario(1)
    pq.write_table(packets if what == "packets" else flows(packets), tmp_path / "traffic.parquet")
    done = detect("all", "--json", tmp_path / "traffic.parquet")
    assert done.exit_code == 0, done.output
    events = [json.loads(line) for line in done.stdout.splitlines()]
    opened = {row["alert"]: row for row in events if row["event"] == "open"}
    assert len(opened) == sum(row["event"] == "open" for row in events) == len(ATTACKS)
    assert opened["syn_flood"]["destIP"] == truth.flooded
    assert (opened["vertical_scan"]["srcIP"], opened["vertical_scan"]["destIP"]) == (truth.scanner, truth.scanned)
    assert opened["horizontal_scan"]["srcIP"] == truth.crawler
    assert opened["dns_amplification"]["destIP"] == truth.victim
    assert (opened["beaconing"]["srcIP"], opened["beaconing"]["destIP"]) == (truth.beacon, truth.home)
    closed = {row["alert"] for row in events if row["event"] == "close"}
    assert closed == {name for name, kind in KINDS.items() if not kind.sessions}


def test_a_long_flow_is_no_burst_where_it_ends(tmp_path: Path) -> None:
    """Half an hour of answers, exported at its end, would be a flood if all of it counted in one window."""
    row = {"srcPort": 53, "destPort": 40_000, "proto": 17, "flags": None, "packets": 1800, "sampling": 1}
    row |= {"destIP": bytes(12) + bytes((10, 0, 0, 1)), "ts": 0, "end_ts": 1800 * SECOND, "bytes": 1_800_000}
    table = [row | {"srcIP": bytes(12) + bytes((198, 51, 100, k))} for k in range(30)]
    path = tmp_path / "long.parquet"
    pq.write_table(pa.Table.from_pylist(table, FLOWS), path)
    assert detect("dns_amplification", "--bytes", "400000", path).stdout == ""
    # All sources together send 300 kB in 10 s.
    lines = detect("dns_amplification", "--bytes", "290000", path).stdout.splitlines()
    assert "open    dns_amplification" in lines[0] and "from 30 servers" in lines[0]
    assert "over  (since 1970-01-01T00:00:00Z)" in lines[-1]


def test_thresholds_are_those_of_the_ready_queries() -> None:
    for name, given in ATTACKS.items():
        parameters = inspect.signature(KINDS[name].query).parameters
        assert {option: parameters[option].default for option in given} == given


def test_a_threshold_of_another_attack_is_refused_with_those_that_there_are() -> None:
    done = detect("beaconing", "--syns", "3", "demos/captures/web.pcap.gz")
    assert done.exit_code == 2
    assert "beaconing has no threshold --syns; it takes --contacts, --variation" in done.output
