"""Disorder as pictures: events over arrival, and how far each is behind (Fig 6-8 and 6-9 of the thesis).

A row of two panels for each attribute. The points are a sample in which the furthest behind of every stretch is kept;
points on one pixel are drawn once, so that a file stays small. The same report gives the same bytes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.ticks import tick_ns
from oop_engine.report.disorder_words import amount_text, kind_text, share_text
from oop_engine.sinks.files import no_folder, written
from operators.data.steps import tick_number

if TYPE_CHECKING:
    from oop_engine.report.disorder_report import Disorder, Scatter

PALETTE: Final[tuple[str, ...]] = (
    "#1f77b4",
    "#e4572e",
    "#2e933c",
    "#8a4fff",
    "#c99700",
    "#0fa3b1",
    "#d6336c",
    "#6c584c",
)
_WIDTH, _HEIGHT = 460, 250
_LEFT, _GAP, _TOP, _BOTTOM, _RIGHT = 92, 104, 62, 54, 24
_S: Final = 1_000_000_000
_STEPS: Final = tuple(
    int(s * _S)
    for s in (
        *(m * 10.0**e for e in range(-9, 0) for m in (1, 2, 5)),
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
        *(86_400 * k for k in (2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650)),
    )
)  # fmt: skip
_STYLE: Final = """
  .back { fill: #ffffff } .panel { fill: #fbfcfd; stroke: #8c959f } .grid { stroke: #e3e7eb }
  .title { fill: #1f2328; font-weight: 600 } .text { fill: #57606a } .mark { stroke: #b35900; stroke-dasharray: 5 4 }
  .said { fill: #b35900; stroke: #fbfcfd; stroke-width: 4; paint-order: stroke; stroke-linejoin: round }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } .panel { fill: #11161d; stroke: #6e7681 } .grid { stroke: #262c34 }
    .title { fill: #e6edf3 } .text { fill: #9ea7b1 } .mark { stroke: #f0a050 } .said { fill: #f0a050; stroke: #11161d }
  }
"""


@attrs.frozen
class Axis:
    """One side of a panel: its values, ticks and words."""

    low: int
    high: int
    title: str
    ticks: tuple[tuple[int, str], ...]

    def place(self, value: int, length: float) -> float:
        """Return how far along the side a value is."""
        return (value - self.low) / max(self.high - self.low, 1) * length


@attrs.frozen
class Panel:
    """Points under two axes, and a line across where it means something."""

    title: str
    x: Axis
    y: Axis
    points: tuple[tuple[int, int, int], ...] = attrs.field(repr=False)
    line: tuple[int, str] | None = None


def check(path: str | Path) -> None:
    """Raise PlanError where no picture can be drawn into a file of this name."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise PlanError(f'a picture is written as .svg or .png, and "{path}" is neither.')
    if not Path(path).parent.is_dir():
        raise PlanError(no_folder(Path(path)))
    if suffix == ".png" and find_spec("matplotlib") is None:
        other = Path(path).with_suffix(".svg")
        raise PlanError(
            "a PNG is drawn by matplotlib, which is not installed.\n"
            f'  Install it: pip install "oop-engine[plot]". Or write {other}, which needs nothing.'
        )


def draw(report: Disorder, path: Path) -> None:
    """Draw a report into a file."""
    check(path)
    if not report.scatters:
        raise PlanError("nothing was kept for a picture; measure with samples=8192.")
    with written(path, example="disorder.svg") as file:
        if path.suffix.lower() == ".svg":
            file.write(svg(report).encode())
        else:
            _png(report, file)


def panels(report: Disorder) -> list[tuple[Panel, Panel]]:
    """Return the panels of each attribute: events over arrival, and lateness over arrival."""
    return [_panels(scatter) for scatter in report.scatters if scatter.points]


def _panels(scatter: Scatter) -> tuple[Panel, Panel]:
    found, kind = scatter.whole, scatter.whole.kind
    tick = tick_ns(kind)
    x = _along_x(scatter)
    low, high = found.extent or (0, 0)
    y = (
        _time_axis(low, high, tick, found.attribute)
        if tick is not None
        else _number_axis(low, high, found.attribute, kind)
    )
    most = max(found.most, found.slack, 1)
    late = _amount_axis(most + most // 8, kind)
    title = f"{found.attribute}: {found.shaped.shape}, {share_text(found.share, found.late)} of {found.tuples:,} late"
    line = None
    if found.late:
        still = share_text(found.beyond / found.tuples, found.beyond)
        line = (found.slack, f"slack {kind_text(found.slack, kind)}: {still} late beyond it")
    events = tuple((p.place, p.value, p.mark) for p in scatter.points)
    behind = tuple((p.place, p.behind, p.mark) for p in scatter.points if p.behind)
    words = f"how far behind: median {kind_text(found.p50, kind)}, most {kind_text(found.most, kind)}"
    return Panel(title, x, y, events), Panel(words if found.late else "nothing is behind", x, late, behind, line)


def _along_x(scatter: Scatter) -> Axis:
    places = [point.place for point in scatter.points]
    if scatter.against is None:
        return _number_axis(0, max(places), "number of arrival", pa.int64())
    tick = tick_ns(scatter.against.type)
    name = str(scatter.against.name)
    low, high = min(places), max(places)
    return (
        _time_axis(low, high, tick, name, most=5)
        if tick is not None
        else _number_axis(low, high, name, scatter.against.type)
    )


def _number_axis(low: int, high: int, title: str, kind: pa.DataType) -> Axis:
    step = 1
    while (high - low) // step > 6:
        step = step * 2 if str(step)[0] in "15" else step * 5 // 2
    first = -(-low // step) * step
    whole = pa.types.is_integer(kind)
    return Axis(
        low, high, title, tuple((v, f"{v:,}" if whole else tick_number(v, kind)) for v in range(first, high + 1, step))
    )


def _time_axis(low: int, high: int, tick: int, title: str, *, most: int = 6) -> Axis:
    step = next((s for s in _STEPS if s >= tick and (high - low) * tick <= most * s), _STEPS[-1]) // tick
    first = -(-low // step) * step
    places = range(first, high + 1, step)
    day = _moment(low * tick)
    name = f"{title}, UTC" + (f", {day:%Y-%m-%d}" if day is not None and step * tick < 86_400 * _S else "")
    return Axis(low, high, name, tuple((v, _clock(v * tick, step * tick)) for v in places))


def _amount_axis(high: int, kind: pa.DataType) -> Axis:
    tick = tick_ns(kind)
    if tick is None:
        return _number_axis(0, high, "behind the largest before", kind)
    step = next((s for s in _STEPS if s >= tick and high * tick <= 6 * s), _STEPS[-1]) // tick
    ticks = tuple((v, amount_text(v, tick) if v else "0") for v in range(0, high + 1, step))
    return Axis(0, high, "behind the largest before", ticks)


def _moment(ns: int) -> dt.datetime | None:
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=ns // 1000)
    except OverflowError:
        return None


def _clock(ns: int, step: int) -> str:
    """Write a moment as finely as ticks so far apart need."""
    moment = _moment(ns)
    if moment is None:
        return str(ns)
    if step >= 86_400 * _S:
        return f"{moment:%Y-%m-%d}"
    if step >= 60 * _S:
        return f"{moment:%H:%M}"
    if step >= _S:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%S}." + f"{ns % _S:09d}".rstrip("0").ljust(1, "0") + " s"


def svg(report: Disorder) -> str:
    """Draw a report as SVG, readable on light and on dark ground; it stands alone and needs no font and no script."""
    rows = panels(report)
    groups = report.scatters[0].groups if report.scatters else ()
    width = _LEFT + 2 * _WIDTH + _GAP + _RIGHT
    height = _TOP + len(rows) * (_HEIGHT + _BOTTOM + 26) + 4
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" font-family="system-ui, -apple-system, \'Segoe UI\', \'DejaVu Sans\', sans-serif" font-size="12">',
        f"<title>Disorder of {escape(report.name)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        f'<text class="title" x="{_LEFT}" y="26" font-size="16">{escape(_heading(report))}</text>',
        *_legend(groups, report.by),
    ]
    for number, (events, behind) in enumerate(rows):
        top = _TOP + 26 + number * (_HEIGHT + _BOTTOM + 26)
        out += _panel(events, _LEFT, top)
        out += _panel(behind, _LEFT + _WIDTH + _GAP, top)
    return "\n".join([*out, "</svg>"]) + "\n"


def _heading(report: Disorder) -> str:
    return f"{report.name}: {report.tuples:,} tuples in order of arrival"


def _shown(groups: Sequence[str]) -> list[tuple[str, str]]:
    """Return names and colours of the legend; what has no colour of its own has the last."""
    named: list[tuple[str, str]] = list(zip(groups, PALETTE, strict=False))
    if len(groups) > len(PALETTE):
        named[-1] = (f"{len(groups) - len(PALETTE) + 1} others", PALETTE[-1])
    return named


def _legend(groups: Sequence[str], by: Sequence[str]) -> Iterator[str]:
    if not groups:
        return
    x = float(_LEFT)
    yield f'<text class="text" x="{x:.0f}" y="50">{escape(", ".join(by))}</text>'
    x += 8 * len(", ".join(by)) + 14
    for name, colour in _shown(groups):
        yield f'<circle cx="{x:.0f}" cy="46" r="5" fill="{colour}"/>'
        yield f'<text class="text" x="{x + 10:.0f}" y="50">{escape(name)}</text>'
        x += 7.4 * len(name) + 32


def _panel(panel: Panel, left: float, top: float) -> Iterator[str]:
    bottom = top + _HEIGHT
    yield f'<text class="title" x="{left}" y="{top - 10}" font-size="13">{escape(panel.title)}</text>'
    yield f'<rect class="panel" x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}"/>'
    for value, text in panel.x.ticks:
        x = left + panel.x.place(value, _WIDTH)
        yield f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>'
        yield f'<text class="text" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(text)}</text>'
    for value, text in panel.y.ticks:
        y = bottom - panel.y.place(value, _HEIGHT)
        yield f'<path class="grid" d="M{left} {y:.1f}H{left + _WIDTH}"/>'
        yield f'<text class="text" x="{left - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    middle = left + _WIDTH / 2
    yield f'<text class="text" x="{middle}" y="{bottom + 37}" text-anchor="middle">{escape(panel.x.title)}</text>'
    turn = f'transform="translate({left - 68} {top + _HEIGHT / 2}) rotate(-90)" text-anchor="middle"'
    yield f'<text class="text" {turn}>{escape(panel.y.title)}</text>'
    for colour, path in _dots(panel, left, bottom):
        yield (
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2.6" stroke-linecap="round" '
            'stroke-opacity="0.55"/>'
        )
    if panel.line is not None:
        value, text = panel.line
        y = bottom - panel.y.place(value, _HEIGHT)
        yield f'<path class="mark" d="M{left} {y:.1f}H{left + _WIDTH}"/>'
        yield (f'<text class="said" x="{left + _WIDTH - 6}" y="{y - 6:.1f}" text-anchor="end">{escape(text)}</text>')


def _dots(panel: Panel, left: float, bottom: float) -> Iterator[tuple[str, str]]:
    """Yield for each colour a path of points, those on one pixel once, each drawn as a line of no length."""
    found: dict[int, dict[tuple[int, int], None]] = {}
    for x, y, mark in panel.points:
        place = round(left + panel.x.place(x, _WIDTH)), round(bottom - panel.y.place(y, _HEIGHT))
        found.setdefault(min(mark, len(PALETTE) - 1), {})[place] = None
    for mark in sorted(found, key=lambda mark: -len(found[mark])):
        parts: list[str] = []
        at = (0, 0)
        for place in sorted(found[mark]):
            across, down = place[0] - at[0], place[1] - at[1]
            parts.append(f"m{across}{'' if down < 0 else ' '}{down}h0")
            at = place
        yield PALETTE[mark], "".join(parts)


def _png(report: Disorder, file: BinaryIO) -> None:
    """Draw the same panels through matplotlib."""
    figure_of: Callable[..., object] = import_module("matplotlib.figure").Figure
    rows = panels(report)
    figure = figure_of(figsize=(12, 1 + 3.6 * max(len(rows), 1)), layout="constrained")
    _fill(figure, report, rows)
    figure.savefig(file, format="png", dpi=110)  # pyright: ignore[reportAttributeAccessIssue]


def _fill(figure: object, report: Disorder, rows: Sequence[tuple[Panel, Panel]]) -> None:
    axes = figure.subplots(max(len(rows), 1), 2, squeeze=False)  # pyright: ignore[reportAttributeAccessIssue]
    figure.suptitle(_heading(report), x=0.01, ha="left", fontweight="bold")  # pyright: ignore[reportAttributeAccessIssue]
    groups = report.scatters[0].groups
    for row, pair in zip(axes, rows, strict=False):
        for axis, panel in zip(row, pair, strict=True):
            for mark in sorted({min(m, len(PALETTE) - 1) for _, _, m in panel.points}):
                own = [(x, y) for x, y, m in panel.points if min(m, len(PALETTE) - 1) == mark]
                xs, ys = [x - panel.x.low for x, _ in own], [y - panel.y.low for _, y in own]
                label = _shown(groups)[mark][0] if groups else None
                axis.scatter(xs, ys, s=3, alpha=0.55, color=PALETTE[mark], linewidths=0, label=label)
            axis.set_title(panel.title, loc="left", fontsize=10)
            axis.set_xlabel(panel.x.title)
            axis.set_ylabel(panel.y.title)
            axis.set_xticks([v - panel.x.low for v, _ in panel.x.ticks], [t for _, t in panel.x.ticks])
            axis.set_yticks([v - panel.y.low for v, _ in panel.y.ticks], [t for _, t in panel.y.ticks])
            axis.grid(alpha=0.3)
            if panel.line is not None:
                axis.axhline(panel.line[0], color="#b35900", linestyle="--", linewidth=1, label=panel.line[1])
            if groups or panel.line is not None:
                axis.legend(fontsize=8, loc="upper right", markerscale=3)
