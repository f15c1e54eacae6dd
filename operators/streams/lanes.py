"""Lanes are copies of one operator, each of which takes a part of every page, so that several threads can do its work.

Who drives the operators says how the calls of a page are made, by `at_once`: one after another, or by threads. A page
is taken when all of its calls are, so nobody but the lanes knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import ClassVar, Final, Protocol, TypeAlias, runtime_checkable

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Int32s, Int64s, Page, concatenate
from operators.data.saved import load_meet, part, prefixed, read_int, save_meet
from operators.data.scatter import Scatter
from operators.data.schema import Schema
from operators.drive import deliver
from operators.fresh import fresh
from operators.kernels.data.scatter import gather, gather_pairs
from operators.plan_facts import Keys
from operators.protocol import (
    Element,
    Emit,
    Measured,
    OneByOne,
    Operator,
    Promises,
    State,
    StateValue,
    TakesPromises,
)
from punctuation import Meet, Punctuation, before

_LEVELS: Final = frozenset(("hw_time", "punctuated_wid", "wed"))
"""Counters that tell how far a stream is, of all tuples or of those of a source ("hw_time of r1")."""
LANES: Final = "lanes"
"""The entry of a saved state that says how many lanes it is of."""
LIMITED: Final = "spill.seed"
"""The entry of a saved state that says that its lanes had a limit."""
ADMITTED: Final = "admission"
"""The entry of a saved state that says that groups were refused beyond a limit."""
_SHARED: Final = "shared"
_MET: Final = "met."
_RESULTS: Final = 1 << 16
"""Results of a page, at most, where those of lanes are put in order."""
_LARGE: Final = 1 << 13
"""Results of a page of their own."""
_SMALL: Final = 16
"""Results of a window, on average, from which on they are moved together."""
MOST: Final = 1 << 10
ROWS = 1 << 16
"""Tuples of a page from which on it pays to take it in slices, where an operator takes each tuple by itself."""
KEYED_ROWS = 1 << 13
"""Tuples of a page, on average, from which on it pays to have a lane for a part of the keys."""
ENOUGH = 1 << 16
"""Tuples after which that is decided."""
_TRIED: Final = 16
"""Pages after which that is decided, at most."""
_WORD: Final = 64
_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.uint64}
"""Words in which values of so many bits are copied."""

Call: TypeAlias = Callable[[], None]
AtOnce: TypeAlias = Callable[[Sequence[Call]], None]


def in_turn(calls: Sequence[Call]) -> None:
    """Make calls one after another."""
    for call in calls:
        call()


@runtime_checkable
class EmitsSeveral(Protocol):
    """An `Emit` behind which lanes take several pages in one call."""

    def __call__(self, element: Element) -> None: ...

    def several(self, pages: Sequence[Page]) -> None:
        """Emit pages that follow one another."""
        ...


@attrs.frozen
class Windows:
    """The attributes of results that tell their windows, and the counter of these."""

    wid: str
    end: str
    name: str
    counter: str


@attrs.define(eq=False)
class Lanes:
    """Do the work of one operator in copies of it; results, promises, counts and state are those of all.

    A subclass says how pages are divided. The number of lanes is part of the state: what was saved with some number of
    lanes goes on with it, and what was saved by the operator alone goes on in one lane.
    """

    operator: Operator
    """The operator that lanes are copies of."""
    lanes: int = attrs.field(validator=attrs.validators.in_(range(1, MOST + 1)))
    least: int = attrs.field(factory=lambda: ROWS, kw_only=True)
    """Tuples of a page from which on it is divided."""
    limited: ClassVar[bool] = False
    """Whether lanes may be away from memory."""
    at_once: AtOnce = attrs.field(default=in_turn, kw_only=True)
    _lanes: list[Operator] = attrs.field(init=False)
    _schemas: tuple[Schema, ...] | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._lanes = [fresh(self.operator)]

    @property
    def inputs(self) -> int:
        return self.operator.inputs

    def links(self) -> Sequence[Operator]:
        return self._lanes

    def output_schema(self, *inputs: Schema) -> Schema:
        self._schemas = inputs
        return [lane.output_schema(*inputs) for lane in self._lanes].pop()

    def several(self, pages: Sequence[Page], emit: Emit, port: int = 0) -> None:
        """Take pages that follow one another, in one call."""
        raise NotImplementedError

    def _copies(self, count: int) -> Iterator[Operator]:
        """Make operators that remember nothing, and know of their inputs what the first one does."""
        for _ in range(count):
            made = fresh(self.operator)
            if self._schemas is not None:
                with suppress(ValueError):
                    made.output_schema(*self._schemas)
            yield made

    def _call(self, calls: Sequence[Call], rows: int) -> None:
        """Make calls that take so many tuples between them."""
        (self.at_once if rows >= self.least else in_turn)(calls)

    def statistics(self) -> dict[str, int]:
        """Return the counters of all lanes, added up; of how far a stream is, the highest."""
        total: dict[str, int] = {}
        for lane in self._lanes:
            if isinstance(lane, Measured):
                for name, value in lane.statistics().items():
                    held = total.get(name)
                    level = name.partition(" of ")[0] in _LEVELS
                    total[name] = value if held is None else max(held, value) if level else held + value
        return total

    @property
    def nbytes(self) -> int:
        """Count the bytes that all lanes hold."""
        return sum(int(getattr(lane, "nbytes", 0)) for lane in self._lanes)

    def state(self) -> State:
        if len(self._lanes) == 1:
            return self._lanes[0].state()
        state: State = {LANES: len(self._lanes)}
        for number, lane in enumerate(self._lanes):
            state |= prefixed(f"lane{number}.", lane.state())
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        if ADMITTED in state:
            raise ValueError(
                "the state was saved by a run that refused groups beyond a memory limit: give the limit and the policy"
                ' "shed" again'
            )
        if LIMITED in state and not self.limited:
            raise ValueError(
                "the state was saved with a memory limit, and a part of it may be on disk: give the limit again"
            )
        many = read_int(state, LANES, least=1, most=MOST) if LANES in state else 1
        self._lanes = list(self._copies(many))
        for number, lane in enumerate(self._lanes):
            lane.restore(part(f"lane{number}.", state) if many > 1 else state)


@attrs.define(eq=False)
class RowLanes(Lanes):
    """Divide every page into slices, one for each lane; what they make of these leaves in that order.

    It is for operators that need no tuple together with others. A promise goes to every lane that may need it, and what
    one lane makes of it leaves.

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> from operators.rows.filter import Filter
    >>> page = Page.of(Schema.of(x=pa.int64()), {"x": [1, 2, 3]})
    >>> rows(drive(RowLanes(Filter(Column("x") > 1), 2, least=1), [page]))
    [{'x': 2}, {'x': 3}]
    """

    _all_hear: bool = attrs.field(init=False)
    """Whether each lane needs all promises: not where an operator takes each tuple by itself."""

    def __attrs_post_init__(self) -> None:
        self._lanes = list(self._copies(self.lanes))
        self._all_hear = not isinstance(self.operator, OneByOne)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(self._lanes) == 1 or len(page) < self.least:
            self._lanes[0].process(page, emit, port)
            return
        self.several([page.slice(start, stop) for start, stop in pairwise(_edges(len(page), len(self._lanes)))], emit)

    def several(self, pages: Sequence[Page], emit: Emit, port: int = 0) -> None:
        found: list[_Kept] = [_Kept() for _ in pages]
        shares: dict[int, list[Call]] = {}
        for number, (page, kept) in enumerate(zip(pages, found, strict=True)):
            lane = number % len(self._lanes)
            shares.setdefault(lane, []).append(partial(self._lanes[lane].process, page, kept, port))
        self._divided([partial(in_turn, calls) for calls in shares.values()], pages, None, port)
        _hand_on(found, emit)

    def _divided(self, calls: Sequence[Call], pages: Sequence[Page], promises: Promises | None, port: int) -> None:
        """Make the calls that take the slices of a page; if one fails, raise what the whole page raises.

        An error may name a tuple by its place, which is another one in a slice.
        """
        try:
            self._call(calls, sum(map(len, pages)))
        except Exception:
            whole = concatenate(pages[0].schema, pages)
            try:
                deliver_with(next(self._copies(1)), whole, promises, _nobody, port)
            except Exception as error:
                raise error from None
            raise

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        """Take a page with the linear promises in it, each lane those of its slice."""
        if len(self._lanes) == 1 or len(page) < self.least:
            deliver_with(self._lanes[0], page, promises, emit, port)
            return
        edges = _edges(len(page), len(self._lanes))
        # A promise behind the last tuple of a slice is of that slice; one before the first tuple is of the first.
        cuts = np.searchsorted(promises.positions, edges, "right")
        cuts[0], cuts[-1] = 0, len(promises.positions)
        found: list[_Kept] = [_Kept() for _ in self._lanes]
        calls = [
            partial(self._take, number, page.slice(start, stop), start, promises, cuts[number : number + 2], found)
            for number, (start, stop) in enumerate(pairwise(edges))
        ]
        self._divided(calls, [page], promises, port)
        _hand_on(found, emit)

    def _take(
        self, number: int, page: Page, start: int, promises: Promises, cut: Int64s, found: Sequence[_Kept]
    ) -> None:
        lane, (at, to) = self._lanes[number], cut.tolist()
        if self._all_hear and at:
            lane.punctuate(_promise(promises, at - 1), _nobody)
        if to > at:
            own = attrs.evolve(promises, positions=promises.positions[at:to] - start, bounds=promises.bounds[at:to])
            deliver_with(lane, page, own, found[number])
        else:
            lane.process(page, found[number])
        if self._all_hear and to < len(promises.bounds):
            lane.punctuate(_promise(promises, len(promises.bounds) - 1), _nobody)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        first, *others = self._lanes
        first.punctuate(punctuation, emit, port)
        if self._all_hear:
            for lane in others:
                lane.punctuate(punctuation, _nobody, port)


@attrs.define(eq=False)
class KeyLanes(Lanes):
    """Hand each lane the tuples of some of the keys, in the order in which they came, and promises to all.

    What lanes promise is met: it leaves when all have promised it. Whether there are several lanes is decided by the
    first pages, which one lane takes: it pays where they are large. What these held goes to the lanes then.

    >>> from operators.drive import drive, rows
    >>> from operators.rows.distinct import Distinct
    >>> page = Page.of(Schema.of(x=pa.int64()), {"x": [1, 2, 1, 3]})
    >>> found = drive(KeyLanes(Distinct(), 2, [("x",)], [pa.int64()], least=1, enough=0), [page])
    >>> sorted(row["x"] for row in rows(found))
    [1, 2, 3]
    """

    keys: Sequence[Keys]
    """The attributes by which the tuples of each port are divided."""
    kinds: Sequence[pa.DataType]
    """The types in which these are compared."""
    least: int = attrs.field(factory=lambda: KEYED_ROWS, kw_only=True)
    enough: int = attrs.field(factory=lambda: ENOUGH, kw_only=True)
    """Tuples after which it is decided how many lanes there are."""
    windows: Windows | None = attrs.field(default=None, kw_only=True)
    """How results tell their windows, if they are of windows."""
    _meet: Meet = attrs.field(init=False)
    """What lanes have promised, from when they first differed in that."""
    _alike: Meet | None = attrs.field(init=False)
    """What each of them has promised, as long as that is the same, which costs once."""
    _scatters: tuple[Scatter, ...] = attrs.field(init=False)
    _first: list[tuple[int, Page | Punctuation, Promises | None]] | None = attrs.field(init=False)
    """What came until it is decided how many lanes there are; None from then on."""
    _rows: int = attrs.field(init=False, default=0)
    """Tuples that came until then, or since the last promise."""
    _pages: int = attrs.field(init=False, default=0)
    _ends: int = attrs.field(init=False, default=0)
    _shared: int = attrs.field(init=False, default=0)
    """How often a window was counted by one lane more."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._first = [] if self.lanes > 1 else None
        self._divide(1)

    def _divide(self, lanes: int) -> None:
        self._meet, self._alike = Meet(lanes), Meet(1)
        self._scatters = tuple(Scatter(names, self.kinds, lanes) for names in self.keys)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._given([page], None, emit, port)

    def several(self, pages: Sequence[Page], emit: Emit, port: int = 0) -> None:
        self._given(pages, None, emit, port)

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        """Take a page with the linear promises in it: each lane takes its tuples with all of them."""
        self._given([page], promises, emit, port)

    def _given(self, pages: Sequence[Page], promises: Promises | None, emit: Emit, port: int) -> None:
        if self._first is not None and sum(map(len, pages)):
            self._decide(self._first, pages, promises, port)
        if len(self._lanes) == 1:
            for page in pages:
                deliver_with(self._lanes[0], page, promises, emit, port)
            return
        self._leave(self._taken(pages, promises, port), emit)

    def _decide(
        self,
        first: list[tuple[int, Page | Punctuation, Promises | None]],
        pages: Sequence[Page],
        promises: Promises | None,
        port: int,
    ) -> None:
        """Decide how many lanes there are, once enough has come."""
        self._rows += sum(map(len, pages))
        self._pages += 1 if promises is None else len(promises.bounds) + 1
        if self._rows >= max(self.enough, self.least * self._pages):
            self._first = None
            self._lanes = list(self._copies(self.lanes))
            self._divide(self.lanes)
            for at, element, within in first:
                # The one lane has given all that comes of it.
                if isinstance(element, Page):
                    self._leave(self._taken([element], within, at), _nobody)
                else:
                    self._leave(self._told(element, at), _nobody)
        elif self._pages >= _TRIED:
            self._first = None
        else:
            first += [(port, page, promises) for page in pages]

    def _taken(self, pages: Sequence[Page], promises: Promises | None, port: int) -> list[list[Element]]:
        """Have each lane take its tuples, and return what it gives."""
        many, rows = len(self._lanes), sum(map(len, pages))
        self._rows += rows
        scatter = self._scatters[port]
        if len(pages) == 1 and rows >= self.least:
            pages = [pages[0].slice(start, stop) for start, stop in pairwise(_edges(rows, self._slices(many)))]
        orders: list[tuple[Int64s, Int32s]] = [_NONE] * len(pages)
        found: list[list[Element]] = [[] for _ in self._lanes]

        def order(number: int) -> None:
            orders[number] = scatter.order(pages[number])

        def take(number: int) -> None:
            places = [order[starts[number] : starts[number + 1]] for starts, order in orders]
            own = _gathered(pages, places)
            within = None if promises is None else _within(promises, pages, places)
            deliver_with(self._lanes[number], own, within, found[number].append, port)

        self._call([partial(order, number) for number in range(len(pages))], rows)
        self._call([partial(take, number) for number in range(many)], rows)
        return found

    def _slices(self, many: int) -> int:
        """Return in how many pieces a page is ordered at once, for so many lanes."""
        return many

    def _told(self, punctuation: Punctuation, port: int) -> list[list[Element]]:
        """Have each lane hear a promise, and return what it gives."""
        found: list[list[Element]] = [[] for _ in self._lanes]
        calls = [
            partial(lane.punctuate, punctuation, own.append, port) for lane, own in zip(self._lanes, found, strict=True)
        ]
        # To give what it completes is work in proportion to the tuples that came before it.
        self._call(calls, self._rows)
        self._rows = 0
        return found

    def _leave(self, found: Sequence[Sequence[Element]], emit: Emit) -> None:
        """Emit what lanes give, and the promises that all have made."""
        told = [[element for element in elements if isinstance(element, Punctuation)] for elements in found]
        if self._alike is not None and any(promises != told[0] for promises in told[1:]):
            self._meet, self._alike = spread_out(self._alike, len(self._lanes)), None
        if self._alike is not None:
            parts = [_between(elements) for elements in found]
            for number, promise in enumerate([*told[0], None]):
                self._give([part[number] for part in parts if part[number]], emit)
                for new in () if promise is None else self._alike.advance(0, promise):
                    emit(new)
            return
        for number, elements in enumerate(found):
            for element in elements:
                if isinstance(element, Page):
                    emit(element)
                    continue
                for new in self._meet.advance(number, element):
                    emit(new)

    def _give(self, parts: Sequence[Sequence[Page]], emit: Emit) -> None:
        """Emit the results of each lane, window by window where they are of windows."""
        pages = [page for part in parts for page in part]
        if self.windows is not None and len(parts) > 1:
            pages = self._window_by_window(self.windows, parts, pages)
        for page in pages:
            emit(page)

    def _window_by_window(
        self, windows: Windows, parts: Sequence[Sequence[Page]], pages: Sequence[Page]
    ) -> Sequence[Page]:
        """Return the results of several lanes in the order of windows, and count those that lanes have in common."""
        tellers = [[page.ticks(name) for page in pages] for name in (windows.end, windows.wid)]
        if windows.name in pages[0].schema:
            tellers.append(_codes([page.column(windows.name) for page in pages]))
        begins = [begins_of(values) for values in zip(*tellers, strict=True)]
        heads = [np.concatenate([v[at] for v, at in zip(values, begins, strict=True)]) for values in tellers]
        lanes = [number for number, part in enumerate(parts) for _ in part]
        owners = np.repeat(lanes, list(map(len, begins)))
        counted = len(begins_of([*heads, owners]))
        if len(begins_of(heads)) == 1:
            self._shared += counted - 1
            return pages
        edges = pairwise(np.searchsorted(owners, np.arange(len(parts) + 1)).tolist())
        within = list(edges)
        for values, in_all in zip(heads[:2], tellers[:2], strict=True):
            if all((values[start + 1 : stop] >= values[start : stop - 1]).all() for start, stop in within):
                order = np.argsort(values, kind="stable")
                self._shared += counted - len(begins_of([values[order] for values in heads]))
                if len(values) * _SMALL > sum(map(len, pages)):
                    rows = np.argsort(np.concatenate(in_all), kind="stable")
                    return _cut(concatenate(pages[0].schema, pages).take(rows))
                return list(_joined(_pieces(pages, begins, order)))
        self._shared += counted - len(np.unique(np.stack(heads), axis=1).T)
        return pages

    def statistics(self) -> dict[str, int]:
        total = super().statistics()
        if self.windows is not None and self.windows.counter in total:
            total[self.windows.counter] -= self._shared
        return total

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if len(self._lanes) > 1:
            self._leave(self._told(punctuation, port), emit)
            return
        self._ends += punctuation.is_end
        if self._first is not None:
            self._first = None if self._ends == self.inputs else [*self._first, (port, punctuation, None)]
        self._lanes[0].punctuate(punctuation, emit, port)

    def state(self) -> State:
        state = super().state()
        if len(self._lanes) > 1:
            state |= {_SHARED: self._shared, **prefixed(_MET, save_meet(self._all_met()))}
        return state

    def _all_met(self) -> Meet:
        return self._meet if self._alike is None else spread_out(self._alike, len(self._lanes))

    def restore(self, state: Mapping[str, StateValue]) -> None:
        super().restore(state)
        self._first = None
        self._divide(len(self._lanes))
        if len(self._lanes) > 1:
            self._meet, self._alike = load_meet(len(self._lanes), part(_MET, state)), None
            self._shared = read_int(state, _SHARED, least=0)


