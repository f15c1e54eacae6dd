"""Results are taken back by the next ones of the same window, so that what stands is always one result a window.

A result is given with sign 1; before the next one of its window and group it is given again with sign -1. The signed
tuples are negative tuples (thesis 3.1): added up they are the newest results, and in the end the final ones. So it is
for early results, for those that late tuples revise, and for both together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.changes import same_tuples
from operators.data.digests import digests
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page, Scalar, concatenate, plain_values
from operators.data.repeated import Repeated
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import SIGN, SIGNS, Retracted, Retracting
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRING
from operators.window_aggregate.early.succession import Succession, first, succeed
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


@attrs.frozen(eq=False)
class _Fitted:
    """The schema of the input, that of the output, and which attributes do what."""

    input: Schema
    output: Schema
    sign: pa.Field
    telling: Sequence[str]
    """What tells results of one window and group from others."""
    values: Sequence[str]
    """What makes a result another one."""
    at_once: bool
    """Whether results leave when they come."""


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
    _fitted: _Fitted | None = attrs.field(init=False, default=None)
    _signs: Mapping[int, Repeated] = attrs.field(init=False, factory=lambda: {-1: Repeated(), 1: Repeated()})
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
        return self._fit(schema).output

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return REVISED if REVISION in inputs[0] else EARLY

    def same_as(self, other: object) -> bool:
        return isinstance(other, Refine) and self.by == other.by

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self.by, why="" if self.by else "there are no groups")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        fitted = self._fit(page.schema)
        if len(page):
            self._waiting.append(page)
            if fitted.at_once:
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
            self._held = [held for page in self._held if (held := _parted(page, punctuation)[1]) is not None]
            emit(punctuation)

    def statistics(self) -> dict[str, int]:
        tuples, nbytes = self._size()
        for name, now in (("peak_state_tuples", tuples), ("peak_state_bytes", nbytes)):
            self._counts[name] = max(self._counts[name], now)
        return {"state_tuples": tuples, "state_bytes": nbytes, **self._counts}

    def _size(self) -> tuple[int, int]:
        """Return the results held, and their bytes."""
        return sum(map(len, [*self._waiting, *self._held])), self.nbytes

    def _measure(self) -> None:
        tuples = sum(map(len, self._waiting)) + sum(map(len, self._held))
        # Of as many results as before the bytes are as before, but for those of texts.
        if tuples > self._counts["peak_state_tuples"]:
            self._counts["peak_state_tuples"] = tuples
            self._counts["peak_state_bytes"] = max(self._counts["peak_state_bytes"], self.nbytes)

    def _settle(self, punctuation: Punctuation, emit: Emit) -> None:
        """Emit the waiting results that match a promise, after what they take back."""
        if not self._waiting:
            return
        # It only grew since the last time.
        self._measure()
        parted = [(page, None) if punctuation.is_end else _parted(page, punctuation) for page in self._waiting]
        due = [page for page, _ in parted if page is not None]
        self._waiting = [page for _, page in parted if page is not None]
        if not due:
            return
        if not all(map(_of_one_firing, due)) or not self._follow(due, emit):
            self._held, given = self._given(self._held, due)
            self._emit(given, emit)

    def _follow(self, pages: list[Page], emit: Emit) -> bool:
        """Emit results page by page, each of one window that fired at once; False where what stands is of several."""
        held = [page for some in self._held for page in ([some] if _window(some) else _by_window(some))]
        stood: dict[tuple[Scalar, ...] | None, Page] = {_window(page): page for page in held}
        if None in stood:
            return False
        fitted = self._fit(pages[0].schema)
        for page in sorted(pages, key=_fired):
            key = _window(page)
            before = stood.pop(key, None)
            found = first(page) if before is None else self._succession(before, page, fitted.values)
            if found is None:
                assert before is not None
                left, given = self._given([before], [page])
                if left:
                    stood[key] = attrs.evolve(left[0], same={n: page.same[n] for n in _TELLING if n in page.same})
                self._emit(given, emit)
                continue
            if found.standing is not None:
                stood[key] = found.standing
            for given, sign in ((found.taken, -1), (found.given, 1)):
                for some in given:
                    self._counts["taken_back"] += len(some) if sign < 0 else 0
                    signs = self._signs[sign].column(sign, len(some), fitted.sign.type)
                    emit(Page(fitted.output, some.batch.append_column(fitted.sign, signs)))
        self._held = list(stood.values())
        return True

    def _succession(self, stood: Page, page: Page, values: Sequence[str]) -> Succession | None:
        """Return what results do to those that stood; None where these fired later, or a group is there twice."""
        last = _fired(stood) if FIRED in stood.same else int(stood.ticks(FIRED).max())
        return None if last > _fired(page) else succeed(stood, page, self.by, values)

    def _given(self, held: list[Page], due: list[Page]) -> tuple[list[Page], Page | None]:
        """Return the results that stand after these, and those to give with their signs, whatever their order."""
        schema = due[0].schema
        output = self._fit(schema).output
        rows = concatenate(schema, [*held, *due])
        taken, signs, standing = self._chains(rows, sum(map(len, held)))
        self._counts["taken_back"] += int(np.count_nonzero(signs < 0))
        left = [rows.take(standing)] if len(standing) else []
        if not len(taken):
            return left, None
        columns = [*rows.take(taken).batch.columns, pa.array(signs)]
        return left, Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow))

    def _emit(self, page: Page | None, emit: Emit) -> None:
        if page is not None:
            emit(page)

    def _chains(self, rows: Page, held: int) -> tuple[Int64s, np.typing.NDArray[np.int8], Int64s]:
        """Return which rows are given, with which signs, and which stand then; the first `held` rows stood before."""
        names, told = self._fit(rows.schema).telling, self._fit(rows.schema).values
        ids = KeyIndex([rows.schema.arrow.field(name) for name in names]).assign([rows.column(name) for name in names])
        fired, final, revision = _turns(rows)
        values = [rows.column(name) for name in told]
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

    def _fit(self, schema: Schema) -> _Fitted:
        if self._fitted is None or self._fitted.input is not schema:
            firing = (FIRED, FINAL) if FIRED in schema or REVISION not in schema else ()
            for name in (WID, START, STOP, *firing, *self.by):
                schema.field(name, where="refine")
            if SIGN in schema:
                raise SchemaError(
                    f'refine: "{SIGN}" is the name of what tells results from those taken back; rename yours.'
                )
            telling = [name for name in (*self.by, *_TELLING) if name in schema]
            values = [name for name in schema.names if name not in (*telling, *_TOLD)]
            progress = [promise for promise in schema.progress if promise <= {*telling, STOP}]
            sign, at_once = pa.field(SIGN, pa.int8()), REVISION in schema or FIRING in schema
            output = Schema(schema.arrow.append(sign), progress=progress)
            self._fitted = _Fitted(schema, output, sign, telling, values, at_once)
        return self._fitted


_TELLING: Final = (WINDOW, WID, START)
_TOLD: Final = (FIRED, FINAL, FIRING, REVISION)
"""What tells when and how often a result was given."""
_FEW: Final = 64
"""The results of so few windows may be taken apart."""
_ALIKE: Final = frozenset((WID, START, STOP, FIRED, FINAL))
_SIGNS: Final = np.array([-1, 1], np.int8)
_COUNTS = ("taken_back", "peak_state_tuples", "peak_state_bytes")


def _turns(rows: Page) -> tuple[Int64s, Bools, Int64s]:
    """Return when each result fired, whether it is final, and which revision it is; later ones replace earlier ones."""
    zeros = np.zeros(len(rows), np.int64)
    when = FIRING if FIRING in rows.schema else FIRED
    fired, final = (rows.ticks(when), rows[FINAL].astype(np.bool_)) if when in rows.schema else (zeros, zeros == 0)
    return fired, final, rows.ticks(REVISION) if REVISION in rows.schema else zeros


def _parted(page: Page, punctuation: Punctuation) -> tuple[Page | None, Page | None]:
    """Return the results that match a promise, and the others; None for none."""
    if all(name in page.same for name, _ in punctuation.patterns):
        return (page, None) if punctuation.matches(page.same) else (None, page)
    chosen = page.matching(punctuation)
    return _some(page, chosen), _some(page, ~chosen)


def _some(page: Page, chosen: Bools) -> Page | None:
    """Return the chosen tuples; None for none."""
    return page if chosen.all() else page.select(chosen) if chosen.any() else None


def _of_one_firing(page: Page) -> bool:
    """Return whether a page says of which window all results are, when they fired, and whether they are final."""
    return page.same.keys() >= _ALIKE and (WINDOW in page.same or WINDOW not in page.schema)


def _window(page: Page) -> tuple[Scalar, ...] | None:
    """Return what tells the window of all results of a page from others; None where they may be of several."""
    names = [name for name in _TELLING if name in page.schema]
    return tuple(page.same[name] for name in names) if all(name in page.same for name in names) else None


def _by_window(page: Page) -> list[Page]:
    """Return results in pages that say of which window they are, where windows are few and begin at some time."""
    names = [name for name in _TELLING if name in page.schema]
    same = same_tuples([page.column(name) for name in names], len(page))
    firsts = np.unique(same, return_index=True)[1].tolist()
    if len(firsts) > _FEW:
        return [page]
    pages: list[Page] = []
    for first_of in firsts:
        told = {name: plain_values(page.column(name).slice(first_of, 1))[0] for name in names}
        if None in told.values():
            return [page]
        chosen = page if len(firsts) == 1 else page.select(same == same[first_of])
        pages.append(Page(page.schema, chosen.batch, told))
    return pages


def _fired(page: Page) -> int:
    return cast(int, page.same[FIRED])
