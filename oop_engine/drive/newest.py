"""A display that falls behind gets the newest results only: it disclaims older ones, and says what it left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.meter import watched
from oop_engine.errors import PlanError
from operators.data.page import Page
from operators.data.readable import text_of
from operators.data.schema import Schema
from operators.protocol import Element
from operators.window_aggregate.results import STOP
from punctuation import Below, Punctuation


@attrs.define(eq=False)
class Newest:
    """Hand a display results of a schema, and leave out those of which newer ones wait while it is at others.

    - `schema`: that of the results. PlanError where no attribute of it says which are newer.
    - `deliver`: takes the results. It may be slow: the run does not wait for it while older results can be left out.

    Of results that are as new as one another, all are shown or none waits; so a window is never shown in part. What
    was released last is always shown.
    """

    schema: Schema
    deliver: Callable[[Element], None]
    left_out: int = attrs.field(init=False, default=0)
    """How many results were computed and not shown."""
    times: int = attrs.field(init=False, default=0)
    """How often results were left out."""
    attribute: str = attrs.field(init=False)
    """Says which results are newer."""
    bound: int | None = attrs.field(init=False, default=None)
    """Results below it are not wanted any more."""
    _lock: Lock = attrs.field(init=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        self.attribute = newest_by(self.schema)

    def __call__(self, element: Element) -> None:
        """Hand on what is still wanted of an element; in the thread of the display."""
        if self.bound is not None and isinstance(element, Page) and len(element):
            old = element.matching(self.unwanted(self.bound))
            if many := int(np.count_nonzero(old)):
                self._count(many)
                element = element.select(~old)
                if not len(element):
                    return
        self.deliver(element)

    def overtaken(self, came: Element, waiting: Sequence[Element]) -> list[Element]:
        """Return what is still wanted of elements that wait, now that another has come.

        Pages that are older than the last page are left out; the oldest result of that one becomes `bound`. Of promises
        that wait, the last one says all that they do.
        """
        pages = [one for one in (*waiting, came) if isinstance(one, Page)]
        bound = self._least(pages[-1]) if pages else None
        promises = [one for one in waiting if not isinstance(one, Page)]
        kept: list[Element] = []
        old = 0
        for one in waiting:
            if isinstance(one, Page):
                if bound is None or self._most(one) >= bound:
                    kept.append(one)
                else:
                    old += len(one)
            elif one is promises[-1] and isinstance(came, Page):
                kept.append(one)
        if old and bound is not None:
            self.bound = bound if self.bound is None else max(bound, self.bound)
            self.times += 1
            self._count(old)
        return kept

    def unwanted(self, bound: int) -> Punctuation:
        """Return a bound as the punctuation that matches what is not wanted."""
        return Punctuation({self.attribute: Below(bound)})

    def notes(self, label: str) -> Sequence[str]:
        """Return what is to be told of what was left out, if anything was."""
        if self.bound is None:
            return ()
        field = self.schema.field(self.attribute)
        (until,) = text_of(pa.array([self.bound], pa.int64()).cast(field.type), field).to_pylist()
        often = "once" if self.times == 1 else f"{self.times:,} times"
        return (
            f"the display of {label} fell behind {often} and went on with the newest results: {self.left_out:,} were"
            f" left out, the last of them with {self.attribute} before {until}",
        )

    def _count(self, many: int) -> None:
        with self._lock:
            self.left_out += many

    def _least(self, page: Page) -> int | None:
        ticks, valid = page.timed(self.attribute)
        ticks = ticks if valid is None else ticks[valid]
        return int(ticks.min()) if len(ticks) else None

    def _most(self, page: Page) -> int:
        """Return the newest tick of a page; nulls are as new as can be, because no bound is about them."""
        ticks, valid = page.timed(self.attribute)
        return int(ticks.max()) if len(ticks) and valid is None else np.iinfo(np.int64).max


def newest_by(schema: Schema) -> str:
    """Return the attribute that says which results are newer: the end of windows, or the time of tuples.

    PlanError where there is none.
    """
    if STOP in schema:
        return STOP
    if (attribute := watched(schema)) is None:
        raise PlanError(
            f"newest: no attribute of these results ({', '.join(schema.names)}) rises with time, so none is newer.\n"
            "  Keep window_end, or the time of the tuples, among the results."
        )
    return attribute
