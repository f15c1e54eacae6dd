"""A second stream fires events: each of its tuples names one, and the windows and groups that are to hear it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Bools, Page, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes
from operators.protocol import Emit
from operators.signals import Event
from operators.window_aggregate.results import START, STOP, WID
from operators.window_aggregate.store import Released
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from punctuation import Punctuation

EVENT: Final = "event"
"""The attribute that names the event."""


@attrs.define(on_setattr=attrs.setters.NO_OP)
class ControlledAggregate(TriggeredAggregate):
    """Aggregate as a TriggeredAggregate does; the tuples of a second port fire the events that they name in `event`.

    A tuple there that has attributes called as the groups, `wid`, `window_start` or `window_end` is for the windows
    with these values alone; a null stands for all. Its other attributes say nothing. Such an event comes behind the
    tuples that arrived on the first port before it, and windows hear it as they hear any other.
    Pass: at the tuple that fires. Keep: as a TriggeredAggregate. Propagate: as it does; the second port ends nothing.
    Cost: O(open windows) for each tuple of the second port.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.drive import rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> window = SlidingWindow("ts", size=10, slide=10)
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3, 15]})
    >>> fires = ControlledAggregate(window, {"count": count()}, condition=Event("flush"))
    >>> found = []
    >>> Bucket(window).process(page, lambda tagged: fires.process(tagged, found.append))
    >>> control = Schema.of(event=pa.string(), window_start=pa.int64())
    >>> fires.process(Page.of(control, {"event": ["flush"], "window_start": [0]}), found.append, port=1)
    >>> [(row["count"], row["window_start"]) for row in rows(found)]
    [(2, 0)]
    """

    _unheard: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, name="count.unheard_events"))

    @property
    def inputs(self) -> int:
        return 2

    def output_schema(self, *inputs: Schema) -> Schema:
        schema, *controls = inputs
        for control in controls:
            if not _is_text(control.field(EVENT, where="events").type):
                raise SchemaError(
                    f'early(events=...): "{EVENT}" has type {control.field(EVENT).type}.\n'
                    "  It is text, and names the event that a tuple fires: Trigger.event(name)."
                )
            for name in self._restricting(control):
                kind, its = control.field(name).type, self._type_of(name, schema)
                if kind != its:
                    raise SchemaError(
                        f'early(events=...): "{name}" has type {kind}, and {its} in the results.\n'
                        "  A tuple fires the windows whose value is the same: give both one type, or rename that of the"
                        " events."
                    )
        return super().output_schema(schema)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        schema, control = inputs
        return [*super().attributes_read(wanted, schema), frozenset((EVENT, *self._restricting(control)))]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        schema, control = inputs
        asked: Paces = {}
        # A replay reads what is furthest behind, so both have to say how far they are.
        for promise in control.progress:
            for name in promise if len(promise) == 1 else ():
                want(asked, name, Pace(None))
        return [*super().promises_asked(wanted, schema), asked]

    def disclaimed(self, unwanted: Punctuation, *inputs: Schema) -> Sequence[Punctuation | None]:
        # An event that fires windows nobody wants fires others, too.
        return [*super().disclaimed(unwanted, inputs[0]), None]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if port == 0:
            super().process(page, emit)
            return
        names = page.column(EVENT).to_pylist()
        known = {signal.name: signal for signal in self.signals() if isinstance(signal, Event)}
        self._unheard += sum(name not in known for name in names)
        if self._store is None or not known.keys() & set(names):
            return
        held = self._open_now()
        theirs = {name: self._of_windows(name, held) for name in self._restricting(page.schema)}
        for place, name in enumerate(names):
            if name in known:
                told = np.ones(len(held.slots), np.bool_)
                for attribute, values in theirs.items():
                    told &= _equal(values, page.column(attribute)[place])
                self._hear(known[name], held.some(told), emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if port == 0:
            super().punctuate(punctuation, emit)

    def _restricting(self, control: Schema) -> list[str]:
        """Name the attributes by which a tuple chooses windows and groups."""
        return [name for name in (*self.by, WID, START, STOP) if name in control]

    def _type_of(self, name: str, schema: Schema) -> pa.DataType:
        """Return the type of a group, or of what tells a window."""
        return schema.field(name).type if name in self.by else self.results_schema(schema).field(name).type

    def _of_windows(self, name: str, held: Released) -> pa.Array:
        """Return the values of windows and groups that a tuple chooses by."""
        if name in self.by:
            assert self._groups is not None
            return self._groups.keys(held.groups)[self.by.index(name)]
        begins, ends = self.window.extents(held.wids)
        assert self._told is not None
        values = {WID: held.wids, START: begins, STOP: ends}[name]
        return tick_column(np.ascontiguousarray(values), self._told.field(name).type)

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"unheard_events": self._unheard}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _equal(values: pa.Array, value: pa.Scalar) -> Bools:
    """Return which values are the same as one; all where that is null."""
    if not value.is_valid:
        return np.ones(len(values), np.bool_)
    found: Bools = pc.fill_null(pc.equal(values, value), False).to_numpy(zero_copy_only=False)
    return found
