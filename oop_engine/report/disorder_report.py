"""The measured disorder of a stream as values: by attribute and group, with the promises that fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.ticks import tick_ns, ticks_text
from oop_engine.report.disorder_words import advice, table
from oop_engine.report.scatter import draw
from operators.data.steps import is_stepped_decimal, unit_of
from operators.streams.disorder import Point, Shaped

_FUTURE: Final = 300_000_000_000


@attrs.frozen
class AttributeDisorder:
    """Hold the disorder of one attribute, over all tuples or over those of one group; amounts in ticks of the
    attribute.

    `amount(slack)` writes an amount with its unit, as `oop.slack` takes it.

    `p50`, `p90`, `p99` and `most` tell how far late tuples are behind the largest value before them. `beyond` tuples
    are later than `slack`, which is rounded to what people write. If the stream is sorted in blocks, `blocks` is their
    length, and `broken` tuples break the promise of that. `jump` is the largest rise of the largest value, after
    `jump_at` values; `behind` of the values after it were more than half of it behind.
    """

    attribute: str
    group: str | None
    kind: pa.DataType = attrs.field(repr=False)
    tuples: int
    without_value: int
    late: int
    p50: int
    p90: int
    p99: int
    most: int
    jump: int
    jump_at: int
    behind: int
    shaped: Shaped
    slack: int
    beyond: int
    blocks: int | None
    broken: int
    extent: tuple[int, int] | None

    @property
    def share(self) -> float:
        """Return the share of late tuples."""
        return self.late / self.tuples if self.tuples else 0.0

    @property
    def from_the_future(self) -> bool:
        """Return whether a tuple was more than five minutes ahead of what followed it."""
        tick = tick_ns(self.kind)
        return tick is not None and self.behind > 0 and self.jump * tick > _FUTURE

    @property
    def promise(self) -> str:
        """Return the promise that fits best, as it is written in Python."""
        if not self.late:
            return f'oop.ordered("{self.attribute}")'
        if self.blocks is not None:
            return f'oop.blocks("{self.attribute}", length={self._literal(self.blocks)})'
        return f'oop.slack({self._literal(self.slack)}, "{self.attribute}")'

    @property
    def option(self) -> str:
        """Return the same promise as the command line writes it."""
        if not self.late:
            how = "ordered"
        elif self.blocks is not None:
            how = f"block:{self.amount(self.blocks)}"
        else:
            how = f"slack:{self.amount(self.slack)}"
        on = "" if self.attribute == "ts" else f" --on {self.attribute}"
        return f'--punctuate "{how}"{on}'

    def amount(self, ticks: int) -> str:
        """Write an amount exactly, as promises take it: "79 s", or a number."""
        return ticks_text(ticks, self.kind)

    def plain(self) -> dict[str, object]:
        """Return all as JSON takes it, times in seconds."""
        tick = tick_ns(self.kind)

        def amount(ticks: int) -> float:
            if tick is None:
                return float(ticks * unit_of(self.kind)) if is_stepped_decimal(self.kind) else ticks
            return ticks * tick / 1e9

        return {
            "attribute": self.attribute,
            "group": self.group,
            "unit": None if tick is None else "s",
            "tuples": self.tuples,
            "without_value": self.without_value,
            "late": self.late,
            "late_share": self.share,
            **{name: amount(getattr(self, name)) for name in ("p50", "p90", "p99")},
            "max": amount(self.most),
            "shape": self.shaped.shape,
            "blocks_found": self.shaped.blocks,
            "tuples_in_blocks": self.shaped.in_blocks,
            "jump": amount(self.jump),
            "jump_at": self.jump_at,
            "behind_the_jump": self.behind,
            "from_the_future": self.from_the_future,
            "slack": amount(self.slack),
            "late_beyond_slack": self.beyond,
            "block_length": None if self.blocks is None else amount(self.blocks),
            "late_beyond_blocks": self.broken,
            "promise": self.promise,
            "option": self.option,
        }

    def _literal(self, ticks: int) -> str:
        return str(ticks) if pa.types.is_integer(self.kind) else f'"{self.amount(ticks)}"'


@attrs.frozen
class Scatter:
    """The points drawn of an attribute, over arrival numbers or over the attribute `against`."""

    whole: AttributeDisorder
    points: tuple[Point, ...] = attrs.field(repr=False)
    groups: tuple[str, ...]
    against: pa.Field | None


@attrs.frozen
class Disorder:
    """Hold the measured disorder of a stream; printing it shows the table of `oop-engine disorder`.

    - `name`, `tuples`: the stream, and how many tuples it had.
    - `by`: the attributes whose values were measured separately.
    - `whole`, `groups`: an `AttributeDisorder` for each attribute, over all tuples and by group.
    - `clocks`: how far each exporter's clock is ahead, in ns.
    - `scatters`: points of plots.
    - `notes`: what was not measured.

    >>> found = oop.disorder(oop.rows([(3,), (1,), (5,)], oop.Schema.of(ts="int64")))
    >>> found.of("ts").late, found.plain()["tuples"]
    (1, 3)
    >>> found.plot("disorder.svg")
    """

    name: str
    tuples: int
    by: tuple[str, ...]
    whole: tuple[AttributeDisorder, ...]
    groups: tuple[AttributeDisorder, ...]
    clocks: Mapping[str, int]
    scatters: tuple[Scatter, ...] = attrs.field(repr=False)
    notes: tuple[str, ...]

    def of(self, attribute: str, group: str | None = None) -> AttributeDisorder:
        """Return the disorder of an `attribute`, over all tuples or of one `group`; PlanError where that was not
        measured.
        """
        for found in (*self.whole, *self.groups):
            if found.attribute == attribute and found.group == group:
                return found
        measured = [f.attribute if f.group is None else f"{f.attribute} of {f.group}" for f in self.whole + self.groups]
        raise PlanError(f'the disorder of "{attribute}" was not measured. Measured were: {", ".join(measured)}.')

    def plain(self) -> dict[str, object]:
        """Return everything as values that JSON takes, times in seconds."""
        return {
            "name": self.name,
            "tuples": self.tuples,
            "by": list(self.by),
            "disorder": [found.plain() for found in self.whole + self.groups],
            "clocks_ahead": {group: ahead / 1e9 for group, ahead in self.clocks.items()},
            "notes": list(self.notes),
        }

    def plot(self, path: str | Path) -> None:
        """Draw events over arrival, and how far each is behind.

        - `path`: ends in .svg or .png; PNG needs the extra `plot`.
        """
        draw(self, Path(path))

    def __str__(self) -> str:
        """Return the table that the command line shows, as plain text."""
        return "\n".join([*table(self), *advice(self)])
