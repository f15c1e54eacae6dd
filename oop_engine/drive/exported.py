"""The metrics of a run are sent to a receiver of OpenTelemetry, over HTTP: the same ones that Prometheus scrapes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from time import time_ns
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample

import oop_engine
from oop_engine.drive.latency import Releases
from oop_engine.drive.metrics import RunCollector
from oop_engine.drive.questions import Questions
from oop_engine.errors import PlanError

SCHEMES: Final = {"otlp": "http", "otlps": "https"}
PATH: Final = "/v1/metrics"
_PATIENCE: Final = 5.0
"""Seconds in which a receiver must have taken the metrics."""
_UNITS: Final = {"_seconds": "s", "_bytes": "By"}
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
Told: TypeAlias = Callable[[str], object]


def endpoint(address: str) -> str:
    """Return the address of HTTP that an address of OTLP stands for; PlanError for what is none.

    >>> from oop_engine.drive.exported import endpoint
    >>> endpoint("otlp://127.0.0.1:4318"), endpoint("otlps://collector.example/own/path")
    ('http://127.0.0.1:4318/v1/metrics', 'https://collector.example/own/path')
    """
    parts = urlsplit(address)
    try:
        known = bool(parts.hostname) and parts.scheme in SCHEMES and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known or parts.username is not None or parts.query or parts.fragment:
        raise PlanError(
            f'metrics="{address}" (--metrics) names no receiver.\n'
            "  Write otlp://HOST:PORT for HTTP, such as otlp://127.0.0.1:4318, and otlps://HOST:PORT for HTTPS.\n"
            "  Headers, such as a key, are those of OTEL_EXPORTER_OTLP_HEADERS."
        )
    return f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path if parts.path not in ('', '/') else PATH}"


@contextmanager
def exported(
    questions: Questions, address: str, releases: Releases | None, every: float, told: Told, alarmed: Told | None
) -> Generator[str]:
    """Send the metrics of a run each so many seconds until this is left, and once then; yield where to.

    - `told` is called at the end with how many times they were not taken, if they were not.
    - `alarmed` is called from another thread when they are not taken for the first time in a row.
    """
    place = endpoint(address)
    logger = logging.getLogger("opentelemetry")
    silent = logging.NullHandler()  # what it would say is told once, and counted
    logger.addHandler(silent)
    sending = Sending(RunCollector(questions, releases), OTLPMetricExporter(place, timeout=_PATIENCE), place, alarmed)
    thread = threading.Thread(target=sending.send_each, args=(every,), name="metrics", daemon=True)
    thread.start()
    try:
        yield place
    finally:
        sending.ended.set()
        thread.join()
        sending.exporter.shutdown()
        logger.removeHandler(silent)
        if sending.failed:
            told(f"metrics: {place} did not take them {sending.failed:,} of {sending.sent:,} times")


@attrs.define(eq=False)
class Sending:
    """Send what a collector collects, and count what is not taken."""

    collector: RunCollector
    exporter: OTLPMetricExporter
    place: str
    alarmed: Told | None
    ended: threading.Event = attrs.field(init=False, factory=threading.Event)
    sent: int = attrs.field(init=False, default=0)
    failed: int = attrs.field(init=False, default=0)
    _failing: bool = attrs.field(init=False, default=False)
    _began: int = attrs.field(init=False, factory=time_ns)

    def send_each(self, seconds: float) -> None:
        """Send each so many seconds until the run has ended, and once more then."""
        while not self.ended.wait(seconds):
            self.send()
        self.send()

    def send(self) -> None:
        """Send the metrics as they are now."""
        result = self.exporter.export(data(self.collector.collect(), self._began, time_ns()))
        self.sent += 1
        failing = result is not MetricExportResult.SUCCESS
        self.failed += failing
        if failing and not self._failing and self.alarmed is not None and not self.ended.is_set():
            self.alarmed(f"metrics: {self.place} does not take them; they are sent again")
        self._failing = failing


def data(families: Iterable[Family], began: int, now: int) -> MetricsData:
    """Return families of metrics of Prometheus in the form of OpenTelemetry; `began` and `now` in ns since 1970."""
    version = oop_engine.__version__
    scope = InstrumentationScope("oop_engine", version)
    found = [metric for family in families if (metric := _metric(family, began, now)) is not None]
    resource = Resource.create({"service.name": "oop-engine", "service.version": version})
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, found, "")], "")])


def _metric(family: Family, began: int, now: int) -> Metric | None:
    unit = next((unit for end, unit in _UNITS.items() if family.name.endswith(end)), "1")
    points = [
        NumberDataPoint(dict(one.labels), began if family.type == "counter" else now, now, float(one.value))
        for one in family.samples
        if not one.name.endswith("_created")
    ]
    if not points:
        return None
    if family.type == "histogram":
        histogram = Histogram(_histograms(family.samples, began, now), _CUMULATIVE)
        return Metric(family.name, family.documentation, unit, histogram)
    if family.type == "counter":
        return Metric(family.name, family.documentation, unit, Sum(points, _CUMULATIVE, True))
    name = f"{family.name}_info" if family.type == "info" else family.name
    return Metric(name, family.documentation, unit, Gauge(points))


def _histograms(samples: Iterable[Sample], began: int, now: int) -> list[HistogramDataPoint]:
    """Return a point for each series: the counts of its buckets, each without those before it."""
    buckets, sums = dict[tuple[tuple[str, str], ...], list[tuple[float, float]]](), dict[object, float]()
    for one in samples:
        labels: Mapping[str, str] = one.labels
        key = tuple((name, value) for name, value in labels.items() if name != "le")
        if one.name.endswith("_bucket"):
            buckets.setdefault(key, []).append((float(labels["le"]), one.value))
        elif one.name.endswith("_sum"):
            sums[key] = one.value
    points = list[HistogramDataPoint]()
    for key, found in buckets.items():
        found.sort()
        upto = [int(count) for _, count in found]
        counts = [many - before for many, before in zip(upto, [0, *upto[:-1]], strict=True)]
        bounds = [bound for bound, _ in found[:-1]]
        points.append(
            HistogramDataPoint(
                dict(key), began, now, upto[-1], sums.get(key, 0.0), counts, bounds, float("inf"), float("-inf")
            )
        )
    return points
