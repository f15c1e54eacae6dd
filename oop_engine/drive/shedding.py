"""Results of a run that refuses groups say of each row whether its window refused some.

A row of a window that a query gives as it is has the answer of that very window. A row of windows over results of
others has it if a window that it may reach back to refused some. Where nothing tells the window of a row, the column is
empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.drive.incomplete import INCOMPLETE, Incomplete, levels_of
from oop_engine.drive.limit import Limit
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan
from oop_engine.rewrite.lanes import divisions
from operators.data.page import Bools, Page
from operators.data.schema import Schema
from operators.protocol import Element, RefusesGroups
from operators.window_aggregate.results import START, STOP, ends_of

if TYPE_CHECKING:
    from oop_engine.drive.outcome import Marking

_INSTEAD: Final = '  Write memory_policy="spill" (--memory-policy spill), which gives all results, or "error".'


@attrs.define(eq=False)
class Shedding:
    """Mark the rows of results of windows that refused groups, and of those that `beside` marks."""

    limit: Limit
    number: int
    """The number of the output."""
    told: Incomplete
    """Which columns of results tell of time."""
    direct: bool
    """Whether a row is of one window as it was released."""
    whole: bool
    """Whether groups have no windows."""
    beside: Marking | None = None
    """Marks the rows that lack what did not come, if anything."""

    @property
    def schema(self) -> Schema:
        return self.told.schema

    def mark(self, page: Page) -> Page:
        """Add the column to rows."""
        found = self._of(page)
        if self.beside is not None:
            found = pc.or_kleene(found, self.beside.mark(page).column(INCOMPLETE))
        schema = self.schema
        return Page(schema, page.batch.add_column(len(page.schema.names), schema.arrow[-1], found))

    def given(self, element: Element) -> None:
        """Note that results up to an element are where they will last."""
        if self.beside is not None:
            self.beside.given(element)

    def _of(self, page: Page) -> pa.Array:
        admissions = self.limit.admissions.get(self.number, ())
        if self.whole:
            return pa.array(np.full(len(page), any(one.sheds for one in admissions)))
        if self.told.reach is None or START not in page.schema or STOP not in page.schema:
            return pa.nulls(len(page), pa.bool_())
        return pa.array(self._overlapping(page, admissions, self.told.reach))

    def _overlapping(self, page: Page, admissions: Sequence[RefusesGroups], reach: int) -> Bools:
        starts, ends = page.ticks(START), ends_of(page)
        windows, places = np.unique(np.stack((starts, ends), axis=1), axis=0, return_inverse=True)
        refused = {window for admission in admissions for window in admission.extents()}
        if self.direct:
            found = [(start, end) in refused for start, end in windows.tolist()]
        else:
            found = [
                any(start < until + reach and end > begins for begins, until in refused)
                for start, end in windows.tolist()
            ]
        return np.array(found, np.bool_)[places.reshape(-1)]


def shedding(limit: Limit, plan: Plan, number: int, node: Node, beside: Marking | None = None) -> Shedding:
    """Return what marks the results of an output, whose node was `node` before the plan was prepared.

    Rows that are marked by what is `beside`, if anything, stay so. PlanError where to refuse groups has no meaning.
    """
    check_shed(plan)
    told = Incomplete.of(lambda: None, plan.outputs[number].schema, node)
    levels = levels_of(node)
    return Shedding(limit, number, told, levels is not None and len(levels) == 1, levels == [], beside)


def check_shed(plan: Plan) -> None:
    """Raise PlanError where a run of a plan cannot refuse groups, with the operator and why."""
    found = divisions(plan, to_disk=True)
    for node, division in zip(plan.nodes, found, strict=True):
        if why := division.why_not_shed(node):
            raise PlanError(f'memory_policy="shed" refuses new groups, and {node.label} cannot: {why}.\n{_INSTEAD}')
    if not any(division.keys for division in found):
        raise PlanError(f'memory_policy="shed" refuses new groups, and this run has none.\n{_INSTEAD}')
