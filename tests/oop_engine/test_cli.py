"""The command line as a user meets it: results, words on stderr, exit statuses, and a clean end on SIGINT."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import oop_engine
from oop_engine.api.stream import Stream
from oop_engine.cli import commands, demo
from oop_engine.cli.errors import tell
from oop_engine.cli.summary import summary
from oop_engine.cli.summary import table as table_of
from oop_engine.drive.circuit import PAGE_ROWS
from oop_engine.drive.runtime import run_to_end
from oop_engine.messages import printable
from oop_engine.plan.graph import Plan
from oop_engine.sources.generator import SECOND, Band, packets
from oop_engine.sources.recording import write_pcap
from tests.examples import mostly_slow

ROOT = Path(oop_engine.__file__).resolve().parents[1]
PER_MINUTE = "SELECT count(*) [RANGE 1 minute, WA ts] FROM Main"
Q1_2 = "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union Main2"
ROWS = [f"2026-11-21T10:{minute:02d}:{second:02d}Z,10.0.0.{second % 4}" for minute in range(5) for second in (5, 20, 2)]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three small captures of two minutes each; the main ones are disordered by up to 2 s."""
    folder = tmp_path_factory.mktemp("captures")
    for link, n in (("Control", 20), ("Main1", 1200), ("Main2", 600)):
        links = packets(n, rate=n / 120, sources=20, link=link, disorder=Band(2 * SECOND))
        write_pcap(links, folder / f"{link}.pcap", nanosecond=True)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _compiled(captures: Path) -> None:
    """Have the kernels on disk, so that no run says that it compiles them."""
    oop("query", PER_MINUTE + " GROUP BY srcIP", "-s", captures / "Main1.pcap")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "flows.csv"
    path.write_text("ts,srcIP\n" + "\n".join(ROWS) + "\n")
    return path