@attrs.define(eq=False)
class _Kept:
    """Keep what an operator emits, pages with the promises in them."""

    elements: list[tuple[Element, Promises | None]] = attrs.field(factory=list)

    def __call__(self, element: Element) -> None:
        self.elements.append((element, None))

    def together(self, page: Page, promises: Promises) -> None:
        self.elements.append((page, promises))


_NONE: Final = (np.zeros(1, np.int64), np.zeros(0, np.int32))


def _between(elements: Sequence[Element]) -> list[list[Page]]:
    """Return the pages before, between and behind promises."""
    found: list[list[Page]] = [[]]
    for element in elements:
        if isinstance(element, Page):
            found[-1].append(element)
        else:
            found.append([])
    return found


def _codes(columns: Sequence[pa.Array]) -> list[Int64s]:
    """Return a number for each text, the same for equal ones in all columns."""
    numbered = pa.chunked_array(columns).dictionary_encode().unify_dictionaries()
    return [chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64) for chunk in numbered.chunks]


def _pieces(pages: Sequence[Page], begins: Sequence[Int64s], order: Int64s) -> Iterator[Page]:
    """Yield the parts of pages that begin at some places, in an order of all parts."""
    parts = [
        (page, start, stop)
        for page, at in zip(pages, begins, strict=True)
        for start, stop in pairwise([*at.tolist(), len(page)])
    ]
    for number in order.tolist():
        page, start, stop = parts[number]
        yield page.slice(start, stop)


