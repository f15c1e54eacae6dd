"""`oop-engine collect` as its users run it: results as they come, a table of exporters, and Ctrl-C loses nothing."""

from __future__ import annotations

import csv
import io
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.cli.collecting import _LiveProgress, exporter_table
from oop_engine.cli.progress import Minutely
from oop_engine.drive.circuit import Circuit
from oop_engine.plan.graph import Plan
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.live import ExporterProgress, Rules
from oop_engine.sources.live.kept import Kept
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
)
from tests.oop_engine.live.collector import Time, bound, collect, send, senders
from tests.open_set import OPEN_SET

ROOT = Path(__file__).parents[3]
EXAMPLE = OPEN_SET / "traffic/pcapplusplus__example.pcap"
COLLECT = [sys.executable, "-m", "oop_engine", "collect", "--netflow"]


class Collector:
    """A running collector that has said where it listens."""

    def __init__(self, *options: str, command: Sequence[str] = COLLECT) -> None:
        self.process = subprocess.Popen(
            [*command, "127.0.0.1:0", "--settle", "0s", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert self.process.stderr is not None
        self.said = ""
        while not (found := re.search(r"listening on 127\.0\.0\.1:(\d+)", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.port = int(found[1])

    def end(self, *, interrupt: bool = True, status: int = 0) -> tuple[str, str]:
        """Wait for its end; give what it wrote."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == status, err
        return out, self.said + err


@pytest.fixture
def collectors() -> Iterator[list[Collector]]:
    started: list[Collector] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def flows(k: int, count: int = 2) -> bytes:
    return v5([v5_record(octets=100 + k)] * count, sequence=k * count)


def earlier(state: Path) -> Path:
    """Write the state file of an earlier version, of a collector that heard nothing yet."""
    Kept(state).write(ExporterProgress(Rules()), FlowDecoder(), time.time_ns())
    return state


def rows(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out)))


def test_ctrl_c_ends_a_collection_after_what_has_arrived(collectors: list[Collector]) -> None:
    collector = Collector("--query", "SELECT srcIP, bytes FROM Flows")
    collectors.append(collector)
    send([flows(k) for k in range(600) if k % 10 != 5], ("127.0.0.1", collector.port))
    out, err = collector.end()
    assert [int(row["bytes"]) for row in rows(out)] == [100 + k for k in range(600) if k % 10 != 5 for _ in range(2)]
    assert re.search(r"NetFlow v5 +0 +540 +1,080 +120 flows", err)
    assert "interrupted" in err and "540 datagrams received" in err


def test_what_windows_have_that_are_open_when_it_is_stopped_is_in_a_file(
    collectors: list[Collector], tmp_path: Path
) -> None:
    query, path = "SELECT srcIP, count(*) AS n [RANGE 1 hour, WA ts] FROM Flows GROUP BY srcIP", tmp_path / "open.csv"
    collector = Collector("--query", query, "--partial", str(path))
    collectors.append(collector)
    assert path.read_text().startswith("srcIP,n,wid")
    send([flows(k) for k in range(20)], ("127.0.0.1", collector.port))
    out, err = collector.end()
    assert rows(out) == [] and [row["n"] for row in rows(path.read_text())] == ["40"]
    assert f'"{path}" has what windows that were open have so far: 1 row.' in err


def test_a_collection_of_so_many_datagrams_releases_all_windows(collectors: list[Collector]) -> None:
    query = "SELECT srcIP, count(*) AS n [RANGE 1 hour, WA ts] FROM Flows GROUP BY srcIP"
    collector = Collector("--most", "20", "--query", query)
    collectors.append(collector)
    send([flows(k) for k in range(20)], ("127.0.0.1", collector.port))
    out, err = collector.end(interrupt=False)
    assert [row["n"] for row in rows(out)] == ["40"] and "interrupted" not in err
    assert "set aside" in err and "NetFlow v5" in err


def test_a_collection_looks_exporters_up_in_a_table(collectors: list[Collector], tmp_path: Path) -> None:
    (table := tmp_path / "sites.csv").write_text("ip,site\n127.0.0.1,here\n192.0.2.1,there\n")
    query = (
        "SELECT sites.site AS site, count(*) AS n [RANGE 1 hour, WA ts] FROM Flows"
        " LOOKUP sites ON exporter = sites.ip GROUP BY site"
    )
    collector = Collector("--most", "3", "--query", query, "--table", f"sites={table}")
    collectors.append(collector)
    send([flows(k) for k in range(3)], ("127.0.0.1", collector.port))
    out, _ = collector.end(interrupt=False)
    assert [(row["site"], row["n"]) for row in rows(out)] == [("here", "6")]


def test_a_collection_whose_state_is_lost_keeps_its_results(collectors: list[Collector], tmp_path: Path) -> None:
    kept, out = tmp_path / "gone", tmp_path / "out.csv"
    kept.mkdir()
    state = str(earlier(kept / "state"))
    collector = Collector("--state", state, "--to", str(out), "--query", "SELECT srcIP, bytes FROM Flows")
    collectors.append(collector)
    shutil.rmtree(kept)
    send([flows(k) for k in range(30)], ("127.0.0.1", collector.port))
    _, err = collector.end(interrupt=False, status=3)
    assert len(rows(out.read_text())) == 60
    assert "interrupted: the results so far are written" in err
    assert re.search(
        r"SourceEnded: --state .*state cannot be written: No such file or directory\.\n  Promises are", err
    )
    assert "start again with the same file" in err and "Traceback" not in err


def test_a_quiet_collection_still_tells_what_was_lost() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        to = free.getsockname()
    command = [*COLLECT, f"127.0.0.1:{to[1]}", "--most", "20", "-q", "--query", "SELECT bytes FROM Flows"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        while process.poll() is None:
            # It does not say when it listens.
            send([flows(k) for k in range(40) if k % 10 != 5], to)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        out, err = process.communicate()
    assert process.returncode == 0 and len(rows(out)) >= 40
    assert re.fullmatch(r"(note: .*\n)+", err) and "flow records lost" in err and "received" not in err


def test_exporters_of_other_networks_are_not_taken(collectors: list[Collector]) -> None:
    collector = Collector("--allow", "127.0.0.8/29", "--allow", "127.0.0.32/32", "--query", "SELECT bytes FROM Flows")
    collectors.append(collector)
    for k, sender in enumerate(("127.0.0.7", "127.0.0.9", "127.0.0.32")):
        send([flows(k)], ("127.0.0.1", collector.port), sender)
    out, err = collector.end()
    assert {row["bytes"] for row in rows(out)} == {"101", "102"} and "refused" in err


def test_what_was_promised_holds_after_the_collector_was_killed(collectors: list[Collector], tmp_path: Path) -> None:
    now = int(time.time())
    query = "SELECT ts, count(*) AS n [RANGE 1 second, WA ts] FROM Flows GROUP BY ts"
    options = ["--active", "0s", "--inactive", "0s", "--scan", "0s", "--query", query]
    options += ["--state", str(earlier(tmp_path / "state"))]

    def sent(k: int, age: int) -> bytes:
        record = v5_record(first=1000_000 - 1000 * age, last=1000_000 - 1000 * age)
        return v5([record], sequence=k, seconds=now, uptime=1000_000)

    first = Collector(*options)
    collectors.append(first)
    send([sent(k, 100) for k in range(3)], ("127.0.0.1", first.port))
    assert first.process.stdout is not None and first.process.stdout.readline().startswith("ts,n")
    assert first.process.stdout.readline().split(",")[1] == "3"
    first.process.kill()
    first.process.communicate()
    again = Collector("--most", "2", *options)
    collectors.append(again)
    send([sent(3, 100), sent(4, 0)], ("127.0.0.1", again.port))
    out, err = again.end(interrupt=False)
    assert [row["n"] for row in rows(out)] == ["1"]
    assert "1 late" in err and "resumed from" in err
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("name", "says"), [("out.csv", "has other columns than"), ("out.parquet", "has results of before, which would be")]
)
def test_a_collection_that_goes_on_does_not_replace_the_results_of_before(name: str, says: str, tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / name
    state.write_bytes(b"")
    out.write_text("kept")
    command = [*COLLECT, "127.0.0.1:0", "--state", str(state), "--to", str(out)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert found.returncode == 2 and f'"{out}" {says}' in found.stderr and out.read_text() == "kept"


@pytest.mark.slow
def test_results_of_a_collection_that_goes_on_go_behind_those_of_before(
    collectors: list[Collector], tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    options = ["--state", str(earlier(tmp_path / "state")), "--to", str(out), "--query", "SELECT bytes FROM Flows"]
    for k in range(3):
        collector = Collector("--most", "2", *options)
        collectors.append(collector)
        send([flows(2 * k), flows(2 * k + 1)], ("127.0.0.1", collector.port))
        collector.end(interrupt=False)
    assert [row["bytes"] for row in rows(out.read_text())] == [str(100 + k) for k in range(6) for _ in range(2)]


def hostile(now: int) -> bytes:
    fields = template(256, [(8, 4), (1, 8), (152, 8)])
    record = four("10.0.0.1") + number(2**64 - 1, 8) + number(now * 1000, 8)
    return ipfix([ipfix_templates(fields), a_set(256, record * 2)], seconds=now)


@pytest.mark.parametrize(
    ("query", "nulls"),
    [
        ("SELECT exporter, sum(bytes) AS b [RANGE 10 seconds, WA ts] FROM Flows GROUP BY exporter", 1),
        ("SELECT ts, bytes * 3 AS b FROM Flows", 4),
    ],
)
def test_a_record_that_overflows_gives_null_and_a_note(query: str, nulls: int, collectors: list[Collector]) -> None:
    now = int(time.time())
    options = ["--active", "0s", "--inactive", "0s", "--scan", "0s", "--most", "8", "--query", query]
    collector = Collector(*options)
    collectors.append(collector)

    def sent(k: int) -> bytes:
        return v5([v5_record(first=10**6, last=10**6)], sequence=k, seconds=now - 60 + 20 * (k // 3), uptime=10**6)

    send([sent(k) for k in range(6)], ("127.0.0.1", collector.port))
    for _ in range(2):
        send([hostile(now)], ("127.0.0.1", collector.port))
    out, err = collector.end(interrupt=False)
    assert [row["b"] for row in rows(out)].count("") == nulls
    assert {row["b"] for row in rows(out)} == {"1200", ""}
    what = "value is null, as it does not fit its type" if nulls == 1 else "values are null, as they do not fit"
    assert f"note: {nulls} {what}" in err


@pytest.mark.slow
def test_two_collectors_do_not_share_a_state(collectors: list[Collector], tmp_path: Path) -> None:
    state = str(earlier(tmp_path / "state"))
    collectors.append(Collector("--state", state))
    command = [*COLLECT, "127.0.0.1:0", "--state", state]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert found.returncode == 2 and f"the process {collectors[0].process.pid}, which still runs" in found.stderr
    collectors[0].process.kill()
    collectors[0].process.communicate()
    again = Collector("--state", state)
    collectors.append(again)
    again.end()


@pytest.mark.slow
def test_a_second_collection_with_the_same_output_is_refused_and_the_first_keeps_its_results(
    collectors: list[Collector], tmp_path: Path
) -> None:
    out, link = tmp_path / "out.csv", tmp_path / "link.csv"
    link.symlink_to(out)
    collector = Collector("--query", "SELECT srcIP, bytes FROM Flows", "--to", str(out))
    collectors.append(collector)
    for target in (out, link):
        command = [*COLLECT, "127.0.0.1:0", "--most", "1", "--to", str(target)]
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        assert found.returncode == 2 and f"written by the process {collector.process.pid}, which" in found.stderr
    send([flows(0)], ("127.0.0.1", collector.port))
    collector.end()
    assert len(rows(out.read_text())) == 2 and {path.name for path in tmp_path.iterdir()} == {"out.csv", "link.csv"}


def test_without_a_query_it_counts_by_exporter(collectors: list[Collector]) -> None:
    collector = Collector("--most", "4")
    collectors.append(collector)
    send([flows(k) for k in range(4)], ("127.0.0.1", collector.port), "127.0.0.7")
    out, _ = collector.end(interrupt=False)
    assert [(row["exporter"], row["records"]) for row in rows(out)] == [("127.0.0.7", "8")]


def test_the_line_tells_of_losses_exporters_clocks_and_how_far_it_is() -> None:
    listening = bound()
    send([flows(k) for k in range(20) if k != 5], listening)
    second = 10**9
    reader = collect(listening, most=19, clock=Time((NOW + 7) * second)).reader
    progress = _LiveProgress(io.StringIO(), clock=lambda: 0.0, readers=[reader])
    progress._last = (-1.0, 0)
    with Circuit(Plan((oop.netflow(listen="127.0.0.1:0").node,))) as circuit:
        line = progress.line(circuit, 0.0)
        assert _LiveProgress(io.StringIO()).line(circuit, 0.0) == "opening ..."
    assert line.startswith("38 records/s  38 records  lost 2  dropped 0  1 of 1 exporters  lag 32.0 s  skew 7.0 s")
    head, row = exporter_table(reader.exporters())
    assert head.split()[:3] == ["exporter", "protocol", "domain"] and "2 flows" in row and row.endswith("live")
    many = exporter_table(reader.exporters() * 50)
    assert len(many) == 42 and many[-1] == "... and 10 more"


def test_exporters_whose_clock_is_far_off_are_counted_among_those_that_send() -> None:
    listening = bound()
    for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
        send([flows(k) for k in range(3)], listening, host)
    reader = collect(listening, most=9, clock=Time((NOW + 400 * 86_400) * 10**9)).reader
    progress = _LiveProgress(io.StringIO(), clock=lambda: 0.0, readers=[reader])
    with Circuit(Plan((oop.netflow(listen="127.0.0.1:0").node,))) as circuit:
        assert "  3 of 3 exporters (3 not counted: clock off)  " in progress.line(circuit, 0.0)


def test_where_losses_cannot_be_told_the_table_says_so() -> None:
    listening, waiting = bound(), a_set(400, bytes(16))
    send([ipfix([waiting], sequence=k) for k in range(3)], listening)
    _, row = exporter_table(collect(listening, most=3).reader.exporters())
    assert " 0 + ? " in row


def test_where_nobody_draws_a_line_it_is_written_every_minute() -> None:
    listening, seconds, said = bound(), [0.0], list[str]()
    send([flows(0)], listening)
    reader = collect(listening, most=1).reader
    lines = Minutely(_LiveProgress(io.StringIO(), clock=lambda: seconds[0], readers=[reader]), said.append)
    with Circuit(Plan((oop.netflow(listen="127.0.0.1:0").node,))) as circuit:
        for seconds[0] in (0.1, 59.9, 60.0, 60.1, 119.9, 121.0, 300.0, 301.0):
            lines.watch(circuit)
    assert len(said) == 3 and all("2 records" in line and "1 of 1 exporters" in line for line in said)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["0.0.0.0:2055"], "--allow 192.0.2.0/24"),
        (["nowhere"], "is no address to listen on"),
        (["127.0.0.1:0", "--query", "SELECT a FROM A, B"], "reads A, B"),
        (["127.0.0.1:0", "--idle", "soon"], "soon"),
        (["127.0.0.1:0", "--state", __file__], "is not what a collector left"),
        (["127.0.0.1:0", "--state", "/nowhere/state", "--to", "out.csv"], 'there is no folder "/nowhere"'),
        (["127.0.0.1:0", "--allow", "10.0.0.1/8"], "10.0.0.0/8"),
        (["127.0.0.1:4739", "--netflow", "127.0.0.1:4739"], "listen names 127.0.0.1:4739 twice"),
        (["tls://127.0.0.1:0"], "needs a certificate to show to exporters"),
        (["tls://127.0.0.1:0", "--certificate", "/nowhere/c.pem"], "--certificate /nowhere/c.pem cannot be read"),
        (["127.0.0.1:0", "--certificate", "c.pem"], "a certificate is shown over TLS"),
        (["127.0.0.1:0", "--key", "c.key"], "key and client_ca go with certificate"),
        (["tcp://127.0.0.1:0", "--shed"], "shed is for datagrams"),
        (["tcp://127.0.0.1:0", "--sockets", "2"], "sockets is for datagrams"),
        (["tcp://0.0.0.0:0"], "takes connections from whoever reaches this machine"),
        (["sctp://127.0.0.1:0"], 'names the transport "sctp"'),
        (["127.0.0.1:0", "--buffer", "99999999999999"], "--buffer"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_bound(options: list[str], says: str) -> None:
    found = CliRunner().invoke(commands, ["collect", "--netflow", *options], prog_name="oop-engine")
    assert found.exit_code == 2 and says in found.stderr and isinstance(found.exception, SystemExit)


@pytest.mark.skipif(shutil.which("softflowd") is None, reason="softflowd is not installed (Debian package softflowd)")
@pytest.mark.skipif(not EXAMPLE.exists(), reason=f"{EXAMPLE} is not there")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "more"), [("5", []), ("9", []), ("10", ["-A", "milli"]), ("10", ["-A", "milli", "-P", "tcp"])]
)
def test_softflowd_is_understood(version: str, more: list[str], collectors: list[Collector], tmp_path: Path) -> None:
    command = [*COLLECT, "tcp://127.0.0.1:0", "--netflow"]
    collector = Collector("--query", "SELECT ts, end_ts, proto, bytes, packets, version FROM Flows", command=command)
    collectors.append(collector)
    (connected,) = re.findall(r"tcp://127\.0\.0\.1:(\d+)", collector.said)
    port = connected if "tcp" in more else collector.port
    softflowd = [str(shutil.which("softflowd")), "-r", str(EXAMPLE), "-a", "-v", version, *more, "-d"]
    softflowd += ["-n", f"127.0.0.1:{port}", "-p", str(tmp_path / "pid"), "-c", "none"]
    subprocess.run(softflowd, check=True, capture_output=True, timeout=60)
    out, err = collector.end()
    found = rows(out)
    assert len(found) == 271 and {row["version"] for row in found} == {version}
    assert sum(int(row["bytes"]) for row in found) == 3_673_689
    assert all(row["ts"].rstrip("Z") <= row["end_ts"].rstrip("Z") for row in found)
    assert {row["ts"][:4] for row in found} == {"2013"}
    # Its IPFIX sequence counts the records of the message itself, so the first of them seem to be missing at most.
    assert bool(re.search(r"^tcp://127\.0\.0\.1:\d+ +IPFIX", err, re.MULTILINE)) == ("tcp" in more)
    assert "malformed" in err and "sets without a template" not in err


WINDOWS = "SELECT srcIP, count(*) AS n [RANGE 1 hour, WA ts] FROM Flows GROUP BY srcIP"


def test_a_collection_that_is_stopped_and_started_again_keeps_its_open_windows(
    collectors: list[Collector], tmp_path: Path
) -> None:
    out, job = tmp_path / "out.csv", tmp_path / "job"
    kept = ("--query", WINDOWS, "--to", str(out), "--journal", "20ms")
    with senders("127.0.0.1") as (exporter,):
        for part, end in ((range(10), signal.SIGTERM), (range(12, 20), signal.SIGKILL), (range(20, 30), None)):
            # The former name of the option is the same job.
            name = "--checkpoint" if end else "--state"
            collector = Collector(*kept, name, str(job), *(() if end else ("--most", "28")))
            collectors.append(collector)
            for k in part:
                exporter.sendto(flows(k), ("127.0.0.1", collector.port))
            if end is signal.SIGKILL:
                folder = job / "journal"
                while sum(s.stat().st_size for s in folder.rglob("*.segment")) < len(part) * len(flows(0)):
                    assert collector.process.poll() is None
            if end:
                collector.process.send_signal(end)
            _, said = collector.process.communicate(timeout=60)
            assert collector.process.returncode == (-signal.SIGKILL if end is signal.SIGKILL else 0), said
            if end is signal.SIGTERM:
                assert "windows that were still open are kept, and the same command goes on from there" in said
                assert rows(out.read_text()) == []
    (row,) = rows(out.read_text())
    assert (row["n"], row["incomplete"]) == ("56", "true")
    assert f"note: --state is --checkpoint now, and will be removed; write --checkpoint {job}.\n" in collector.said
    assert re.search(r"NetFlow v5 +0 +28 +56 +4 flows", said), said
    assert "28 datagrams received" in said and "after 8 datagrams of its journal" in said


def test_a_second_collector_of_one_job_is_refused_with_the_process_of_the_first(
    collectors: list[Collector], tmp_path: Path
) -> None:
    collector = Collector("--query", WINDOWS, "--to", str(tmp_path / "out.csv"), "--checkpoint", str(tmp_path / "job"))
    collectors.append(collector)
    refused = job(tmp_path, WINDOWS)
    assert f"in use by the process {collector.process.pid}" in refused
    collector.end()
    assert "is the job of another query" in job(tmp_path, WINDOWS.replace("1 hour", "2 hours"))
    current = tmp_path / "job" / "CURRENT"
    current.write_bytes(current.read_bytes()[:-9])
    (damaged,) = (tmp_path / "job" / "ckpt").glob(
        f"{max(p.name for p in (tmp_path / 'job' / 'ckpt').iterdir())}/COMMIT"
    )
    for commit in (tmp_path / "job" / "ckpt").glob("*/COMMIT"):
        commit.write_bytes(commit.read_bytes()[:-9])
    assert "no checkpoint before it is whole" in job(tmp_path, WINDOWS) and damaged.exists()


def job(place: Path, query: str) -> str:
    """Return with which words a collection is refused."""
    kept = ["--to", str(place / "out.csv"), "--checkpoint", str(place / "job")]
    done = CliRunner().invoke(commands, ["collect", "--netflow", "127.0.0.1:0", "--query", query, *kept])
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--journal"], "add --checkpoint DIR"),
        (["--state", "state", "--journal"], "--checkpoint cannot take back what was printed"),
        (["--checkpoint", "job", "--state", "state"], "leave out --state"),
        (["--checkpoint", "job"], "--checkpoint cannot take back what was printed"),
        (["--checkpoint", "job", "--to", "out.csv.gz"], "cannot take back results"),
        (["--checkpoint", "job", "--to", "out.csv", "--journal", "9 rows"], "--journal '9 rows': write how often"),
        (["--checkpoint", "gone/job", "--to", "out.csv"], "for the job.\n  Make it first"),
    ],
)
def test_what_a_collection_cannot_keep_is_refused(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(commands, ["collect", "--netflow", "127.0.0.1:0", *options])
    assert done.exit_code == 2 and told in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_exporters_connect_to_a_collector_that_names_them_and_what_is_wrong(collectors: list[Collector]) -> None:
    collector = Collector("--query", "SELECT bytes FROM Flows", command=[*COLLECT, "tcp://127.0.0.1:0", "--netflow"])
    collectors.append(collector)
    (port,) = re.findall(r"tcp://127\.0\.0\.1:(\d+)", collector.said)
    where = ("127.0.0.1", int(port))
    told = ipfix_templates(template(256, [(152, 8), (153, 8), (8, 4), (1, 4)]))
    records = number(NOW * 1000, 8) * 2 + four("10.0.0.1") + number(77, 4)
    with socket.create_connection(where) as good, socket.create_connection(where) as bad:
        names = [f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in (good, bad)]
        good.sendall(ipfix([told, a_set(256, records)]))
        bad.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        # It is closed as soon as that is read.
        with suppress(ConnectionResetError):
            assert bad.recv(1) == b""
        good.sendall(ipfix([a_set(256, records)], sequence=1))
        good.shutdown(socket.SHUT_WR)
        assert good.recv(1) == b""
    out, err = collector.end()
    assert [row["bytes"] for row in rows(out)] == ["77", "77"]
    assert re.search(re.escape(names[0]) + r" +IPFIX +7 +2 +2 .* closed", err), err
    assert f"{names[1]}: closed, 47 45 54 20 begins no message of IPFIX" in err
    assert "1 connections closed, 47 45 54 20 begins no message of IPFIX" in err
    assert "2 datagrams and messages received, 2 connections accepted" in err
