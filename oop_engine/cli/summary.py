"""What a run did, in a few lines for everybody, and operator by operator for those who ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oop_engine.cli.words import bytes_text, counted, lag_text, rate_text, time_text
from oop_engine.facts import one_line
from oop_engine.meter import OperatorStatistics, Statistics
from oop_engine.plan import Plan

_LATE: Final = {"drop": "dropped", "divert": "diverted", "refuse": "refused", "revise": "passed on"}


def summary(plan: Plan, statistics: Statistics, *, late: str = "drop", late_to: str | None = None) -> str:
    """Say what was read, what was late, what came out, and what it took."""
    seconds = statistics.seconds
    speed = rate_text(statistics.tuples / seconds) if seconds > 0 else "-"
    lines = [
        f"{counted(statistics.tuples, 'tuple')} read in {seconds:.2f} s ({speed}); {_late(statistics, late, late_to)}",
        "; ".join([*_released(plan, statistics), _state(statistics)]),
    ]
    if untimed := statistics.total("untimed") + statistics.total("without_value"):
        lines.append(f"note: {counted(untimed, 'tuple')} without a value of the progressing attribute")
    if gap := statistics.total("in_no_window"):
        lines.append(f"note: {counted(gap, 'tuple')} in no window")
    lines += [f"note: {one_line(note)}" for note in statistics.notes]
    if statistics.interrupted:
        lines.append("interrupted: the results so far are written; windows that were still open are not among them.")
    return "\n".join(lines)


def table(plan: Plan, statistics: Statistics) -> str:
    """Give all operators, a line each: tuples and punctuations in and out, marks, lag, state."""
    head = ("operator", "tuples in", "out", "punct. in", "out", "low-watermark", "high-watermark", "lag", "state, peak")
    rows = [_row(plan, place, operator) for place, operator in enumerate(statistics.operators)]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    return "\n".join(_aligned(row, widths) for row in (head, *rows))


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


def _row(plan: Plan, place: int, operator: OperatorStatistics) -> tuple[str, ...]:
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
    label = one_line(operator.label)
    held = operator.details.get("state_tuples", 0)
    peak = max(held, operator.details.get("peak_state_tuples", 0))
    return (
        label if len(label) <= 40 else label[:37] + "...",
        f"{operator.tuples_in:,}",
        f"{operator.tuples_out:,}",
        f"{operator.punctuations_in:,}",
        f"{operator.punctuations_out:,}",
        low,
        high,
        lag,
        f"{held:,}, {peak:,}" if peak else "-",
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(row, widths, strict=True)
    return "  ".join(c.ljust(w) if i in (0, 5, 6) else c.rjust(w) for i, (c, w) in enumerate(cells)).rstrip()
