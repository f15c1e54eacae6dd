"""Summarise a run in a few lines, and operator by operator on request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from oop_engine.cli.words import bytes_text, counted, lag_text, rate_text, time_text
from oop_engine.drive.meter import OperatorStatistics, Statistics
from oop_engine.plan.graph import Plan
from oop_engine.report.facts import one_line

WIDTH: Final = 100
"""Columns that a table takes where there is no terminal."""
_HEAD: Final = ("tuples in", "out", "punct. in", "out", "low-watermark", "high-watermark", "lag", "state, peak")
_WINDOWS: Final = 20
"""Windows that refused tuples of which the count is shown."""
_HIGH: Final = _HEAD.index("high-watermark")
_LEAST: Final = 20
"""Columns of a label at least, if it stands beside its figures."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d (?=\d\d:)")
_LATE: Final = {
    "drop": "dropped",
    "divert": "diverted",
    "refuse": "refused",
    "revise": "left out of windows that were released",
}


def summary(
    plan: Plan, statistics: Statistics, *, late: str = "drop", late_to: str | None = None, compiled: bool = True,
    kept: bool = False,
) -> str:  # fmt: skip
    """Say what was read, what was late, what came out, and what it took.

    With a word where kernels were not `compiled`, and where open windows were `kept` in a checkpoint.
    """
    seconds = statistics.seconds
    speed = rate_text(statistics.tuples / seconds) if seconds > 0 else "-"
    speed += "" if compiled else ", compiling included"
    lines = [
        f"{counted(statistics.tuples, 'tuple')} read in {seconds:.2f} s ({speed}); {_late(statistics, late, late_to)}",
        "; ".join([*_released(plan, statistics), _state(statistics)]),
    ]
    lines += noted(statistics)
    if statistics.interrupted:
        left = "kept, and the same command goes on from there" if kept else "not among them"
        lines.append(f"interrupted: the results so far are written; windows that were still open are {left}.")
    return "\n".join(lines)


def missed(statistics: Statistics, late: str = "drop") -> list[str]:
    """Say how many tuples are in no result, or not in all, as they were late; also where nothing else is said."""
    if late == "divert":
        return []
    if not statistics.late and not statistics.late_for_some:
        return []
    return [f"note: of {counted(statistics.tuples, 'tuple')}, {_late(statistics, late, None)}"]


def noted(statistics: Statistics) -> list[str]:
    """Say what is in no result or null instead of wrong, and what the sources have to say, such as where one ended."""
    return [f"note: {one_line(note)}" for note in statistics.notes]


def table(plan: Plan, statistics: Statistics, *, width: int = WIDTH) -> str:
    """Return all operators, a line each: tuples and punctuations in and out, marks, lag, state.

    Where that is wider than `width`, times of one day are given without it, then high-watermarks are left out (low ones
    and the lag tell them), then labels get lines of their own.
    """
    figures = [_HEAD, *(_figures(plan, place, operator) for place, operator in enumerate(statistics.operators))]
    labels = ["operator", *(one_line(operator.label) for operator in statistics.operators)]
    short = _without_day(figures)
    lines: list[str] = []
    for columns in (figures, short, [row[:_HIGH] + row[_HIGH + 1 :] for row in short]):
        lines = _aligned(columns)
        room = width - 2 - max(len(line) for line in lines)
        if room >= min(_LEAST, max(len(label) for label in labels)):
            cut = [_cut(label, room) for label in labels]
            longest = max(len(label) for label in cut)
            return "\n".join(f"{label:<{longest}}  {line}" for label, line in zip(cut, lines, strict=True))
    return "\n".join(f"{_cut(label, width)}\n  {line}" for label, line in zip(labels, lines, strict=True))


def chosen(statistics: Statistics) -> Iterator[str]:
    """Yield a line for each choice that an operator made from what it had seen, and the numbers behind it."""
    for operator in statistics.operators:
        for choice in operator.choices:
            yield f"{one_line(operator.label)}: {choice}"


def refused(statistics: Statistics) -> Iterator[str]:
    """Yield a line for each window that refused tuples of new groups, the last ones; and how many there are more."""
    left = len(statistics.refused) - _WINDOWS
    if left > 0:
        yield f"... {left:,} windows before these refused tuples, too"
    for one in statistics.refused[max(0, left) :]:
        name = f'"{one_line(one.window)}" ' if one.window else ""
        yield f"{one_line(one.operator)}: window {name}{one.wid} refused {counted(one.tuples, 'tuple')} of new groups"


def _late(statistics: Statistics, policy: str, late_to: str | None) -> str:
    late, partly = statistics.late, statistics.total("late_for_some")
    texts = ["none late"]
    if late:
        texts = [f"{late:,} late, {_LATE.get(policy, policy)}" + (f" to {one_line(late_to)}" if late_to else "")]
    if partly:
        texts.append(f"{partly:,} late for some of their windows")
    return ", ".join(texts)


def _released(plan: Plan, statistics: Statistics) -> Iterator[str]:
    if any("windows" in operator.details for operator in statistics.operators):
        yield f"{counted(statistics.windows, 'window')} released"
    places = [plan.position(output) for output in plan.outputs]
    yield counted(sum(statistics.operators[p].tuples_out for p in places if p < len(statistics.operators)), "result")


def _state(statistics: Statistics) -> str:
    peak = sum(o.details.get("peak_state_bytes", 0) for o in statistics.operators)
    text = f"peak state {statistics.peak_state:,}"
    return f"{text} ({bytes_text(peak)})" if peak else text


def _figures(plan: Plan, place: int, operator: OperatorStatistics) -> tuple[str, ...]:
    """Return what stands beside the label of an operator."""
    schema = plan.nodes[place].schema
    low, high, lag = "-", "-", "-"
    for name in schema.names:
        kind = schema.arrow.field(name).type
        bound, highest = operator.lwm.get(name), operator.hwm.get(name)
        if low == "-" and isinstance(bound, int):
            low = f"{name} {time_text(bound, kind)}"
            distance = operator.lag(name)
            lag = "-" if distance is None else lag_text(distance, kind)
        if high == "-" and highest is not None:
            high = time_text(highest, kind)
    held = operator.details.get("state_tuples", 0)
    peak = max(held, operator.details.get("peak_state_tuples", 0))
    return (
        f"{operator.tuples_in:,}",
        f"{operator.tuples_out:,}",
        f"{operator.punctuations_in:,}",
        f"{operator.punctuations_out:,}",
        low,
        high,
        lag,
        f"{held:,}, {peak:,}" if peak else "-",
    )


def _without_day(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Leave out the day of all times, if it is one."""
    if len({day for row in rows for cell in row for day in _DAY.findall(cell)}) != 1:
        return list(rows)
    return [tuple(_DAY.sub("", cell) for cell in row) for row in rows]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Set marks flush left and numbers flush right."""
    columns = list(zip(*rows, strict=True))
    left = [column[0].endswith("watermark") for column in columns]
    widths = [max(len(cell) for cell in column) for column in columns]
    cells = [
        [cell.ljust(w) if flush else cell.rjust(w) for cell in column]
        for column, w, flush in zip(columns, widths, left, strict=True)
    ]
    return ["  ".join(row) for row in zip(*cells, strict=True)]


def _cut(label: str, width: int) -> str:
    return label if len(label) <= width else label[: max(0, width - 3)] + "..."
