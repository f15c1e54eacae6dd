"""A filter with an expensive condition: tuples that cheap conditions decide overtake those that wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.background import Answer, Background, Failed
from operators.data import memory
from operators.data.page import Bools, Page, concatenate
from operators.data.schema import Schema
from operators.expression import Bound, Expression
from operators.expression.expensive import WORKERS, limits
from operators.overflow import Overflow
from operators.plan_facts import Attributes, InOrder
from operators.protocol import Emit, Promises
from operators.retractions import Retracted, Retracting
from operators.rows.filter import Filter
from operators.streams.outstanding import Outstanding, has_ticks
from punctuation import Punctuation

_LEAST: Final = 16
"""Tuples of a call at least, if a page has more than that for each worker."""
_COUNTS: Final = ("decided", "evaluated", "peak_state_tuples", "peak_state_bytes")


@attrs.define(eq=False)
class DeferredFilter(memory.Stateful):
    """Pass on the tuples that satisfy a predicate with expensive parts, as soon as each is decided.

    With a background, calls for some tuples each compute the predicate where cheap conditions leave it open.
    Pass: a tuple that is decided, at once. Keep: the tuples that are not. Propagate: a promise when all tuples that it
    covers are decided; it waits for no others, and a linear one is made up to the lowest of them meanwhile. A tuple
    that comes behind a promise that covers it leaves behind it.
    Without a background, everything is decided at once.
    Cost: the predicate's; O(pieces that wait) a promise. Source: thesis Fig 8-3: A or B, where A is cheap.

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> from operators.expression.expensive import Expensive
    >>> page = Page.of(Schema.of(port=pa.int64(), x=pa.int64()), {"port": [53, 80, 81], "x": [1, 2, 3]})
    >>> rows(drive(DeferredFilter((Column("port") == 53) | Expensive(Column("x") > 2)), [page]))
    [{'port': 53, 'x': 1}, {'port': 81, 'x': 3}]
    """

    predicate: Expression = attrs.field(validator=attrs.validators.instance_of(Expression))
    workers: int = attrs.field(default=WORKERS, kw_only=True)
    _background: Background | None = attrs.field(default=None, kw_only=True, alias="background", repr=False)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _fitted: tuple[Schema, Bound, Bound, Bound] | None = attrs.field(init=False, default=None)
    _waiting: Outstanding = attrs.field(init=False, factory=Outstanding, metadata=memory.part())
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    @property
    def inputs(self) -> int:
        return 1

    def deferring(self, background: Background | None) -> DeferredFilter:
        return DeferredFilter(self.predicate, workers=self.workers, background=background)

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        self._fit(schema)
        return schema

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return name

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return Filter(self.predicate).retracted(found, *inputs)

    def carrying(self, name: str) -> DeferredFilter:
        return self

    def same_as(self, other: object) -> bool:
        return isinstance(other, DeferredFilter) and self.predicate.equals(other.predicate)

    def in_order(self, wanted: str | None, buffer: str, *inputs: Schema) -> InOrder | None:
        if wanted is None or not inputs[0].progressing(wanted):
            return None
        return InOrder(Filter(self.predicate), (wanted,), wanted, f"filter {self.predicate}")

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted | self.predicate.reads(inputs[0], where="plan")]

    @property
    def outstanding(self) -> int:
        return self._waiting.tuples

    @property
    def crowded(self) -> bool:
        # Promises that wait for different pieces are kept, too.
        waiting, background = self._waiting, self._background
        return background is not None and max(waiting.tuples, waiting.promises) >= background.most

    def statistics(self) -> dict[str, int]:
        self._measure()
        return {"state_tuples": self._waiting.tuples, "state_bytes": self._waiting.nbytes, **self._counts}

    def choice(self) -> str:
        asked, decided = self._counts["evaluated"], self._counts["decided"]
        if not asked + decided:
            return ""
        threads = "1 thread" if self.workers == 1 else f"{self.workers} threads"
        where = "in its place" if self._background is None else f"by {threads} in the background"
        return (
            f"cheap conditions decided {decided:,} of {asked + decided:,} tuples; the expensive one was computed"
            f" {where} for the others"
        )

    def mask(self, page: Page) -> Bools:
        """Return which tuples cheap conditions do not leave out; nobody is asked about the others."""
        return _true(self._fit(page.schema)[2].run(page), page)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._take_up(emit)
        if (late := self._waiting.late(page)) is not None:
            self._waiting.put_behind(page.select(late))
            page = page.select(~late)
        self._give([page.select(self._passing(page))], emit)

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        self._take_up(emit)
        pages = (page, *(piece.page for piece in self._waiting.pieces.values()))
        whole = all(has_ticks(one, promises.attribute) for one in pages)
        if not whole or _broken_within(page, promises) or self._waiting.late(page) is not None:
            for element in promises.one_by_one(page):
                if isinstance(element, Page):
                    self.process(element, emit)
                else:
                    self.punctuate(element, emit)
            return
        passing = self._passing(page)
        page, promises = page.select(passing), promises.among(passing)
        ready = self._waiting.hold_some(promises)
        attrs.evolve(promises, positions=promises.positions[:ready], bounds=promises.bounds[:ready]).hand_on(page, emit)
        if ready < len(promises.bounds):
            self._reach(emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._take_up(emit)
        if not self._waiting.hold(punctuation):
            emit(punctuation)
        else:
            self._reach(emit)

    def _take_up(self, emit: Emit) -> None:
        """Without a background, decide what a run that had one saved."""
        if self._background is None:
            self.take_answers(emit)

    def take_answers(self, emit: Emit) -> None:
        waiting = self._waiting
        if not waiting.pieces:
            return
        if self._background is None:
            found = [(number, self._now(page)) for number, page in waiting.open()]
        else:
            found = [self._answered(answer) for answer in self._background.answers()]
        done = {number for number, _ in found}
        passed = [waiting.remove(number).select(passing) for number, passing in found]
        while done or passed:
            self._give(passed, emit)
            for promise in waiting.leaving(done):
                emit(promise)
            done, passed = set(), []
            for number in waiting.released():
                # Late tuples, behind the promises that they break.
                page = waiting.pieces[number].page
                passes, left = self._decided(page)
                passed.append(page.select(passes))
                if not left.any():
                    waiting.remove(number)
                    done.add(number)
                    continue
                waiting.narrow(number, left_page := page.select(left))
                if self._background is None:
                    passed.append(waiting.remove(number).select(self._now(left_page)))
                    done.add(number)
                else:
                    self._submit(number, left_page)
        if found:
            self._reach(emit)

    def _reach(self, emit: Emit) -> None:
        """Promise what is true already of promises that wait."""
        for promise in self._waiting.within_reach():
            emit(promise)

    def _answered(self, answer: Answer) -> tuple[int, Bools]:
        number, found = answer
        if isinstance(found, Failed):
            raise found.error
        assert isinstance(found, tuple)
        passing, overflowed = found
        self.overflow.count += overflowed
        return number, passing

    def _give(self, pages: Iterable[Page], emit: Emit) -> None:
        alike: dict[int, list[Page]] = {}
        for page in pages:
            if len(page):
                alike.setdefault(id(page.schema), []).append(page)
        for some in alike.values():
            emit(concatenate(some[0].schema, some))

    def _passing(self, page: Page) -> Bools:
        """Return which tuples of a page pass now, shape (n,); of those that are open, the answers come later."""
        passes, left = self._decided(page)
        count = int(np.count_nonzero(left))
        if not count:
            return passes
        waiting = page.select(left)
        if self._background is None:
            passes[left] = self._now(waiting)
            return passes
        size = min(max(-(-count // self._background.workers), _LEAST), self._background.piece)
        for start in range(0, count, size):
            piece = waiting.slice(start, min(start + size, count))
            self._submit(self._waiting.add(piece), piece)
        self._measure()
        return passes

    def _decided(self, page: Page) -> tuple[Bools, Bools]:
        """Return which tuples pass by cheap conditions, and which these leave open, shape (n,) each."""
        _, least, most, _ = self._fit(page.schema)
        try:
            passes = _true(least.run(page), page)
            left = _true(most.run(page), page) & ~passes
        except (ArithmeticError, pa.ArrowInvalid):
            # Where an expensive condition decides, the cheap ones need not be defined.
            passes, left = np.zeros(len(page), np.bool_), np.ones(len(page), np.bool_)
        self._counts["decided"] += len(page) - int(np.count_nonzero(left))
        return passes, left

    def _now(self, page: Page) -> Bools:
        self._counts["evaluated"] += len(page)
        passing, overflowed = _evaluated(self._fit(page.schema)[3], page, self.overflow.forgiving)
        self.overflow.count += overflowed
        return passing

    def _submit(self, number: int, page: Page, *, again: bool = False) -> None:
        assert self._background is not None
        self._counts["evaluated"] += 0 if again else len(page)
        self._background.submit(number, partial(_evaluated, self._fit(page.schema)[3], page, self.overflow.forgiving))

    def _measure(self) -> None:
        for name, now in (
            ("peak_state_tuples", self._waiting.tuples), ("peak_state_bytes", self._waiting.nbytes),
        ):  # fmt: skip
            self._counts[name] = max(self._counts[name], now)

    def _after_restoring(self) -> None:
        if self._background is not None:
            for number, page in self._waiting.open():
                self._submit(number, page, again=True)

    def _fit(self, schema: Schema) -> tuple[Schema, Bound, Bound, Bound]:
        if self._fitted is None or not self._fitted[0].arrow.equals(schema.arrow, check_metadata=True):
            least, most = limits(self.predicate)
            # The plain filter refuses what is no truth value.
            Filter(self.predicate).output_schema(schema)
            self._fitted = (schema, least.bind(schema), most.bind(schema), self.predicate.bind(schema))
        return self._fitted


def _broken_within(page: Page, promises: Promises) -> bool:
    """Return whether a promise in a page covers a tuple behind it there."""
    ticks, valid = page.timed(promises.attribute)
    last = np.searchsorted(promises.positions, np.arange(len(page)), "right") - 1
    broken = (last >= 0) & (ticks < promises.bounds[np.maximum(last, 0)])
    return bool((broken if valid is None else broken & valid).any())


def _true(found: pa.Array | pa.Scalar, page: Page) -> Bools:
    """Return for which tuples of a page a condition is true, as an array that may be written; null is not true."""
    if isinstance(found, pa.Scalar):
        return np.full(len(page), found.as_py() is True)
    return np.array(found.fill_null(False).to_numpy(zero_copy_only=False))


def _evaluated(bound: Bound, page: Page, forgiving: bool) -> tuple[Bools, int]:
    """Return which tuples satisfy a predicate, and how many values were forgiven; an error names the first tuple."""
    overflow = Overflow(forgiving)
    try:
        found = overflow.evaluated(bound, page)
    except Exception as error:
        error.add_note(_at(bound, page))
        raise
    return _true(found, page), overflow.count


def _at(bound: Bound, page: Page) -> str:
    """Say at which tuple a predicate fails: it is in the first of two halves that fails, or else in the second."""
    low, high = 0, len(page)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            bound.evaluate(page.slice(low, middle))
        except Exception:  # the error that is raised is the first one
            high = middle
        else:
            low = middle
    return f"at the tuple {page.describe(low)}"
