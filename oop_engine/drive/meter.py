"""A meter counts what goes in and out of one operator, and how far its stream is; cost: a few additions a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.sources.errors import SourceEnded
from operators.data.markup import html_table
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.schema import Schema
from operators.data.steps import in_steps
from operators.kernels.ticks import BEFORE_ALL
from operators.overflow import overflows
from operators.plan_facts import choices
from operators.protocol import Element, Measured, Operator, Promises, RefusedIn
from operators.protocol_checks import fits
from operators.streams.late_tuples import KeepsLateTuples, LateTuple
from punctuation import below

_KEPT: Final = 256
"""Promises of a source whose times are kept at least; more is forgotten in halves, so that few are moved."""


@attrs.define
class Meter:
    """Count the elements of one node of a running plan."""

    label: str
    tuples_in: int = 0
    tuples_out: int = 0
    pages_in: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    lwm: dict[str, int | float | str] = attrs.field(factory=dict)
    """Low-watermark by attribute, as promised by this node."""
    hwm: dict[str, int] = attrs.field(factory=dict)
    """Highest value emitted, by progressing attribute."""
    promised: list[tuple[int | None, float]] | None = None
    """Of a source, its last promises and when it made them, in seconds of the monotonic clock; None is its end."""

    def taken(self, element: Element) -> None:
        """Count an element that comes in."""
        if isinstance(element, Page):
            self.pages_in += 1
            self.tuples_in += len(element)
        else:
            self.punctuations_in += 1

    def taken_several(self, pages: Sequence[Page]) -> None:
        """Count the slices of one page that come in one after another, as that page."""
        self.pages_in += 1
        self.tuples_in += sum(map(len, pages))

    def emitted(self, element: Element) -> None:
        """Count an element that goes out."""
        if isinstance(element, Page):
            self.tuples_out += len(element)
            return
        self.punctuations_out += 1
        if len(element.patterns) == 1:
            name, pattern = element.patterns[0]
            bound = below(pattern)
            if isinstance(bound, (int, float, str)):
                self.lwm[name] = bound
                if isinstance(bound, int):
                    self._note(bound)
        elif not element.patterns:
            self._note(None)

    def _note(self, bound: int | None) -> None:
        """Note when a source made a promise."""
        if self.promised is not None:
            self.promised.append((bound, monotonic()))
            if len(self.promised) >= 2 * _KEPT:
                del self.promised[:_KEPT]

    def taken_together(self, page: Page, promises: Promises) -> None:
        """Count a page that comes in with promises."""
        self.taken(page)
        self.punctuations_in += len(promises.bounds)

    def emitted_together(self, page: Page, promises: Promises) -> None:
        """Count a page that goes out with promises, which rise."""
        self.tuples_out += len(page)
        self.punctuations_out += len(promises.bounds)
        self.lwm[promises.attribute] = bound = int(promises.bounds[-1])
        self._note(bound)

    def reached(self, page: Page, attribute: str) -> None:
        """Note the highest value of a progressing attribute."""
        values = page.ticks(attribute)
        if len(values):
            self.hwm[attribute] = max(self.hwm.get(attribute, BEFORE_ALL), int(values.max()))


@attrs.frozen
class OperatorStatistics:
    """Hold the counts of one operator, its progress, and its own details: size of its state, late tuples, windows."""

    label: str
    tuples_in: int
    tuples_out: int
    punctuations_in: int
    punctuations_out: int
    lwm: Mapping[str, int | float | str]
    hwm: Mapping[str, int]
    details: Mapping[str, int]
    late_tuples: tuple[LateTuple, ...] = ()
    """Of a source, up to eight tuples that broke its promise, the furthest behind first, and why."""
    choices: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    """How it computes now, and from which numbers it chose that, where it chooses while it runs."""

    @classmethod
    def of(cls, meter: Meter, operator: Operator, *, disclaimed: int = 0) -> OperatorStatistics:
        """Read a meter and its operator; `disclaimed` tuples were left out behind it."""
        details = operator.statistics() if fits(operator, Measured) else {}
        if disclaimed:
            details = {**details, "disclaimed": disclaimed}
        if overflowed := sum(overflow.count for overflow in overflows(operator)):
            details = {**details, "overflowed": overflowed}
        return cls(
            meter.label,
            meter.tuples_in,
            meter.tuples_out,
            meter.punctuations_in,
            meter.punctuations_out,
            dict(meter.lwm),
            dict(meter.hwm),
            details,
            tuple(operator.late_tuples) if fits(operator, KeepsLateTuples) else (),
            choices(operator),
        )

    def lag(self, attribute: str) -> int | None:
        """Return how far the promise trails the highest value, in ticks; None before there are both."""
        low, high = self.lwm.get(attribute), self.hwm.get(attribute)
        return high - low if isinstance(low, int) and high is not None else None


@attrs.frozen(repr=False)
class Statistics:
    """Hold what a run did, operator by operator and in sum.

    - `operators`: counts and progress of each operator.
    - `notes`: sentences on what may be missing or surprising in the results.
    - `seconds`: how long the run took.
    - `interrupted`: a user ended it.
    - `ended`: the error of a live source that could not go on.
    - `refused`: with `memory_policy="shed"`, for each window that refused tuples of new groups, how many.

    >>> stream = oop.rows([(1,), (2,), (12,)], oop.Schema.of(ts="int64"))
    >>> ran = stream.window(range=10).aggregate(oop.count()).run().statistics
    >>> ran.tuples, ran.windows, ran.late, ran.late_for_some, ran.total("late"), ran.peak_state
    (3, 2, 0, 0, 0, 2)
    >>> ran.shed, ran.refused
    (0, ())
    """

    operators: tuple[OperatorStatistics, ...]
    notes: tuple[str, ...] = ()
    """What whoever takes the results for all there is should know: tuples that are in none, values that are null, where
    a damaged file ended, what a collector lost; and which functions are interpreted, which is slow."""
    seconds: float = 0.0
    interrupted: bool = False
    ended: SourceEnded | None = None
    """Why a live source could not go on, which ended the run as an interruption does."""
    refused: tuple[RefusedIn, ...] = ()

    def __repr__(self) -> str:
        """Return the sums; the rest is in `operators` and `notes`."""
        texts = [f"{self.tuples:,} tuples in {self.seconds:.3g} s", f"{self.late:,} late", f"{self.windows:,} windows"]
        texts += [f"{self.shed:,} shed"] if self.shed else []
        texts += [f"{len(self.operators)} operators", *([f"{len(self.notes)} notes"] if self.notes else [])]
        texts += ["interrupted"] * self.interrupted
        texts += [f"ended: {printable(str(self.ended))}"] if self.ended is not None else []
        return f"Statistics({', '.join(texts)})"

    def _repr_html_(self) -> str:
        """Return the operators as a table, for a notebook."""
        return operators_table(self)

    def total(self, detail: str) -> int:
        """Add up one `detail` over all operators, such as "late" or "windows"."""
        return sum(o.details.get(detail, 0) for o in self.operators)

    @property
    def tuples(self) -> int:
        """Return how many tuples the sources read."""
        return sum(o.tuples_in for o in self.operators if "untimed" in o.details)

    @property
    def late(self) -> int:
        """Return how many tuples broke a promise and reached no window, whatever became of them.

        A tuple that is late for all that read its source counts once, there, even if a filter would have dropped it.
        Any other counts once for each operator that leaves it out: windows none of which was open for it, and a guard
        before an operator that relies on promises.
        """
        return self.total("late")

    @property
    def late_for_some(self) -> int:
        """Return how many tuples were late for some of their windows, and counted in the others."""
        return self.total("late_for_some")

    @property
    def shed(self) -> int:
        """Return how many tuples are in no result, because their group was new when memory was at its limit."""
        return self.total("shed")

    @property
    def windows(self) -> int:
        """Return how many windows were released."""
        return self.total("windows")

    @property
    def peak_state(self) -> int:
        """Return the most tuples or partial aggregates that operators held, summed over operators."""
        return sum(max(o.details.get("peak_state_tuples", 0), o.details.get("state_tuples", 0)) for o in self.operators)


def operators_table(statistics: Statistics) -> str:
    """Return the operators of a run as a table in HTML."""
    head = ("operator", "tuples in", "tuples out", "promises", "late", "windows", "peak state")
    rows = [
        (
            o.label, o.tuples_in, o.tuples_out, o.punctuations_out, o.details.get("late"), o.details.get("windows"),
            o.details.get("peak_state_tuples"),
        )
        for o in statistics.operators
    ]  # fmt: skip
    return html_table(head, rows, repr(statistics))


def watched(schema: Schema) -> str | None:
    """Return the attribute whose progress is worth showing: the first promised one that has an order in ticks."""
    names = {next(iter(p)) for p in schema.progress if len(p) == 1}
    times = [f.name for f in schema.arrow if f.name in names and pa.types.is_temporal(f.type)]
    numbers = [f.name for f in schema.arrow if f.name in names and in_steps(f.type)]
    return (times or numbers or [None])[0]