def _joined(pieces: Iterable[Page]) -> Iterator[Page]:
    """Yield pages one after another, small ones together in larger ones."""
    held: list[Page] = []
    rows = 0
    for piece in pieces:
        large = len(piece) >= _LARGE
        if rows and (large or rows + len(piece) > _RESULTS):
            yield concatenate(held[0].schema, held)
            held, rows = [], 0
        if large:
            yield piece
            continue
        held.append(piece)
        rows += len(piece)
    if held:
        yield concatenate(held[0].schema, held)


def _cut(page: Page) -> list[Page]:
    return [page.slice(at, min(at + _RESULTS, len(page))) for at in range(0, len(page), _RESULTS)]


def begins_of(tellers: Sequence[Int64s]) -> Int64s:
    """Return the places at which any of these has another value than before, and the first."""
    differs = np.ones(len(tellers[0]), np.bool_)
    differs[1:] = False
    for values in tellers:
        differs[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(differs)


def spread_out(meet: Meet, ports: int) -> Meet:
    """Return the meet of so many ports each of which has promised what the only one of another has."""
    found = Meet(ports)
    for progress in (found.emitted, *map(found.port, range(ports))):
        for promise in meet.emitted.promises():
            progress.advance(promise)
    return found


def _nobody(element: Element) -> None:
    """Take what is not to be given."""


def _edges(rows: int, slices: int) -> Int64s:
    """Return where slices of so many rows begin, and where the last one ends."""
    return np.arange(slices + 1, dtype=np.int64) * rows // slices


def _promise(promises: Promises, number: int) -> Punctuation:
    return before(promises.attribute, int(promises.bounds[number]), assumed=promises.assumed)


def deliver_with(operator: Operator, page: Page, promises: Promises | None, emit: Emit, port: int = 0) -> None:
    """Hand a page, and the promises in it if there are any, to an operator."""
    if promises is None or not len(promises.bounds):
        operator.process(page, emit, port)
    elif len(page) and isinstance(operator, TakesPromises):
        operator.process_with(page, promises, emit, port)
    else:
        for element in promises.one_by_one(page):
            deliver(operator, element, emit, port)


def _hand_on(found: Sequence[_Kept], emit: Emit) -> None:
    """Emit what lanes gave, one after another; pages alone in one call, where lanes are behind."""
    elements = [element for kept in found for element in kept.elements]
    pages = [element for element, within in elements if isinstance(element, Page) and within is None]
    if len(pages) == len(elements) > 1 and isinstance(emit, EmitsSeveral):
        emit.several(pages)
        return
    for element, within in elements:
        if within is None or not isinstance(element, Page):
            emit(element)
        else:
            within.hand_on(element, emit)


def _within(promises: Promises, pages: Sequence[Page], places: Sequence[Int32s]) -> Promises:
    """Return promises in the tuples at some places of pages."""
    positions, before_ = np.zeros(len(promises.positions), np.int64), 0
    for page, chosen in zip(pages, places, strict=True):
        positions += np.searchsorted(chosen, promises.positions - before_)
        before_ += len(page)
    return attrs.evolve(promises, positions=positions)


def _gathered(pages: Sequence[Page], places: Sequence[Int32s]) -> Page:
    """Return the tuples at these places of each page, as one page."""
    schema, batches = pages[0].schema, [page.batch for page in pages]
    columns = [_column([batch.column(i) for batch in batches], places) for i in range(len(schema.names))]
    return Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def _column(columns: Sequence[pa.Array], places: Sequence[Int32s]) -> pa.Array:
    kind = columns[0].type
    fixed = pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal128(kind)
    words = _WORDS.get(kind.bit_width) if fixed else None
    if words is None or any([column.null_count for column in columns]):
        found = [column.take(pa.array(chosen)) for column, chosen in zip(columns, places, strict=True)]
        if len(found) == 1:
            return found[0]
        # Each page may number the values of a dictionary in its own way.
        return pa.concat_arrays(pa.chunked_array(found, kind).unify_dictionaries().chunks)
    single = kind.bit_width <= _WORD
    values = np.empty(sum(map(len, places)) if single else (sum(map(len, places)), 2), words)
    at = 0
    for column, chosen in zip(columns, places, strict=True):
        if len(chosen):
            source = np.frombuffer(column.buffers()[1], words)
            source = source if single else source.reshape(-1, 2)
            source = source[column.offset : column.offset + len(column)]
            (gather if single else gather_pairs)(source, chosen, values[at : at + len(chosen)])
            at += len(chosen)
    return pa.Array.from_buffers(kind, at, [None, pa.py_buffer(values)])
