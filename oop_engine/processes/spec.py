"""Levels as JSON: window, functions, groups and flush by name, from which another process makes its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from operators.chain import Chain
from operators.functions import by_name
from operators.functions.moments import Stddev, Variance
from operators.functions.protocol import AggregateFunction
from operators.protocol import Operator
from operators.streams.meld import Meld
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window_aggregate.partial_final import (
    CompleteFlush,
    Flush,
    HighAggregate,
    InOrderFlush,
    LazyFlush,
    LowAggregate,
    SlowFlush,
)

_FLUSHES: Final[Mapping[str, type[Flush]]] = {
    "complete": CompleteFlush, "in order": InOrderFlush, "lazy": LazyFlush, "slow": SlowFlush,
}  # fmt: skip


def dump_high(high: HighAggregate) -> dict[str, object]:
    """Write a high level down, as JSON has it; PlanError for a window that only Python code describes."""
    times = pa.schema([pa.field("time", high.times)]).serialize().to_pybytes().hex()
    return {
        "level": "high", "window": _window(high.window), "functions": _functions(high.functions), "by": list(high.by),
        "empty": high.empty, "strategy": high.strategy, "times": times,
    }  # fmt: skip


def dump_low(low: LowAggregate) -> dict[str, object]:
    """Write a low level down, as JSON has it."""
    kind = next(name for name, kind in _FLUSHES.items() if kind is type(low.flush))
    options = attrs.asdict(low.flush, filter=lambda field, _: field.init)
    return {
        "level": "low", "functions": _functions(low.functions), "by": list(low.by), "size": low.size,
        "probes": low.probes, "page_rows": low.page_rows,
        "flush": {"kind": kind, **options},
    }  # fmt: skip


def load(spec: Mapping[str, Any]) -> Operator:
    """Make the level that was written down; a high one of several `ports` unites what comes to them."""
    if spec["level"] == "low":
        return load_low(spec)
    high, ports = load_high(spec), spec.get("ports", 1)
    return high if ports == 1 else Chain([Meld(ports), high])


def load_high(spec: Mapping[str, Any]) -> HighAggregate:
    """Make the high level that was written down."""
    return HighAggregate(
        _read_window(spec["window"]),
        {name: _function(function) for name, function in spec["functions"].items()},
        tuple(spec["by"]),
        empty=spec["empty"],
        strategy=spec["strategy"],
        times=pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(spec["times"]))).field(0).type,
    )


def load_low(spec: Mapping[str, Any]) -> LowAggregate:
    """Make the low level that was written down."""
    flush = {name: value for name, value in spec["flush"].items() if name != "kind"}
    return LowAggregate(
        {name: _function(function) for name, function in spec["functions"].items()},
        tuple(spec["by"]),
        size=spec["size"],
        probes=spec["probes"],
        page_rows=spec["page_rows"],
        flush=_FLUSHES[spec["flush"]["kind"]](**flush),
    )


def _functions(functions: Mapping[str, AggregateFunction]) -> dict[str, object]:
    return {
        name: {"name": f.name, "arguments": list(f.arguments), "ddof": getattr(f, "ddof", None)}
        for name, f in functions.items()
    }


def _function(spec: Mapping[str, object]) -> AggregateFunction:
    arguments = spec["arguments"]
    assert isinstance(arguments, list)
    names = [str(argument) for argument in arguments]
    match spec["name"], spec["ddof"]:
        case "variance", int(ddof):
            return Variance(names[0], ddof=ddof)
        case "stddev", int(ddof):
            return Stddev(names[0], ddof=ddof)
        case name, _:
            return by_name(str(name), names)


def _window(window: Window) -> dict[str, object]:
    match window:
        case SlidingWindow():
            return {
                "kind": "sliding", "wattr": window.wattr, "size": window.size, "slide": window.slide,
                "origin": window.origin, "partial": window.partial,
            }  # fmt: skip
        case LandmarkWindow():
            return {"kind": "landmark", "wattr": window.wattr, "slide": window.slide, "origin": window.origin}
        case PartitionedWindow():
            return {"kind": "partitioned", "rows": _window(window.rows), "partition": list(window.partition)}
        case _:
            raise PlanError(
                f"the window {type(window).__name__} is not sent to another process, for it is known by its code alone."
                '\n  Write layout="thread", or "here".'
            )


def _read_window(spec: Mapping[str, object]) -> SlidingWindow | LandmarkWindow | PartitionedWindow:
    fields = {name: value for name, value in spec.items() if name != "kind"}
    match spec:
        case {"kind": "sliding"}:
            return SlidingWindow(**fields)  # pyright: ignore[reportArgumentType]
        case {"kind": "landmark"}:
            return LandmarkWindow(**fields)  # pyright: ignore[reportArgumentType]
        case {"kind": "partitioned", "rows": dict(rows), "partition": list(partition)}:
            counted = _read_window({str(name): value for name, value in rows.items()})
            assert not isinstance(counted, PartitionedWindow)
            return PartitionedWindow(counted, tuple(str(name) for name in partition))
        case _:
            raise ValueError(f"a window is sliding, landmark or partitioned, not {spec!r}")
