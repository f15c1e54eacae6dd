"""Prometheus reads of a run what its view says, and nobody reads it by a name that is not of this machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Generator, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

import oop_engine as oop
from oop_engine.drive import metrics as made
from oop_engine.drive.keeping import Keeping
from oop_engine.drive.latency import Latencies
from oop_engine.drive.metrics import RunCollector, metrics
from oop_engine.drive.questions import Questions
from oop_engine.drive.scraped import scraped
from oop_engine.drive.synchronous import Run
from oop_engine.drive.view import EXPORTERS, ExporterView, View, view

ROOT = Path(__file__).parents[3]
SCHEMA = oop.Schema.of(ts="timestamp[s]", host="string")
HOSTILE = 'a"b\n\x1b[31m{x="y"} 1'
EXPORTER = ExporterView(
    source=0, name="192.0.2.3", port=9995, domain=1, protocol="v9", state="live", datagrams=5, records=50, lost=2,
    late=1, skew=95.0, behind=113.0, silent=None, active=60.0, inactive=15.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def run() -> Run:
    """Give a run between two pages: two links of one name, of which one had a late tuple."""
    fast = oop.rows(
        iter([(10, "a"), (62, "b"), (3, "c"), (200, "a"), (300, "a")]), SCHEMA, name=HOSTILE, punctuate=oop.ordered()
    )
    slow = oop.rows(
        iter([(3, "a"), (70, "b"), (130, "b"), (290, "b")]), SCHEMA, name=HOSTILE, punctuate=oop.slack("9 s")
    )
    stream = oop.meld(fast, slow).window(range="1 min").aggregate(oop.count(), by="host")
    started = Run(stream.start(page_rows=1).plan, 1)
    for _ in started:
        if any(operator.details.get("late") for operator in started.circuit.statistics()):
            return started
    raise AssertionError("no tuple was late")


Samples = dict[tuple[str, tuple[str, ...]], float]


def parsed(text: str) -> Samples:
    """Read an exposition with the parser of Prometheus' client, labels by name; a series may come once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge", "histogram", "info")
        for sample in family.samples:
            key = (sample.name, tuple(sample.labels.values()))
            assert key not in found
            found[key] = sample.value
    return found


@pytest.fixture
def address(run: Run) -> Generator[str, None, None]:
    """Serve the metrics of the run, as it is now."""
    questions = Questions()
    questions.watch(run.circuit)
    questions.close()
    with scraped(questions, "127.0.0.1:0") as place:
        yield place


def fetched(address: str, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_scrape_has_what_the_view_has(run: Run, address: str) -> None:
    status, text = fetched(address)
    found, seen = parsed(text), view(run.circuit)
    assert status == 200 and found["oop_engine_answering", ()] == found["oop_engine_running", ()] == 1
    first, second = seen.nodes[0].label, f"{seen.nodes[1].label} (2)"
    for name, node in ((first, seen.nodes[0]), (second, seen.nodes[1]), ("meld of 2", seen.nodes[2])):
        assert found["oop_engine_tuples_total", (name,)] == node.tuples_in
        assert found["oop_engine_promises_total", (name,)] == node.promises_out
        mark = node.low_watermark
        assert mark is not None and found["oop_engine_low_watermark_timestamp_seconds", (name,)] == mark.number
        assert found["oop_engine_lag_seconds", (name,)] == node.lag
    late = {labels: value for (name, labels), value in found.items() if name == "oop_engine_late_tuples_total"}
    assert late == {
        ("behind", first, "drop"): 1, ("late", first, "drop"): 0, ("late", second, "drop"): 0,
        ("late", seen.nodes[3].label, ""): 1,
    }  # fmt: skip
    (output,) = seen.outputs
    assert found["oop_engine_results_total", (output.label,)] == output.tuples
    assert output.wait is not None and found["oop_engine_waiting", (output.wait.cause, output.label)] == 1
    assert "\x1b" not in text


def test_exporters_are_told_with_clock_and_loss_and_there_are_not_too_many(run: Run) -> None:
    many = tuple(attrs.evolve(EXPORTER, port=port) for port in range(EXPORTERS))
    seen = attrs.evolve(view(run.circuit), exporters=many, heard=1000)
    found = {(s.name, tuple(s.labels.values())): s.value for family in metrics(seen) for s in family.samples}
    labels = (seen.nodes[0].label, "192.0.2.3", "7", "1")
    assert found["oop_engine_exporters", ()] == 1000
    assert found["oop_engine_exporter_lost_total", labels] == 2
    assert found["oop_engine_exporter_clock_skew_seconds", labels] == 95
    assert found["oop_engine_exporter_behind_seconds", labels] == 113
    assert ("oop_engine_exporter_silence_seconds", labels) not in found
    assert sum(name == "oop_engine_exporter_lost_total" for name, _ in found) == EXPORTERS


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/metrics", "localhost", 200),
        ("/metrics", "LOCALHOST:9464", 200),
        ("/metrics?name[]=x", "127.0.0.1", 200),
        ("/metrics", "[::1]:9464", 200),
        ("/metrics", "evil.example", 403),
        ("/metrics", "evil.example:9464", 403),
        ("/metrics", "", 403),
        ("/", "localhost", 404),
        ("/metrics/../etc", "localhost", 404),
    ],
)
def test_only_one_path_is_served_and_only_to_names_of_this_machine(
    address: str, path: str, host: str, status: int
) -> None:
    assert fetched(address, path, Host=host)[0] == status


