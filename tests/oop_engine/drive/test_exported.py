"""A receiver of OpenTelemetry gets the same metrics that Prometheus scrapes, and what it does not take is counted."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.drive.exported import data, endpoint
from oop_engine.drive.latency import Latencies
from oop_engine.drive.metrics import metrics
from oop_engine.drive.published import published
from oop_engine.drive.questions import Questions
from oop_engine.drive.synchronous import Run
from oop_engine.drive.view import view

SCHEMA = oop.Schema.of(ts="timestamp[s]", host="string")
ROWS = [(1, "a"), (62, "b"), (3, "a"), (130, "a")]


class Taken(list[ExportMetricsServiceRequest]):
    """What was sent, and whether that was three times."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = threading.Event()


@contextmanager
def receiving(status: int = 200) -> Generator[tuple[str, Taken]]:
    """Receive what is sent to an address of loopback, and answer with a status."""
    taken = Taken()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/metrics":
                taken.append(ExportMetricsServiceRequest.FromString(body))
                if len(taken) == 3:
                    taken.enough.set()
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"otlp://127.0.0.1:{server.server_address[1]}", taken
        finally:
            server.shutdown()
            thread.join()


def named(request: ExportMetricsServiceRequest) -> Mapping[str, Metric]:
    (resource,) = request.resource_metrics
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes["service.name"] == "oop-engine" and attributes["service.version"] == oop.__version__
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def stream() -> oop.Stream:
    read = oop.rows(iter(ROWS), SCHEMA, name="the link", punctuate=oop.ordered())
    return read.window(range="1 min").aggregate(oop.count(), by="host")


def test_a_run_sends_what_there_was_at_its_end(tmp_path: Path) -> None:
    with receiving() as (address, taken):
        stream().to(tmp_path / "rows.csv").run(metrics=address)
    found = named(taken[-1])
    (tuples,) = (
        point
        for point in found["oop_engine_tuples"].sum.data_points
        if point.attributes[0].value.string_value == "the link"
    )
    assert tuples.as_double == 4 and 0 < tuples.start_time_unix_nano < tuples.time_unix_nano
    assert found["oop_engine_tuples"].sum.is_monotonic and found["oop_engine_tuples"].sum.aggregation_temporality == 2
    assert max(point.as_double for point in found["oop_engine_late_tuples"].sum.data_points) == 1
    assert found["oop_engine_lag_seconds"].unit == "s" and found["oop_engine_state_bytes"].unit == "By"
    assert found["oop_engine_running"].gauge.data_points[0].as_double == 0


def test_it_is_all_that_prometheus_scrapes() -> None:
    run = Run(stream().start(page_rows=1).plan, 1)
    next(iter(run))
    latencies = Latencies()
    for seconds in (0.003, 0.004, 2.0, 1e6):
        latencies.add(seconds)
    families = list(metrics(view(run.circuit), {0: latencies}))
    (resource,) = data(families, 1, 2).resource_metrics
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert found.keys() == {family.name for family in families if family.samples}
    for family in families:
        if family.type != "histogram" and family.samples:
            points = found[family.name].data.data_points
            assert [(dict(one.attributes or {}), getattr(one, "value", None)) for one in points] == [
                (sample.labels, sample.value) for sample in family.samples
            ]
    (point,) = found["oop_engine_release_latency_seconds"].data.data_points
    scraped = latencies.buckets()
    assert [sum(point.bucket_counts[: n + 1]) for n in range(len(scraped))] == [count for _, count in scraped]
    assert [str(bound) for bound in point.explicit_bounds] == [bound for bound, _ in scraped[:-1]]
    assert (point.count, point.sum) == (4, latencies.total)


def test_they_are_sent_while_a_run_goes_on() -> None:
    questions, told = Questions(), list[str]()
    questions.close()
    with receiving() as (address, taken), published(questions, address, told=told.append, every=0.001) as place:
        assert place == address.replace("otlp", "http") + "/v1/metrics"
        assert taken.enough.wait(30)
    assert not told and named(taken[0]).keys() == {"oop_engine_info", "oop_engine_answering"}


def test_a_receiver_that_does_not_take_them_is_told_and_counted(tmp_path: Path) -> None:
    with receiving(400) as (address, taken):
        with pytest.warns(RuntimeWarning, match=r"metrics: http://.* did not take them 1 of 1 times"):
            outcome = stream().to(tmp_path / "rows.csv").run(metrics=address)
        assert outcome.tuples == 4 and len(taken) == 1
        (tmp_path / "in.csv").write_text("ts,v\n1,2\n20,3\n")
        query = "SELECT count(*) [RANGE 10, WA ts] FROM S"
        ran = CliRunner().invoke(commands, ["query", query, "-s", f"S={tmp_path / 'in.csv'}", "--metrics", address])
    assert ran.exit_code == 0, ran.output
    assert f"metrics to {endpoint(address)}" in ran.stderr and "note: metrics: http://" in ran.stderr


@pytest.mark.parametrize("given", ["http://127.0.0.1:4318", "otlp://", "otlp://x:99999", "otlp://u@host", "otlp://a?b"])
def test_what_names_no_receiver_is_refused(given: str) -> None:
    with pytest.raises(oop.PlanError, match="names no receiver"), published(Questions(), given, told=print):
        pass
