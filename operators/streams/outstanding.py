"""Tuples that wait for answers, in pieces, the promises that cover some of them, and late tuples behind promises.

A piece and a promise have numbers of one sequence, so their order of arrival is known. A promise waits for the pieces
before it that have a tuple which it covers, and a piece for the promises before it that cover a tuple of it: such
tuples are late, and what reads them judges them by these promises. As each waits for what came before it alone, nothing
waits for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import zip_longest

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page, only
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import Promises
from punctuation import Punctuation, before


@attrs.define(eq=False)
class Piece:
    """Tuples that wait for an answer, or for promises that came before them and cover some of them."""

    page: Page
    behind: set[int] = attrs.field(factory=set)
    """The numbers of those promises: until they have left, nobody is asked about the tuples."""
    _least: dict[str, int | None] = attrs.field(factory=dict, init=False)

    def covered(self, promise: Punctuation) -> bool:
        """Return whether a promise covers one of the tuples; also where that cannot be known."""
        if not set(promise.attributes) <= set(self.page.schema.names):
            return True
        name = promise.attributes[0] if len(promise.patterns) == 1 else ""
        if name and isinstance(bound := promise.bound(name), int) and has_ticks(self.page, name):
            least = self.least(name)
            return least is not None and least < bound
        return bool(self.page.matching(promise).any())

    def least(self, name: str) -> int | None:
        """Return the lowest value of an attribute, in ticks; None where all are null."""
        if name not in self._least:
            ticks, valid = self.page.timed(name)
            ticks = ticks if valid is None else ticks[valid]
            self._least[name] = int(ticks.min()) if len(ticks) else None
        return self._least[name]


@attrs.define(eq=False)
class _Held:
    """A promise that waits, and the numbers of the pieces that it waits for."""

    promise: Punctuation
    awaits: set[int]


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@attrs.define(eq=False)
class _Saved(memory.Stateful):
    """Hold all that waits, in order of arrival; from that follows which waits for which."""

    pages: list[Page] = attrs.field(factory=list, metadata=memory.pages("outstanding"))
    sizes: Int64s = attrs.field(factory=_none, metadata=memory.array(least=1))
    numbers: Int64s = attrs.field(factory=_none, metadata=memory.array(least=0, length="sizes", apart=True))
    promises: list[tuple[Punctuation | int, ...]] = attrs.field(factory=list, metadata=memory.waiting())


@attrs.define(eq=False)
class Outstanding(memory.Stateful):
    """Keep pieces and promises until what they wait for has left.

    >>> from operators.data.schema import Schema
    >>> from punctuation import before
    >>> waiting, schema = Outstanding(), Schema.of(ts=pa.int64())
    >>> number = waiting.add(Page.of(schema, {"ts": [5]}))
    >>> waiting.hold(before("ts", 4)), waiting.hold(before("ts", 6))
    (False, True)
    >>> page = waiting.remove(number)
    >>> [str(promise) for promise in waiting.leaving({number})]
    ['[ts < 6]']
    """

    pieces: dict[int, Piece] = attrs.field(init=False, factory=dict)
    """By number, in order of arrival."""
    tuples: int = attrs.field(init=False, default=0)
    _size: int = attrs.field(init=False, default=0)
    _held: dict[int, _Held] = attrs.field(init=False, factory=dict)
    _left: set[int] = attrs.field(init=False, factory=set)
    """The numbers of promises that have left since `released` was asked."""
    _reached: dict[str, int] = attrs.field(init=False, factory=dict, metadata=memory.tally())
    """By attribute, the highest bound that was promised."""
    _next: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(_Saved, "_become", of=lambda own: own._waiting())
    )

    @property
    def nbytes(self) -> int:
        return self._size

    @property
    def promises(self) -> int:
        """Return how many promises wait."""
        return len(self._held)

    def add(self, page: Page) -> int:
        """Keep tuples that nobody has an answer for; return the number of their piece."""
        return self._put(Piece(page))

    def put_behind(self, page: Page) -> int:
        """Keep late tuples until the promises that cover them have left."""
        piece = Piece(page)
        piece.behind.update(number for number, held in self._held.items() if piece.covered(held.promise))
        return self._put(piece)

    def _put(self, piece: Piece) -> int:
        number = self._number()
        self.pieces[number] = piece
        self._grow(piece.page, 1)
        return number

    def remove(self, number: int) -> Page:
        """Let go of a piece, and return its tuples."""
        page = self.pieces.pop(number).page
        self._grow(page, -1)
        return page

    def narrow(self, number: int, page: Page) -> None:
        """Keep some tuples of a piece only; promises that covered others alone do not wait for it any more."""
        self._grow(self.pieces[number].page, -1)
        self.pieces[number] = piece = Piece(page)
        self._grow(page, 1)
        for held in self._held.values():
            if number in held.awaits and not piece.covered(held.promise):
                held.awaits.discard(number)

    def late(self, page: Page) -> Bools | None:
        """Return which tuples a promise that waits covers, shape (n,); None where none does."""
        late: Bools | None = None
        last: Punctuation | None = None
        for held in reversed(self._held.values()):
            promise = held.promise
            if (last is not None and last.implies(promise)) or not set(promise.attributes) <= set(page.schema.names):
                continue
            last, covered = promise, page.matching(promise)
            late = covered if late is None else late | covered
        return late if late is not None and late.any() else None

    def hold(self, promise: Punctuation) -> bool:
        """Keep a promise that covers a tuple which waits, or return False where there is none."""
        awaits = {number for number, piece in self.pieces.items() if promise.is_end or piece.covered(promise)}
        if not awaits:
            self._promised(promise)
            return False
        if self._held:
            number, last = next(reversed(self._held.items()))
            if last.awaits == awaits and promise.implies(last.promise):
                # No piece stands behind the last one, or this one would wait for it, too.
                del self._held[number]
        self._held[self._number()] = _Held(promise, awaits)
        return True

    def hold_some(self, promises: Promises) -> int:
        """Keep those promises that cover a tuple which waits, the last ones; return how many before them do not.

        The tuples around the promises must match none that stands before them.
        """
        least = [low for piece in self.pieces.values() if (low := piece.least(promises.attribute)) is not None]
        awaited = np.searchsorted(np.sort(np.array(least, np.int64)), promises.bounds, "left")
        ready = int(np.searchsorted(awaited, 0, "right"))
        if ready:
            self._promised(before(promises.attribute, int(promises.bounds[ready - 1])))
        # Of several that wait for the same pieces the last one says it all.
        for place in (np.flatnonzero(np.diff(awaited[ready:], append=-1)) + ready).tolist():
            self.hold(before(promises.attribute, int(promises.bounds[place]), assumed=promises.assumed))
        return ready

    def leaving(self, done: Collection[int]) -> list[Punctuation]:
        """Return the promises that wait for nothing but pieces that are `done`, and let go of them."""
        free: list[int] = []
        for number, held in self._held.items():
            held.awaits.difference_update(done)
            if not held.awaits:
                free.append(number)
        promises = [self._held.pop(number).promise for number in free]
        for promise in promises:
            self._promised(promise)
        self._left.update(free)
        # One that the next one implies says nothing new, but what comes before END stands before it.
        return [
            promise
            for promise, later in zip_longest(promises, promises[1:])
            if later is None or later.is_end or not later.implies(promise)
        ]

    def within_reach(self) -> Iterator[Punctuation]:
        """Yield what is true by now of linear promises that wait: up to the lowest value of a tuple before them."""
        seen: set[str] = set()
        for held in self._held.values():
            # The first one of an attribute waits for the fewest tuples.
            promise = held.promise
            name = promise.attributes[0] if len(promise.patterns) == 1 else ""
            if not name or name in seen or not isinstance(promise.bound(name), int):
                continue
            seen.add(name)
            pieces = [self.pieces[number] for number in held.awaits]
            if all(has_ticks(piece.page, name) for piece in pieces):
                bound = min(least for piece in pieces if (least := piece.least(name)) is not None)
                if bound > self._reached.get(name, BEFORE_ALL):
                    self._reached[name] = bound
                    yield before(name, bound, assumed=promise.assumed)

    def _promised(self, promise: Punctuation) -> None:
        if len(promise.patterns) == 1 and isinstance(bound := promise.bound(name := promise.attributes[0]), int):
            self._reached[name] = max(bound, self._reached.get(name, bound))

    def released(self) -> list[int]:
        """Return the numbers of the pieces that waited for promises, all of which have left by now."""
        found: list[int] = []
        for number, piece in self.pieces.items() if self._left else ():
            if piece.behind:
                piece.behind.difference_update(self._left)
                if not piece.behind:
                    found.append(number)
        self._left.clear()
        return found

    def open(self) -> Iterator[tuple[int, Page]]:
        """Yield the pieces that wait for an answer."""
        return ((number, piece.page) for number, piece in self.pieces.items() if not piece.behind)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _grow(self, page: Page, sign: int) -> None:
        self.tuples += sign * len(page)
        self._size += sign * page.batch.nbytes

    def _waiting(self) -> _Saved:
        """Return what waits in the form in which it is saved."""
        pages = [piece.page for piece in self.pieces.values()]
        # Of the streams of a meld some may come with attributes that nobody reads.
        names = [name for name in pages[0].schema.names if all(name in page.schema for page in pages)] if pages else []
        return _Saved(
            [only(page, names) for page in pages],
            np.array([len(page) for page in pages], np.int64),
            np.array(list(self.pieces), np.int64),
            [(held.promise, number) for number, held in self._held.items()],
        )

    def _become(self, saved: _Saved) -> None:
        if sum(map(len, saved.pages)) != int(saved.sizes.sum()):
            raise ValueError('the saved state has another number of tuples in "outstanding" than "sizes" says')
        promises: dict[int, Punctuation] = {}
        for one in saved.promises:
            match one:
                case (Punctuation() as promise, int(number)):
                    promises[number] = promise
                case _:
                    raise ValueError('the saved state has no promises with their numbers in "promises"')
        if max([*promises, *saved.numbers.tolist()], default=-1) >= self._next:
            raise ValueError('the saved state has a number of what waits that is not below "next"')
        start = 0
        for number, size in zip(saved.numbers.tolist(), saved.sizes.tolist(), strict=True):
            self.pieces[number] = piece = Piece(saved.pages[0].slice(start, start + size))
            self._grow(piece.page, 1)
            start += size
            piece.behind.update(at for at, promise in promises.items() if at < number and piece.covered(promise))
        for number, promise in promises.items():
            earlier = ((at, piece) for at, piece in self.pieces.items() if at < number)
            awaits = {at for at, piece in earlier if promise.is_end or piece.covered(promise)}
            self._held[number] = _Held(promise, awaits)


def has_ticks(page: Page, name: str) -> bool:
    """Return whether a page has an attribute, and its values are whole numbers or times."""
    if name not in page.schema:
        return False
    kind = page.schema.arrow.field(name).type
    return pa.types.is_integer(kind) or pa.types.is_temporal(kind)
