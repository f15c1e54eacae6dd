"""Parts of windows that end early become early results of these windows, as triggers on event time give them.

A result that is given at a tick T of a window [b, e) is over the tuples in [b, T), so it is that of a window of its
own: it shares slices with all others, and is the same whatever the order of arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.labels import Labels, only_label
from operators.data.page import Int64s, Page, Scalar, tick_column
from operators.data.repeated import Repeated
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.columns import frozen
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting, Settles
from operators.window_aggregate.results import REVISION, START, STOP, WINDOW
from punctuation import Below, Pattern, Punctuation, below

FIRED, FINAL, FIRING = "fired", "final", "firing"
ARRIVED: Final = "arrived"
"""The share of the tuples of its window that has come, where early results estimate final ones."""
ENDINGS: Final = ("expected", "low", "high")
"""What the names of the estimate of a result, and of the bounds of its interval, end with."""

_FIRST: Final = frozen(np.zeros(1, np.int64))

FIRINGS: Final = Retracted(
    "the input gives early results, which later ones of the same window replace: each of them would count as a result",
    'Keep the final results: WHERE final, in Python .filter("final"); or group by fired, to compute each firing apart.',
    frozenset((FINAL,)),
    True,
    Settles("firings", frozenset((FINAL,)), apart=FIRED),
)


def with_firings(plain: Schema, *fields: pa.Field) -> Schema:
    """Add the fields that tell when results fired to their schema; SchemaError where a result is called so."""
    for field in fields:
        if field.name in plain:
            raise _taken(field.name)
    return Schema(pa.schema([*plain.arrow, *fields]), progress=plain.progress)


def _taken(name: str) -> SchemaError:
    return SchemaError(f'early results: "{name}" is the name of what tells when they fired; rename yours.')


@attrs.frozen
class Part:
    """A part of windows: of those called `window`, which are `size` ticks long, what lies before their tick `after`."""

    window: str
    after: int
    size: int
    since: int | None = None
    """Windows that begin before it are left out."""


@attrs.frozen(eq=False)
class _Columns:
    """The facts of the parts, a place for each in the order of their names."""

    names: pa.Array
    labels: Labels
    """The names of their windows."""
    after: Int64s
    sizes: Int64s
    since: Int64s
    places: Mapping[str, Int64s]
    """The place of each, by its name."""
    single: bool
    """Whether all are of one window."""
    restricted: bool
    """Whether windows that begin early are left out."""

    @classmethod
    def of(cls, parts: Mapping[str, Part]) -> _Columns:
        given = list(parts.values())
        after, sizes = (np.array([getattr(part, name) for part in given], np.int64) for name in ("after", "size"))
        since = np.array([BEFORE_ALL if part.since is None else part.since for part in given], np.int64)
        labels = Labels.of([part.window for part in given])
        places = {name: frozen(np.array([place])) for place, name in enumerate(parts)}
        single, restricted = len({part.window for part in given}) == 1, bool((since > BEFORE_ALL).any())
        return cls(pa.array(list(parts), pa.string()), labels, after, sizes, since, places, single, restricted)

    def place(self, windows: pa.Array) -> Int64s:
        """Return the place of each part that is named, or one place that all have."""
        name = only_label(windows)
        if name is not None:
            return self.places[name]
        found: Int64s = pc.index_in(windows, value_set=self.names).to_numpy().astype(np.int64)
        return found


@attrs.frozen(eq=False)
class _Fitted:
    """The schema of the input, that of the output, and where attributes of the output stand in the input."""

    input: Schema
    output: Schema
    places: Sequence[tuple[str, int]]
    """Of each attribute of the output; -1 for those that are made."""
    telling: frozenset[str]
    """What must be known of all results of a page to tell which part of which window they are of."""

    def page(self, page: Page, made: Mapping[str, pa.Array], same: Mapping[str, Scalar]) -> Page:
        """Return the results of a page with the columns that were made."""
        column = page.batch.column
        columns = [made[name] if at < 0 else column(at) for name, at in self.places]
        return Page(self.output, pa.RecordBatch.from_arrays(columns, schema=self.output.arrow), same)


@attrs.define(eq=False)
class Fire(memory.Stateful):
    """Say of results of parts of windows of which window they are, when they fired, and whether they are final.

    Pass: a tuple at once. Keep: nothing. Propagate: a promise on the end of parts as one on `fired`, and, if it is a
    bound, on the end of windows, which is no earlier; those on attributes that stay, as they are.
    Cost: O(1) a tuple; no state.
    """

    parts: Mapping[str, Part]
    """By the names that `window` has in the input."""
    named: bool = True
    """Whether results tell the name of their window."""
    whole: bool = True
    """Whether parts begin with their window, or each where the one before it ends."""
    _columns: _Columns = attrs.field(init=False)
    _fitted: _Fitted | None = attrs.field(init=False, default=None)
    _kept: Mapping[str, Repeated] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._columns = _Columns.of(self.parts)
        self._kept = {name: Repeated() for name in (START, STOP, FINAL)}

    @property
    def _alike(self) -> bool:
        """Return whether parts differ in their ends alone."""
        return self.whole and self._columns.single

    def knows_windows(self) -> Collection[str]:
        return self.parts

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema).output

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is None or found.settles is None or not self.whole:
            return FIRINGS if self.whole else found
        # Late tuples change final results alone: the last revision of these stands.
        names = found.settles.names - {WINDOW} | {FIRED, FINAL, *([WINDOW] if self.named else [])}
        settles = attrs.evolve(found.settles, names=names, apart=FIRED)
        return attrs.evolve(FIRINGS, standing=frozenset[str](), value=None, settles=settles)

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        if name == FIRED:
            return STOP
        moved = (WINDOW, STOP, FINAL) if self.whole else (WINDOW, START, STOP, FINAL)
        return None if name in moved else name

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        fitted = self._fit(page.schema)
        if not len(page):
            return
        if page.same.keys() >= fitted.telling:
            self._tell_one(fitted, page, emit)
            return
        said, fired = self._columns, page.ticks(STOP)
        # Parts of one window that begin with it differ in their ends alone.
        place = _FIRST if self._alike else said.place(page.column(WINDOW))
        starts = page.ticks(START) if self.whole else fired - said.after[place]
        stops = starts + said.sizes[place]
        kind = fitted.output.arrow.field(STOP).type
        made = {STOP: tick_column(stops, kind), FINAL: pa.array(fired == stops)}
        if not self.whole:
            made[START] = tick_column(starts, kind)
        if self.named:
            made[WINDOW] = said.labels.take(np.broadcast_to(place, len(page)))
        found = fitted.page(page, made, {})
        if said.restricted and (early := starts < said.since[place]).any():
            found = found.select(~early)
        if len(found):
            emit(found)

    def _tell_one(self, fitted: _Fitted, page: Page, emit: Emit) -> None:
        """Do as `process` for results of one part of one window."""
        said, n, same = self._columns, len(page), page.same
        fired = cast(int, same[STOP])
        place = _FIRST if self._alike else said.places[cast(str, same[WINDOW])]
        at = int(place[0])
        begin = cast(int, same[START]) if self.whole else fired - int(said.after[at])
        stop = begin + int(said.sizes[at])
        if begin < said.since[at]:
            return
        kind, final = fitted.output.arrow.field(STOP).type, fired == stop
        made = {STOP: self._kept[STOP].column(stop, n, kind), FINAL: self._kept[FINAL].column(final, n, pa.bool_())}
        if not self.whole:
            made[START] = self._kept[START].column(begin, n, kind)
        told = {**same, START: begin, STOP: stop, FIRED: fired, FINAL: final}
        if self.named:
            made[WINDOW], told[WINDOW] = said.labels.take(np.broadcast_to(place, n)), said.labels[at]
        else:
            told.pop(WINDOW, None)
        emit(fitted.page(page, made, told))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        patterns = dict(punctuation.patterns)
        if WINDOW in patterns or (START in patterns and not self.whole):
            return
        bound = patterns.pop(STOP, None)
        if bound is None:
            emit(punctuation)
            return
        named: dict[str, Pattern] = {FIRED: bound}
        if (least := below(bound)) is not None:
            named[STOP] = Below(least)
        for name, pattern in named.items():
            emit(Punctuation({**patterns, name: pattern}, assumed=punctuation.assumed))

    def _fit(self, schema: Schema) -> _Fitted:
        if self._fitted is not None and self._fitted.input is schema:
            return self._fitted
        fields = [field for field in schema.arrow if (field.name != WINDOW or self.named) and field.name != REVISION]
        fields += [schema.field(STOP, where="early results").with_name(FIRED), pa.field(FINAL, pa.bool_())]
        fields += [schema.arrow.field(REVISION)] if REVISION in schema else []
        names = [field.name for field in fields]
        for name in (FIRED, FINAL):
            if names.count(name) > 1:
                raise _taken(name)
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if WINDOW not in promise and (START not in promise or self.whole):
                progress += [promise - {STOP} | {FIRED}, promise] if STOP in promise else [promise]
        made = {STOP, FINAL, WINDOW} if self.whole else {START, STOP, FINAL, WINDOW}
        place = schema.arrow.get_field_index
        places = [(name, -1 if name in made else place(STOP if name == FIRED else name)) for name in names]
        telling = frozenset((START, STOP) if self._alike else (START, STOP, WINDOW))
        self._fitted = _Fitted(schema, Schema(pa.schema(fields), progress=progress), places, telling)
        return self._fitted
