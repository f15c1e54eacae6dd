"""What is in no result, or in another place, is told the same by Python and by the command line."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.cli.collect import PROMISED
from oop_engine.drive.run_warnings import told
from oop_engine.plan.graph import Plan
from operators.rows.spread import Spread
from tests.capture_files import ether, ipv4, pcap
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    a_set,
    four,
    ipfix,
    ipfix_templates,
    number,
    read,
    template,
    v9,
    v9_templates,
)

START = (8, 4), (1, 4), (152, 8)
BOTH = (*START, (153, 8))


def datagrams(end: bool, many: int = 6) -> list[bytes]:
    """Give datagrams of an exporter whose records have a start, and an end or none."""
    found: list[bytes] = []
    for k in range(many):
        ends = number(NOW * 1000 + 1000 * k + 500, 8) if end else b""
        record = four("10.0.0.1") + number(100, 4) + number(NOW * 1000 + 1000 * k, 8) + ends
        sets = [ipfix_templates(template(256, BOTH if end else START)), a_set(256, record)]
        found.append(ipfix(sets, sequence=k, seconds=NOW + k))
    return found


def captured(path: Path, payloads: list[bytes]) -> Path:
    frames: list[tuple[int, bytes]] = []
    for k, payload in enumerate(payloads):
        udp = (5000).to_bytes(2, "big") + (2055).to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + b"\0\0"
        frames.append(((NOW + k) * SECOND, ether(ipv4(udp + payload, 17))))
    path.write_bytes(pcap(frames))
    return path


def noted(outcome: oop.Outcome) -> list[str]:
    return list(outcome.statistics.notes)


def test_flow_records_without_an_end_are_told_where_their_end_is_asked_for(tmp_path: Path) -> None:
    path = captured(tmp_path / "x.pcap", datagrams(end=False))
    exporter = "10.1.2.3 port 5000, IPFIX, domain 7: 6 records without an end"

    def windows(on: str) -> oop.Stream:
        return oop.netflow(path).window(range="10 s", wattr=on).aggregate(oop.sum("bytes"))

    assert noted(windows("ts").run()) == []
    assert noted(windows("end_ts").run()) == ["6 tuples without a value of the progressing attribute", exporter]
    spread = oop.netflow(path).spread("bytes", step="1 s").window(range="10 s", wattr="ts").aggregate(oop.count()).run()
    left_out = "spread bytes over [ts, end_ts] by 1 s: 6 tuples without a usable ts and end_ts left out"
    assert (spread.table.num_rows, noted(spread)) == (0, [left_out, exporter])
    whole = captured(tmp_path / "whole.pcap", datagrams(end=True))
    told_of = oop.netflow(whole).spread("bytes", step="1 s").window(range="10 s", wattr="ts").aggregate(oop.count())
    assert noted(told_of.run()) == []


def test_times_that_are_missing_are_counted_each_for_itself() -> None:
    without = v9([v9_templates(template(256, [(8, 4), (1, 4)])), a_set(256, four("10.0.0.1") + number(1, 4))])
    counts = [
        (one.untimed, one.unended)
        for columns in (["ts"], ["end_ts"], ["bytes"], None)
        for one in (read([without], columns=columns).only, read(datagrams(end=False, many=1), columns=columns).only)
    ]
    assert counts == [(1, 0), (0, 0), (0, 1), (0, 1), (0, 0), (0, 0), (1, 1), (0, 1)]


def test_the_command_line_tells_what_python_does(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_text("ts,k\n1,a\n,b\n7,c\n12,a\n")
    query = "SELECT count(*) [RANGE 1, SLIDE 4, WA ts] FROM S"
    python = oop.query(query, {"S": oop.table(path, types={"ts": "int"})}).run()
    assert noted(python) == ["1 tuple without a value of the progressing attribute", "2 tuples in no window"]
    for options in ([], ["--quiet"]):
        result = CliRunner().invoke(commands, ["query", query, "-s", f"S={path}", *options])
        assert result.exit_code == 0, result.output
        lines = [line for line in result.stderr.splitlines() if line.startswith("note:")]
        before = (
            [] if options else ["windows leave gaps: RANGE 1 of every SLIDE 4; tuples in between are in no window."]
        )
        assert lines == [f"note: {note}" for note in (*before, *noted(python))]


FLOWS = pa.table(
    {
        "ts": pa.array([0, 0, 50, None, 7], pa.int64()),
        "end_ts": pa.array([100, 90, 40, 9, None], pa.int64()),
        "bytes": pa.array([1000, 900, 1, 1, 1], pa.int64()),
    }
)


def test_windows_that_leave_gaps_are_told_before_they_run(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_text("ts,k\n1,a\n7,c\n12,a\n")
    told = "windows leave gaps: RANGE 1 of every SLIDE 4; tuples in between are in no window"
    stream = oop.table(path)
    for strategy in ("panes", "wid", "slicing", "stacks", "buffer"):
        plan = stream.window(1, slide=4).aggregate(oop.count(), strategy=strategy).explain()
        assert told in " ".join(plan.replace("│", " ").split()), strategy
    several = stream.windows(a=oop.sliding(1, 4), b=oop.session(3)).aggregate(oop.count()).explain()
    assert f"a: {told}" in " ".join(several.replace("│", " ").split())
    assert "gaps" not in stream.window(4, slide=1).aggregate(oop.count()).explain()
    query = "SELECT count(*) [RANGE 1, SLIDE 4, WA ts] FROM S"
    result = CliRunner().invoke(commands, ["query", query, "-s", f"S={path}"])
    assert f"note: {told}." in result.stderr
    assert told not in CliRunner().invoke(commands, ["query", query, "-s", f"S={path}", "--quiet"]).stderr


def test_flows_that_are_not_quite_where_they_were_are_told() -> None:
    spread = oop.arrow(FLOWS).spread("bytes", step=1, max_panes=30)
    outcome = spread.window(range=10, wattr="ts").aggregate(oop.sum("bytes")).run()
    label = "spread bytes over [ts, end_ts] by 1: "
    assert noted(outcome) == [
        # One of those without both is told as a tuple without a time already.
        "1 tuple without a value of the progressing attribute",
        f"{label}2 tuples without a usable ts and end_ts left out",
        f"{label}2 flows over more than 30 panes cut into parts longer than a pane; raise max_panes to cut finer",
        f"{label}1 flow that ends before it starts, not spread",
    ]
    sums = dict(zip(outcome.table["window_start"].to_pylist(), outcome.table["sum_bytes"].to_pylist(), strict=True))
    assert sum(sums.values()) == 1901 and sums[0] > 150 and sums[90] > 50


def test_where_only_the_end_is_promised_long_flows_are_cut_short_and_told() -> None:
    windows = (
        oop.arrow(FLOWS, slack=200, on="end_ts")
        .spread("bytes", step=1, into="at", max_panes=30)
        .window(range=10, wattr="at")
        .aggregate(oop.sum("bytes"))
    )
    outcome = windows.run()
    sums = dict(zip(outcome.table["window_start"].to_pylist(), outcome.table["sum_bytes"].to_pylist(), strict=True))
    assert sums == {50: 1, 60: 300, 70: 633, 80: 633, 90: 334}
    (told_of,) = [note for note in noted(outcome) if "over more than" in note]
    assert told_of == (
        "spread bytes over [ts, end_ts] by 1: 2 flows over more than 30 panes spread over the last of these alone, as"
        " end_ts is promised and ts is not; promise both, or raise max_panes"
    )


def test_each_count_is_told_in_numbers_that_agree() -> None:
    stream = oop.arrow(FLOWS).spread("bytes", step=1).window(range=10, wattr="ts").aggregate(oop.sum("bytes"))
    plan, statistics = Plan((stream.node,)), stream.run().statistics

    def lines(**details: int) -> list[str]:
        places = [place for place, node in enumerate(plan.nodes) if isinstance(getattr(node, "operator", None), Spread)]
        one = [
            attrs.evolve(o, details=details if place in places else {}) for place, o in enumerate(statistics.operators)
        ]
        return [line.partition("by 1: ")[2] or line for line in told(plan, one)]

    assert lines() == []
    assert lines(backwards=1234) == ["1,234 flows that end before they start, not spread"]
    assert lines(overflowed=1) == ["1 value is null, as it does not fit its type"]
    assert lines(overflowed=2000) == ["2,000 values are null, as they do not fit their types"]
    assert lines(without_time=1) == ["1 tuple without a usable ts and end_ts left out"]


@pytest.mark.parametrize("attribute", ["export_ts", "nosuch"])
def test_a_collection_is_told_what_it_can_have_windows_over(attribute: str) -> None:
    query = f"SELECT count(*) [RANGE 1 s, WA {attribute}] FROM Flows"
    result = CliRunner().invoke(commands, ["collect", "--netflow", "127.0.0.1:0", "--for", "1s", "--query", query])
    assert result.exit_code == 2
    assert "--slack" not in result.stderr and "punctuat" not in result.stderr
    if attribute == "export_ts":
        assert result.stderr.splitlines() == [
            'PlanError: no window of this aggregate could ever be released: nothing promises "export_ts".',
            "  exporters at 127.0.0.1:0 promises {arrival_ts} {ts}.",
            f"  {PROMISED}",
        ]


def test_in_python_exporters_are_asked_to_promise_both() -> None:
    flows = oop.netflow(listen="127.0.0.1:0")
    with pytest.raises(oop.PlanError, match=r'on=\("ts", "end_ts"\)') as refused:
        flows.window(range="1 s", wattr="end_ts").aggregate(oop.count())
    assert "punctuate" not in str(refused.value)
    with pytest.raises(oop.PlanError, match=r"punctuate=oop\.every"):
        flows.window(range="1 s", wattr="export_ts").aggregate(oop.count())
    both = oop.netflow(listen="127.0.0.1:0", on=("ts", "end_ts"))
    assert both.window(range="1 s", wattr="end_ts").aggregate(oop.count()).schema.names
