"""Results are taken back by the next ones of the same window, so that what stands is always one result a window.

A result is given with sign 1; before the next one of its window and group it is given again with sign -1. The signed
tuples are negative tuples (thesis 3.1): added up they are the newest results, and in the end the final ones. So it is
for early results, for those that late tuples revise, and for both together.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.digests import digests
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page, concatenate
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import SIGN, SIGNS, Retracted, Retracting
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRING
from operators.window_aggregate.results import REVISION, START, STOP, WID, WINDOW
from punctuation import END, Punctuation, below

EARLY: Final = Retracted(
    'the input takes early results back (refine="retract", RETRACT): a tuple with sign -1 would be added, not'
    " taken away",
    'Write DISCARD (refine="discard"), whose results add up; or keep the final results: WHERE final, in Python'
    ' .filter("final").',
    frozenset((FINAL,)),
    True,
    SIGNS,
)
REVISED: Final = Retracted(
    'the input takes results back that late tuples change (refine="retract", RETRACT): a tuple with sign -1 would be'
    " added, not taken away",
    "Leave the lateness out, and give the source so much more slack.",
    settles=SIGNS,
)


@attrs.define(eq=False)
class Refine(memory.Stateful):
    """Emit each result after taking back the one before it; skip one that is not final and has changed nothing.

    Pass: results that fired before a bound, or of which nothing earlier can come, in the order of their firings. Keep:
    those that fired later, and of each window and group that is not over the result that stands. Propagate: promises on
    groups, windows and their ends; none on `fired` nor on results, for what is taken back is given as it was.
    Where the input has `revision`, a result leaves at once, since promises on windows wait for their lateness: of those
    of a page that are older than one that was given, none does. A session that is no more is only taken back. It leaves
    at once where the input has `firing`, too, for there no promise says when windows fire.
    Cost: O(log n) a result by sorting; state one result for each group of an open window.
    """

    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    """The groups of the results."""
    _fitted: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _waiting: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("waiting"))
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("held"))
    """The results that stand, of windows that are not over."""
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return REVISED if REVISION in inputs[0] else EARLY

    def same_as(self, other: object) -> bool:
        return isinstance(other, Refine) and self.by == other.by

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self.by, why="" if self.by else "there are no groups")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._fit(page.schema)
        if len(page):
            self._waiting.append(page)
            if REVISION in page.schema or FIRING in page.schema:
                self._settle(END, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        patterns = dict(punctuation.patterns)
        bounds = [patterns.pop(name) for name in (STOP, FIRED) if name in patterns]
        telling = set(patterns) <= {*self.by, *_TELLING} and all(below(bound) is not None for bound in bounds)
        if not punctuation.is_end and not telling:
            return
        self._settle(punctuation, emit)
        if punctuation.is_end:
            self._held = []
            emit(punctuation)
        elif FIRED not in punctuation.attributes:
            self._held = [held for page in self._held if (held := _some(page, ~page.matching(punctuation))) is not None]
            emit(punctuation)

    def statistics(self) -> dict[str, int]:
        self._measure()
        tuples, nbytes = self._size()
        return {"state_tuples": tuples, "state_bytes": nbytes, **self._counts}

    def _size(self) -> tuple[int, int]:
        """Return the results held, and their bytes."""
        return sum(map(len, [*self._waiting, *self._held])), self.nbytes

    def _measure(self) -> None:
        for name, now in zip(("peak_state_tuples", "peak_state_bytes"), self._size(), strict=True):
            self._counts[name] = max(self._counts[name], now)

    def _settle(self, punctuation: Punctuation, emit: Emit) -> None:
        """Emit the waiting results that match a promise, after what they take back."""
        if not self._waiting:
            return
        # It only grew since the last time.
        self._measure()
        waiting = concatenate(self._waiting[0].schema, self._waiting)
        due: Bools = np.ones(len(waiting), np.bool_) if punctuation.is_end else waiting.matching(punctuation)
        if not due.any():
            self._waiting = [waiting]
            return
        self._waiting = [] if due.all() else [waiting.select(~due)]
        output = self._fit(waiting.schema)
        rows = concatenate(waiting.schema, [*self._held, *([waiting] if due.all() else [waiting.select(due)])])
        taken, signs, standing = self._chains(rows, sum(map(len, self._held)))
        self._held = [rows.take(standing)] if len(standing) else []
        self._counts["taken_back"] += int(np.count_nonzero(signs < 0))
        if len(taken):
            batch = rows.take(taken).batch
            columns = [*batch.columns, pa.array(signs)]
            emit(Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow)))

    def _chains(self, rows: Page, held: int) -> tuple[Int64s, np.typing.NDArray[np.int8], Int64s]:
        """Return which rows are given, with which signs, and which stand then; the first `held` rows stood before."""
        names = self._telling(rows.schema)
        ids = KeyIndex([rows.schema.arrow.field(name) for name in names]).assign([rows.column(name) for name in names])
        fired, final, revision = _turns(rows)
        values = [rows.column(name) for name in rows.schema.names if name not in (*names, *_TOLD)]
        order = np.lexsort((revision, fired, ids))
        words = digests(values, len(rows))[order]
        follows = ids[order][1:] == ids[order][:-1]
        given = np.ones(len(order), np.bool_)
        given[1:] = ~follows | (words[1:] != words[:-1]) | final[order[1:]]
        given |= order < held
        # What is older than what stands comes too late to be given.
        stands = np.full(int(ids.max()) + 1, -1)
        stands[ids[order[order < held]]] = np.flatnonzero(order < held)
        given &= np.arange(len(order)) >= stands[ids[order]]
        chain = order[given]
        follows = ids[chain][1:] == ids[chain][:-1]
        before = np.full(len(chain), -1)
        before[1:][follows] = chain[:-1][follows]
        gone = np.zeros(len(rows), np.bool_)
        if (ends := rows.valid(STOP)) is not None:
            # A session that is no more had an end before; a window that ends with the stream never has one.
            gone[chain] = ~ends[chain] & (before >= 0) & ends[before]
        before[gone[before]] = -1
        revised = REVISION in rows.schema
        standing = np.append(~follows, True)[: len(chain)] & ~(gone if revised else final)[chain]
        new = chain >= held
        chosen, earlier = chain[new], before[new]
        in_time = np.lexsort((revision[chosen], fired[chosen]))
        chosen, earlier = chosen[in_time], earlier[in_time]
        # Each is given but for what is gone, behind what it takes back.
        taken, signs = np.stack((earlier, chosen), 1).ravel(), np.tile(_SIGNS, len(chosen))
        told = np.stack((earlier >= 0, ~gone[chosen]), 1).ravel()
        return taken[told], signs[told], np.sort(chain[standing])

    def _telling(self, schema: Schema) -> list[str]:
        """Name what tells results of one window and group from others."""
        return [name for name in (*self.by, *_TELLING) if name in schema]

    def _fit(self, schema: Schema) -> Schema:
        if self._fitted is None or self._fitted[0] is not schema:
            firing = (FIRED, FINAL) if FIRED in schema or REVISION not in schema else ()
            for name in (WID, START, STOP, *firing, *self.by):
                schema.field(name, where="refine")
            if SIGN in schema:
                raise SchemaError(
                    f'refine: "{SIGN}" is the name of what tells results from those taken back; rename yours.'
                )
            telling = {*self._telling(schema), STOP}
            progress = [promise for promise in schema.progress if promise <= telling]
            self._fitted = schema, Schema(schema.arrow.append(pa.field(SIGN, pa.int8())), progress=progress)
        return self._fitted[1]


_TELLING: Final = (WINDOW, WID, START)
_TOLD: Final = (FIRED, FINAL, FIRING, REVISION)
"""What tells when and how often a result was given."""
_SIGNS: Final = np.array([-1, 1], np.int8)
_COUNTS = ("taken_back", "peak_state_tuples", "peak_state_bytes")


def _turns(rows: Page) -> tuple[Int64s, Bools, Int64s]:
    """Return when each result fired, whether it is final, and which revision it is; later ones replace earlier ones."""
    zeros = np.zeros(len(rows), np.int64)
    when = FIRING if FIRING in rows.schema else FIRED
    fired, final = (rows.ticks(when), rows[FINAL].astype(np.bool_)) if when in rows.schema else (zeros, zeros == 0)
    return fired, final, rows.ticks(REVISION) if REVISION in rows.schema else zeros


def _some(page: Page, chosen: Bools) -> Page | None:
    """Return the chosen tuples; None for none."""
    return page if chosen.all() else page.select(chosen) if chosen.any() else None
