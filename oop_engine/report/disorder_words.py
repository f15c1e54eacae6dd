"""Disorder as words: the cells of a table, a row an attribute and group, and what to make of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from oop_engine.plan.ticks import tick_ns
from oop_engine.report.facts import one_line
from operators.data.steps import is_stepped_decimal, tick_number

if TYPE_CHECKING:
    from oop_engine.report.disorder_report import AttributeDisorder, Disorder

HEAD: Final = ("attribute", "of", "tuples", "late", "p50", "p90", "p99", "max", "shape", "slack", "still late")
LEFT: Final = frozenset(("attribute", "of", "shape"))
_NEAR: Final = 100_000_000
_S: Final = 1_000_000_000
_UNITS: Final = (
    (86_400 * _S, 172_800 * _S, "d"), (3600 * _S, 7200 * _S, "h"), (60 * _S, 120 * _S, "min"), (_S, _S - 500_000, "s"),
    (1_000_000, 999_500, "ms"), (1000, 1000, "us"),
)  # fmt: skip
"""Nanoseconds of a unit, and from how many on it is used."""


def cells(report: Disorder) -> list[tuple[str, ...]]:
    """Return the rows of the table, each attribute over all tuples first."""
    rows: list[tuple[str, ...]] = []
    for whole in report.whole:
        same = [found for found in report.groups if found.attribute == whole.attribute]
        rows += [_row(found) for found in (whole, *sorted(same, key=lambda found: str(found.group)))]
    return rows


def table(report: Disorder) -> Iterator[str]:
    """Yield the table as lines of plain text."""
    columns = list(zip(HEAD, *cells(report), strict=True))
    widths = [max(map(len, column)) for column in columns]
    yield f"{one_line(report.name)}: {report.tuples:,} tuples in order of arrival"
    for row in zip(*columns, strict=True):
        texts = [
            cell.ljust(width) if name in LEFT else cell.rjust(width)
            for name, cell, width in zip(HEAD, row, widths, strict=True)
        ]
        yield "  ".join(texts).rstrip()


def advice(report: Disorder) -> Iterator[str]:
    """Say what the figures mean for promises, for clocks, and what was odd."""
    for whole in report.whole:
        yield from _advice(whole)
        yield from _by_group(report, whole)
    for group, ahead in sorted(report.clocks.items()):
        if abs(ahead) > _NEAR:
            yield f"clock of {one_line(group)}: about {amount_text(abs(ahead), 1)} {'ahead' if ahead > 0 else 'behind'}"
    for found in (*report.whole, *report.groups):
        if found.from_the_future:
            of = "" if found.group is None else f" of {one_line(found.group)}"
            yield (
                f"from the future: {found.attribute}{of} jumped {_amount(found, found.jump)} ahead after "
                f"{found.jump_at:,} tuples, and {found.behind:,} came behind it; slack grows by such a value, and "
                "late tuples with it. Filter it out, or correct the clock."
            )
    for note in report.notes:
        yield f"note: {one_line(note)}"


def _advice(whole: AttributeDisorder) -> Iterator[str]:
    if not whole.tuples:
        yield f"{whole.attribute}: no tuple has a value"
        return
    if not whole.late:
        yield f"{whole.attribute}: in order. {whole.option}"
        return
    shaped, enough = whole.shaped, rounded_up(whole.most, tick_ns(whole.kind))
    if shaped.shape == "block-sorted":
        mean = shaped.in_blocks / max(shaped.blocks, 1)
        why = f"block-sorted ({shaped.blocks:,} ascending, disjoint blocks, {mean:,.0f} tuples in the mean)"
    else:
        why = f"a band (one block holds {shaped.largest:,} of {whole.tuples:,} tuples)"
    late = whole.beyond if whole.blocks is None else whole.broken
    text = f"{whole.attribute}: {why}; {whole.option} leaves {f'{late:,} tuples' if late else 'none'} late"
    yield text if whole.blocks is not None or not late else f"{text}, {whole.amount(enough)} none"


def _by_group(report: Disorder, whole: AttributeDisorder) -> Iterator[str]:
    """Say when each group by itself needs much less slack than all together."""
    groups = [found for found in report.groups if found.attribute == whole.attribute]
    worst = max((found.slack for found in groups), default=0)
    if groups and whole.late and worst <= 0.9 * whole.slack:
        by = ", ".join(report.by)
        needs = f"needs one of {_amount(whole, worst)} only" if worst else "is in order"
        yield (
            f"{whole.attribute}: each {by} by itself {needs}, all together need a slack of "
            f"{_amount(whole, whole.slack)}: filter by {by} into streams, promise for each, and meld them"
        )


def _row(found: AttributeDisorder) -> tuple[str, ...]:
    late = found.late > 0
    return (
        one_line(found.attribute),
        "all" if found.group is None else one_line(found.group),
        f"{found.tuples:,}",
        share_text(found.share, found.late),
        *(_amount(found, ticks) if late else "-" for ticks in (found.p50, found.p90, found.p99, found.most)),
        found.shaped.shape,
        _amount(found, found.slack) if late else "-",
        share_text(found.beyond / found.tuples, found.beyond) if late else "-",
    )


def share_text(share: float, number: int) -> str:
    """Return a share of tuples, and what is too few for that as a number."""
    if number == 0:
        return "none"
    return f"{number}" if share < 0.0005 and number < 1000 else f"{100 * share:.{3 if share >= 0.01 else 2}g} %"


def _amount(found: AttributeDisorder, ticks: int) -> str:
    return kind_text(ticks, found.kind)


def rounded_up(ticks: int, tick: int | None) -> int:
    """Return the least amount from `ticks` on that people would write: two digits of the unit it is in."""
    if ticks <= 0:
        return 0
    scale = 1
    if tick is not None:
        scale = next((u // tick for u in (10**9, 10**6, 10**3) if u % tick == 0 and ticks * tick >= u), 1)
    step = scale
    while ticks > 100 * step:
        step *= 10
    while step > 1 and step % 10 == 0 and ticks <= 10 * step:
        step //= 10
    return -(-ticks // step) * step


def amount_text(ticks: int, tick: int | None) -> str:
    """Return an amount in three digits, in the unit people would take."""
    if tick is None:
        return f"{ticks:,}"
    ns = ticks * tick
    for size, least, unit in _UNITS:
        if ns >= least:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns} ns" if ns else "0 s"


def kind_text(ticks: int, kind: pa.DataType) -> str:
    """Return an amount of an attribute of a type as `amount_text` does, a decimal in full."""
    return tick_number(ticks, kind) if is_stepped_decimal(kind) else amount_text(ticks, tick_ns(kind))


def _digits(value: float) -> str:
    """Write three digits, no zeros behind the point."""
    text = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