def test_a_run_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "PATIENCE", 0.01)
    names = {family.name: family.samples[0].value for family in RunCollector(Questions()).collect()}
    assert names == {"oop_engine": 1, "oop_engine_answering": 0}


def test_it_can_stand_in_a_registry_beside_others(run: Run) -> None:
    questions, registry = Questions(), CollectorRegistry()
    questions.watch(run.circuit)
    questions.close()
    registry.register(RunCollector(questions))
    assert registry.get_sample_value("oop_engine_running") == 1


def test_a_run_is_scraped_while_it_goes_on_and_no_longer(tmp_path: Path) -> None:
    with scraped(Questions(), "127.0.0.1:0") as other:
        kept: Keeping = {"metrics": urlsplit(other).netloc}
        stream = oop.rows([(1, "a"), (62, "b")], SCHEMA).window(range="1 min").aggregate(oop.count())
        with pytest.raises(oop.PlanError, match=r"metrics=.*\n  Name a port that is free"):
            stream.to(tmp_path / "rows.csv").run(metrics=kept["metrics"])
    go_on = threading.Event()

    def rows() -> Iterator[tuple[int, str]]:
        yield 1, "a"
        assert go_on.wait(30)

    with oop.rows(rows(), SCHEMA).to(tmp_path / "rows.csv").start(**kept) as run:
        while not run.why(10) or run.statistics.tuples == 0:
            assert not run.ended
        assert parsed(fetched(other)[1])["oop_engine_tuples_total", ("rows",)] == 1
        go_on.set()
        run.wait(30)
    with pytest.raises(ConnectionRefusedError):
        fetched(other)


@pytest.mark.parametrize("given", ["9464", "localhost", "example.org:9464", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(oop.SourceError, match="no address to listen on"), scraped(Questions(), given):
        pass


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool, of Prometheus, is not installed")
def test_promtool_accepts_the_metrics_and_the_rules(run: Run, address: str) -> None:
    assert PROMTOOL is not None
    text = fetched(address)[1]
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [PROMTOOL, *command], cwd=ROOT / "docs" / "metrics", capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


def described(seen: View) -> set[str]:
    """Return the names of samples, as rules write them."""
    whole = attrs.evolve(seen, exporters=(attrs.evolve(EXPORTER, silent=1.0),), heard=1, checkpoint_age=1.0)
    names = {"oop_engine_answering", "oop_engine_info"}
    return names | {sample.name for family in metrics(whole, {0: Latencies()}) for sample in family.samples}


def test_the_page_the_rules_and_the_dashboard_name_metrics_that_there_are(run: Run) -> None:
    names, docs = described(view(run.circuit)), ROOT / "docs"
    page = set(re.findall(r"`([a-z_]+)`", (docs / "metrics.md").read_text(encoding="utf-8")))
    assert {name.removeprefix("oop_engine_") for name in names} <= page
    board = json.loads((docs / "metrics" / "dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked.append((docs / "metrics" / "alerts.yml").read_text(encoding="utf-8"))
    assert {name for text in asked for name in re.findall(r"oop_engine_\w+", text)} <= names
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 13
