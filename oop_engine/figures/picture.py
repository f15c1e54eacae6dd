"""A measured figure as SVG, drawn by matplotlib: legible on light and dark ground, and to colour-blind readers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any, Final

import attrs
import numpy as np

from oop_engine.errors import PlanError
from oop_engine.figures.figure import SERIES, Axis, Figure, Measured

# Colours of Okabe and Ito, darkened until they are legible as text on white; then those of the same hues on dark.
_COLOURS: Final = (
    ("#0068a5", "#5db8f0"), ("#b84a00", "#ff9d57"), ("#007353", "#3ed1a2"), ("#8d3f91", "#df9be3"),
    ("#7a6000", "#e3c94f"), ("#4d4d4d", "#c9c9c9"), ("#a3123f", "#ff8aa5"), ("#2f3fb0", "#a4b0ff"),
)  # fmt: skip
# More than colours, so that two lines of one colour are still told apart.
_MARKERS: Final = "osD^vPX*h"
_DASHES: Final = (
    "-", (0, (5, 2)), "-", (0, (1, 1.5)), (0, (5, 2)), (0, (1, 1.5)), "-", (0, (5, 2)), (0, (4, 1.5, 1, 1.5)),
)  # fmt: skip
_BACK, _INK, _SOFT, _GRID = (
    ("#ffffff", "#0d1117"),
    ("#1f2329", "#e6edf4"),
    ("#57606b", "#9ea7b2"),
    ("#e3e7ec", "#262c35"),
)
_ROOM: Final = 11.0
"""Points between two labels at the ends of lines."""
_WIDE: Final = {"x": 800, "y": 5_000}
"""The ratio of its ends from which a log axis names powers of ten alone."""
_LETTERS: Final = 50
"""How many letters have room under bars."""
_MANY: Final = 400


def check_plot() -> None:
    """Raise PlanError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise PlanError(
            "figures are drawn by matplotlib, which is not installed.\n"
            '  Install it: pip install "oop-engine[plot]". `oop-engine figures --list` needs nothing.'
        )


def svgs(figure: Figure, measured: Measured) -> dict[str, str]:
    """Draw each picture of a figure; SVG by name.

    - `figure`: says which columns are drawn along which axes.
    - `measured`: the table.

    PlanError if matplotlib is not installed. The same table gives the same bytes.
    """
    check_plot()
    return {name: _Picture(figure, measured, axis, name).svg() for name, axis in figure.pictures()}