def oop(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(commands, [str(a) for a in arguments], input=stdin, prog_name="oop-engine")


def counts(result: Result) -> list[int]:
    header, *lines = result.stdout.splitlines()
    assert header == "count,wid,window_start,window_end"
    return [int(line.split(",")[0]) for line in lines]


def test_results_are_csv_where_no_terminal_is(captures: Path) -> None:
    result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap")
    assert result.exit_code == 0, result.output
    assert counts(result) == [600, 600]
    assert result.stdout.splitlines()[1].endswith("2026-11-21T10:00:00Z,2026-11-21T10:01:00Z")


def test_json_is_an_object_a_line(captures: Path) -> None:
    text = "SELECT srcIP, count(*) AS n [RANGE 1 minute, WA ts] FROM M GROUP BY srcIP"
    result = oop("query", text, "--json", "-s", f"M={captures / 'Main1.pcap'}")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows and all(list(row) == ["srcIP", "n", "wid", "window_start", "window_end"] for row in rows)
    assert oop("query", text, "--to-format", "ndjson", "-s", f"M={captures / 'Main1.pcap'}").stdout == result.stdout
    refused = oop("query", text, "--json", "--to", "out.csv", "-s", f"M={captures / 'Main1.pcap'}")
    assert refused.exit_code == 2 and "Name a file: --to out.ndjson" in refused.stderr


def test_a_union_as_the_thesis_prints_it(captures: Path) -> None:
    names = [f"--stream={link}={captures / link}.pcap" for link in ("Control", "Main1", "Main2")]
    assert counts(oop("query", Q1_2, *names)) == [910, 910]


@pytest.mark.parametrize("several", ["commas", "pattern", "repeated"])
def test_several_files_are_one_stream(captures: Path, several: str) -> None:
    one, two = captures / "Main1.pcap", captures / "Main2.pcap"
    options = {
        "commas": ["-s", f"Main={one},{two}"],
        "pattern": ["-s", f"Main={captures / 'Main*.pcap'}"],
        "repeated": ["-s", f"Main={one}", "-s", f"Main={two}"],
    }[several]
    assert counts(oop("query", PER_MINUTE, *options)) == [900, 900]


def test_the_summary_says_what_was_read_released_and_held(captures: Path) -> None:
    result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap")
    first, second = result.stderr.splitlines()
    assert first.startswith("1,200 tuples read in ") and first.endswith("; none late")
    assert second.startswith("2 windows released; 2 results; peak state ")


def test_quiet_says_nothing(captures: Path) -> None:
    result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")


def cut(captures: Path, tmp_path: Path, kind: str) -> Path:
    """Cut a capture of 1,200 packets within one of them."""
    whole = (captures / "Main1.pcap").read_bytes()
    path = tmp_path / f"cut.{kind}"
    path.write_bytes(whole[:-7] if kind == "pcap" else gzip.compress(whole)[:-2000])
    return path


def honest(n: int) -> list[str]:
    """Give lines of a table, ten tuples a second, of which the hundredth is ten years ahead."""
    lines = [f"2026-11-21T10:{i // 600:02d}:{i // 10 % 60:02d}.{i % 10}Z" for i in range(n)]
    return ["ts", *lines[:100], "2036-11-21T10:00:00.0Z", *lines[100:]]


def piped(lines: list[str], *arguments: object) -> Result:
    command = [str(a) for a in ("query", PER_MINUTE, "-s", "Main=-", "--format", "csv", *arguments)]
    return CliRunner().invoke(commands, command, input="\n".join(lines), prog_name="oop-engine")


def test_one_packet_of_the_far_future_in_a_pipe_makes_no_other_late() -> None:
    result = piped(honest(3000), "--slack", "2s", "-q")
    assert [int(line.split(",")[0]) for line in result.stdout.splitlines()[1:]] == [600, 600, 600, 600, 600, 1]
    assert result.stderr.splitlines() == [
        "note: Main: 1 tuple, more than 1 hour ahead of the stream, moved no promise and counts in windows of its own "
        "time; jump sets how far ahead a tuple may be"
    ]


@pytest.mark.parametrize(("jump", "late"), [("none", 2900), ("3650 days", 0), ("4000 days", 2900)])
def test_how_far_a_tuple_may_move_a_promise_can_be_said(jump: str, late: int) -> None:
    result = piped(honest(3000), "--slack", "2s", "--jump", jump, "--stats")
    assert result.exit_code == 0
    assert (f"{late:,} late, dropped" if late else "none late") in result.stderr


@pytest.mark.slow
def test_with_a_lull_a_silent_pipe_holds_no_union_up(tmp_path: Path) -> None:
    """The pipe stays open and says nothing more; the result comes all the same. A file has no lull."""
    pipe, path = tmp_path / "pipe", tmp_path / "other.csv"
    os.mkfifo(pipe)
    soon = (int(time.time()) + 8) * SECOND
    path.write_text(f"ts\n{soon}\n{soon + 1}\n")
    query = "SELECT count(*) [RANGE 1 second, WA ts] FROM Silent union Other"
    command = [sys.executable, "-m", "oop_engine", "query", query, "-s", f"Silent={pipe}", "-s", f"Other={path}", "-q"]
    command += ["--format", "csv", "--types", "ts=timestamp", "--slack", "1s", "--lull", "3s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        with pipe.open("w") as silent:
            silent.write(f"ts\n{soon}\n")
            silent.flush()
            lines = [process.stdout.readline() for _ in range(2)]
            assert process.poll() is None
        assert process.wait() == 0
    assert [line.split(",")[0].strip() for line in lines] == ["count", "3"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--jump", "1h"), "--jump 1h needs a promise to apply to; add --slack"),
        (("--lull", "1h"), "--lull 1h needs a promise to apply to; add --slack"),
        (("--punctuate", "embedded:m", "--lull", "2s"), '--lull 2s promises by the clock, and with --punctuate "emb'),
        (("--slack", "2s", "--jump", "far"), "jump is 'far'"),
    ],
)
def test_what_promises_nothing_is_refused_on_the_command_line(arguments: tuple[str, ...], said: str) -> None:
    result = piped(honest(3), *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_quiet_says_how_many_tuples_were_late() -> None:
    lines = honest(1000)
    result = piped([lines[0], *lines[500:], *lines[1:100]], "--slack", "2s", "--jump", "none", "-q")
    assert result.exit_code == 0
    assert result.stderr == "note: of 601 tuples, 99 late, dropped\n"


@pytest.mark.parametrize("kind", ["pcap", "pcap.gz"])
def test_quiet_hides_no_loss(captures: Path, tmp_path: Path, kind: str) -> None:
    path = cut(captures, tmp_path, kind)
    loud, quiet = (oop("query", PER_MINUTE, "-s", path, *more) for more in ((), ("--quiet",)))
    assert (quiet.exit_code, quiet.stdout) == (0, loud.stdout)
    assert quiet.stderr.startswith(f"note: {path}: truncated at byte ") and quiet.stderr.endswith(" packets read\n")
    assert quiet.stderr.splitlines() == loud.stderr.splitlines()[2:]


@pytest.mark.parametrize("kind", ["pcap", "pcap.gz"])
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_a_strict_run_that_fails_leaves_no_file(captures: Path, tmp_path: Path, kind: str, suffix: str) -> None:
    path, out = cut(captures, tmp_path, kind), tmp_path / f"out.{suffix}"
    given = ("query", "SELECT ts, srcIP FROM Main", "-s", path, "--strict", "--slack", "2s", "--to", out)
    result = oop(*given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"DecodeError: {path}: truncated at byte ")
    assert "part of the results" not in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    out.write_text("what was there")
    assert oop(*given).exit_code == 2
    assert out.read_text() == "what was there" and len(list(tmp_path.iterdir())) == 2


def test_a_strict_run_that_fails_says_that_standard_output_has_a_part(captures: Path, tmp_path: Path) -> None:
    path = cut(captures, tmp_path, "pcap")
    # Pages wait for each other, so that the first ones are written long before the last one is read.
    result = oop("query", "SELECT ts, srcIP FROM Main", "-s", path, "--strict", "--slack", "2s", "--page-size", "4")
    assert result.exit_code == 2 and result.stdout.startswith("ts,srcIP\n")
    assert result.stderr.splitlines()[-1].startswith("  standard output has only a part of the results; --to FILE")
    nothing = tmp_path / "nothing.pcap"
    nothing.write_bytes(b"no capture\n" * 9)
    assert "standard output" not in oop("query", PER_MINUTE, "-s", nothing, "--slack", "2s").stderr


def test_stats_lists_every_operator(captures: Path) -> None:
    result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap", "--stats", "-q")
    lines = result.stderr.splitlines()
    assert lines[0].split()[:3] == ["operator", "tuples", "in"]
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "Main",
        "bucket [RANGE 1 minute,...",
        "aggregate count(*)",
    ]
    assert "ts 10:01:00" in lines[1]
    assert max(map(len, lines)) <= 100


def test_statistics_say_of_each_operator_what_went_in_and_out_how_far_it_is_and_what_it_holds() -> None:
    stream = oop_engine.rows([(t, t % 3) for t in range(100)], oop_engine.Schema.of(ts="int64", k="int64"), slack=5)
    counted = stream.filter("k > 0").window(range=10).aggregate(oop_engine.count())
    told = table_of(Plan((counted.node,)), counted.run().statistics, width=200)
    assert [re.split("  +", line.strip()) for line in told.splitlines()] == [
        ["operator", "tuples in", "out", "punct. in", "out", "low-watermark", "high-watermark", "lag", "state, peak"],
        ["rows", "100", "100", "1", "2", "ts 90", "99", "9", "-"],
        ["filter k > 0", "100", "66", "2", "2", "ts 90", "-", "-", "-"],
        ["bucket [RANGE 10, SLIDE 10, WA ts]", "66", "66", "2", "2", "wid_from 9", "-", "-", "-"],
        ["aggregate count(*)", "66", "10", "2", "4", "wid 9", "-", "-", "0, 10"],
    ]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            140,
            [
                "bucket [RANGE 1 minute, SLIDE 1 s...  ",
                "  2    2  wid_from 1795255319     -                             -",
                "ts 2026-11-21 10:01:59  2026-11-21 10:01:59.968  968 ms",
            ],
        ),
        (
            112,
            [
                "bucket [RANGE 1 m...  ",
                "  2    2  wid_from 1795255319  -                    -",
                "ts 10:01:59          10:01:59.968    968 ms",
            ],
        ),
        (98, ["bucket [RANGE 1 min...  ", "  2    2  wid_from 1795255319       -", "ts 10:01:59          968 ms"]),
        (80, ["bucket [RANGE 1 minute, SLIDE 1 s, WA ts]", "  1,200  1,200          2    2  wid_from 1795255319  "]),
        (76, ["bucket [RANGE 1 minute, SLIDE 1 s, WA ts]", "ts 10:01:59          968 ms"]),
    ],
)
def test_stats_fit_their_width(captures: Path, width: int, lines: list[str]) -> None:
    """Narrower and narrower: labels cut, times without their day, no high-watermark, labels on lines of their own."""
    stream = oop_engine.pcap(captures / "Main1.pcap").window("1 minute", slide="1 s")
    stream = stream.aggregate(oop_engine.count(), strategy="panes")
    plan = Plan((stream.node,))
    shown = table_of(plan, run_to_end(plan, (lambda element: None,)), width=width)
    assert max(map(len, shown.splitlines())) <= width
    for text in lines:
        assert text in shown, shown
    assert ("high-watermark" in shown) == (width > 100)


