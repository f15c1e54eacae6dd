"""Ready queries find every attack hidden in traffic, name the right hosts and times, and raise no other alarm."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine import queries
from oop_engine.sources.flows import FLOW_SCHEMA
from tests.attacks import SECOND, Truth, disordered, flows, scenario
from tests.open_set import OPEN_SET, with_open_set

TS = pa.timestamp("ns", "UTC")
Query = Callable[[oop.Stream], oop.Stream]


@cache
def tables(seed: int) -> tuple[dict[str, pa.Table], Truth]:
    packets, truth = scenario(seed)
    late = disordered(packets, seed, 30 * SECOND)
    return {"packets": packets, "late packets": late, "flows": flows(packets)}, truth


def stream(seed: int, what: str) -> tuple[oop.Stream, Truth]:
    found, truth = tables(seed)
    return oop.arrow(found[what], name=what), truth


def alarms(query: Query, source: oop.Stream) -> list[dict[str, Any]]:
    return query(source).to_arrow().to_pylist()


def ns(moment: Any) -> int:
    return int(moment.value)


def covered(rows: list[dict[str, Any]], span: tuple[int, int], window: int) -> None:
    """Check that alarms begin and end within a window of what they are about."""
    starts, ends = [ns(row["window_start"]) for row in rows], [ns(row["window_end"]) for row in rows]
    assert span[0] - window <= min(starts) <= span[0] + window
    assert span[1] - window <= max(ends) <= span[1] + window


KINDS = ("packets", "late packets", "flows")
SEEDS = (1, 2, 3)
each = pytest.mark.parametrize(("seed", "what"), [(s, w) for s in SEEDS for w in KINDS])


@each
def test_the_syn_flood_is_found_and_nothing_else_is_one(seed: int, what: str) -> None:
    source, truth = stream(seed, what)
    rows = alarms(queries.syn_flood, source)
    assert {(row["destIP"], row["destPort"]) for row in rows} == {(truth.flooded, 443)}
    assert max(row["sources"] for row in rows) > 1000
    covered(rows, truth.flood, 10 * SECOND)


@each
def test_the_vertical_scan_is_found_and_nothing_else_is_one(seed: int, what: str) -> None:
    source, truth = stream(seed, what)
    rows = alarms(queries.vertical_scan, source)
    assert {(row["srcIP"], row["destIP"]) for row in rows} == {(truth.scanner, truth.scanned)}
    assert sum(row["ports"] for row in rows) == 1000
    covered(rows, truth.scan, 60 * SECOND)


@each
def test_the_slow_horizontal_scan_is_found_and_nothing_else_is_one(seed: int, what: str) -> None:
    source, truth = stream(seed, what)
    (row,) = alarms(queries.horizontal_scan, source)
    assert (row["srcIP"], row["destPort"], row["hosts"]) == (truth.crawler, 3389, 160)
    covered([row], (truth.crawl[0], truth.crawl[1] + 900 * SECOND), SECOND)


@each
def test_the_amplification_is_found_and_nothing_else_is_one(seed: int, what: str) -> None:
    source, truth = stream(seed, what)
    rows = alarms(queries.dns_amplification, source)
    assert {row["destIP"] for row in rows} == {truth.victim}
    assert sum(row["packets"] for row in rows) > 2000
    # A flow counts where it began.
    covered(rows, truth.amplification, (35 if what == "flows" else 10) * SECOND)


@each
def test_the_beacon_is_found_and_nothing_else_is_one(seed: int, what: str) -> None:
    source, truth = stream(seed, what)
    rows = alarms(queries.beaconing, source)
    assert {(row["srcIP"], row["destIP"]) for row in rows} == {(truth.beacon, truth.home)}
    assert sum(row["contacts"] for row in rows) == 43
    for row in rows:
        assert row["period"] / dt.timedelta(seconds=20) == pytest.approx(1, rel=0.01)
        assert row["variation"] < 0.02


@each
def test_the_heavy_sender_leads_the_top_talkers(seed: int, what: str) -> None:
    source, truth = stream(seed, what)
    rows = alarms(lambda s: queries.top_talkers(s, n=3), source)
    assert max(rows, key=lambda row: row["bytes"])["srcIP"] == truth.sender
    for wid in {row["wid"] for row in rows}:
        own = [row["bytes"] for row in rows if row["wid"] == wid]
        assert own == sorted(own, reverse=True) and 1 <= len(own) <= 3


def test_the_order_of_arrival_changes_no_answer() -> None:
    for query in (queries.syn_flood, queries.vertical_scan, queries.horizontal_scan, queries.dns_amplification,
                  queries.beaconing, queries.top_talkers):  # fmt: skip
        one, other = (alarms(query, stream(1, what)[0]) for what in ("packets", "late packets"))
        assert sorted(map(str, one)) == sorted(map(str, other)), query.__name__


def test_thresholds_are_arguments() -> None:
    source, truth = stream(1, "packets")
    assert not alarms(lambda s: queries.syn_flood(s, syns=100_000), source)
    assert not alarms(lambda s: queries.vertical_scan(s, ports=1001, range="5 minutes"), source)
    assert len(alarms(lambda s: queries.vertical_scan(s, ports=1000, range="20 minutes"), source)) == 1
    assert not alarms(lambda s: queries.horizontal_scan(s, gap="2 s"), source)
    assert not alarms(lambda s: queries.dns_amplification(s, port=123), source)
    ticking = {row["srcIP"] for row in alarms(lambda s: queries.beaconing(s, period="1 s"), source)}
    assert ticking == {truth.beacon, "10.1.0.1"}


def test_sampling_scales_what_flows_count() -> None:
    table = tables(1)[0]["flows"]
    place = table.schema.get_field_index("sampling")
    sampled = table.set_column(place, "sampling", pa.array([10] * len(table), pa.uint32()))
    plain, scaled = (alarms(lambda s: queries.top_talkers(s, n=1), oop.arrow(t)) for t in (table, sampled))
    assert [10 * row["bytes"] for row in plain] == [row["bytes"] for row in scaled]
    assert [10 * row["packets"] for row in plain] == [row["packets"] for row in scaled]


def test_a_stream_without_bytes_is_told_what_is_missing() -> None:
    with pytest.raises(oop.SchemaError, match="no bytes to count"):
        queries.top_talkers(oop.arrow(pa.table({"ts": pa.array([1], TS), "srcIP": ["a"]})))


def test_exporters_are_told_by_clock_and_lateness() -> None:
    base = 1_750_000_000 * SECOND
    rows = [
        {"exporter": f"192.0.2.{k}", "domain": 1, "bytes": 10, "packets": 1, "arrival_ts": base + t * SECOND,
         "export_ts": base + (t + skew) * SECOND, "ts": base + (t + skew - 30) * SECOND,
         "end_ts": base + (t + skew - 12) * SECOND}
        for t in range(0, 120, 10) for k, skew in ((1, 0), (2, -5), (3, 7))
    ]  # fmt: skip
    shape = pa.schema([FLOW_SCHEMA.field(name) for name in rows[0]])
    found = alarms(queries.exporter_health, oop.rows(rows, shape))
    assert len(found) == 3 * len({row["wid"] for row in found})
    clocks = {row["exporter"]: (row["clock"] / dt.timedelta(seconds=1), row["off"]) for row in found}
    assert clocks == {"192.0.2.1": (0.0, False), "192.0.2.2": (-5.0, True), "192.0.2.3": (7.0, True)}
    for row in found:
        lasting = [row[name] / dt.timedelta(seconds=1) for name in ("oldest", "waited", "longest")]
        assert lasting == [30, 12, 18]
    assert sum(row["records"] for row in found) == len(rows)


def test_queries_are_part_of_the_package_without_being_imported() -> None:
    assert oop.queries.syn_flood is queries.syn_flood
    for name in queries.__all__:
        assert re.search("- `(stream|flows)`: needs `wattr`, ", getattr(queries, name).__doc__ or ""), name


@with_open_set
@pytest.mark.parametrize("what", ["packets", "flows"])
def test_labelled_attacks_of_the_open_set_are_found_and_nothing_else(what: str) -> None:
    events = {event["kind"]: event for event in json.loads((OPEN_SET / "own/s1.truth.json").read_text())["events"]}
    place = OPEN_SET / "own"
    source = oop.pcap(place / "s1.pcap.zst") if what == "packets" else oop.netflow(place / "flows1.pcap")
    # Flows of the exporter that samples one packet in ten are fewer, and exporters' clocks are up to 7.25 s off.
    whole, clock = what == "packets", 0 if what == "packets" else 8 * SECOND

    def span(kind: str) -> tuple[int, int]:
        return int(events[kind]["t0"] * SECOND), int(events[kind]["t1"] * SECOND)

    flood = alarms(queries.syn_flood, source)
    event = events["syn_flood"]
    assert {(row["destIP"], row["destPort"]) for row in flood} == {(event["dst"], event["dport"])}
    assert not whole or abs(sum(row["syns"] for row in flood) - event["packets"]) < 50
    covered(flood, span("syn_flood"), 10 * SECOND + clock)
    scan = alarms(queries.vertical_scan, source)
    event = events["port_scan_vertical"]
    assert {(row["srcIP"], row["destIP"]) for row in scan} == {(event["src"], event["dst"])}
    assert not whole or sum(row["ports"] for row in scan) == event["distinct_dport"]
    covered(scan, span("port_scan_vertical"), 60 * SECOND + clock)
    (crawl,) = alarms(queries.horizontal_scan, source)
    event = events["port_scan_horizontal_slow"]
    assert (crawl["srcIP"], crawl["destPort"]) == (event["src"], event["dport"])
    assert not whole or crawl["hosts"] == event["distinct_dst"]
    start, end = span("port_scan_horizontal_slow")
    covered([crawl], (start, end + 900 * SECOND), SECOND + clock)
    amplified = alarms(queries.dns_amplification, source)
    event = events["dns_amplification"]
    assert {row["destIP"] for row in amplified} == {event["dst"]}
    assert not whole or sum(row["packets"] for row in amplified) == event["packets"]
    covered(amplified, span("dns_amplification"), 10 * SECOND + clock)
    (beacon,) = alarms(queries.beaconing, source)
    event = events["beacon"]
    assert (beacon["srcIP"], beacon["destIP"], beacon["contacts"]) == (event["src"], event["dst"], event["packets"])
    assert beacon["period"] / dt.timedelta(seconds=event["period_s"]) == pytest.approx(1, rel=0.001)
    talkers = alarms(lambda s: queries.top_talkers(s, n=1), source)
    assert max(talkers, key=lambda row: row["bytes"])["srcIP"] == events["exfil_heavy_hitter"]["src"]


@with_open_set
def test_clocks_of_the_open_set_are_told() -> None:
    rows = alarms(queries.exporter_health, oop.netflow(OPEN_SET / "own/flows1.pcap"))
    assert {(row["exporter"], row["off"]) for row in rows} == {
        ("192.0.2.1", False), ("192.0.2.2", True), ("192.0.2.3", True),
    }  # fmt: skip
    assert max(row["waited"] for row in rows) < dt.timedelta(
        seconds=26
    )  # inactive timeout, a scan of the cache, and a second's rounding