@attrs.define(eq=False)
class _Picture:
    figure: Figure
    measured: Measured
    y: Axis
    name: str

    def svg(self) -> str:
        """Draw, and put in what turns the colours for dark ground."""
        matplotlib: Any = import_module("matplotlib")
        settings = {
            "svg.fonttype": "none", "svg.hashsalt": self.name, "font.size": 9, "font.family": "sans-serif",
            "text.color": _INK[0], "axes.labelcolor": _SOFT[0], "axes.edgecolor": _SOFT[0],
            "xtick.color": _SOFT[0], "ytick.color": _SOFT[0],
            "axes.facecolor": _BACK[0], "figure.facecolor": _BACK[0], "grid.color": _GRID[0], "axes.axisbelow": True,
            "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        }  # fmt: skip
        with matplotlib.rc_context(settings):
            drawn: Any = import_module("matplotlib.figure").Figure(figsize=(5.4, 3.3), layout="constrained")
            self._fill(drawn.subplots())
            out = StringIO()
            drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": "oop-engine figures"})
        return _turned(out.getvalue(), self.name, f"{self.figure.title}: {self.y.title} over {self.figure.x.title}")

    def _fill(self, axes: Any) -> None:
        x = self.figure.x
        if self.figure.shape == "bars":
            self._bars(axes)
        else:
            axes.set_xscale(x.scale)
        axes.set_yscale(self.y.scale)
        axes.set_xlabel(x.title)
        axes.set_ylabel(self.y.title)
        ends = self._series(axes) if self.figure.shape != "bars" else []
        if self.y.scale == "linear" and min(self._values(self.y.column)) >= 0:
            axes.set_ylim(bottom=0)
        if self.y.most is not None:
            axes.set_ylim(top=self.y.most)
        if x.most is not None:
            axes.set_xlim(right=x.most)
        for side, axis in ((axes.xaxis, x), (axes.yaxis, self.y)):
            if axis.scale == "log" and not (axis is x and self.figure.shape == "bars"):
                formatter: Any = import_module("matplotlib.ticker").FuncFormatter
                side.set_major_formatter(formatter(lambda v, _: amount(v)))
                least, most = side.get_view_interval()
                between = "25" if most / least < _WIDE[side.axis_name] else ""
                side.set_minor_formatter(formatter(lambda v, _, of=between: amount(v) if f"{v:e}"[0] in of else ""))
        axes.tick_params(which="both", length=0)
        if ends:
            _label_ends(axes, ends)

    def _values(self, column: str) -> list[float]:
        return [v for v in self.measured.table[column].to_pylist() if v is not None]

    def _points(self) -> Iterator[tuple[str, list[float], list[float], list[str]]]:
        labels = self.measured.table["label"] if "label" in self.measured.table.column_names else None
        texts = labels.to_pylist() if labels is not None else [""] * len(self.measured.table)
        rows = list(
            zip(
                self.measured.table[SERIES].to_pylist(), self.measured.table[self.figure.x.column].to_pylist(),
                self.measured.table[self.y.column].to_pylist(), texts, strict=True,
            )
        )  # fmt: skip
        for name in self.measured.series:
            own = [(x, y, text) for series, x, y, text in rows if series == name and x is not None and y is not None]
            if own:
                xs, ys, said = zip(*own, strict=True)
                yield name, list(xs), list(ys), list(said)

    def _series(self, axes: Any) -> list[tuple[str, float, float, str]]:
        """Draw lines or points, with a legend; return the ends of lines that can be named there instead."""
        ends: list[tuple[str, float, float, str]] = []
        # A mark on the edge is shown whole, unless what lies beyond the edge is to be left out.
        cut = self.figure.x.most is not None or self.y.most is not None
        for number, (name, xs, ys, said) in enumerate(self._points()):
            colour, marker = _COLOURS[number % len(_COLOURS)][0], _MARKERS[number % len(_MARKERS)]
            if self.figure.shape == "lines" and len(xs) > 1:
                axes.plot(xs, ys, color=colour, marker=marker, markersize=4 if len(xs) < 40 else 0, linewidth=1.6,
                          linestyle=_DASHES[number % len(_DASHES)], label=name, clip_on=cut)  # fmt: skip
                ends.append((name, xs[-1], ys[-1], colour))
            else:
                many = len(xs) > _MANY
                axes.plot(xs, ys, color=colour, marker="." if many else marker, markersize=1.5 if many else 5,
                          linestyle="none", label=name, clip_on=cut)  # fmt: skip
            for x, y, text in zip(xs, ys, said, strict=True):
                if text:
                    axes.annotate(text, (x, y), (5, 4), textcoords="offset points", fontsize=7.5, color=colour)
        series = self.measured.series
        if len(series) < 2:
            return []
        right = max(max(xs) for _, xs, _, _ in self._points())
        if len(ends) == len(series) and all(end[1] == right for end in ends) and self.y.most is None:
            return ends
        axes.legend(frameon=False, fontsize=8, labelcolor="linecolor")
        return []

    def _bars(self, axes: Any) -> None:
        """Draw bars in groups, one for each x in the order of the table."""
        places = list(dict.fromkeys(self.measured.table[self.figure.x.column].to_pylist()))
        groups = list(self._points())
        width = 0.8 / len(groups)
        for number, (name, xs, ys, _) in enumerate(groups):
            middle = [places.index(x) + (number - (len(groups) - 1) / 2) * width for x in xs]
            axes.bar(middle, ys, width * 0.92, color=_COLOURS[number % len(_COLOURS)][0], label=name)
        names = [v if isinstance(v, str) else amount(v) for v in places]
        long = len("".join(names)) > _LETTERS
        axes.set_xticks(range(len(places)), names, **({"rotation": 30, "ha": "right"} if long else {}))
        axes.grid(visible=False, axis="x")
        if len(groups) > 1:
            axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def _label_ends(axes: Any, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write the name of each line at its end, apart from one another."""
    axes.figure.draw_without_rendering()
    height = axes.transData.transform([(x, y) for _, x, y, _ in ends])[:, 1] * 72 / axes.figure.dpi
    order = np.argsort(height, kind="stable")
    apart = np.array([height[at] - number * _ROOM for number, at in enumerate(order)])
    # The nearest places in order and a line's height apart: pool those that would overlap (isotonic regression).
    blocks: list[list[float]] = []
    for value in apart.tolist():
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            value, size = blocks.pop()
            before, count = blocks.pop()
            blocks.append([(before * count + value * size) / (count + size), count + size])
    settled = [value for value, size in blocks for _ in range(int(size))]
    for number, at in enumerate(order):
        name, x, y, colour = ends[at]
        up = settled[number] + number * _ROOM - height[at]
        axes.annotate(name, (x, y), (8, up), textcoords="offset points", va="center", color=colour, fontsize=8)


def amount(value: float) -> str:
    """Write a number shortly.

    >>> [amount(v) for v in (0.25, 3, 4000, 1_500_000, 0)]
    ['0.25', '3', '4,000', '1.5 M', '0']
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _turned(svg: str, name: str, title: str) -> str:
    """Make ids unique, for several pictures on a page, and turn colours where the ground is dark."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"font-family: [^;]*;", "font-family: system-ui, 'DejaVu Sans', sans-serif;", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{name}-", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg xmlns="http://www.w3.org/2000/svg" '
                 r'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="\1" role="img">', svg, count=1)  # fmt: skip
    rules = "".join(
        f'svg [style*="{how}: {light}"] {{ {how}: {dark} !important }} '
        for light, dark in (_BACK, _INK, _SOFT, _GRID, *_COLOURS)
        for how in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>"
    return re.sub(r"(<svg [^>]*>)", rf"\g<1><title>{escape(title)}</title>{style}", svg, count=1)
