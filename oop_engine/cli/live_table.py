"""The tables of `oop-engine top`, from the view of a run as the socket gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from oop_engine.cli.words import bytes_text, counted, rate_text

_SHOWN: Final = 20
"""Exporters in the table."""
_NARROWEST: Final = 12
"""Columns of a label, at least."""
_GAP: Final = 2
"""Columns between two others."""
_SECOND: Final = 10**9
_MINUTE: Final = 60
_HOUR: Final = 3600

Data: TypeAlias = Mapping[str, Any]
"""An object of JSON, as `View.plain` has it."""


def shown(view: Data | None, before: Data | None, width: int) -> RenderableType:
    """Return the tables of a view, cut at a width; rates are since the view `before` it."""
    if view is None or view["state"] == "beginning":
        return Text("the run has not begun: sources are read ahead, for promises that are exact")
    nodes, sources = view["nodes"], view["sources"]
    since = None if before is None or not before["nodes"] else (view["at"] - before["at"]) / _SECOND
    rates = [
        None if not since or before is None else (node["tuples_in"] - before["nodes"][at]["tuples_in"]) / since
        for at, node in enumerate(nodes)
    ]
    read = [node["place"] for node in nodes if node["kind"] == "source"]
    parts = [view["state"], counted(sum(nodes[at]["tuples_in"] for at in read), "tuple")]
    known = [rate for at in read if (rate := rates[at]) is not None]
    parts += [rate_text(sum(known))] if known else []
    if view["checkpoint_age"] is not None:
        parts.append(f"last checkpoint {_seconds(view['checkpoint_age'])} ago")
    lines: list[RenderableType] = [Text("  ".join(parts), style="bold")]
    lines += [Text(output["wait"]["text"]) for output in view["outputs"] if output["wait"] is not None]
    lines += [Text(), _operators(nodes, rates, width), Text()]
    lines.append(_table(("source", "promised", "highest", "silent", "read"), map(_source, sources), width))
    if view["exporters"]:
        head = ("exporter", "state", "clock behind", "promise behind", "silent", "records", "lost", "late")
        lines += [Text(), _table(head, map(_exporter, view["exporters"][:_SHOWN]), width)]
        if (more := view["heard"] - _SHOWN) > 0:
            lines.append(Text(f"and {counted(more, 'exporter')} less far behind"))
    return Group(*lines)


def _operators(nodes: Sequence[Data], rates: Sequence[float | None], width: int) -> Table:
    rows = (
        (
            node["label"],
            f"{node['tuples_in']:,}",
            "" if rate is None else rate_text(rate).removesuffix(" tuples/s"),
            _mark(node["low_watermark"]),
            _lag(node),
            _count(node["open_windows"]),
            bytes_text(node["state_bytes"]) if node["state_bytes"] else _count(node["state_tuples"] or None),
            _count(node["waiting"] or None),
            _count(sum(node["late"].values()) or None),
        )
        for node, rate in zip(nodes, rates, strict=True)
    )
    return _table(
        ("operator", "tuples", "a second", "promised", "lag", "open", "state", "waiting", "late"), rows, width
    )


def _source(source: Data) -> tuple[str, ...]:
    silent = "ended" if source["ended"] else _seconds(source["silent"])
    share = f"{min(1.0, source['read'] / source['size']):.0%}" if source["size"] else ""
    return source["label"], _mark(source["promised"]), _mark(source["highest"]), silent, share


def _exporter(one: Data) -> tuple[str, ...]:
    times = (_seconds(one[name]) for name in ("skew", "behind", "silent"))
    counts = (f"{one[name]:,}" for name in ("records", "lost", "late"))
    return f"{one['name']} ({one['domain']})", one["state"], *times, *counts


def _table(head: Sequence[str], rows: Iterable[tuple[str, ...]], width: int) -> Table:
    """Return a table whose first column is text, which is cut; columns without a value are left out."""
    cells = list(rows)
    used = [number for number in range(len(head)) if not number or any(row[number] for row in cells)]
    widths = {number: max(len(row[number]) for row in (head, *cells)) for number in used}
    room = width - sum(widths[number] + _GAP for number in used[1:])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number in used:
        length = widths[number] if number else max(_NARROWEST, min(widths[number], room))
        table.add_column(
            head[number], justify="right" if number else "left", no_wrap=True, overflow="ellipsis", width=length
        )
    for row in cells:
        # Text, so that no cell is read as markup.
        table.add_row(*(Text(row[number]) for number in used))
    return table


def _mark(mark: Data | None) -> str:
    """Return a bound; of a time the day is left out, which the results have."""
    if mark is None:
        return ""
    return mark["text"].partition("T")[2].rstrip("Z") if mark["time"] and "T" in mark["text"] else mark["text"]


def _lag(node: Data) -> str:
    lag, mark = node["lag"], node["low_watermark"]
    return "" if lag is None else _seconds(lag) if mark is not None and mark["time"] else f"{lag:g}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for length, unit in ((_HOUR, "h"), (_MINUTE, "min")):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"
