"""Out-of-order processing of data streams: window queries under punctuation, right whatever the arrival order.

    import oop_engine as oop

    links = oop.meld(oop.pcap("control.pcap"), oop.pcap("main1.pcap"), oop.pcap("main2.pcap"))
    for page in links.window(range="1 minute", wattr="ts").aggregate(oop.count()):
        print(page.rows())

Everything a user needs is here; `operators` and `punctuation` are for people who write operators.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

from oop_engine.lazy import lazily

if TYPE_CHECKING:
    import oop_engine.queries as queries  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import oop_engine.spark as spark  # noqa: F401  # pyright: ignore[reportUnusedImport]
    from oop_engine.api.comparing import Comparison, compare
    from oop_engine.api.disorder import Disorder, disorder
    from oop_engine.api.early import Early, early
    from oop_engine.api.expensive import expensive
    from oop_engine.api.exporter_names import exporter_names
    from oop_engine.api.in_memory import arrow, packets, pages, rows
    from oop_engine.api.in_order import in_order
    from oop_engine.api.lookup import ports, protocols
    from oop_engine.api.output import Output
    from oop_engine.api.outputs import explain_outputs, run_outputs, run_outputs_async
    from oop_engine.api.promising import from_source
    from oop_engine.api.read import interface, netflow, nfdump, pcap, read, sflow_counters, table, zeek
    from oop_engine.api.running import Running
    from oop_engine.api.started import Started
    from oop_engine.api.stream import Stream, meld, merge
    from oop_engine.api.trigger import Trigger
    from oop_engine.api.versions import reloaded, versions
    from oop_engine.api.why import why
    from oop_engine.api.windowed import Windowed
    from oop_engine.api.windowing import (
        WindowOf,
        band,
        calendar,
        counted,
        edges,
        latest,
        marked,
        own,
        session,
        slide_by_rank,
        slide_by_rows,
        slide_by_tuple,
        sliding,
        tumbling,
        when,
    )
    from oop_engine.drive.checkpoints.state import JobState, state
    from oop_engine.drive.meter import Statistics
    from oop_engine.drive.outcome import Outcome
    from oop_engine.errors import (
        AggregateFailure,
        AggregateOverflow,
        CheckpointError,
        Error,
        MemoryLimitError,
        NotRunning,
        OperatorBug,
        PlanError,
        SchemaError,
        StreamError,
        StreamViolation,
    )
    from oop_engine.language import LanguageError
    from oop_engine.language.translate import query
    from oop_engine.plan.punctuate import blocks, by_key, embedded, every, heartbeat, ordered, slack, tuple_slack
    from oop_engine.plan.strategies import Strategy, strategy
    from oop_engine.processes import ProcessError, apart
    from oop_engine.processes.capacity import Capacity, CapacityTrial, capacity
    from oop_engine.sinks.errors import SinkError, WriteFailed
    from oop_engine.sources.capture.errors import DecodeError
    from oop_engine.sources.errors import SourceEnded, SourceError, TableError
    from oop_engine.sources.generator import Band, Blocks
    from oop_engine.warming import Warmed, warm
    from operators.data.page import Page
    from operators.data.schema import Schema, ip_field
    from operators.expression import Column
    from operators.functions import (
        approx_count_distinct,
        approx_heavy_hitters,
        approx_quantile,
        argmax,
        argmin,
        avg,
        centre_of_mass,
        collect,
        concat,
        count,
        count_distinct,
        first,
        gap_variation,
        geometric_mean,
        heavy_hitters,
        last,
        m4,
        max,
        mean_gap,
        median,
        min,
        minmax,
        mode,
        quantile,
        stddev,
        sum,
        top_k,
        user_aggregate,
        variance,
    )

__version__ = "0.2.0"

_PLACES = {
    "oop_engine.api.comparing": "Comparison compare",
    "oop_engine.api.disorder": "Disorder disorder",
    "oop_engine.errors": (
        "AggregateFailure AggregateOverflow CheckpointError Error MemoryLimitError NotRunning OperatorBug PlanError"
        " SchemaError StreamError StreamViolation"
    ),
    "oop_engine.api.in_memory": "arrow packets pages rows",
    "oop_engine.api.early": "Early early",
    "oop_engine.api.expensive": "expensive",
    "oop_engine.api.in_order": "in_order",
    "oop_engine.language": "LanguageError",
    "oop_engine.drive.checkpoints.state": "JobState state",
    "oop_engine.drive.meter": "Statistics",
    "oop_engine.drive.outcome": "Outcome",
    "oop_engine.processes": "ProcessError apart",
    "oop_engine.processes.capacity": "Capacity CapacityTrial capacity",
    "oop_engine.api.promising": "from_source",
    "oop_engine.plan.punctuate": "blocks by_key embedded every heartbeat ordered slack tuple_slack",
    "oop_engine.language.translate": "query",
    "oop_engine.api.read": "interface netflow nfdump pcap read sflow_counters table zeek",
    "oop_engine.sinks.errors": "SinkError WriteFailed",
    "oop_engine.sources.capture.errors": "DecodeError",
    "oop_engine.sources.errors": "SourceEnded SourceError TableError",
    "oop_engine.sources.generator": "Band Blocks",
    "oop_engine.api.exporter_names": "exporter_names",
    "oop_engine.api.versions": "reloaded versions",
    "oop_engine.api.lookup": "ports protocols",
    "oop_engine.api.output": "Output",
    "oop_engine.api.outputs": "explain_outputs run_outputs run_outputs_async",
    "oop_engine.api.running": "Running",
    "oop_engine.api.started": "Started",
    "oop_engine.plan.strategies": "Strategy strategy",
    "oop_engine.api.stream": "Stream meld merge",
    "oop_engine.api.trigger": "Trigger",
    "oop_engine.warming": "Warmed warm",
    "oop_engine.api.why": "why",
    "oop_engine.api.windowed": "Windowed",
    "oop_engine.api.windowing": (
        "WindowOf band calendar counted edges latest marked own session slide_by_rank slide_by_rows slide_by_tuple "
        "sliding tumbling when"
    ),
    "operators.expression": "Column",
    "operators.functions": (
        "approx_count_distinct approx_heavy_hitters approx_quantile argmax argmin avg centre_of_mass collect "
        "concat "
        "count count_distinct first gap_variation geometric_mean heavy_hitters last m4 max mean_gap median "
        "min minmax mode quantile stddev sum top_k user_aggregate variance"
    ),
    "operators.data.page": "Page",
    "operators.data.schema": "Schema ip_field",
}

__all__ = [
    "AggregateFailure",
    "AggregateOverflow",
    "Band",
    "Blocks",
    "Capacity",
    "CapacityTrial",
    "CheckpointError",
    "Column",
    "Comparison",
    "DecodeError",
    "Disorder",
    "Early",
    "Error",
    "JobState",
    "LanguageError",
    "MemoryLimitError",
    "NotRunning",
    "OperatorBug",
    "Outcome",
    "Output",
    "Page",
    "PlanError",
    "ProcessError",
    "Running",
    "Schema",
    "SchemaError",
    "SinkError",
    "SourceEnded",
    "SourceError",
    "Started",
    "Statistics",
    "Strategy",
    "Stream",
    "StreamError",
    "StreamViolation",
    "TableError",
    "Trigger",
    "Warmed",
    "WindowOf",
    "Windowed",
    "WriteFailed",
    "apart",
    "approx_count_distinct",
    "approx_heavy_hitters",
    "approx_quantile",
    "argmax",
    "argmin",
    "arrow",
    "avg",
    "band",
    "blocks",
    "by_key",
    "calendar",
    "capacity",
    "centre_of_mass",
    "collect",
    "compare",
    "concat",
    "count",
    "count_distinct",
    "counted",
    "disorder",
    "early",
    "edges",
    "embedded",
    "every",
    "expensive",
    "explain_outputs",
    "exporter_names",
    "first",
    "from_source",
    "gap_variation",
    "geometric_mean",
    "heartbeat",
    "heavy_hitters",
    "in_order",
    "interface",
    "ip_field",
    "last",
    "latest",
    "m4",
    "marked",
    "max",
    "mean_gap",
    "median",
    "meld",
    "merge",
    "min",
    "minmax",
    "mode",
    "netflow",
    "nfdump",
    "ordered",
    "own",
    "packets",
    "pages",
    "pcap",
    "ports",
    "protocols",
    "quantile",
    "query",
    "read",
    "reloaded",
    "rows",
    "run_outputs",
    "run_outputs_async",
    "session",
    "sflow_counters",
    "slack",
    "slide_by_rank",
    "slide_by_rows",
    "slide_by_tuple",
    "sliding",
    "state",
    "stddev",
    "strategy",
    "sum",
    "table",
    "top_k",
    "tumbling",
    "tuple_slack",
    "user_aggregate",
    "variance",
    "versions",
    "warm",
    "when",
    "why",
    "zeek",
]


def _check_siblings() -> None:
    """Say in one sentence when a folder named `operators` or `punctuation` of the user's own hides ours."""
    ours = Path(__file__).parent.parent
    for sibling in ("punctuation", "operators"):
        found = import_module(sibling)
        place = getattr(found, "__file__", None)
        if place is None or Path(place).parent.parent != ours:
            raise ImportError(
                f"a module of your own named {sibling!r} ({place or 'a folder'}) hides the package {sibling!r} that"
                " oop-engine brings; rename yours or run from another folder."
            )


class _Moved:
    """Ask `operators.moved`, which knows names of before, for a module of this package that nothing else finds."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.startswith(f"{__name__}."):
            with suppress(ImportError):  # a package of the user's own hides ours, as `_check_siblings` tells
                return import_module("operators.moved").FINDER.find_spec(name)
        return None


sys.meta_path.append(_Moved)
lazily(__name__, _PLACES, rooms=("queries", "spark"), before=_check_siblings)
