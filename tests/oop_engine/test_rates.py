"""Rates that are billed are the naive answer in any order of arrival, and their certificate tells what is wrong."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from operators.data.page import Row
from tests.capture_files import pcap
from tests.examples import share
from tests.naive_dedup import naive_dedup
from tests.naive_spread import naive_spread
from tests.oop_engine.flows.exporter import (
    NOW,
    a_set,
    four,
    ipfix,
    ipfix_templates,
    number,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)
from tests.oop_engine.flows.test_flow_sources import frames
from tests.open_set import OPEN_SET, with_open_set

TIME = pa.timestamp("s", "UTC")
FLOWS = pa.schema(
    [
        ("ts", TIME), ("end_ts", TIME), ("bytes", pa.int64()), ("sampling", pa.int64()), ("direction", pa.int8()),
        ("exporter", pa.string()), ("srcIP", pa.string()), ("destIP", pa.string()), ("srcPort", pa.int64()),
        ("destPort", pa.int64()), ("proto", pa.int64()),
    ]
)  # fmt: skip
KEYS = ("srcIP", "destIP", "srcPort", "destPort", "proto")
NUMBERS = oop.Schema.of(ts="int64", bytes="int64")
SLOT, PERIOD, REACH = 5, 60, 2


@st.composite
def flows(draw: st.DrawFn) -> list[Row]:
    """Draw records of few flows, which several exporters tell of."""
    table: list[Row] = []
    for _ in range(draw(st.integers(1, 12))):
        start = draw(st.integers(0, 150))
        table.append(
            {
                "ts": start, "end_ts": start + draw(st.integers(-1, 70)), "bytes": draw(st.integers(0, 5000)),
                "sampling": draw(st.sampled_from([1, 1, 10])), "direction": draw(st.sampled_from([None, 0, 1])),
                "exporter": draw(st.sampled_from(["r1", "r2"])), "srcIP": "a", "destIP": draw(st.sampled_from("bc")),
                "srcPort": 1, "destPort": 2, "proto": 6,
            }
        )  # fmt: skip
    return table


def naive_rates(table: Sequence[Row], by: Sequence[str], *, once: bool) -> list[Row]:
    """Give the bills, from each slot of each period in turn."""
    marked = naive_dedup(
        table, (*by, *KEYS), ("sampling", "direction", "exporter"), reach=REACH, mark="twice"
    )  # fmt: skip
    parts: list[dict[str, Any]] = list(map(dict, naive_spread(marked, ["bytes"], step=SLOT)))
    found: list[Row] = []
    for key in {tuple(part[name] for name in by) for part in parts}:
        own = [part for part in parts if tuple(part[name] for name in by) == key]
        for begin in {int(part["ts"]) // PERIOD * PERIOD for part in own}:
            slots = [
                [part for part in own if at <= int(part["ts"]) < at + SLOT] for at in range(begin, begin + PERIOD, SLOT)
            ]
            heard = {
                int(part["ts"]) // SLOT
                for part in parts
                if begin <= int(part["ts"]) < begin + PERIOD
                and ("exporter" not in by or part["exporter"] == key[list(by).index("exporter")])
            }
            inside = [part for slot in slots for part in slot]
            counted = [sum(_octets(p) for p in slot if not (once and p["twice"])) for slot in slots]
            rates = sorted(octets * 8 / SLOT for octets in counted)
            row: Row = dict(zip(by, key, strict=True))
            row |= {"p95_bps": rates[ceil(Fraction("0.95") * len(rates)) - 1], "max_bps": rates[-1]}
            row |= {"bytes": sum(counted), "slots": len(slots), "empty": sum(not slot for slot in slots)}
            row |= {"missing": len(slots) - len(heard), "window_start": begin}
            row |= {"sampling_least": min(p["sampling"] for p in inside)}
            row |= {"sampling_most": max(p["sampling"] for p in inside)}
            if once:
                row["duplicates"] = sum(_octets(p) for p in inside if p["twice"])
            found.append(row)
    return found


def _octets(part: dict[str, Any]) -> int:
    return int(part["bytes"]) * int(part["sampling"])


def bag(table: Sequence[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in table)


@share(0.5)
@given(flows(), st.booleans(), st.sampled_from([("exporter",), ("destIP",)]), st.randoms(use_true_random=False))
def test_rates_are_the_naive_answer_for_any_order_and_any_pages(
    table: list[Row], once: bool, by: tuple[str, ...], random: Any
) -> None:
    expected = bag(naive_rates(table, by, once=once))
    for rows, threads in ((1, 1), (3, 2), (100, 1)):
        arriving = random.sample(table, len(table))
        pages = pa.Table.from_pylist(arriving, FLOWS).to_batches(max_chunksize=rows)
        stream = oop.arrow(pa.Table.from_batches(pages, FLOWS))
        bills = oop.queries.rates(stream, by=by, slot="5 s", per="1 minute", once=once, reach="2 s")
        found = bills.run(threads=threads).table
        times = found.column("window_start").cast(pa.int64())
        found = found.drop_columns(["window_start", "window_end"]).append_column("window_start", times)
        assert bag(found.to_pylist()) == expected


def exports(tmp_path: Path, *datagrams: bytes) -> oop.Stream:
    """Write a capture of the datagrams of one exporter."""
    path = tmp_path / "exports.pcap"
    path.write_bytes(pcap(frames(list(datagrams))))
    return oop.netflow(path, columns=["lost", "received"])


def test_the_certificate_tells_sampling_and_what_the_sequence_says_was_lost(tmp_path: Path) -> None:
    """An exporter of NetFlow v5 that samples one of 100 packets, later one of 10; five records never came."""
    first = v5([v5_record(octets=400, first=90_000, last=90_000, outward=n) for n in (2, 3)], sampling=1 << 14 | 100)
    record = v5_record(octets=400, first=95_000, last=95_000, outward=2)
    then = v5([record], sequence=7, uptime=110_000, seconds=NOW + 10, sampling=1 << 14 | 100)
    later = v5([record], sequence=8, uptime=120_000, seconds=NOW + 20, sampling=1 << 14 | 10)
    bills = oop.queries.rates(exports(tmp_path, first, then, later), by=["exporter", "out_if"], per="day", slot="1 s")
    rows = {row["out_if"]: row for row in bills.to_arrow().to_pylist()}
    two = rows[2]
    assert (two["bytes"], two["sampling_least"], two["sampling_most"]) == (400 * (100 + 100 + 10), 10, 100)
    assert (two["lost"], two["loss"], two["incomplete_exporters"]) == (5, 5 / (5 + 3), 1)
    assert (rows[3]["sampling_least"], rows[3]["lost"]) == (100, 5)
    # Slots in which the interface, and those in which the exporter had a flow.
    assert (two["slots"], two["empty"], rows[3]["empty"], two["missing"]) == (86_400, 86_398, 86_399, 86_398)


def test_each_record_tells_what_was_lost_and_received_before_it(tmp_path: Path) -> None:
    sent = [v5([v5_record()] * many, sequence=at, uptime=100_000) for at, many in ((0, 2), (2, 1), (7, 1), (8, 1))]
    found = exports(tmp_path, *sent).project("lost", "received").to_arrow().to_pylist()
    assert [(row["lost"], row["received"]) for row in found] == [(0, 0), (0, 0), (0, 2), (4, 3), (4, 4)]


def test_of_netflow_v9_and_ipfix_datagrams_and_records_are_counted(tmp_path: Path) -> None:
    layout = template(256, [(8, 4), (1, 4)])
    record = four("10.0.0.1") + number(7, 4)
    nine = [v9([v9_templates(layout), a_set(256, record * 2)], sequence=at) for at in (0, 1, 4)]
    found = exports(tmp_path, *nine).project("lost", "received").to_arrow().to_pylist()
    assert [(row["lost"], row["received"]) for row in found] == [(0, 0), (0, 0), (0, 1), (0, 1), (2, 2), (2, 2)]
    ten = [ipfix([ipfix_templates(layout), a_set(256, record * 2)], sequence=at) for at in (0, 2, 9)]
    found = exports(tmp_path, *ten).project("lost", "received").to_arrow().to_pylist()
    assert [(row["lost"], row["received"]) for row in found] == [(0, 0), (0, 0), (0, 2), (0, 2), (5, 4), (5, 4)]


def test_a_datagram_that_comes_late_after_all_is_not_lost(tmp_path: Path) -> None:
    def one(n: int) -> bytes:
        return v5([v5_record()], sequence=n, uptime=100_000 + 10 * n)

    bills = oop.queries.rates(exports(tmp_path, one(0), one(2), one(1), one(3)), by="exporter", per="day")
    assert [row["lost"] for row in bills.to_arrow().to_pylist()] == [0]


def test_ingress_and_egress_of_one_exporter_count_once_where_that_is_asked() -> None:
    row = {"ts": 0, "end_ts": 9, "bytes": 1000, "sampling": 1, "exporter": "r1", "srcIP": "a", "destIP": "b"}
    row |= {"srcPort": 1, "destPort": 2, "proto": 6}
    stream = oop.arrow(pa.Table.from_pylist([row | {"direction": d} for d in (1, 0)], FLOWS))
    for once, octets in ((False, 2000), (True, 1000)):
        (bill,) = oop.queries.rates(stream, by="exporter", slot="5 s", per="1 minute", once=once).to_arrow().to_pylist()
        assert bill["bytes"] == octets
        assert bill.get("duplicates", 1000) == 1000


def test_several_exporters_of_one_flow_count_once_for_a_prefix_and_each_for_itself() -> None:
    row = {"ts": 0, "end_ts": 9, "bytes": 1000, "sampling": 1, "direction": 0, "srcIP": "a", "destIP": "b"}
    row |= {"srcPort": 1, "destPort": 2, "proto": 6}
    stream = oop.arrow(pa.Table.from_pylist([row | {"exporter": name} for name in ("r1", "r2")], FLOWS))
    bills = {
        by: [(b["bytes"], b["duplicates"]) for b in oop.queries.rates(stream, by=by, once=True).to_arrow().to_pylist()]
        for by in ("destIP", "exporter")
    }
    assert bills == {"destIP": [(1000, 1000)], "exporter": [(1000, 0), (1000, 0)]}


def test_records_that_are_late_count_within_the_lateness_and_their_share_is_told() -> None:
    row = {"sampling": 1, "direction": 0, "exporter": "r1", "srcIP": "a", "destIP": "b"}
    row |= {"srcPort": 1, "destPort": 2, "proto": 6}
    arriving = [(0, 300), (30, 0), (2, 100), (12, 50), (90, 0)]
    table = [row | {"ts": at, "end_ts": at, "bytes": octets} for at, octets in arriving]
    stream = oop.arrow(pa.Table.from_pylist(table, FLOWS), punctuate=oop.ordered("ts"))
    # The slot of the 50 bytes had no result that they could change.
    told = [(300, None, None), (450, 100, 100 / 450)]
    for lateness, (octets, late, part) in zip((0, "60 s"), told, strict=True):
        bills = oop.queries.rates(stream, by="exporter", slot="5 s", per="1 minute", lateness=lateness)
        first, _ = bills.to_arrow().to_pylist()
        assert (first["bytes"], first.get("late"), first.get("late_share")) == (octets, late, part)
    with pytest.raises(oop.PlanError, match="Leave one of the two out"):
        oop.queries.rates(stream, once=True, lateness="1 s")


def test_months_of_a_time_zone_are_billed_with_the_hours_that_they_have() -> None:
    row = {"bytes": 1000, "sampling": 1, "direction": 0, "exporter": "r1", "srcIP": "a", "destIP": "b"}
    row |= {"srcPort": 1, "destPort": 2, "proto": 6}
    # 1 March and 31 March 2025, 23:30 in Berlin, where clocks went forward on the 30th.
    table = [row | {"ts": at, "end_ts": at} for at in (1_740_868_200, 1_743_456_600)]
    stream = oop.arrow(pa.Table.from_pylist(table, FLOWS))
    (bill,) = oop.queries.rates(stream, by="exporter", zone="Europe/Berlin").to_arrow().to_pylist()
    assert (bill["slots"], bill["empty"], bill["p95_bps"]) == (31 * 288 - 12, 31 * 288 - 14, 0.0)


def test_packets_are_billed_as_flows_are() -> None:
    bills = oop.queries.rates(oop.pcap("demos/captures/web.pcap.gz"), by="srcIP", slot="1 s", per="1 minute")
    top = max(bills.to_arrow().to_pylist(), key=lambda row: row["bytes"])
    assert (top["srcIP"], top["bytes"], top["slots"]) == ("212.199.202.9", 3_012_757, 60)
    with pytest.raises(oop.PlanError, match="packets have no observers"):
        oop.queries.rates(oop.pcap("demos/captures/web.pcap.gz"), once=True)


@with_open_set
@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
def test_bytes_of_each_exporter_are_those_of_nfdump() -> None:
    stored = OPEN_SET / "own" / "flows1.nfcapd"
    told = subprocess.run(
        ["nfdump", "-q", "-N", "-r", stored, "-A", "router", "-o", "fmt:%ra,%byt"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    theirs = sorted(int(line.split(",")[1]) for line in told.splitlines() if "," in line)
    stream = oop.netflow(OPEN_SET / "own" / "flows1.pcap", columns=["lost", "received"])
    bills = oop.queries.rates(stream, by="exporter", slot="1 s", per="30 minutes", once=True).to_arrow().to_pylist()
    assert sorted(row["bytes"] // row["sampling_most"] for row in bills) == theirs
    assert [(row["lost"], row["duplicates"]) for row in bills] == [(0, 0)] * 3


def test_what_cannot_be_billed_is_refused_with_what_to_write() -> None:
    stream = oop.rows([(1, 5)], oop.Schema.of(ts="timestamp[s]", v="int64"))
    slots = stream.window(range="5 s").aggregate(v=oop.sum("v"))
    assert slots.billing("v", per="1 minute", origin="5 s").schema.names[:2] == ["p95_v", "max_v"]
    sessions = stream.window(oop.session("5 s")).aggregate(v=oop.sum("v"))
    early = stream.window(range="5 s").aggregate(v=oop.sum("v"), early="1 s")
    for make, says in (
        (lambda: slots.billing("v", origin="5 s"), "a calendar has its own begin"),
        (lambda: slots.billing("v", per="1 day", zone="Europe/Berlin"), "a time zone is for a calendar"),
        (lambda: slots.billing("v", per="1 s"), "shorter than a slot"),
        (lambda: sessions.billing("v"), "sessions are not a fixed time apart"),
        (lambda: early.billing("v"), "early results of a slot"),
        (lambda: stream.billing("v"), "the stream has no results of windows"),
        (lambda: stream.derive(e="ts").dedup(keys="v", end="e"), "nothing tells who saw a flow"),
        (lambda: oop.queries.rates(oop.rows([(1, 5)], NUMBERS), slot=5, per=60, by=()), "per second"),
    ):
        with pytest.raises(oop.PlanError, match=says):
            make()