@pytest.mark.parametrize("size", [1, 7, 8192])
def test_the_page_size_changes_no_result(captures: Path, size: int) -> None:
    query = "SELECT srcIP, count(*) [RANGE 20 s, SLIDE 5 s, WA ts] FROM Main GROUP BY srcIP"
    given = ("query", query, "-s", captures / "Main2.pcap", "--slack", "500 ms")
    result = oop(*given, "--page-size", size)
    assert sorted(result.stdout.splitlines()) == sorted(oop(*given).stdout.splitlines())
    assert "18 late for some of their windows" in result.stderr


def test_the_help_tells_the_page_size_that_is_used() -> None:
    assert f"[default: {PAGE_ROWS}]" in " ".join(oop("query", "--help").stdout.split())


@pytest.mark.parametrize(
    ("command", "option", "meant"),
    [
        ("query", "--output", "--to"),
        ("query", "-o", "--to"),
        ("query", "-i", "--stream"),
        ("collect", "--output", "--to"),
        ("explain", "--input", "--stream"),
    ],
)
def test_an_option_that_other_programs_have_names_ours(command: str, option: str, meant: str) -> None:
    result = oop(command, PER_MINUTE, option, "x.csv")
    assert result.exit_code == 2 and f"No such option '{option}'. Write {meant}." in result.stderr
    assert "Write" not in oop("explain", PER_MINUTE, "--output", "x").stderr


def test_times_that_a_table_has_as_numbers_are_read_as_the_message_says(tmp_path: Path) -> None:
    table = tmp_path / "flows.csv"
    table.write_text("ts,v\n1795255200,1\n1795255201.5,2\n1795255270,3\n")
    refused = oop("query", PER_MINUTE, "-s", table)
    assert refused.exit_code == 2 and "--types ts=epoch" in refused.stderr
    assert counts(oop("query", PER_MINUTE, "-s", table, "--types", "ts=epoch")) == [2, 1]


