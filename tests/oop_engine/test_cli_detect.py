"""`oop-engine detect` finds each attack that is hidden in traffic once, and raises no other alarm."""

from __future__ import annotations

import datetime as dt
import inspect
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from oop_engine.cli import commands
from oop_engine.cli.detect import ATTACKS
from oop_engine.cli.detecting import KINDS
from tests.attacks import FLOWS, SECOND, Truth, flows, scenario
from tests.capture_files import mapped, pcap
from tests.oop_engine.flows.exporter import NOW, v5, v5_record
from tests.oop_engine.flows.test_flow_sources import frames


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
    assert closed == set(KINDS)


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


def export(tmp_path: Path, length: int, octets: int) -> str:
    """Write a capture of what an exporter of NetFlow v5 sends of 30 flows of so many seconds, when they are over."""
    (tmp_path / "long.pcap").write_bytes(pcap(frames([answers(length, octets)])))
    return f"netflow:{tmp_path / 'long.pcap'}"


def answers(length: int, octets: int) -> bytes:
    """Give a datagram of NetFlow v5 with answers of 30 servers to one host that lasted so many seconds."""
    begin, end = 100_000, 100_000 + 1000 * length
    records = [
        v5_record(
            f"198.51.100.{k}", "10.0.0.1", sport=53, dport=40_000, proto=17, flags=0, packets=1800, octets=octets,
            first=begin, last=end,
        )
        for k in range(30)
    ]  # fmt: skip
    return v5(records, uptime=end, seconds=NOW + length)


@pytest.mark.parametrize("early", ["none", "2s"])
def test_an_export_of_flows_of_half_an_hour_is_no_burst_in_the_minute_of_their_end(tmp_path: Path, early: str) -> None:
    """All 9 MB in one window would be ninety times the threshold; spread over the flows they are half of it."""
    path = export(tmp_path, 1800, 300_000)
    done = detect("all", path, "--early", early)
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    lines = detect("dns_amplification", "--bytes", "30000", "--early", early, path, "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    (opened,) = (row for row in events if row["event"] == "open")
    assert opened["window_end"] < events[-1]["window_end"] and events[-1]["event"] == "close"
    assert sum(row["event"] == "update" for row in events) == 1800 // 10 - 1
    assert [row["event"] for row in events[:2]] == (["open", "update"] if early == "none" else ["provisional", "open"])


def ns(text: str) -> int:
    return pa.scalar(dt.datetime.fromisoformat(text), pa.timestamp("ns", "UTC")).value


@pytest.mark.parametrize(
    ("attack", "least", "of", "length"),
    [("syn_flood", 250, "flood", 10), ("vertical_scan", 100, "scan", 60), ("dns_amplification", 100_000, "dns", 10)],
)
def test_an_attack_is_provisional_after_two_seconds_and_confirmed_after_a_window(
    tmp_path: Path, attack: str, least: int, of: str, length: int
) -> None:
    """The delay is the event time from where the threshold is reached to where the event is known."""
    packets, truth = scenario(1)
    pq.write_table(packets, tmp_path / "traffic.parquet")
    done = detect(attack, "--early", "2s", "--json", tmp_path / "traffic.parquet")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [row["event"] for row in events]
    assert kinds[:2] == ["provisional", "open"] and kinds.count("provisional") == 1 and "withdrawn" not in kinds
    provisional, opened = events[:2]
    begin = ns(provisional["window_start"])
    times, kept = packets["ts"].cast(pa.int64()).to_numpy(), attacked(packets, of, truth)
    inside = kept & (times >= begin) & (times < begin + length * SECOND)
    weight = packets["length"].to_numpy()[inside] if of == "dns" else 1
    reached = int(times[inside][(weight * np.ones(inside.sum(), np.int64)).cumsum() >= least][0])
    assert reached < ns(provisional["fired"]) <= reached + 2 * SECOND
    assert ns(opened["fired"]) == ns(opened["window_end"]) <= reached + length * SECOND


def test_a_scan_of_hosts_is_provisional_long_before_it_is_over_and_never_withdrawn(tmp_path: Path) -> None:
    packets, truth = scenario(1)
    pq.write_table(packets, tmp_path / "traffic.parquet")
    done = detect("horizontal_scan", "--early", "2s", "--json", tmp_path / "traffic.parquet")
    provisional, opened, closed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["event"] for row in (provisional, opened, closed)] == ["provisional", "open", "close"]
    assert {row["srcIP"] for row in (provisional, opened, closed)} == {truth.crawler}
    tried = np.array(packets["srcIP"].to_pylist()) == mapped(truth.crawler)
    times, hosts = packets["ts"].cast(pa.int64()).to_numpy()[tried], packets["destIP"].to_pylist()
    targets = [host for host, kept in zip(hosts, tried, strict=True) if kept]
    reached = next(at for k, at in enumerate(times.tolist()) if len(set(targets[: k + 1])) == 50)
    assert reached < ns(provisional["fired"]) <= reached + 15 * SECOND < ns(opened["window_end"])
    assert ns(provisional["since"]) == ns(opened["since"]) == int(times[0]) and provisional["hosts"] >= 50


def test_what_is_never_provisional_is_said(tmp_path: Path) -> None:
    packets, _ = scenario(1)
    pq.write_table(packets.slice(0, 1000), tmp_path / "traffic.parquet")
    for options, said in ((("--early", "2s"), True), ((), False)):
        done = detect("beaconing", *options, tmp_path / "traffic.parquet")
        assert done.exit_code == 0 and ("so it is never provisional" in done.stderr) == said


def attacked(packets: pa.Table, of: str, truth: Truth) -> np.ndarray:
    """Tell which packets are of an attack."""
    target = {"flood": truth.flooded, "scan": truth.scanned, "dns": truth.victim}[of]
    kept = np.array(packets["destIP"].to_pylist()) == mapped(target)
    flags, proto = packets["flags"].fill_null(0).to_numpy(), packets["proto"].to_numpy()
    if of == "dns":
        return kept & (proto == 17) & (packets["srcPort"].to_numpy() == 53)
    return kept & (proto == 6) & (flags & 2 > 0) & (flags & 16 == 0)


def test_options_of_exporters_and_of_files_do_not_mix() -> None:
    for options, says in (
        ((), "name files to read, or --netflow"),
        (("demos/captures/web.pcap.gz", "--netflow", "127.0.0.1:0"), "not both"),
        (("demos/captures/web.pcap.gz", "--for", "1s"), "--for is for --netflow"),
        (("--netflow", "127.0.0.1:0", "--slack", "1s"), "--slack is for files"),
    ):
        done = detect("syn_flood", *options)
        assert (done.exit_code, says in done.output) == (2, True), done.output


def test_thresholds_are_those_of_the_ready_queries() -> None:
    for name, given in ATTACKS.items():
        parameters = inspect.signature(KINDS[name].query).parameters
        assert {option: parameters[option].default for option in given} == given


def test_a_threshold_of_another_attack_is_refused_with_those_that_there_are() -> None:
    done = detect("beaconing", "--syns", "3", "demos/captures/web.pcap.gz")
    assert done.exit_code == 2
    assert "beaconing has no threshold --syns; it takes --contacts, --variation" in done.output
