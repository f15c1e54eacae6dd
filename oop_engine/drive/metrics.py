"""The view of a run as metrics of Prometheus, made when they are scraped; docs/metrics.md describes each.

Labels are bounded: operators and sources of the plan, and at most so many exporters as a view lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

import oop_engine
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.latency import Latencies, Releases
from oop_engine.drive.questions import Questions
from oop_engine.drive.view import ExporterView, Mark, NodeView, View, Viewer

PREFIX: Final = "oop_engine_"
PATIENCE: Final = 5.0
"""Seconds in which a run must come to the end of a page to be scraped."""

Value = tuple[Sequence[str], float | None]
"""Labels, and a number; None for none."""


@attrs.define(eq=False)
class RunCollector(Collector):
    """Ask a run for its view at each scrape; one that does not answer is told by `oop_engine_answering`."""

    questions: Questions
    releases: Releases | None = None
    """Measures how long releases take, if anything does."""
    _viewer: Viewer | None = attrs.field(init=False, default=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the run as it is now."""
        yield InfoMetricFamily("oop_engine", "Version of the engine.", {"version": oop_engine.__version__})
        try:
            found, answering = self.questions.ask(self._look, PATIENCE), True
        except TimeoutError:
            found, answering = None, False
        yield _gauge(
            "answering", f"1 if the run came to the end of a page within {PATIENCE:.0f} s.", (), [((), answering)]
        )
        if found is not None:
            yield from metrics(found, {} if self.releases is None else self.releases.read())

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the run, which is not asked when this is registered."""
        return ()

    def _look(self, circuit: Circuit | None) -> View | None:
        if circuit is None:
            return None
        if self._viewer is None or self._viewer.circuit is not circuit:
            self._viewer = Viewer(circuit)
        return self._viewer.look()


def metrics(view: View, releases: Mapping[int, Latencies] | None = None) -> Iterator[Metric]:
    """Yield the metrics of a view, and of the latencies of releases by output."""
    names = _names([node.label for node in view.nodes])
    operators = list(zip(names, view.nodes, strict=True))
    yield _gauge("running", "1 while the run has begun and has not ended.", (), [((), view.state == "running")])
    yield _gauge(
        "checkpoint_age_seconds", "Time since the last checkpoint was committed.", (), [((), view.checkpoint_age)]
    )
    yield from _of_operators(operators)
    yield from _of_sources(view, names)
    outputs = _names([output.label for output in view.outputs])
    yield _counter(
        "results", "Rows of results.", ("output",),
        [((name,), output.tuples) for name, output in zip(outputs, view.outputs, strict=True)],
    )  # fmt: skip
    yield _gauge(
        "waiting", "1 for the cause that the next window of an output waits for; see docs/why.md.", ("output", "cause"),
        [
            ((name, output.wait.cause), 1)
            for name, output in zip(outputs, view.outputs, strict=True)
            if output.wait is not None
        ],
    )  # fmt: skip
    latency = HistogramMetricFamily(
        f"{PREFIX}release_latency_seconds",
        "From the promise that completed a window to its result at an output.",
        labels=("output",),
    )
    for number, latencies in (releases or {}).items():
        latency.add_metric((outputs[number],), latencies.buckets(), latencies.total)
    yield latency
    if view.heard:
        yield from _of_exporters(view, names)


def _of_operators(operators: Sequence[tuple[str, NodeView]]) -> Iterator[Metric]:
    by = ("operator",)

    def each(value: str) -> list[Value]:
        return [((name,), getattr(node, value)) for name, node in operators]

    yield _counter("tuples", "Tuples that were given to an operator, or read from a source.", by, each("tuples_in"))
    yield _counter("tuples_emitted", "Tuples that an operator gave.", by, each("tuples_out"))
    yield _counter("promises", "Promises (punctuation) that an operator made.", by, each("promises_out"))
    yield _gauge("state_tuples", "Tuples and partial aggregates that an operator holds.", by, each("state_tuples"))
    yield _gauge("state_bytes", "Memory of what an operator holds.", by, each("state_bytes"))
    yield _gauge("open_windows", "Windows with tuples that were not released.", by, each("open_windows"))
    yield _gauge("waiting_tuples", "Tuples that wait before an operator (backpressure).", by, each("waiting"))
    marks = [(name, node.low_watermark, node.lag) for name, node in operators if node.low_watermark is not None]
    times = [(name, mark, lag) for name, mark, lag in marks if mark.time]
    numbers = [(name, mark, lag) for name, mark, lag in marks if not mark.time]
    for unit, found, what in (("_timestamp_seconds", times, "time"), ("", numbers, "number")):
        if found:
            yield _gauge(
                f"low_watermark{unit}", f"No later tuple has less than this {what}, as an operator promised.", by,
                [((name,), mark.number) for name, mark, _ in found],
            )  # fmt: skip
    for unit, found in (("_seconds", times), ("", numbers)):
        if found:
            yield _gauge(
                f"lag{unit}", "How far the low-watermark is behind the highest value of the sources.", by,
                [((name,), lag) for name, _, lag in found],
            )  # fmt: skip


def _of_sources(view: View, names: Sequence[str]) -> Iterator[Metric]:
    by, policies = ("source",), {source.place: source.policy for source in view.sources}
    late: list[Value] = []
    for name, node in zip(names, view.nodes, strict=True):
        # Operators have the tuples that a source let pass; of a source, none is a number, too.
        policy = policies.get(node.place, "")
        kinds = {"late": 0, **node.late} if policy else node.late
        late += [((name, kind, policy), count) for kind, count in kinds.items()]
    yield _counter(
        "late_tuples", "Tuples that broke a promise, by what became of them.", ("operator", "kind", "policy"), late
    )

    yield _counter(
        "source_tuples", "Tuples that were read from a source.", by,
        [((names[source.place],), view.nodes[source.place].tuples_in) for source in view.sources],
    )  # fmt: skip

    def marks(found: Iterable[tuple[str, Mark | None]], *, time: bool) -> list[Value]:
        return [((name,), mark.number) for name, mark in found if mark is not None and mark.time == time]

    highest = [(names[source.place], source.highest) for source in view.sources]
    for unit, time in (("_timestamp_seconds", True), ("", False)):
        if values := marks(highest, time=time):
            yield _gauge(f"source_highest{unit}", "Highest value that a source gave.", by, values)
    yield _gauge(
        "source_silence_seconds", "Time since a source gave something.", by,
        [((names[source.place],), source.silent) for source in view.sources if not source.ended],
    )  # fmt: skip
    yield _gauge("source_ended", "1 if a source has ended.", by, [((names[s.place],), s.ended) for s in view.sources])


def _of_exporters(view: View, names: Sequence[str]) -> Iterator[Metric]:
    by = ("source", "exporter", "port", "domain")
    shown = {(names[one.source], one.name, str(one.port), str(one.domain)): one for one in view.exporters}

    def each(value: str) -> list[Value]:
        return [(labels, getattr(one, value)) for labels, one in shown.items()]

    yield _gauge("exporters", "Exporters that were heard.", (), [((), view.heard)])
    yield _counter("exporter_datagrams", "Datagrams of an exporter.", by, each("datagrams"))
    yield _counter("exporter_records", "Flow records of an exporter.", by, each("records"))
    yield _counter("exporter_lost", "What an exporter sent and never came, by its sequence numbers.", by, each("lost"))
    yield _counter("exporter_late_records", "Records that were behind a promise.", by, each("late"))
    for name, what in _TIMES.items():
        yield _gauge(f"exporter_{name}_seconds", what, by, each(_FIELDS[name]))


_TIMES: Final = {
    "clock_skew": "By how much the clock of an exporter is behind ours.",
    "behind": "How far the promise of an exporter is behind now.",
    "silence": "Time since an exporter was heard.",
}
_FIELDS: Final = {"clock_skew": "skew", "behind": "behind", "silence": "silent"}
assert set(_FIELDS.values()) <= {field.name for field in attrs.fields(ExporterView)}


def _counter(name: str, what: str, labels: Sequence[str], values: Iterable[Value]) -> Metric:
    return _filled(CounterMetricFamily(PREFIX + name, what, labels=labels), values)


def _gauge(name: str, what: str, labels: Sequence[str], values: Iterable[Value]) -> Metric:
    return _filled(GaugeMetricFamily(PREFIX + name, what, labels=labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Iterable[Value]) -> Metric:
    """Add the values that are known."""
    for given, value in values:
        if value is not None:
            family.add_metric(given, value)
    return family


def _names(labels: Sequence[str]) -> list[str]:
    """Return labels as names: of nodes that are called alike, the second and later ones get a number."""
    seen: dict[str, int] = {}
    names = list[str]()
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        names.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return names
