"""Settle turns a stream of changes into the tuples that stand: what was taken back is left out, once that is certain.

A stream of changes gives tuples with `sign` 1 and takes them back with `sign` -1. A promise that tuples match says that
no change of theirs comes any more; so their signs can be added up, and what reads the stream behind it needs to know
nothing of changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.changes import added_up, same_tuples
from operators.data.group_text import group_text
from operators.data.page import Bools, Page, concatenate, only
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit
from operators.retractions import SIGN, Retracted, Retracting
from punctuation import Punctuation, StreamViolation

_COUNTS: Final = ("taken_back", "peak_state_tuples", "peak_state_bytes")
_ADD_UP: Final = 1 << 13
"""Changes are added up ahead of a promise when so many are new, and as many as stand."""


@attrs.define(eq=False)
class Settle(memory.Stateful):
    """Emit the tuples that stand, each with sign 1, when a promise says that none of their changes is still to come.

    Two changes are of one tuple if they are equal in all attributes but `sign`.
    Pass: the tuples that match a promise, as often as their signs add up to. Keep: the changes that match none; those
    that cancel each other are dropped when there are as many new ones as stand. Propagate: every promise as it is, but
    those that say something of `sign` or of attributes that the tuples lack.
    Cost: O(1) a change, amortised, and O(changes held) a promise that matches any.

    >>> from operators.drive import drive, rows
    >>> from punctuation import before
    >>> schema = Schema.of(wid=pa.int64(), n=pa.int64(), sign=pa.int8(), progress=["wid"])
    >>> page = Page.of(schema, {"wid": [1, 1, 1, 2], "n": [5, 5, 6, 4], "sign": [1, -1, 1, 1]})
    >>> rows(drive(Settle(), [page, before("wid", 2)]))
    [{'wid': 1, 'n': 6, 'sign': 1}]
    """

    _fitted: Schema | None = attrs.field(init=False, default=None)
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("held"))
    _new: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """Changes that came since the others were added up."""
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        field = schema.field(SIGN, where="settle")
        if not pa.types.is_integer(field.type):
            raise SchemaError(
                f'settle: "{SIGN}" has type {field.type}; it is 1 where a tuple is given and -1 where it is taken back.'
            )
        progress = [promise for promise in schema.progress if SIGN not in promise]
        return Schema(schema.arrow, progress=progress)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return None

    def same_as(self, other: object) -> bool:
        return isinstance(other, Settle)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        (schema,) = inputs
        return [wanted | {SIGN} | {name for promise in schema.progress for name in promise}]

    def together(self, *inputs: Schema) -> Together:
        return Together.by(name for name in inputs[0].names if name != SIGN)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if not len(page):
            return
        if self._held and page.schema.names != (names := self._held[0].schema.names):
            # Of the streams of a meld some may come with attributes that nobody reads.
            common = [name for name in names if name in page.schema]
            self._held, page = [only(held, common) for held in self._held], only(page, common)
        self._held.append(page)
        self._new += len(page)
        if self._new >= _ADD_UP and 2 * self._new >= self._size():
            self._measure()
            held = concatenate(page.schema, self._held)
            self._held, self._new = [held.select(self._kept(held))], 0

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._give(None, emit)
            emit(punctuation)
            return
        known = self._held[0].schema.names if self._held else punctuation.attributes
        if SIGN in punctuation.attributes or not set(punctuation.attributes) <= set(known):
            return
        self._give(punctuation, emit)
        emit(punctuation)

    def statistics(self) -> dict[str, int]:
        self._measure()
        return {"state_tuples": self._size(), "state_bytes": self.nbytes, **self._counts}

    def _size(self) -> int:
        return sum(map(len, self._held))

    def _measure(self) -> None:
        for name, now in (("peak_state_tuples", self._size()), ("peak_state_bytes", self.nbytes)):
            self._counts[name] = max(self._counts[name], now)

    def _give(self, punctuation: Punctuation | None, emit: Emit) -> None:
        """Emit the tuples that match a promise, all for None, and let go of them."""
        if not self._held:
            return
        self._measure()
        masks: list[Bools | None] = [None if punctuation is None else page.matching(punctuation) for page in self._held]
        due = [page if mask is None else page.select(mask) for page, mask in zip(self._held, masks, strict=True)]
        due = [page for page in due if len(page)]
        if not due:
            return
        self._held = [
            left
            for page, mask in zip(self._held, masks, strict=True)
            if mask is not None and len(left := page.select(~mask))
        ]
        self._new = min(self._new, self._size())
        page = concatenate(due[0].schema, due)
        stands = page.select(self._kept(page))
        signs = stands.ticks(SIGN)
        if (signs < 0).any():
            raise self._unknown(stands, int(np.argmax(signs < 0)), punctuation)
        if len(stands):
            emit(stands)

    def _kept(self, page: Page) -> Bools:
        """Return which changes are left when those of each tuple are added up."""
        names = [name for name in page.schema.names if name != SIGN]
        signs = page.ticks(SIGN)
        if not (signs != 1).any():
            return np.ones(len(page), np.bool_)
        self._counts["taken_back"] += int(np.count_nonzero(signs < 0))
        return added_up(same_tuples([page.column(name) for name in names], len(page)), np.sign(signs))

    def _unknown(self, page: Page, row: int, punctuation: Punctuation | None) -> StreamViolation:
        names = [name for name in page.schema.names if name != SIGN]
        told = group_text(page.schema, names, [page.column(name).slice(row, 1) for name in names])
        when = "the stream ends" if punctuation is None else f"it promises {punctuation}"
        return StreamViolation(
            f"settle: the tuple {told} was taken back, by sign -1, and not given before {when}.\n"
            "  A tuple is taken back as it was given, equal in all attributes but sign; put what computes with sign"
            " behind what reads the tuples that stand."
        )