def test_limit_shows_the_first_results_and_counts_the_rest(captures: Path) -> None:
    query = "SELECT srcIP, count(*) [RANGE 1 minute, WA ts] FROM Main GROUP BY srcIP"
    result = oop("query", query, "-s", captures / "Main1.pcap", "--limit", 3)
    assert len(result.stdout.splitlines()) == 4
    assert "... and 37 more results; --limit shows 3, --to FILE writes all." in result.stderr


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson", "arrow"])
def test_results_go_where_the_suffix_says(captures: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"out.{suffix}"
    result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap", "--to", target)
    assert (result.exit_code, result.stdout) == (0, "")
    if suffix == "parquet":
        assert pq.read_table(target).column("count").to_pylist() == [600, 600]
    if suffix == "ndjson":
        assert [json.loads(line)["count"] for line in target.read_text().splitlines()] == [600, 600]
    assert target.stat().st_size > 0


def test_the_query_may_stand_in_a_file_or_come_by_standard_input(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(PER_MINUTE + "\n")
    assert counts(oop("query", f"@{tmp_path / 'q.sql'}", "-s", captures / "Main1.pcap")) == [600, 600]
    assert counts(oop("query", "-", "-s", captures / "Main1.pcap", stdin=PER_MINUTE)) == [600, 600]


def test_late_tuples_are_counted_and_written_with_the_promise_they_broke(table: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.csv"
    result = oop("query", PER_MINUTE, "-s", table, "--every", "10 s", "--late-to", late)
    assert counts(result) == [2, 2, 2, 2, 2]
    assert f"; 5 late, diverted to {late}" in result.stderr
    header, *rows = late.read_text().splitlines()
    assert header == "ts,srcIP,broken,tuple"
    assert rows[0].startswith("2026-11-21T10:00:02Z,") and rows[0].endswith(',"[ts < 2026-11-21T10:00:20Z]",2')


def test_late_tuples_may_be_passed_on_and_what_windows_refuse_is_counted(table: Path) -> None:
    query = ("query", "SELECT ts FROM Main", "-s", table, "--every", "10 s")
    assert len(oop(*query).stdout.splitlines()) == 1 + 10
    assert len(oop(*query, "--late", "revise").stdout.splitlines()) == 1 + 15
    windowed = oop("query", "SELECT count(*) [RANGE 10 s, WA ts] FROM Main", *query[2:], "--late", "revise")
    assert sum(counts(windowed)) == 10
    assert "; 5 late, left out of windows that were released" in windowed.stderr
    refused = oop(*query, "--late", "revise", "--late-to", "late.csv")
    assert "--late-to diverts late tuples, and --late revise does not" in refused.stderr


def test_types_and_strictness_are_said_to_the_streams_that_know_them(captures: Path, table: Path) -> None:
    both = ("-s", f"One={table}", "-s", f"Two={captures / 'Main1.pcap'}")
    query = "SELECT count(*) [RANGE 1 minute, WA ts] FROM (SELECT ts FROM One) UNION (SELECT ts FROM Two)"
    result = oop("query", query, *both, "--types", "srcIP=text", "--strict")
    assert result.exit_code == 0, result.output


def test_the_file_for_late_tuples_is_there_when_none_is_late(table: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.csv"
    assert counts(oop("query", PER_MINUTE, "-s", table, "--slack", "1 minute", "--late-to", late)) == [3] * 5
    assert late.read_text() == "ts,srcIP,broken,tuple\n"


def test_late_tuples_of_several_streams_go_to_a_file_each(table: Path, tmp_path: Path) -> None:
    query = "SELECT count(*) [RANGE 1 minute, WA ts] FROM One UNION Two"
    given = ("-s", f"One={table}", "-s", f"Two={table}", "--every", "10 s", "--late-to", tmp_path / "late.ndjson")
    assert counts(oop("query", query, *given)) == [4] * 5
    for name in ("One", "Two"):
        late = [json.loads(line) for line in (tmp_path / f"late-{name}.ndjson").read_text().splitlines()]
        assert [row["tuple"] for row in late] == [2, 5, 8, 11, 14]
    explained = oop("explain", query, *given)
    assert "late tuples are diverted and counted" in explained.stdout, explained.output


def test_a_file_for_late_tuples_that_cannot_be_written_is_refused_first(table: Path, tmp_path: Path) -> None:
    for target, message in (
        (tmp_path / "late.txt", "is no suffix of a sink"),
        (tmp_path / "no" / "l.csv", "no folder"),
    ):
        result = oop("query", PER_MINUTE, "-s", table, "--every", "10 s", "--late-to", target)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr


def test_nothing_is_written_to_standard_output_before_there_is_something_to_read(tmp_path: Path, table: Path) -> None:
    """A header without results would say that there are none."""
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(b"this is text and no capture\n" * 9)
    result = oop("query", PER_MINUTE, "-s", damaged)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no capture" in result.stderr
    nothing = oop("query", PER_MINUTE.replace("FROM Main", "FROM Main WHERE srcIP = 'none'"), "-s", table)
    assert (nothing.exit_code, nothing.stdout) == (0, "count,wid,window_start,window_end\n")


PLAIN = "without a value of the progressing attribute"
BY_5 = "count(*) [RANGE 5, WA ts]"


@pytest.mark.parametrize(
    ("query", "number"),
    [
        (f"SELECT {BY_5} FROM S", 1),
        (f"SELECT {BY_5} FROM T", 2),
        ("SELECT count(*) [RANGE 5, RATTR ts, SLIDE 1, SATTR rank(ts)] FROM S", 1),
        (f"SELECT {BY_5} FROM S union T", 3),
        ("SELECT * FROM S [RANGE 5], T [RANGE 5] WHERE S.k = T.k", 3),
    ],
)
def test_a_tuple_without_a_time_is_noted_once(tmp_path: Path, query: str, number: int) -> None:
    (tmp_path / "S.csv").write_text("ts,k\n1,a\n,b\n7,c\n")
    (tmp_path / "T.csv").write_text("ts,k\n1,a\n,b\n7,c\n,d\n")
    streams = [f"--stream={name}={tmp_path / name}.csv" for name in "ST" if f"{name} " in f"{query} ".replace(",", " ")]
    result = oop("query", query, *streams)
    assert result.exit_code == 0, result.output
    noted = [line for line in result.stderr.splitlines() if line.startswith("note:")]
    assert noted == [f"note: {number} tuple{'s' if number > 1 else ''} {PLAIN}"]


def test_tuples_without_a_time_are_noted_once_where_several_windows_read_a_stream() -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])

    def stream(*times: int | None) -> Stream:
        return oop_engine.rows([(time, 1) for time in times], schema, slack=0)

    def note(*streams: Stream) -> str:
        outputs = [s.window(range=size).aggregate(oop_engine.count()) for s in streams for size in (5, 10)]
        plan = Plan(tuple(output.node for output in outputs))
        return next(
            line
            for line in summary(plan, run_to_end(plan, [lambda _: None] * len(outputs))).splitlines()
            if "note" in line
        )

    one, other = stream(1, None, 7), stream(1, None, None, 2**62)
    beyond = "without a usable value of the progressing attribute (null, or beyond 2**61 of its unit)"
    assert note(one) == f"note: 1 tuple {PLAIN}"
    assert note(other) == f"note: 3 tuples {beyond}"
    assert note(one, other, one.meld(other)) == f"note: 4 tuples {beyond}"
    assert note(one.meld(other)) == f"note: 4 tuples {beyond}"
    # The filter leaves nothing for the window to count; what was read is still told.
    assert note(one.filter("ts > 0")) == f"note: 1 tuple {PLAIN}"


def test_times_that_no_window_reaches_are_called_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "far.csv"
    path.write_text("ts\n2020-01-01T00:00:00\n2090-01-01T00:00:00\n1890-01-01T00:00:00\n")
    result = oop("query", "SELECT count(*) [RANGE 5 s, WA ts] FROM S", "-s", f"S={path}", "--types", "ts=timestamp")
    words = "without a usable value of the progressing attribute (null, or beyond 1896-12 to 2043-01 in nanoseconds)"
    assert f"note: 2 tuples {words}\n" in result.stderr


@pytest.mark.parametrize("rank", ["SLIDE 1, SATTR rank(ts)", "SLIDE 2, SATTR rank(ts)", "SLIDE 2, SATTR row-num"])
def test_windows_that_tuples_define_are_counted_in_the_summary(tmp_path: Path, rank: str) -> None:
    path = tmp_path / "S.csv"
    path.write_text("ts,k\n1,a\n3,b\n2,a\n12,b\n")
    result = oop("query", f"SELECT k, count(*) [RANGE 5, RATTR ts, {rank}] FROM S GROUP BY k", "-s", path)
    assert f"{2 if '2' in rank else 4} windows released; " in result.stderr, result.output


def test_a_rate_that_includes_compiling_says_so(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for already in (True, False):
        monkeypatch.setattr("oop_engine.cli.showing.compiled", lambda already=already: already)
        result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap")
        assert ("tuples/s, compiling included); none late" in result.stderr) == (not already)


@pytest.mark.parametrize(("folder", "once"), [(Path("kernels"), True), (None, False)])
def test_later_runs_start_at_once_only_where_kernels_are_kept(
    folder: Path | None, once: bool, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oop_engine.cli.showing.compiled", lambda: False)
    monkeypatch.setattr("oop_engine.cli.compiling.kept.lasting", lambda: folder)
    result = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap")
    assert "compiling kernels" in result.stderr
    assert ("once: " in result.stderr) == ("later ones start at once" in result.stderr) == once


def test_windows_over_arrival_need_no_promise_on_a_pipe() -> None:
    query = "SELECT k, count(*) [RANGE 1 h, WA arrival-ts] FROM Main GROUP BY k"
    result = oop("query", query, "-s", "Main=-", "--format", "csv", stdin="ts,k\n1,a\n5,b\n2,a\n")
    assert result.exit_code == 0, result.output
    assert sorted(line.split(",")[:2] for line in result.stdout.splitlines()[1:]) == [['"a"', "2"], ['"b"', "1"]]


def test_a_refused_tuple_ends_the_run_with_its_place_and_no_file(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    result = oop("query", PER_MINUTE, "-s", table, "--every", "10 s", "--late", "refuse", "--to", target)
    assert result.exit_code == 3
    assert result.stderr.startswith("StreamViolation: Main broke its promise: tuple 2 ")
    assert "in operator 0 (Main), port 0" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.glob("*out*")) == []


@pytest.mark.parametrize(
    ("how", "late"),
    [("slack:20s", 0), ("slack:10s", 5), ("tuples:2", 0), ("tuples:1", 4), ("block:1 minute", 0), ("ordered", 5)],
)
def test_every_punctuator_can_be_asked_for(table: Path, how: str, late: int) -> None:
    """The first tuple alone makes no promise, so of those out of order by one place one fewer is late."""
    result = oop("query", PER_MINUTE.replace("1 minute", "5 s"), "-s", table, "--punctuate", f"Main={how}")
    assert result.exit_code == 0, result.output
    expected = f"{late} late, dropped" if late else "none late"
    assert expected in result.stderr


def test_embedded_promises_are_read_out_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "marked.csv"
    path.write_text("ts,done\n2026-11-21T10:00:01Z,false\n2026-11-21T10:01:00Z,true\n2026-11-21T10:00:02Z,false\n")
    result = oop("query", PER_MINUTE, "-s", path, "--punctuate", "embedded:done")
    assert counts(result) == [1]
    assert "1 late, dropped" in result.stderr


def test_types_make_addresses_of_text(table: Path) -> None:
    query = "SELECT srcIP, count(*) [RANGE 5 minutes, WA ts] FROM Main WHERE srcIP IN '10.0.0.2/31' GROUP BY srcIP"
    result = oop("query", query, "-s", table, "--types", "srcIP=ip")
    assert [line.split(",")[:2] for line in result.stdout.splitlines()[1:]] == [["10.0.0.2", "5"]], result.stderr


def test_a_damaged_capture_gives_what_can_be_read_and_a_note(captures: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((captures / "Main1.pcap").read_bytes()[:50_001])
    result = oop("query", PER_MINUTE, "-s", cut)
    assert result.exit_code == 0
    assert "cut.pcap: truncated at byte 50001" in result.stderr
    strict = oop("query", PER_MINUTE, "-s", cut, "--strict")
    assert strict.exit_code == 2
    assert strict.stderr.startswith("DecodeError: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["SELECT count(*) [RANG 1 s, WA ts] FROM Main"],
            "LanguageError: line 1, column 18: expected RANGE, SLIDE or WA",
        ),
        (["SELECT nope FROM Main"], "LanguageError: line 1, column 8:"),
        ([PER_MINUTE, "-s", "Main=missing.pcap"], 'SourceError: there is no file "missing.pcap"'),
        ([PER_MINUTE, "-s", "Other={table}"], 'LanguageError: line 1, column 46: there is no stream "Main"'),
        ([PER_MINUTE, "--to", "out.xls"], 'SinkError: "out.xls": ".xls" is no suffix of a sink.'),
        ([PER_MINUTE, "--slack", "2x"], "PlanError: slack is '2x': expected a unit"),
        ([PER_MINUTE, "--punctuate", "slak:2s"], 'Error: --punctuate "slak:2s" is no punctuator'),
        ([PER_MINUTE, "--punctuate", "Other=ordered"], 'Error: --punctuate Other=...: there is no stream "Other"'),
        ([PER_MINUTE, "--late", "divert"], "Error: --late divert needs --late-to FILE"),
        ([PER_MINUTE, "--types", "srcIP"], 'Error: --types "srcIP": write ATTR=TYPE'),
        ([PER_MINUTE, "-s", "Main=-", "-s", "Other=-"], 'Error: standard input ("-") can be read by one stream only.'),
        ([Q1_2], 'Error: the query reads "Control", "Main1" and "Main2"; name each'),
        (["@missing.sql"], 'Error: the query file "missing.sql" (after "@") cannot be read'),
        ([PER_MINUTE, "--on", "length"], "Error: --on length needs a promise to apply to"),
        ([PER_MINUTE, "--slack", "2"], "2 of what?"),
        ([PER_MINUTE, "-s", "Main=" + "x" * 300], "File name too long"),
    ],
)
def test_what_is_wrong_is_said_in_words_with_status_2(table: Path, arguments: list[str], message: str) -> None:
    given = [argument.format(table=table) for argument in arguments]
    result = oop("query", *given, *([] if "-s" in given else ["-s", table]))
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_without_streams_the_query_names_what_it_wants() -> None:
    result = oop("query", PER_MINUTE)
    assert result.exit_code == 2
    assert 'the query reads "Main"; say where from, e.g. --stream Main=capture.pcap' in result.stderr


def test_standard_input_without_a_promise_is_refused_with_the_option_that_helps() -> None:
    result = oop("query", PER_MINUTE, "-s", "-", "--format", "csv", stdin="ts\n2026-11-21T10:00:01Z\n")
    assert result.exit_code == 2
    assert "PlanError: " in result.stderr
    assert "--slack 2s" in result.stderr


def test_arithmetic_that_the_data_does_not_allow_is_the_datas_fault(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("a,b\n9223372036854775807,2\n")
    result = oop("query", "SELECT a * b AS x FROM Main", "--stream", f"Main={path}")
    assert result.exit_code == 3
    assert "OverflowError" in result.stderr
    assert "bug" not in result.stderr


def test_an_error_that_nobody_foresaw_is_called_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError("x\x1b[2J")
    except KeyError as error:
        assert tell(error) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown and "please report" in shown
    assert "\x1b" not in shown


def test_control_characters_of_messages_are_escaped() -> None:
    assert printable("one\ntwo\x1b[31m\r\u202e") == "one\ntwo\\x1b[31m\\r\\u202e"


@pytest.mark.parametrize("mark", ["\x1b[2J", "\x9b2J", "\u202e"])
def test_names_of_columns_and_files_do_not_steer_the_terminal(tmp_path: Path, mark: str) -> None:
    path = tmp_path / f"f{mark}.csv"
    path.write_text(f'ts,"v{mark}",n\n2026-11-21T10:00:00Z,"x{mark}",1\n')
    for said in (
        oop("explain", PER_MINUTE, "-s", f"Main={path}"),
        oop("query", f"SELECT nothing [RANGE 1 minute, WA ts] FROM Main -- {mark}", "-s", f"Main={path}"),
        oop("query", PER_MINUTE, "-s", f"Main={path}", "--to", tmp_path / "out.csv", "--stats"),
        oop("disorder", path, "--by", f"v{mark}"),
        oop("query", PER_MINUTE, "-s", f"Main={path}", f"-{mark}"),
    ):
        assert all(line.isprintable() for line in (said.stderr + said.stdout).split("\n")), said.output
    [page] = list(oop_engine.read(path))
    for shown in (repr(page), page.describe(0), str(page.schema), repr(oop_engine.read(path).run())):
        assert all(line.isprintable() for line in shown.split("\n"))


def test_formulas_in_csv_are_marked_on_request(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text('ts,name\n2026-11-21T10:00:00Z,"=1+1"\n')
    names = ["query", "SELECT name FROM Main", "-s", f"Main={path}"]
    assert oop(*names).stdout == 'name\n"=1+1"\n'
    assert oop(*names, "--spreadsheet").stdout == 'name\n"\'=1+1"\n'
    assert oop(*names, "--spreadsheet", "--to", tmp_path / "out.csv").exit_code == 0
    assert (tmp_path / "out.csv").read_text() == 'name\n"\'=1+1"\n'
    refused = oop(*names, "--spreadsheet", "--to", tmp_path / "out.parquet")
    assert refused.exit_code == 2 and "--spreadsheet is for CSV" in refused.stderr


def test_explain_prints_the_plan_and_both_pictures(captures: Path, tmp_path: Path) -> None:
    names = [f"--stream={link}={captures / link}.pcap" for link in ("Control", "Main1", "Main2")]
    shown = oop("explain", Q1_2, *names, "--slack", "2s")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("aggregate count(*)\n")
    assert shown.stdout.count("punctuated  on ts, slack 2s, every 1 minute") == 3
    assert oop("explain", Q1_2, *names, "--mermaid").stdout.startswith("flowchart TB\n")
    drawn = oop("explain", Q1_2, *names, "--svg").stdout
    assert drawn.startswith("<svg ")
    assert oop("explain", Q1_2, *names, "--svg", tmp_path / "plan.svg").stdout == ""
    assert (tmp_path / "plan.svg").read_text() == drawn


@pytest.mark.parametrize("command", ["explain", "disorder", "query"])
def test_a_file_that_cannot_be_written_is_named_with_the_way_out(captures: Path, tmp_path: Path, command: str) -> None:
    def written(target: Path) -> Result:
        capture = captures / "Main1.pcap"
        match command:
            case "explain":
                return oop("explain", PER_MINUTE, "-s", capture, "--svg", target)
            case "disorder":
                return oop("disorder", capture, "--plot", target)
            case _:
                return oop("query", PER_MINUTE, "-s", capture, "--to", target)

    suffix = "csv" if command == "query" else "svg"
    missing, folder = tmp_path / "missing" / f"x.{suffix}", tmp_path / f"folder.{suffix}"
    folder.mkdir()
    result = written(missing)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f'"{missing}" cannot be written: there is no folder "{missing.parent}".' in result.stderr
    assert result.stderr.endswith("  Make it first, or name another file.\n")
    result = written(folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f'"{folder}" is a folder; name a file in it, e.g. "{folder}/' in result.stderr
    assert list(tmp_path.iterdir()) == [folder]


def test_help_and_version_are_there() -> None:
    assert "oop-engine demo" in oop("--help").stdout
    assert oop("--version").stdout == f"oop-engine {oop_engine.__version__}\n"
    assert "--stream" in oop("query", "--help").stdout


def test_a_wrong_command_is_corrected() -> None:
    assert 'Did you mean "query"?' in oop("qeury").stderr
    assert "is run with" in oop("SELECT count(*) FROM Main").stderr


UNUSED = {
    "pandas",
    "pyspark",
    "rich",
    "matplotlib",
    "hypothesis",
    "asyncio",
    "oop_engine.spark",
    "oop_engine.sources.capture.further",
    "oop_engine.sources.files",
    "oop_engine.sources.flows.decoder",
    "operators.baselines.adaptive.adaptive",
    "operators.functions.sketches",
    "operators.functions.user",
    "operators.join",
    "operators.streams.merge",
    "operators.window_aggregate.stores.slices.aggregate",
    "operators.window_aggregate.stores.stacks.aggregate",
}
"""What no query over a capture with count and sum by groups needs."""
UNUSED_BY_TEXT = {
    "oop_engine.drive.view",
    "oop_engine.drive.why",
    "oop_engine.sinks.databases",
    "oop_engine.sinks.growing",
    "oop_engine.sinks.pagelog",
    "pyarrow.parquet",
}
"""What its results need as little, where they go to standard output."""


def test_help_loads_no_compiler_no_arrow_and_no_runtime() -> None:
    script = (
        "import sys\nsys.argv[1:] = ['query', '--help']\nfrom oop_engine.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numba', 'pyarrow', 'numpy', 'trio', 'lark', 'rich'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.splitlines()[-1] == "[]"


def test_a_query_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    query = "SELECT srcIP, count(*), sum(len) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP"
    for to, unused in (("-", UNUSED | UNUSED_BY_TEXT), (f"{tmp_path}/out.parquet", UNUSED)):
        arguments = ["query", query, "--stream", f"Main={ROOT}/demos/captures/web.pcap.gz", "--to", to]
        script = (
            f"import sys\nsys.argv[1:] = {arguments}\nfrom oop_engine.__main__ import main\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
            f"print(sorted({unused} & set(sys.modules)))"
        )
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
        assert found.stdout.splitlines()[-1] == "[]"


def test_a_command_that_is_done_ends_at_once_when_all_else_has_ended() -> None:
    """Nothing is unloaded; yet threads end, what is registered for the exit is called, and its status is told."""
    program = (
        "import atexit, sys, threading\nfrom oop_engine.__main__ import main\n"
        "class Unloaded:\n    def __del__(self):\n        print('unloaded', flush=True)\n"
        "held = Unloaded()\n"
        "threading.Thread(target=lambda: (threading.main_thread().join(), print('ended'))).start()\n"
        "sys.argv[1:] = {arguments}\n"
        "try:\n    main()\nfinally:\n    atexit.register(print, 'called')\n    {then}\n"
    )
    for arguments, then, status in ((["--version"], "pass", 0), (["nothing"], "pass", 2), (["--version"], "1 / 0", 1)):
        script = program.format(arguments=arguments, then=then)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == status, done.stderr
        assert done.stdout.splitlines()[-2:] == ["ended", "called"]


def test_a_command_ends_as_others_do_where_more_is_registered_for_the_exit() -> None:
    """What measures a process from its first moment on, such as coverage, is called as it was."""
    program = (
        "import atexit, sys\natexit.register(print, 'measured')\n{before}\nfrom oop_engine.__main__ import main\n"
        "sys.argv[1:] = ['--version']\nmain()\n"
    )
    for before in ("pass", "del atexit._ncallbacks"):
        script = program.format(before=before)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout.splitlines()[-1] == "measured"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["--help", "explain 'SELECT count(*) [RANGE 1, WA wid] FROM T' -s T={table}"])
def test_what_is_shown_says_why_it_cannot_be(arguments: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("wid\n1\n")
    command = f"{shlex.quote(sys.executable)} -m oop_engine {arguments.format(table=shlex.quote(str(table)))}"
    told = {">/dev/full": "standard output cannot be written: No space left on device."}
    if arguments != "--help":
        told[">&-"] = "Error: standard output is closed, and what is shown would go there."
    for where, text in told.items():
        done = subprocess.run(f"{command} {where}", shell=True, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, text)


def test_whether_kernels_are_compiled_is_seen_on_disk(tmp_path: Path) -> None:
    program = (
        "from oop_engine.cli.compiling import compiled\nfrom operators.kernels.streams.disorder import start_of\n"
        "print(compiled(('streams.disorder',)))\nstart_of(7, 5)\n"
        "print(compiled(('streams.disorder',)), compiled(('windows.slots',)))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for switched_off, told in (("0", "False\nTrue False\n"), ("0", "True\nTrue False\n"), ("1", "True\nTrue True\n")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "NUMBA_DISABLE_JIT": switched_off},
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == told


def test_the_demo_compares_state_that_was_measured() -> None:
    result = oop("demo", "--seconds", 60)
    assert result.exit_code == 0, result.output
    shown = result.stdout
    assert demo.QUERY in shown
    assert "10:00:00       120," in shown
    assert "The same packets, put in order first:" in shown
    melded, merged, alone = next(line for line in shown.splitlines() if line.startswith("held at most: ")).split()[-3:]
    assert int(melded) <= 4
    assert 20_000 <= int(merged.replace(",", "")) <= int(alone.replace(",", ""))


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("form", ["csv", "pcap"])
def test_sigint_keeps_what_was_read_though_standard_input_stays_open(
    captures: Path, running: list[subprocess.Popen[bytes]], form: str
) -> None:
    command = [sys.executable, "-m", "oop_engine", "query", PER_MINUTE, "-s", "-", "--slack", "2 s", "--format", form]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )  # fmt: skip
    running.append(process)
    assert process.stdin is not None and process.stdout is not None
    data = (captures / "Main1.pcap").read_bytes()
    process.stdin.write(data if form == "pcap" else ("ts,srcIP\n" + "\n".join(ROWS) + "\n").encode())
    process.stdin.flush()
    head = [process.stdout.readline(), process.stdout.readline()]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=2) == 130
    rest, said = process.stdout.read(), process.stderr.read() if process.stderr is not None else b""
    rows = b"".join([*head, rest]).decode().splitlines()
    assert rows[0] == "count,wid,window_start,window_end"
    assert [row.split(",")[0] for row in rows[1:]] == (["600"] if form == "pcap" else ["3", "3", "3", "3"])
    assert b"interrupted: the results so far are written" in said
    assert b"Traceback" not in said and b"Fatal" not in said


def wait_until(process: subprocess.Popen[bytes], *, reading: bool) -> None:
    """Wait until a process takes SIGTERM for itself, or, with `reading`, until it waits for standard input."""
    status, calls = Path(f"/proc/{process.pid}/status"), Path(f"/proc/{process.pid}/syscall")
    while process.poll() is None:
        taken = int(next(line for line in status.read_text().splitlines() if line.startswith("SigCgt")).split()[1], 16)
        waits = calls.read_text().startswith("0 0x0 ")
        if waits or (not reading and taken >> (signal.SIGTERM - 1) & 1):
            return


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="the system does not tell what a process waits for")
@pytest.mark.parametrize("background", mostly_slow([False, True], but=[True]))
@pytest.mark.parametrize(
    ("command", "reading", "status"),
    [
        (["query", "SELECT a FROM Main", "-s", "Main=-", "--format", "csv", "--every", "1s"], True, 130),
        (["query", "-", "-s", "Main=none.csv"], False, 130),
        (["collect", "--netflow", "127.0.0.1:0", "--query", "-"], False, 0),
    ],
)
def test_sigterm_at_an_early_moment_ends_a_command_as_ctrl_c_does(
    command: list[str], reading: bool, status: int, background: bool, running: list[subprocess.Popen[bytes]]
) -> None:
    """What a shell starts in the background ignores SIGINT."""
    process = subprocess.Popen(
        [sys.executable, "-m", "oop_engine", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.SIG_DFL),
    )  # fmt: skip
    running.append(process)
    wait_until(process, reading=reading)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == status
    assert process.stderr is not None and process.stderr.read() == b"stopped.\n"


def test_a_reader_that_has_seen_enough_ends_the_run_quietly(captures: Path) -> None:
    query = "SELECT srcIP, count(*) [RANGE 100 s, SLIDE 20 ms, WA ts] FROM Main GROUP BY srcIP"
    command = [sys.executable, "-m", "oop_engine", "query", query, "-s", str(captures / "Main1.pcap"), "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().startswith(b"srcIP,")
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 141
    assert said in (
        b"",
        b"compiling kernels, once: the first run takes some seconds longer, later ones start at once.\n",
    )


def test_late_tuples_replace_neither_results_nor_what_is_read(captures: Path, tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("ts,srcIP\n" + "\n".join(ROWS) + "\n")
    before = table.read_bytes()
    out = tmp_path / "out.csv"
    query = ("query", PER_MINUTE, "-s", table, "--every", "10 s")
    for more, says in (
        (("--late-to", out, "--to", f"{tmp_path}/x/../out.csv"), "is for the results"),
        (("--late-to", table), "is read as stream Main"),
        (("--late-to", "-"), "both go to standard output"),
    ):
        (tmp_path / "x").mkdir(exist_ok=True)
        refused = oop(*query, *more)
        assert refused.exit_code == 2 and says in refused.stderr
    refused = oop(*query, "--to", table)
    assert refused.exit_code == 2 and "is read as stream Main; the results would replace it" in refused.stderr
    assert oop("explain", *query[1:], "--late-to", table).exit_code == 2
    assert table.read_bytes() == before and not out.exists()
    assert oop(*query, "--late-to", "-", "--to", out).exit_code == 0
    assert oop("explain", *query[1:], "--late-to", "-").exit_code == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--punctuate", "block:0s"], "hold nothing"),
        (["--punctuate", "tuples:99999999999999999999"], "that many values are kept"),
    ],
)
def test_amounts_that_cannot_be_are_refused(captures: Path, given: list[str], says: str) -> None:
    refused = oop("query", PER_MINUTE, "-s", captures / "Main1.pcap", *given)
    assert refused.exit_code == 2 and says in refused.stderr and "Traceback" not in refused.stderr


def test_a_seed_is_not_negative() -> None:
    assert oop("demo", "--seed", "-5").exit_code == 2


def test_results_need_an_open_standard_output_or_a_file(captures: Path, tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m oop_engine query {shlex.quote(PER_MINUTE)} -s {captures}/Main1.pcap -q"
    shut = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, check=False)
    assert shut.returncode == 2 and "standard output is closed" in shut.stderr
    none = f"{shlex.quote(sys.executable)} -m oop_engine query {shlex.quote(PER_MINUTE)} -s - --slack 1s <&-"
    shut = subprocess.run(none, shell=True, capture_output=True, text=True, check=False)
    assert shut.returncode == 2 and shut.stderr.startswith("SourceError: standard input is closed")
    done = subprocess.run(f"{command} --to {tmp_path}/out.csv >&- 2>&-", shell=True, capture_output=True, check=False)
    assert done.returncode == 0 and (tmp_path / "out.csv").exists()


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


@pytest.mark.parametrize("suffix", mostly_slow(["csv", "parquet", "arrow", "ndjson"], but=("csv", "parquet")))
def test_a_disk_that_is_full_is_a_failure_in_the_run_that_names_the_file(
    captures: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"out.{suffix}"
    every = "SELECT ts, srcIP, length FROM Main"
    command = [sys.executable, "-m", "oop_engine", "query", every, "-s", str(captures / "Main1.pcap"), "--to", str(out)]

    full = subprocess.run(command, capture_output=True, text=True, preexec_fn=_small_files, check=False)
    assert full.returncode == 3 and f'"{out}" cannot be written: File too large' in full.stderr
    assert "Traceback" not in full.stderr and list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_told_of_a_page_log_too(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pages"
    every = "SELECT ts, srcIP, length FROM Main"
    command = [sys.executable, "-m", "oop_engine", "query", every, "-s", str(captures / "Main1.pcap"), "--to", str(out)]
    full = subprocess.run(command, capture_output=True, text=True, preexec_fn=_small_files, check=False)
    assert full.returncode == 3 and f'the page log "{out}" cannot be written: File too large' in full.stderr


@pytest.mark.parametrize("command", ["query", "collect"])
def test_a_stop_in_a_callback_of_the_collector_is_not_lost(command: str) -> None:
    """Python drops an error that is raised there."""
    program = (
        "import gc, os, signal, sys\nfrom oop_engine.stopping import obey_signals\nobey_signals()\n"
        "gc.callbacks.append(lambda *_: os.kill(os.getpid(), signal.SIGTERM))\ngc.collect()\nprint('went on')"
    )
    done = subprocess.run([sys.executable, "-c", program, command], cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == (130 if command == "query" else 0)
    assert (done.stdout, done.stderr) == (b"", b"stopped.\n")
