"""Promises by key from every kind of input: one clock ahead makes nothing of others late; what is late is named."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.carryover import promising, repromised
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import Promise
from operators.data.page import Page
from operators.data.saved import read_text
from operators.streams.by_key import ByKey
from operators.streams.input import Input
from punctuation.punctuators import Slack
from tests.oop_engine.checkpoints.scenarios import answer, crashed, data, found, run
from tests.open_set import OPEN_SET, with_open_set

QUERY = "SELECT who, count(*) [RANGE 10 s, SLIDE 10 s, WA ts] FROM Main GROUP BY who"
SECOND = 1_000_000_000
#: Of 200 s, two senders each second; the clock of one is 95 s ahead.
DATA = [pair for i in range(200) for pair in (("ahead", 1000 + 95 + i), ("right", 1000 + i))]
SCHEMA = oop.Schema.of(who="string", ts=pa.timestamp("s", "UTC"))
BY_KEY = oop.by_key("who", "5 s", idle="30 s")


def as_rows(rows: Sequence[tuple[str, int]], folder: Path, promise: Promise) -> Stream:
    return oop.rows(iter(rows), SCHEMA, name="Main", punctuate=promise)


def as_ndjson(rows: Sequence[tuple[str, int]], folder: Path, promise: Promise) -> Stream:
    text = "".join(json.dumps({"who": who, "ts": ts}) + "\n" for who, ts in rows)
    return oop.read(
        io.BytesIO(text.encode()), format="ndjson", name="Main", types={"ts": "epoch"}, punctuate=promise
    )  # fmt: skip


def as_csv(rows: Sequence[tuple[str, int]], folder: Path, promise: Promise) -> Stream:
    path = folder / "rows.csv"
    path.write_text("who,ts\n" + "".join(f"{who},{ts}\n" for who, ts in rows))
    return oop.read(path, name="Main", types={"ts": "epoch"}, punctuate=promise)


def as_zeek(rows: Sequence[tuple[str, int]], folder: Path, promise: Promise) -> Stream:
    path = folder / "conn.log"
    head = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n"
    head += "#fields\twho\tts\n#types\tstring\ttime\n"
    path.write_text(head + "".join(f"{who}\t{ts}.000000\n" for who, ts in rows))
    return oop.zeek(path, name="Main", punctuate=promise)


def as_parquet(rows: Sequence[tuple[str, int]], folder: Path, promise: Promise) -> Stream:
    path = folder / "rows.parquet"
    oop.rows(rows, SCHEMA).to(path).run()
    return oop.read(path, name="Main", punctuate=promise)


def as_dictionary(rows: Sequence[tuple[str, int]], folder: Path, promise: Promise) -> Stream:
    """Tables whose dictionaries differ from batch to batch."""

    def batch(some: Sequence[tuple[str, int]]) -> pa.RecordBatch:
        times = pa.array([ts for _, ts in some], pa.timestamp("s", "UTC"))
        return pa.record_batch({"who": pa.array([who for who, _ in some]).dictionary_encode(), "ts": times})

    table = pa.Table.from_batches([batch(rows[:1]), batch(rows[1:6]), batch(rows[6:])])
    return oop.arrow(table, name="Main", punctuate=promise)


INPUTS = [as_rows, as_ndjson, as_csv, as_zeek, as_parquet, as_dictionary]


@pytest.mark.parametrize("made", INPUTS)
def test_one_clock_ahead_makes_no_tuple_of_another_late_in_any_input(
    made: Callable[[Sequence[tuple[str, int]], Path, Promise], Stream], tmp_path: Path
) -> None:
    counted: dict[str, Counter[str]] = {}
    for name, promise in {"by key": BY_KEY, "of all": oop.slack("5 s")}.items():
        outcome = oop.query(QUERY, Main=made(DATA, tmp_path, promise)).run()
        counted[name] = Counter()
        for row in outcome.table.to_pylist():
            counted[name][row["who"]] += row["count"]
        assert outcome.statistics.late == 400 - sum(counted[name].values())
    assert counted["by key"] == {"ahead": 200, "right": 200}
    assert counted["of all"]["right"] < 100


def test_windows_are_released_while_the_stream_goes_on() -> None:
    """The first are those that are complete by the slowest key when unheard keys are waited for no more."""
    stream = oop.query(QUERY, Main=oop.rows(iter(DATA), SCHEMA, name="Main", punctuate=BY_KEY))
    driver = Run(Plan((stream.node,)), 1)
    first = next(element for _, element in driver if isinstance(element, Page))
    assert [(row["who"], row["count"]) for row in first.rows()] == [("right", 10), ("right", 10)]
    assert 60 <= driver.circuit.meters[0].tuples_in <= 76


def test_whose_tuples_were_late_is_told() -> None:
    """Who was silent for longer than idle is new, and may be late then."""
    rows = [*(("a", t) for t in range(100)), ("b", 0), ("b", 1), ("c", 2), ("a", 100)]
    outcome = oop.query(QUERY, Main=oop.rows(iter(rows), SCHEMA, name="Main", punctuate=BY_KEY)).run()
    assert outcome.statistics.late == 3
    assert outcome.statistics.notes == (
        "Main: 3 tuples came behind what was promised: 2 of who = b, 1 of who = c; a key that is new or was silent for"
        " longer than idle may be, others need more slack",
    )
    many = [*(("a", t) for t in range(100)), *((f"k{i}", 0) for i in range(7))]
    outcome = oop.query(QUERY, Main=oop.rows(iter(many), SCHEMA, name="Main", punctuate=BY_KEY)).run()
    assert "1 of who = k4 and 2 keys more; a key" in outcome.statistics.notes[0]


@pytest.mark.parametrize(
    ("share", "per_million"), [("0.1 %", 1000), ("1%", 10_000), (0.01, 10_000), ("50 %", 500_000), ("0.0001 %", 1)]
)
def test_a_share_of_late_tuples_is_written_in_several_ways(share: str | float, per_million: int) -> None:
    made = oop.by_key("who", "auto", late_share=share).punctuator(SCHEMA, None, 0)
    assert isinstance(made, ByKey) and made.late_per_million == per_million


def test_the_slack_of_flow_exporters_is_learnt() -> None:
    """Flows are in no order by their end; of those of one exporter hardly any is late, whatever its clock."""
    flows = oop.netflow("demos/captures/exports.pcap.gz").project("end_ts", "exporter").to_arrow()
    counts: list[int] = []
    for share in ("0.1 %", "10 %"):
        promise = oop.by_key("exporter", "auto", on="end_ts", late_share=share)
        stream = oop.arrow(flows, punctuate=promise).window(range="10 s", wattr="end_ts").aggregate(oop.count())
        outcome = stream.run()
        details = outcome.statistics.operators[0].details
        assert SECOND <= details["learnt_slack"] < 60 * SECOND
        counts.append(details["learnt_slack"])
        assert outcome.statistics.late <= 0.001 * len(flows)
    assert counts[1] < counts[0]


def test_promises_by_key_read_their_keys_also_where_the_query_does_not() -> None:
    text = "SELECT count(*) [RANGE 10 s, SLIDE 10 s, WA ts] FROM Main"
    outcome = oop.query(text, Main=oop.rows(iter(DATA), SCHEMA, name="Main", punctuate=BY_KEY)).run()
    assert sum(outcome.table["count"].to_pylist()) == 400


@pytest.mark.parametrize(
    ("made", "error", "match"),
    [
        (lambda: oop.by_key((), "5 s"), oop.PlanError, r"by_key is of \(\); write the attribute"),
        (lambda: oop.by_key("ts", "5 s"), oop.PlanError, 'promises on "ts" by "ts" itself'),
        (lambda: oop.by_key("who", "5 s", idle="0 s"), oop.PlanError, "idle is 0 s"),
        (lambda: oop.by_key("who", 5), oop.PlanError, "slack is 5"),
        (lambda: oop.by_key("who", "auto", late_share="2"), oop.PlanError, "late_share is '2'; write a share"),
        (lambda: oop.by_key("who", "auto", late_share="some"), oop.PlanError, "late_share is 'some'; write a share"),
        (lambda: oop.by_key("whom", "5 s"), oop.SchemaError, 'no attribute "whom"(.|\n)*Did you mean "who"'),
    ],
)
def test_promises_by_key_that_cannot_be_are_refused(
    made: Callable[[], Promise], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        oop.rows(iter(DATA), SCHEMA, punctuate=made())


@pytest.mark.parametrize("dies_at", [40, 120])
def test_a_job_that_dies_goes_on_with_the_progress_of_each_key(dies_at: int, tmp_path: Path) -> None:
    data(tmp_path)
    disk = crashed("promises by key", tmp_path, Path("/simulated"), dies_at=dies_at)
    disk.dies_at = None
    assert run("promises by key", tmp_path, Path("/simulated"), seed=2, disk=disk) > 0
    assert found("promises by key", Path("/simulated"), disk) == answer("promises by key", tmp_path)


def test_keys_that_were_not_needed_before_begin_with_the_next_tuple() -> None:
    before, now = Input((Slack("n", 3),)), Input((ByKey("ts", ("who",), slack=5, idle=30), Slack("n", 3)))
    fitted = repromised(before.state(), promising(before), now, 7)
    kept = json.loads(read_text(fitted, "punctuators"))
    assert kept == [now.punctuators[0].state(), before.punctuators[0].state()]


def test_the_memory_of_other_keys_is_refused() -> None:
    one, other = (ByKey("ts", (name,), slack=5, idle=30) for name in ("who", "whom"))
    one.observe_keys(pa.array([1, 2]).to_numpy(), [pa.field("who", pa.string())], [pa.array(["a", "b"])])
    with pytest.raises(ValueError, match="the saved promises are by who, and these by whom"):
        other.restore(one.state())


def shell(*options: str) -> Result:
    return CliRunner().invoke(commands, ["query", QUERY, *options])


def test_the_command_line_takes_progress_by_key(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("who,ts\n" + "".join(f"{who},{ts}\n" for who, ts in DATA))
    source = ("--stream", f"Main={tmp_path / 'rows.csv'}", "--types", "ts=epoch", "--to", str(tmp_path / "out.csv"))
    alone = shell(*source, "--slack", "5s")
    keyed = shell(*source, "--slack", "5s", "--progress-by", "who", "--idle", "30s")
    assert (alone.exit_code, keyed.exit_code) == (0, 0), alone.output + keyed.output
    assert "none late" in keyed.stderr and "none late" not in alone.stderr
    explained = CliRunner().invoke(
        commands, ["explain", QUERY, *source[:-2], "--slack", "5s", "--progress-by", "who", "--idle", "30s"]
    )
    shown = " ".join(explained.output.replace("│", " ").split())
    assert "punctuated on ts, slack 5s by who, idle after 30s, every 10 s" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--progress-by", "who"), "--progress-by who needs --slack: how far a tuple may be behind its own who."),
        (("--slack", "5s", "--idle", "1s"), "--idle 1s is for silent keys; name their attribute with --progress-by."),
        (("--slack", "5s", "--late-share", "1%"), "--late-share 1% is for a slack that is learnt; write --slack auto."),
        (("--slack", "5s", "--arrival", "ts"), "--arrival ts is for clocks of senders; name their attribute with"),
        (("--slack", "5s", "--progress-by", "who", "--correct-clocks"), "--correct-clocks needs --arrival"),
        (("--slack", "5s", "--progress-by", "who", "--clock", "ts"), "--clock ts needs --arrival"),
        (("--slack", "5s", "--progress-by", "whom"), 'Did you mean "who"?'),
        (("--slack", "5s", "--progress-by", "who,"), "write the attribute that tells who sent a tuple"),
    ],
)
def test_the_command_line_says_what_promises_by_key_need(options: Sequence[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("who,ts\na,1\n")
    result = shell("--stream", f"Main={tmp_path / 'rows.csv'}", "--types", "ts=epoch", *options)
    assert result.exit_code == 2
    assert message in result.stderr


OWN_CLOCKS = {"192.0.2.1": 0, "192.0.2.2": -2_500_000_000, "192.0.2.3": 7_250_000_000}
"""By how many ns the clocks of the exporters in own/flows1 are ahead."""


@with_open_set
def test_an_exporter_that_is_ahead_makes_nothing_late_in_ndjson_and_its_times_are_put_right(tmp_path: Path) -> None:
    """Flows as lines of JSON, the clock of one of three exporters 95 s further ahead than it is."""
    lines = tmp_path / "flows.ndjson"
    columns = ["ts", "end_ts", "export_ts", "arrival_ts", "exporter"]
    oop.netflow(OPEN_SET / "own/flows1.pcap").project(*columns).to(lines).run()
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    for row in rows:
        row["was"], row["end_was"] = row["ts"], row["end_ts"]
        for name in ("ts", "end_ts", "export_ts"):
            if row["exporter"] == "192.0.2.3":
                row[name] = (dt.datetime.fromisoformat(row[name]) + dt.timedelta(seconds=95)).isoformat()
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def read(promise: Promise) -> Stream:
        return oop.read(lines, name="Main", punctuate=promise)

    def late(promise: Promise) -> tuple[int, tuple[str, ...]]:
        outcome = read(promise).window(range="10 s").aggregate(oop.count(), by="exporter").run()
        return outcome.statistics.late, outcome.statistics.notes

    right = oop.by_key("exporter", "35 s", arrival="arrival_ts", clock="export_ts", correct=("end_ts",))
    by_key, said = late(oop.by_key("exporter", "35 s", arrival="arrival_ts", clock="export_ts"))
    corrected, told = late(right)
    highest, own = dict[str, str](), 0
    for row in rows:
        last = highest[row["exporter"]] = max(highest.get(row["exporter"], ""), row["was"])
        behind = dt.datetime.fromisoformat(last) - dt.datetime.fromisoformat(row["was"])
        own += behind > dt.timedelta(seconds=35)
    assert len(rows) == 30_737 and late(oop.slack("35 s"))[0] > 10_000
    # Of what is late within its own exporter; what is corrected no longer lies ahead of the others, unseen.
    assert by_key == late(oop.by_key("exporter", "35 s"))[0] <= own and corrected <= own < 300
    assert any("192.0.2.3 102.0 s ahead" in note and "correct=True of by_key" in note for note in said)
    assert any("3 clocks off" in note and "were corrected" in note for note in told)
    table = read(right).project("exporter", "ts", "was", "end_ts", "end_was").to_arrow()
    ahead = np.array([OWN_CLOCKS[str(exporter)] for exporter in table["exporter"].to_pylist()])
    for name, was in (("ts", "was"), ("end_ts", "end_was")):
        found, old = (np.asarray(table[column].cast(pa.int64())) for column in (name, was))
        # What headers in whole seconds tell, and times of v9 that count from them.
        assert np.abs(found - (old - ahead)).max() <= 1_000_000_000


def test_clocks_need_the_time_of_arrival() -> None:
    with pytest.raises(oop.PlanError, match='arrival="arrival_ts"'):
        oop.by_key("who", "5 s", correct=True)
    rows = [(who, ts, 1000 + i // 2) for i, (who, ts) in enumerate(DATA)]
    shape = oop.Schema.of(who="string", ts=pa.timestamp("s", "UTC"), came=pa.timestamp("s", "UTC"))
    promise = oop.by_key("who", "5 s", idle="30 s", arrival="came", correct=True)
    stream = oop.rows(iter(rows), shape, name="Main", punctuate=promise)
    outcome = oop.query(QUERY, Main=stream).run()
    assert outcome.statistics.late == 0
    assert {(row["who"], row["count"]) for row in outcome.table.to_pylist()} == {("ahead", 10), ("right", 10)}
    assert outcome.statistics.notes == (
        "Main: 1 of 2 clocks off: who = ahead 95.0 s ahead; their times were corrected",
    )
    assert "clocks corrected by came" in oop.query(QUERY, Main=stream).explain()


def test_the_command_line_corrects_clocks(tmp_path: Path) -> None:
    lines = "".join(f"{who},{ts},{1000 + i // 2}\n" for i, (who, ts) in enumerate(DATA))
    (tmp_path / "rows.csv").write_text("who,ts,came\n" + lines)
    told = CliRunner().invoke(
        commands,
        ["query", QUERY, "--stream", f"Main={tmp_path / 'rows.csv'}", "--types", "ts=epoch,came=epoch", "--slack", "5s",
         "--progress-by", "who", "--idle", "30s", "--arrival", "came", "--correct-clocks"],
    )  # fmt: skip
    assert told.exit_code == 0 and "who = ahead 95.0 s ahead; their times were corrected" in told.output + told.stderr
