"""A high level as text: window, functions and groups by name, from which another process makes its own."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from oop_engine.errors import PlanError
from operators.functions import by_name
from operators.functions.moments import Stddev, Variance
from operators.functions.protocol import AggregateFunction
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window_aggregate.partial_final import HighAggregate


def dump_high(high: HighAggregate) -> str:
    """Write a high level down; PlanError for a window that only Python code describes."""
    functions = {
        name: {"name": f.name, "arguments": list(f.arguments), "ddof": getattr(f, "ddof", None)}
        for name, f in high.functions.items()
    }
    times = pa.schema([pa.field("time", high.times)]).serialize().to_pybytes().hex()
    return json.dumps(
        {
            "window": _window(high.window),
            "functions": functions,
            "by": list(high.by),
            "empty": high.empty,
            "strategy": high.strategy,
            "times": times,
        }
    )


def load_high(text: str) -> HighAggregate:
    """Make the high level that was written down."""
    spec = json.loads(text)
    return HighAggregate(
        _read_window(spec["window"]),
        {name: _function(function) for name, function in spec["functions"].items()},
        tuple(spec["by"]),
        empty=spec["empty"],
        strategy=spec["strategy"],
        times=pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(spec["times"]))).field(0).type,
    )


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
