"""What `oop.disorder` and `oop-engine disorder` say of a stream is what an array sorted in memory says of it."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.report.disorder_words import amount_text, rounded_up
from tests.examples import share
from tests.open_set import OPEN_SET, with_open_set

SECOND = 1_000_000_000
TS = pa.timestamp("ns", "UTC")


def stream(values: list[int | None], groups: list[str] | None = None) -> oop.Stream:
    columns = {"ts": pa.array(values, pa.int64()).view(TS)}
    if groups is not None:
        columns["exporter"] = pa.array(groups)
    return oop.arrow(pa.table(columns))


def run(*arguments: object) -> str:
    done = CliRunner().invoke(commands, ["disorder", *map(str, arguments)])
    assert done.exit_code in (0, 2), done.output
    return done.output


@share(2)
@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 50)), st.sampled_from("abc")), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.2]),
)
def test_all_and_each_group_are_measured(rows: list[tuple[int | None, str]], share: float) -> None:
    values, groups = [v for v, _ in rows], [g for _, g in rows]
    report = oop.disorder(stream(values, groups), share=share)
    names = [None, *(sorted(set(groups)) if len(set(groups)) > 1 else [])]
    for name in names:
        own = [v for v, g in rows if name in (None, g)]
        there = np.array([v for v in own if v is not None], np.int64)
        behind = np.maximum.accumulate(there) - there if len(there) else there
        found = report.of("ts", name)
        assert (found.tuples, found.without_value, found.late) == (len(there), own.count(None), int((behind > 0).sum()))
        assert found.most == int(behind.max(initial=0))
        assert int((behind > found.slack).sum()) == found.beyond <= share * len(there)
    assert {found.group for found in report.groups} == set(names) - {None}


def test_a_generated_band_is_a_band_and_its_delay_is_the_slack() -> None:
    band = oop.packets(20_000, rate=1e4, disorder=oop.Band(SECOND // 4), late_share=0.3)
    found = oop.disorder(band).of("ts")
    assert found.shaped.shape == "band"
    assert found.promise == 'oop.slack("250 ms", "ts")'
    assert found.option == '--punctuate "slack:250 ms"'
    ts = band.to_arrow().column("ts").cast(pa.int64()).to_numpy()
    assert found.most == int((np.maximum.accumulate(ts) - ts).max())


def test_generated_blocks_are_blocks_and_their_length_is_promised() -> None:
    found = oop.disorder(oop.packets(20_000, rate=1e4, disorder=oop.Blocks(SECOND // 10))).of("ts")
    assert (found.shaped.shape, found.shaped.blocks) == ("block-sorted", 20)
    assert found.promise == 'oop.blocks("ts", length="100 ms")'
    assert found.option == '--punctuate "block:100 ms"'
    assert found.broken == 0


def test_what_is_suggested_leaves_as_many_late_as_said() -> None:
    rng = np.random.default_rng(3)
    values = np.arange(30_000) * 1_000_000
    values = values[np.argsort(values + rng.exponential(2e9, len(values)), kind="stable")]
    found = oop.disorder(stream(values.tolist()), share=0.01).of("ts")
    table = oop.arrow(pa.table({"ts": pa.array(values).view(TS)}), punctuate=oop.slack(found.amount(found.slack)))
    run = table.window(range="1 ms", consistent=True).aggregate(oop.count()).run()
    assert 0 < run.statistics.late <= found.beyond <= 0.01 * len(values)


def test_a_stream_in_order_is_ordered_and_one_without_values_is_told() -> None:
    report = oop.disorder(stream([1, 2, 2, 3]))
    assert report.of("ts").promise == 'oop.ordered("ts")'
    assert "ts: in order" in str(report)
    assert "no tuple has a value" in str(oop.disorder(stream([None, None])))
    assert oop.disorder(stream([])).tuples == 0


def test_tuples_that_a_promise_would_drop_are_measured() -> None:
    values = [100, 1, 2, 3, 200]
    late = oop.arrow(pa.table({"ts": pa.array(values).view(TS)}), slack="1 ns")
    assert oop.disorder(late).of("ts").late == 3
    assert "measured after operators" in str(oop.disorder(late.filter("ts > 0")))


def test_a_value_from_the_future_is_told() -> None:
    report = oop.disorder(stream([0, SECOND, 1000 * SECOND, 2 * SECOND, 3 * SECOND]))
    assert report.of("ts").from_the_future
    assert "from the future: ts jumped 16.6 min ahead after 2 tuples, and 2 came behind it" in str(report)
    assert not oop.disorder(stream([0, SECOND, 1000 * SECOND, 999 * SECOND])).of("ts").from_the_future


def test_groups_that_differ_are_to_be_melded() -> None:
    values, groups = [0, 50, 1, 51, 2, 52], list("ababab")
    text = str(oop.disorder(stream([v * SECOND for v in values], groups)))
    assert "ts: each exporter by itself is in order, all together need a slack of 49 s" in text


def test_clocks_are_told_by_export_and_arrival() -> None:
    arrival = [10 * SECOND, 20 * SECOND, 30 * SECOND, 40 * SECOND]
    export = [12 * SECOND, 15 * SECOND, 31 * SECOND, 34 * SECOND]
    table = {"export_ts": pa.array(export).view(TS), "arrival_ts": pa.array(arrival).view(TS), "exporter": list("abab")}
    report = oop.disorder(oop.arrow(pa.table(table)))
    assert report.clocks == {"a": 2 * SECOND, "b": -5 * SECOND}
    assert "clock of a: about 2 s ahead" in str(report)
    assert "clock of b: about 5 s behind" in str(report)


def test_any_attribute_that_progresses_is_measured_and_any_tells_apart() -> None:
    numbers = oop.arrow(pa.table({"sequence": [1, 4, 2, 5], "host": ["x", "y", "x", "y"]}))
    found = oop.disorder(numbers, on="sequence", by="host").of("sequence")
    assert (found.late, found.most, found.slack, found.promise) == (1, 2, 2, 'oop.slack(2, "sequence")')
    with pytest.raises(oop.PlanError, match="no time whose disorder could be measured"):
        oop.disorder(numbers)
    with pytest.raises(oop.SchemaError, match='no attribute "sequenc"'):
        oop.disorder(numbers, on="sequenc")
    with pytest.raises(oop.PlanError, match="was not measured"):
        oop.disorder(numbers, on="sequence").of("ts")
    with pytest.raises(oop.PlanError, match="share = 1"):
        oop.disorder(numbers, on="sequence", share=1)


def test_more_groups_than_are_told_count_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [f"g{k % 90}" for k in range(900)]
    report = oop.disorder(stream([-k for k in range(900)], groups))
    assert len(report.groups) == 64
    assert report.of("ts").late == 899
    assert "26 more values of exporter are not measured separately" in str(report)
    monkeypatch.setattr(sys.modules["oop_engine.api.disorder"], "_MOST_KEYS", 80)
    with pytest.raises(oop.PlanError, match="more than 80 values"):
        oop.disorder(stream([-k for k in range(900)], groups))


@pytest.mark.parametrize(
    ("ns", "rounded"),
    [
        (0, 0), (1, 1), (1234, 1300), (78_468_000_000, 79 * SECOND), (670_500_000_000, 680 * SECOND),
        (9 * SECOND, 9 * SECOND), (24_926_000_000, 25 * SECOND), (3_210_000_000, 3_300_000_000),
    ],
)  # fmt: skip
def test_amounts_are_rounded_up_to_two_digits(ns: int, rounded: int) -> None:
    assert rounded_up(ns, 1) == rounded


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"), (7, "7 ns"), (9000, "9 us"), (999_600_000, "1 s"), (21_532_000_000, "21.5 s"),
        (119_000_000_000, "119 s"), (670_500_000_000, "11.2 min"), (2 * 86_400 * SECOND, "2 d"),
    ],
)  # fmt: skip
def test_amounts_read_in_three_digits(ns: int, text: str) -> None:
    assert amount_text(ns, 1) == text


def csv_of(tmp_path: Path, n: int = 3000) -> Path:
    rng = np.random.default_rng(1)
    values = np.sort(rng.integers(0, 100 * SECOND, n))[np.argsort(np.arange(n) + rng.integers(0, 30, n), kind="stable")]
    path = tmp_path / "events.csv"
    stamps = np.datetime_as_string((values + 1_700_000_000 * SECOND).astype("datetime64[ns]"))
    rows = [f"{stamp}Z,{'ab'[k % 2]}" for k, stamp in enumerate(stamps)]
    path.write_text("when,host\n" + "\n".join(rows) + "\n")
    return path


def test_the_command_shows_a_table_json_and_a_picture(tmp_path: Path) -> None:
    path = csv_of(tmp_path)
    text = run(path, "--by", "host", "--plot", tmp_path / "out.svg")
    assert re.search(r"when +all +3,000", text)
    assert re.search(r"when +b +1,500", text)
    told = json.loads(run(path, "--json", "--share", "0"))
    (found,) = told["disorder"]
    assert (found["tuples"], found["unit"], found["late_beyond_slack"]) == (3000, "s", 0)
    assert found["max"] <= found["slack"] <= 1.1 * found["max"]
    picture = ET.fromstring((tmp_path / "out.svg").read_text())
    said = " ".join(picture.itertext())
    for words in ("host", "number of arrival", "when, UTC, 2023-11-14", "how far behind: median", "slack"):
        assert words in said
    assert (tmp_path / "out.svg").stat().st_size < 150_000


def test_a_picture_of_a_million_tuples_is_small_and_the_same_each_time(tmp_path: Path) -> None:
    band = oop.packets(200_000, rate=1e5, disorder=oop.Band(SECOND), arrival=True)
    report = oop.disorder(band, against="arrival_ts")
    for name in ("a.svg", "b.svg"):
        report.plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.svg").stat().st_size < 200_000
    assert "arrival_ts, UTC" in (tmp_path / "a.svg").read_text()


def test_names_in_a_picture_are_escaped(tmp_path: Path) -> None:
    groups = ["<a>&", "b"] * 2
    report = oop.disorder(stream([1, 2, 1, 3], groups))
    report.plot(tmp_path / "x.svg")
    assert "<a>&" in " ".join(ET.fromstring((tmp_path / "x.svg").read_text()).itertext())


def test_a_png_needs_matplotlib_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oop_engine.report.scatter.find_spec", lambda name: None)
    report = oop.disorder(stream([3, 1, 2]))
    with pytest.raises(oop.PlanError, match=r"pip install .oop-engine\[plot\]"):
        report.plot(tmp_path / "x.png")
    with pytest.raises(oop.PlanError, match=r"written as .svg or .png"):
        report.plot(tmp_path / "x.pdf")
    with pytest.raises(oop.PlanError, match="samples=8192"):
        oop.disorder(stream([3, 1, 2]), samples=0).plot(tmp_path / "x.svg")


def test_a_png_is_drawn_where_matplotlib_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    oop.disorder(stream([3, 1, 2], ["a", "b", "a"])).plot(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    path = csv_of(tmp_path, 10)
    assert "written as .svg or .png" in run(path, "--plot", "x.pdf")
    assert "there is no folder" in run(path, "--plot", tmp_path / "not" / "x.svg")
    assert "--whole tells nothing apart" in run(path, "--whole", "--by", "host")
    assert "there is no file" in run(tmp_path / "nothing.csv")


@with_open_set
def test_flows_of_the_open_set_are_as_late_as_is_known_of_them() -> None:
    truth = json.loads((OPEN_SET / "own/flows1.truth.json").read_text())
    report = oop.disorder(OPEN_SET / "own/flows1.pcap", format="netflow")
    assert report.tuples == truth["records"]
    # The v9 header tells whole seconds, so the times of one exporter are up to a second earlier than they were.
    for attribute, known, margin in (
        ("ts", truth["disorder_by_start_all"], 0.6),
        ("end_ts", truth["disorder_by_end_all"], 0.6),
    ):
        found = report.of(attribute)
        assert found.share == pytest.approx(known["late_fraction"], abs=0.001)
        for figure, name in ((found.most, "max_late_s"), (found.p50, "p50"), (found.p99, "p99")):
            assert figure / SECOND == pytest.approx(known[name], abs=margin)
    for attribute, name in (("ts", "disorder_by_start_per_exporter"), ("end_ts", "disorder_by_end_per_exporter")):
        for exporter, known in truth[name].items():
            found = report.of(attribute, exporter)
            assert found.share == pytest.approx(known["late_fraction"], abs=0.001)
            assert found.most / SECOND == pytest.approx(known["max_late_s"], abs=0.002)
            assert found.p50 / SECOND == pytest.approx(known["p50"], rel=0.005)
            assert found.p99 / SECOND == pytest.approx(known["p99"], rel=0.02)
    ahead = {exporter: round(ns / SECOND) for exporter, ns in report.clocks.items()}
    assert ahead == {"192.0.2.1": 0, "192.0.2.2": -3, "192.0.2.3": 7}  # truth: 0, -2.5 and 7.25 s, in whole seconds


@with_open_set
def test_a_log_of_the_open_set_is_as_late_as_is_known_of_it() -> None:
    found = oop.disorder(OPEN_SET / "logs/dns.log.gz").of("ts")
    assert found.tuples == 53_615
    assert found.share == pytest.approx(0.243, abs=0.001)
    assert [round(ns / SECOND, 1) for ns in (found.p50, found.most)] == [11.9, 670.5]
    assert found.p99 / SECOND == pytest.approx(135, rel=0.01)


EXPORTS = Path(__file__).resolve().parents[2] / "demos/captures/exports.pcap.gz"


def test_the_command_reads_exports_and_tells_which_clock_is_wrong() -> None:
    text = run(f"netflow:{EXPORTS}", "--on", "start")
    assert re.search(r"ts +all +4,235 +97 %", text)
    assert "clock of 192.0.2.3: about 7 s ahead" in text
    assert "clock of 192.0.2.2: about 3 s behind" in text
    assert text == run(EXPORTS, "--format", "netflow", "--on", "ts")
    assert len(json.loads(run(EXPORTS, "--format", "netflow", "--whole", "--json"))["disorder"]) == 3


def test_a_promise_of_the_report_is_one_that_the_query_command_takes() -> None:
    found = oop.disorder(EXPORTS, format="netflow", on="ts").of("ts")
    text = "SELECT count(*) [RANGE 1 minute, WA ts] FROM Flows"
    option = found.option.removeprefix("--punctuate ").strip('"')
    done = CliRunner().invoke(commands, ["query", text, "-s", f"Flows=netflow:{EXPORTS}", "--punctuate", option])
    assert done.exit_code == 0, done.output
    assert "4,235 tuples read" in done.output


def test_a_picture_against_an_attribute_leaves_out_what_has_no_value_of_it(tmp_path: Path) -> None:
    columns = {"ts": pa.array([3, 1, 2], pa.int64()).view(TS), "seen": pa.array([None, 7, 8], pa.int64())}
    report = oop.disorder(oop.arrow(pa.table(columns)), against="seen")
    assert sorted(point.place for point in report.scatters[0].points) == [7, 8]
    report.plot(tmp_path / "x.svg")
    assert "seen" in " ".join(ET.fromstring((tmp_path / "x.svg").read_text()).itertext())
