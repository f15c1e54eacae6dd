"""A guard gives a reader of a stream the promises that it needs, and no tuple that is too late for it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.pace import Pace, Paces
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit
from operators.retractions import as_it_is
from operators.streams.input import FILTERED, Wanted, count_late
from punctuation import NO_TIME, Progress, Punctuation, before


@attrs.define(eq=False)
class Guard(memory.Stateful):
    """Leave out the tuples whose attribute is below what was promised of it, by promises as fine as one reader needs.

    With a `step`, promises on the attribute are rounded down to origin + k * step, as the reader would have them if
    nobody else asked for finer ones, and tuples are judged by these; those at most `allow` below pass.
    Pass: every other tuple at once, and those without a value. Keep: the promise. Propagate: every promise; those on
    the attribute when they reach another step. Late tuples are left out and counted; those that are not `wanted`, as no
    filter right behind lets them through, count as `late_filtered`. Cost: one comparison a tuple.
    Source: thesis 6.1.5.2; semantics, "in force everywhere".

    >>> from operators.drive import drive
    >>> import pyarrow as pa
    >>> from punctuation import before
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3]})
    >>> drive(Guard("ts"), [before("ts", 5), page])[1].plain_rows()
    [{'ts': 7}]
    >>> promise, page = drive(Guard("ts", 3), [before("ts", 5), page])
    >>> str(promise), page.plain_rows()
    ('[ts < 3]', [{'ts': 7}, {'ts': 3}])
    """

    attribute: str
    step: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    origin: int = 0
    allow: int = attrs.field(default=0, kw_only=True, validator=attrs.validators.ge(0))
    wanted: Wanted | None = attrs.field(default=None, kw_only=True, eq=False)
    _progress: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _late: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _filtered: int = attrs.field(init=False, default=0, metadata=memory.integer(name=FILTERED))

    retracted = as_it_is

    @property
    def inputs(self) -> int:
        return 1

    @property
    def behind(self) -> int:
        """Return by how many ticks at most a tuple that passes is below what was promised here."""
        return self.allow + (0 if self.step is None else self.step - 1)

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        schema.field(self.attribute, where="guard")
        return schema

    def together(self, *inputs: Schema) -> Together:
        return Together.anywhere(inputs[0].names)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted | {self.attribute}]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [wanted if self.step is None else {**wanted, self.attribute: Pace(self.step, self.origin)}]

    def counting(self, wanted: Wanted | None) -> Guard:
        return attrs.evolve(self, wanted=wanted)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        bound = self._progress.bound(self.attribute)
        if isinstance(bound, int) and bound > NO_TIME + self.allow and len(page):
            late = page.ticks(self.attribute) < bound - self.allow
            if (valid := page.valid(self.attribute)) is not None:
                late &= valid
            if late.any():
                many, unwanted = count_late(page, late, self.wanted)
                self._late += many
                self._filtered += unwanted
                page = page.select(~late)
        if len(page):
            emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bound = punctuation.bound(self.attribute)
        if bound is not None:
            if self.step is not None and isinstance(bound, int):
                bound -= (bound - self.origin) % self.step
                punctuation = before(self.attribute, max(bound, NO_TIME), assumed=punctuation.assumed)
                if bound <= NO_TIME or self._progress.implies(punctuation):
                    return
            self._progress.advance(punctuation)
        emit(punctuation)

    def statistics(self) -> dict[str, int]:
        filtered = {FILTERED: self._filtered} if self._filtered else {}
        return {"late": self._late, **filtered, "state_tuples": 0}
