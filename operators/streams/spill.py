"""Lanes with a limit: what they hold beyond it goes to a shelf, and comes back when promises may complete it.

Keys are divided among many lanes. A lane that is put away saves its operator on the shelf; the tuples and promises that
come for it go there behind it, as they are. To fetch it, its operator is restored and takes these in their order, so
the answer is exact for every operator that can be saved (law 9), and memory holds one part of the keys at a time. The
elements of lanes that are away leave later, and promises wait for the last lane, as those of every `Meet` do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final, Protocol, TypeAlias

import attrs
import numpy as np

from operators.data import saved
from operators.data.page import Page, concatenate
from operators.data.saved import decode_state, encode_state, part, read_batch, read_int, read_integers
from operators.overflow import overflows
from operators.protocol import Element, Emit, Measured, Operator, Outside, Promises, State, StateValue
from operators.streams.lanes import LIMITED, KeyLanes, begins_of, deliver_with, spread_out
from punctuation import Punctuation
from punctuation.plain import from_plain, to_plain

_PARTS: Final = (8, 64)
"""Lanes among which keys are divided, at least and at most: while one is in memory, the others can be away."""
_WORTH: Final = 1 << 20
"""Bytes of the limit that make one more of them worth what it costs itself."""
_PROMISES: Final = 8
"""Promises that wait at least for lanes that are away."""
_PATIENT: Final = 1 << 10
"""And at most, where to fetch the lanes completes little."""
_MANIFOLD: Final = 16
"""Lanes are fetched at a promise once so many times the bytes that came since the last time are what is away."""
_EMPTY: Final = 1 << 13
"""Bytes on the shelf of a lane that holds next to nothing."""
_SHARE: Final = 8
"""Of the limit, this part at most waits to be written; so many times its size may come behind a lane that is away."""
_AWAY, _COUNTS = "spill.pieces", "spill.counts"
_TALLY, _SUMS = "spill.windows", "spill.sums"

_Entry: TypeAlias = tuple[int, Page | Punctuation, Promises | None]
_Window: TypeAlias = tuple[str, int, int]


def parts_of(limit: int) -> int:
    """Return among how many lanes keys are divided where so many bytes may be in memory.

    >>> parts_of(1_000_000), parts_of(40_000_000), parts_of(2_000_000_000)
    (8, 38, 64)
    """
    least, most = _PARTS
    return max(least, min(most, limit // _WORTH))


class Shelf(Protocol):
    """A place outside of memory that takes bytes under names and gives them back."""

    def begin(self) -> str:
        """Return a name under which nothing is here."""
        ...

    def add(self, name: str, piece: bytes) -> None:
        """Put a piece behind those that are here under a name."""
        ...

    def pieces(self, name: str) -> Sequence[Outside]:
        """Return the pieces under a name, in their order; who has one can read it though the name was removed."""
        ...

    def remove(self, name: str) -> None:
        """Forget a name and its pieces."""
        ...


@attrs.define(eq=False)
class _Lane:
    """One operator, in memory or put away on a shelf, where what comes for it follows it."""

    make: Callable[[], Operator]
    """Makes an operator that remembers nothing."""
    shelf: Shelf
    operator: Operator = attrs.field(init=False)
    """The operator; while it is away, one that remembers nothing."""
    name: str | None = attrs.field(init=False, default=None)
    """Where it is on the shelf; None while it is in memory."""
    kept: int = attrs.field(init=False, default=0)
    """Bytes of the operator on the shelf."""
    behind: int = attrs.field(init=False, default=0)
    """Bytes that came for it and are there, too."""
    waiting: int = attrs.field(init=False, default=0)
    """Bytes that came for it and are to be written."""
    written: int = attrs.field(init=False, default=0)
    """All bytes that were ever written."""
    _entries: list[_Entry] = attrs.field(init=False, factory=list)
    _counts: dict[str, int] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.operator = self.make()

    @property
    def inputs(self) -> int:
        return self.operator.inputs

    @property
    def away(self) -> bool:
        """Return whether the operator is on the shelf."""
        return self.name is not None

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory."""
        return self.waiting if self.away else _bytes_of(self.operator)

    def links(self) -> Sequence[Operator]:
        return (self.operator,)

    def output_schema(self, *inputs: saved.Schema) -> saved.Schema:
        return self.operator.output_schema(*inputs)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.process_with(page, None, emit, port)

    def process_with(self, page: Page, promises: Promises | None, emit: Emit, port: int = 0) -> None:
        """Take a page and the promises in it, now or later."""
        if not self.away:
            deliver_with(self.operator, page, promises, emit, port)
        elif len(page) or (promises is not None and len(promises.bounds)):
            self._entries.append((port, page, promises))
            self.waiting += page.batch.nbytes + (0 if promises is None else promises.bounds.nbytes)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if not self.away:
            self.operator.punctuate(punctuation, emit, port)
        else:
            self._entries.append((port, punctuation, None))

    def put_away(self) -> None:
        """Save the operator on the shelf, and begin a new one in its place."""
        counts = self.operator.statistics() if isinstance(self.operator, Measured) else {}
        piece = encode_state(self.operator.state())
        self.name, self.kept, self.behind = self.shelf.begin(), len(piece), 0
        self.shelf.add(self.name, piece)
        self.written += len(piece)
        self._counts = counts | {"state_bytes": 0}
        before, self.operator = self.operator, self.make()
        self._overflow_like(before)

    def write(self) -> None:
        """Put what waits to be written behind the operator."""
        if self.name is not None and self._entries:
            piece = _encoded(self._entries)
            self.shelf.add(self.name, piece)
            self.behind += len(piece)
            self.written += len(piece)
            self._entries, self.waiting = [], 0

    def fetch(self, giving: Callable[[], Emit]) -> None:
        """Restore the operator, and have it take what came for it; `giving` makes the emit of each call."""
        if self.name is None:
            return
        name, (operator, *behind) = self.name, self.shelf.pieces(self.name)
        self.operator.restore(decode_state(operator.read()))
        for piece in behind:
            for entry in _decoded(decode_state(piece.read())):
                self._take(entry, giving())
        entries, self._entries = self._entries, []
        for entry in entries:
            self._take(entry, giving())
        self.name, self.kept, self.behind, self.waiting, self._counts = None, 0, 0, 0, {}
        self.shelf.remove(name)

    def _take(self, entry: _Entry, emit: Emit) -> None:
        port, element, promises = entry
        if isinstance(element, Page):
            deliver_with(self.operator, element, promises, emit, port)
        else:
            self.operator.punctuate(element, emit, port)

    def _overflow_like(self, before: Operator) -> None:
        for own, other in zip(overflows(self.operator), overflows(before), strict=True):
            own.forgiving, own.count = other.forgiving, other.count

    def statistics(self) -> dict[str, int]:
        if self.away:
            return self._counts
        return self.operator.statistics() if isinstance(self.operator, Measured) else {}

    def state(self) -> State:
        if self.name is None:
            return self.operator.state()
        self.write()
        pieces = self.shelf.pieces(self.name)
        state: State = {_AWAY: len(pieces), _COUNTS: json.dumps(self._counts)}
        return state | {f"{_AWAY}{number}": piece for number, piece in enumerate(pieces)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        if _AWAY not in state:
            self.operator.restore(state)
            return
        self.name = self.shelf.begin()
        for number in range(read_int(state, _AWAY, least=1)):
            piece = _bytes(state, f"{_AWAY}{number}")
            self.shelf.add(self.name, piece)
            self.kept, self.behind = (self.kept, self.behind + len(piece)) if number else (len(piece), 0)
        self._counts = json.loads(saved.read_text(state, _COUNTS))


@attrs.define(eq=False)
class SpillLanes(KeyLanes):
    """Hold at most about `limit` bytes of what an operator remembers in memory, and the rest on a shelf.

    Lanes are put away, the largest first, once they hold more than the limit. They are fetched one by one: at the end
    of an input; at a promise, if enough came since the last time, or as many promises wait as pay; and where more has
    come to one than its operator is worth. What one of them completes leaves before the next is fetched, so results of
    several windows leave part by part. A lane that is fetched may exceed the limit by what it holds itself.

    >>> import pyarrow as pa
    >>> from operators.data.schema import Schema
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window_aggregate.group_by import GroupAggregate
    >>> page = Page.of(Schema.of(k=pa.int64()), {"k": [1, 2, 1]})
    >>> lanes = SpillLanes(GroupAggregate({"n": count()}, ("k",)), 4, [("k",)], [pa.int64()], MemoryShelf(), 100)
    >>> from punctuation import END
    >>> sorted(rows(drive(lanes, [page, page, END])), key=str)
    [{'k': 1, 'n': 4}, {'k': 2, 'n': 2}]
    """

    limited: ClassVar[bool] = True
    shelf: Shelf
    limit: int = attrs.field(validator=attrs.validators.ge(1))
    """Bytes in memory."""
    seed: int = attrs.field(default=0, kw_only=True)
    """Says how keys are divided, see `Scatter`."""
    threads: int = attrs.field(default=1, kw_only=True)
    """How many calls `at_once` makes at the same time."""
    by_parts: bool = attrs.field(default=False, kw_only=True)
    """Whether who drives it calls `go_on`: what several lanes give need not be in memory at once then."""
    _left: list[int] = attrs.field(init=False, factory=list)
    """The lanes that are still to be fetched."""
    _came: int = attrs.field(init=False, default=0)
    """Bytes that came since lanes were last fetched."""
    _promises: int = attrs.field(init=False, default=0)
    """Promises that came since then."""
    _patience: int = attrs.field(init=False, default=_PROMISES)
    """Promises that may wait."""
    _before: int = attrs.field(init=False, default=0)
    """Bytes that were away when lanes were last fetched."""
    _spills: int = attrs.field(init=False, default=0)
    _written: int = attrs.field(init=False, default=0)
    """Bytes that lanes wrote before they were restored."""
    _peak: int = attrs.field(init=False, default=0)
    _tally: dict[_Window, dict[int, int]] = attrs.field(init=False, factory=dict)
    """How often each lane gave a window that others may give still."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._first = None
        self._lanes = list(self._copies(self.lanes))
        self._divide(self.lanes)

    def _copies(self, count: int) -> Iterator[Operator]:
        for _ in range(count):
            yield _Lane(self._fresh, self.shelf)

    def _fresh(self) -> Operator:
        return next(super()._copies(1))

    def _divide(self, lanes: int) -> None:
        super()._divide(lanes)
        for scatter in self._scatters:
            scatter.seed = self.seed

    def _slices(self, many: int) -> int:
        return min(many, self.threads)

    @property
    def _ours(self) -> list[_Lane]:
        return [lane for lane in self._lanes if isinstance(lane, _Lane)]

    def _given(self, pages: Sequence[Page], promises: Promises | None, emit: Emit, port: int) -> None:
        self._finish(emit)
        self._came += sum(page.batch.nbytes for page in pages)
        self._leave(self._taken(pages, promises, port), emit)
        heard = 0 if promises is None else len(promises.bounds)
        self._keep(emit)
        self._heard(heard, emit, at_once=False)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._finish(emit)
        self._ends += punctuation.is_end
        self._leave(self._told(punctuation, port), emit)
        self._keep(emit)
        self._heard(1, emit, at_once=punctuation.is_end)

    @property
    def unfinished(self) -> bool:
        """Return whether lanes are still to be fetched for the last call."""
        return bool(self._left)

    def go_on(self, emit: Emit) -> bool:
        """Fetch the next of the lanes that are to be fetched; return whether there are more of them."""
        if not self._left:
            return False
        self._fetch(self._left.pop(), emit)
        self._keep(emit)
        if not self._left:
            dropped = self._away() < self._before - self._before // _SHARE
            self._patience = _PROMISES if dropped else min(2 * self._patience, _PATIENT)
        return bool(self._left)

    def _away(self) -> int:
        """Return the bytes of lanes that are away."""
        return sum(lane.kept + lane.behind + lane.waiting for lane in self._ours)

    def _finish(self, emit: Emit) -> None:
        while self.go_on(emit):
            pass

    def _heard(self, promises: int, emit: Emit, *, at_once: bool) -> None:
        """Begin to fetch the lanes that are away, if promises that came are likely to complete what they hold."""
        away = [number for number, lane in enumerate(self._ours) if lane.away]
        self._promises += promises
        if not away or not promises:
            return
        size = self._away()
        rare = self._came * _MANIFOLD < size - _EMPTY * len(away)
        if rare and not at_once and self._promises < self._patience:
            return
        self._came, self._promises, self._before, self._left = 0, 0, size, away[::-1]
        self.go_on(emit)
        if not self.by_parts:
            self._finish(emit)

    def _keep(self, emit: Emit) -> None:
        """Keep within the limit: write what waits, put lanes away, and work off what is too much behind one."""
        ours, share = self._ours, self.limit // _SHARE
        for number, lane in enumerate(ours):
            if lane.waiting > share // len(ours):
                lane.write()
            if lane.behind > max(_SHARE * lane.kept, 2 * share):
                self._fetch(number, emit)
                self._put_away(lane)
        sizes = [lane.nbytes for lane in ours]
        held = sum(sizes)
        self._peak = max(self._peak, held)
        if held <= self.limit or self._ends >= self.inputs:
            return
        for number in sorted(range(len(ours)), key=lambda number: -sizes[number]):
            if held <= self.limit // 2:
                return
            if not ours[number].away and sizes[number]:
                self._put_away(ours[number])
                held -= sizes[number]

    def _put_away(self, lane: _Lane) -> None:
        if self._alike is not None:
            self._meet, self._alike = spread_out(self._alike, len(self._lanes)), None
        lane.put_away()
        self._spills += 1

    def _fetch(self, number: int, emit: Emit) -> None:
        self._ours[number].fetch(partial(self._giving, number, emit))

    def _leave(self, found: Sequence[Sequence[Element]], emit: Emit) -> None:
        if self._alike is not None:
            super()._leave(found, emit)
            return
        for number, elements in enumerate(found):
            give = self._giving(number, emit)
            for element in elements:
                give(element)

    def _giving(self, number: int, emit: Emit) -> Emit:
        """Return what takes what a lane gives in one call."""
        seen: set[_Window] = set()

        def give(element: Element) -> None:
            if isinstance(element, Page):
                self._count(number, element, seen)
                emit(element)
                return
            for new in self._meet.advance(number, element):
                self._let_go_of_windows(new)
                emit(new)

        return give

    def _count(self, number: int, page: Page, seen: set[_Window]) -> None:
        """Count a window that several lanes give as one."""
        if self.windows is None or not len(page):
            return
        ends, wids = page.ticks(self.windows.end), page.ticks(self.windows.wid)
        tellers, names = [ends, wids], None
        if self.windows.name in page.schema:
            names = page.column(self.windows.name).dictionary_encode()
            tellers.append(names.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        for at in begins_of(tellers).tolist():
            window = ("" if names is None else names[at].as_py(), int(ends[at]), int(wids[at]))
            if window in seen:
                continue
            seen.add(window)
            times = self._tally.setdefault(window, {})
            most = max(times.values(), default=0)
            times[number] = times.get(number, 0) + 1
            self._shared += times[number] <= most

    def _let_go_of_windows(self, promise: Punctuation) -> None:
        """Forget the windows that no lane gives again."""
        if self.windows is None:
            return
        bound = None if promise.is_end else promise.bound(self.windows.end)
        if promise.is_end:
            self._tally.clear()
        elif isinstance(bound, int):
            for window in [window for window in self._tally if window[1] < bound]:
                del self._tally[window]

    def statistics(self) -> dict[str, int]:
        total = super().statistics()
        away = sum(lane.kept + lane.behind for lane in self._ours)
        written = self._written + sum(lane.written for lane in self._ours)
        peak = max(self._peak, total.get("state_bytes", 0))
        return total | {"peak_state_bytes": peak, "away_bytes": away, "spilled_bytes": written, "spills": self._spills}

    def state(self) -> State:
        state = super().state()
        written = self._written + sum(lane.written for lane in self._ours)
        sums = [self._spills, written, self._peak, self._ends]
        told = [[*window, list(times.items())] for window, times in self._tally.items()]
        return state | {LIMITED: self.seed, _SUMS: json.dumps(sums), _TALLY: json.dumps(told)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self.seed = read_int(state, LIMITED, least=0) if LIMITED in state else 0
        super().restore(state)
        if _SUMS in state:
            sums = map(int, json.loads(saved.read_text(state, _SUMS)))
            self._spills, self._written, self._peak, self._ends = sums
            told = json.loads(saved.read_text(state, _TALLY))
            self._tally = {(name, end, wid): dict(map(tuple, times)) for name, end, wid, times in told}


@attrs.define
class MemoryShelf:
    """Keep pieces in memory, for tests and examples.

    >>> shelf = MemoryShelf()
    >>> name = shelf.begin()
    >>> shelf.add(name, b"ab")
    >>> [piece.read() for piece in shelf.pieces(name)]
    [b'ab']
    """

    _pieces: dict[str, list[bytes]] = attrs.field(init=False, factory=dict)
    _begun: int = attrs.field(init=False, default=0)

    def begin(self) -> str:
        self._begun += 1
        return f"{self._begun:06d}"

    def add(self, name: str, piece: bytes) -> None:
        self._pieces.setdefault(name, []).append(piece)

    def pieces(self, name: str) -> Sequence[Outside]:
        return [Outside(len(piece), partial(bytes, piece)) for piece in self._pieces[name]]

    def remove(self, name: str) -> None:
        del self._pieces[name]

    def __len__(self) -> int:
        return len(self._pieces)


def _bytes_of(operator: Operator) -> int:
    found = getattr(operator, "nbytes", None)
    if found is None:
        found = operator.statistics().get("state_bytes", 0) if isinstance(operator, Measured) else 0
    return int(found)


def _bytes(state: Mapping[str, StateValue], name: str) -> bytes:
    """Return bytes of a state, wherever they are; ValueError when they are missing or something else."""
    value = state.get(name)
    if isinstance(value, Outside):
        return value.read()
    return read_integers(state, name, least=0, below=256).astype(np.uint8).tobytes()


def _encoded(entries: Sequence[_Entry]) -> bytes:
    """Return pages and promises, in their order, as bytes."""
    state: State = {}
    number, at = 0, 0
    while at < len(entries):
        port, element, promises = entries[at]
        at += 1
        state[f"{number}.port"] = port
        if isinstance(element, Page):
            pages = [element]
            while promises is None and at < len(entries) and _follows(entries[at], port, element):
                pages.append(entries[at][1])  # pyright: ignore[reportArgumentType]
                at += 1
            state |= saved.save_input(element.schema, f"{number}.schema")
            state[f"{number}.page"] = concatenate(element.schema, pages).batch
            if promises is not None:
                state[f"{number}.attribute"] = promises.attribute
                state |= {f"{number}.positions": promises.positions, f"{number}.bounds": promises.bounds}
                state[f"{number}.assumed"] = promises.assumed
        else:
            state |= {f"{number}.promise": json.dumps(to_plain(element)), f"{number}.assumed": element.assumed}
        number += 1
    return encode_state({"entries": number, **state})


def _follows(entry: _Entry, port: int, first: Page) -> bool:
    """Return whether an entry is a page that can be one with another."""
    at, element, promises = entry
    return isinstance(element, Page) and at == port and promises is None and element.schema == first.schema


def _decoded(state: Mapping[str, StateValue]) -> Iterator[_Entry]:
    """Yield what `_encoded` was given."""
    for number in range(read_int(state, "entries", least=0)):
        own = part(f"{number}.", state)
        port = read_int(own, "port", least=0)
        if "promise" in own:
            promise = from_plain(json.loads(saved.read_text(own, "promise")))
            yield port, attrs.evolve(promise, assumed=saved.read_flag(own, "assumed")), None
            continue
        schema = saved.read_input(own, "schema")
        if schema is None:
            raise ValueError("a page that was put away has no schema")
        promises = None
        if "attribute" in own:
            promises = Promises(
                saved.read_text(own, "attribute"), read_integers(own, "positions"), read_integers(own, "bounds"),
                saved.read_flag(own, "assumed"),
            )  # fmt: skip
        yield port, Page(schema, read_batch(own, "page")), promises
