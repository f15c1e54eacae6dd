"""A figure of a paper: what it claims, how it is measured here, and what decides whether the claim holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError

SizeName: TypeAlias = Literal["tiny", "small", "paper"]
Shape: TypeAlias = Literal["lines", "points", "bars"]
Outcome: TypeAlias = Literal["holds", "does not hold", "not comparable"]
SERIES: Final = "series"
"""The column of a table that names the series of each row."""
_T = TypeVar("_T")


@attrs.frozen
class Size:
    """Name how large a figure is measured.

    - `name`: "tiny" for tests, "small" for minutes on a laptop, "paper" for what the paper says.
    """

    name: SizeName

    def of(self, *, tiny: _T, small: _T, paper: _T) -> _T:
        """Return the value for this size.

        >>> Size("small").of(tiny=1, small=2, paper=3)
        2
        """
        sizes: Mapping[SizeName, _T] = {"tiny": tiny, "small": small, "paper": paper}
        return sizes[self.name]


@attrs.frozen
class Axis:
    """Describe one axis of a picture.

    - `column`: the column of the table that is drawn along it.
    - `title`: what it is, with its unit: "skew, s".
    - `scale`: "linear" or "log".
    - `most`: where the picture ends, to look closer; the largest value when left out.
    """

    column: str
    title: str
    scale: Literal["linear", "log"] = attrs.field(default="linear", kw_only=True)
    most: float | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Measured:
    """Hold the numbers of a figure.

    - `table`: a row a point: `series`, the columns of the axes, and others worth reading. A column `label` is written
      beside the points.
    - `notes`: sentences on the data, and on what differs from the paper's experiment.
    """

    table: pa.Table
    notes: tuple[str, ...] = attrs.field(default=(), converter=tuple)

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, object]], *notes: str) -> Measured:
        """Make a table of rows, in the order in which the first names its columns."""
        return cls(pa.Table.from_pylist([dict(row) for row in rows]), notes)

    def along(self, series: str, x: str, y: str) -> dict[float, float]:
        """Return a series as y by x, in the order of the table.

        >>> rows = [{"series": "a", "x": 1, "y": 5}, {"series": "b", "x": 1, "y": 7}]
        >>> Measured.of(rows).along("b", "x", "y")
        {1: 7}
        """
        rows = self.table.select([SERIES, x, y]).to_pylist()
        return {row[x]: row[y] for row in rows if row[SERIES] == series}

    @property
    def series(self) -> list[str]:
        """Name the series, in the order of the table."""
        return list(dict.fromkeys(self.table[SERIES].to_pylist()))


@attrs.frozen
class Check:
    """Judge one part of a claim by the numbers that it names."""

    holds: bool
    says: str


@attrs.frozen
class Verdict:
    """Say whether a claim holds here.

    - `outcome`: "holds", "does not hold" or "not comparable".
    - `checks`: the parts of the claim with their numbers.
    - `why`: what explains a claim that does not hold, or that cannot be compared.
    """

    outcome: Outcome
    checks: tuple[Check, ...] = attrs.field(default=(), converter=tuple)
    why: str = attrs.field(default="", kw_only=True)

    @classmethod
    def of(cls, *checks: Check, why: str = "") -> Verdict:
        """Judge by all checks together; `why` is said only where one of them fails.

        >>> Verdict.of(Check(True, "2 is less than 3")).outcome
        'holds'
        >>> Verdict.of(Check(False, "3 is not less than 2"), why="it is larger").why
        'it is larger'
        """
        if all(check.holds for check in checks):
            return cls("holds", checks)
        return cls("does not hold", checks, why=why)


@attrs.frozen(eq=False)
class Figure:
    """Describe a figure or table of a paper, to be measured again.

    - `name`: as on the command line and in names of files: "6-10".
    - `paper`, `title`: where it stands and what it shows.
    - `claim`: what must hold, in words of our own.
    - `x`: the axis across.
    - `ys`: the axes upwards, a picture each.
    - `measure`: returns what a size gives. It compares the answers of all series before it measures anything.
    - `judge`: decides by what was measured alone.
    - `shape`: "lines", "points" or "bars".
    """

    name: str
    paper: str
    title: str
    claim: str
    x: Axis
    ys: tuple[Axis, ...] = attrs.field(converter=tuple)
    measure: Callable[[Size], Measured] = attrs.field(repr=False)
    judge: Callable[[Measured], Verdict] = attrs.field(repr=False)
    shape: Shape = attrs.field(default="lines", kw_only=True)

    def pictures(self) -> list[tuple[str, Axis]]:
        """Return the name of each picture with its axis: "8-8", or "6-10a" and "6-10b" where there are several."""
        if len(self.ys) == 1:
            return [(self.name, self.ys[0])]
        return [(f"{self.name}{letter}", axis) for letter, axis in zip("abcdefgh", self.ys, strict=False)]


def check_columns(figure: Figure, measured: Measured) -> None:
    """Raise PlanError if a table lacks a column of its figure, or has no row."""
    lacking = [a.column for a in (figure.x, *figure.ys) if a.column not in measured.table.column_names]
    if lacking or SERIES not in measured.table.column_names or not len(measured.table):
        has = f"{len(measured.table)} rows of {', '.join(measured.table.column_names) or 'nothing'}"
        raise PlanError(
            f"figure {figure.name}: the table has {has}, and lacks {', '.join(lacking) or 'rows or series'}.\n"
            "  Return Measured.of([{'series': ..., the columns of the axes}, ...]) from measure()."
        )
