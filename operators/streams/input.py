"""The source side of a plan: Input puts promises into a stream where punctuators make them, and meets late tuples.

A tuple is late when it matches a promise made before it, by a punctuator of this Input or by the stream itself. The
late policy (drop, refuse, divert, revise) is applied here. Promises take effect at tuple positions, not at page ends,
so counts and answers are the same at any page size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema
from operators.data.steps import in_steps, tick_number
from operators.errors import SchemaError
from operators.protocol import Emit, EmitsTogether, Promises
from operators.protocol_checks import fits
from operators.streams.broken_promises import breaks, broken_texts, spoken
from operators.streams.by_key import ByKey, Slowest
from operators.streams.clamp import Clamp
from operators.streams.key_clocks import KeyClocks
from operators.streams.late_tuples import LateTuples
from operators.streams.lateness import Lateness
from operators.streams.learnt_slack import LearntSlack
from operators.window.columns import into_steps
from punctuation import (
    NEVER,
    NO_TIME,
    Below,
    BlockEnd,
    Embedded,
    Equals,
    Ordered,
    Pattern,
    Progress,
    Punctuation,
    Punctuator,
    Scheduled,
    Slack,
    StreamViolation,
    before,
)
from punctuation.demanded_progress import known

Diverted: TypeAlias = Callable[[Page], None]
Wanted: TypeAlias = Callable[[Page], Bools]
_POLICIES = ("drop", "refuse", "divert", "revise")
FILTERED: Final = "late_filtered"
"""How late tuples are counted that no filter right behind lets through."""
_COUNTS = ("tuples", "pages", "late", FILTERED, "behind", "untimed", "stale", "promises", "ahead")
_EMPTY = np.empty(0, np.int64)


def count_late(page: Page, late: Bools, wanted: Wanted | None) -> tuple[int, int]:
    """Count the late tuples of a page that somebody wants, and those that no filter would let through."""
    number = int(late.sum())
    many = number if wanted is None else int(wanted(page.select(late)).sum())
    return many, number - many


@attrs.define
class Made:
    """Hold what the punctuators of one attribute promise within one page: bound `bounds[i]` after `positions[i]`."""

    attribute: str
    values: Int64s
    valid: Bools | None
    start: int
    """The bound in force before the page, NO_TIME when there is none."""
    positions: Int64s
    bounds: Int64s
    sure: bool = False
    """Whether none of the values can be below a bound in force before it."""

    def late(self, allow: int = 0) -> Bools | None:
        """Return which tuples are more than `allow` below the bound in force before them; None when none is."""
        if self.sure:
            return None
        n = len(self.values)
        timed = self.values if self.valid is None else np.where(self.valid, self.values, NEVER)
        if int(timed.min()) >= (int(self.bounds[-1]) if len(self.bounds) else self.start):
            return None
        starts = np.append(0, self.positions + 1)
        bounds = np.append(self.start, self.bounds)
        if allow:
            bounds = np.where(bounds > NO_TIME + allow, bounds - allow, NO_TIME)
        if starts[-1] == n:
            starts, bounds = starts[:-1], bounds[:-1]
        if not (np.minimum.reduceat(timed, starts) < bounds).any():
            return None
        return timed < np.repeat(bounds, np.diff(starts, append=n))

    def bound_before(self, indices: Int64s) -> Int64s:
        """Return the bound in force before each of these tuples."""
        return np.append(self.start, self.bounds)[np.searchsorted(self.positions, indices, side="left")]


@attrs.define
class Input(memory.Stateful):
    """Punctuate a stream and deal with the tuples that break what was promised (thesis 8.2, Input).

    *Pass* every tuple at once, cut where a promise stands, or, to an operator that takes them together, with the
    promises in the page. *Keep* the punctuators' memory and the promises in force. *Propagate* promises that arrive in
    the stream, once; those that say nothing new are counted as stale.
    Cost: two passes over a progressing attribute a page, and a slice a promise; never a step a tuple.

    `late`: "drop" leaves late tuples out; "refuse" raises StreamViolation at the first; "divert" leaves them out and
    hands them to `diverted`, with columns `broken` (the promise, as text) and `tuple` (number in the stream, from 0);
    "revise" passes them on and counts them as `behind`: late is what a window then refuses. All others count them as
    late. A tuple without a value never matches a promise; it is counted as untimed.
    `allow`: a tuple below a linear promise by at most so many ticks is not late but passed on and counted as `behind`;
    right only where all that reads the stream refuses on its own what it has released, as Bucket and Guard do.

    A tuple that is further ahead than the `jump` of a punctuator moves no promise of it (`operators.streams.clamp`). It
    stays in the stream; those that nothing confirmed are counted as `ahead`.

    `wanted` tells which tuples of a page get through the filters right behind. A late tuple that does not is in no
    result anyway: where late ones are dropped it counts as `late_filtered`, not as late.

    `piece`: of the promises that stand within so many tuples of a page, only the last is made, behind them all. That
    costs those downstream one call for so many tuples rather than one for every promise, and changes when they release
    within a page, never what. Which tuples are late is still told by every promise, and a page of which late ones are
    passed on is cut at each.

    >>> from operators.drive import drive
    >>> from punctuation import END, Slack
    >>> schema = Schema.of(ts=pa.int64())
    >>> read = Input((Slack("ts", 2, step=5),))
    >>> for element in drive(read, [Page.of(schema, {"ts": [1, 4, 8, 2, 6, 3]}), END]):
    ...     print(element["ts"].tolist() if isinstance(element, Page) else element)
    [1]
    [ts < -5]
    [4]
    [ts < 0]
    [8]
    [ts < 5]
    [6]
    [END]
    >>> read.statistics()["late"]
    2
    """

    VERSION: ClassVar[int] = 2

    punctuators: tuple[Punctuator, ...] = attrs.field(default=(), converter=tuple, metadata=memory.plain())
    late: str = attrs.field(default="drop", kw_only=True)
    name: str = attrs.field(default="input", kw_only=True)
    diverted: Diverted | None = attrs.field(default=None, kw_only=True)
    allow: int = attrs.field(default=0, kw_only=True, validator=attrs.validators.ge(0))
    piece: int = attrs.field(default=1, kw_only=True, validator=attrs.validators.ge(1))
    wanted: Wanted | None = attrs.field(default=None, kw_only=True, eq=False)
    _progress: Progress = attrs.field(factory=Progress, init=False, metadata=memory.progress())
    _counts: dict[str, int] = attrs.field(init=False, metadata=memory.tally())
    _clamps: list[Clamp | None] = attrs.field(init=False, metadata=memory.plain(strict=False, since=1))
    """How far a tuple may move a promise, by punctuator."""
    lateness: dict[str, Lateness] = attrs.field(init=False, eq=False, metadata=memory.parts("lateness"))
    """For each attribute with a slack, or in order, how many tuples another slack would have made late."""
    late_tuples: LateTuples = attrs.field(init=False, factory=LateTuples, eq=False, metadata=memory.part())
    """Some of the tuples that broke a promise, and which one."""

    def __attrs_post_init__(self) -> None:
        # Promises by key judge each value by its own key.
        jumps = [None if isinstance(p, ByKey) else getattr(p, "jump", None) for p in self.punctuators]
        self._clamps = [None if jump is None else Clamp(jump) for jump in jumps]
        if self.late not in _POLICIES:
            raise ValueError(f'late = "{self.late}": write one of {", ".join(_POLICIES)}')
        if (self.late == "divert") != (self.diverted is not None):
            raise ValueError('late = "divert" and diverted = (a function that takes a page of late tuples) go together')
        self._counts = dict.fromkeys(_COUNTS, 0)
        self.lateness = {
            p.attribute: Lateness(p.step or 1, p.origin) for p in self.punctuators if isinstance(p, (Slack, Ordered))
        }

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        """Return the attributes without markers, and what the punctuators promise; SchemaError when one cannot."""
        (schema,) = inputs
        progress: set[frozenset[str]] = set(schema.progress)
        for punctuator in self.punctuators:
            attribute = self._named(schema, punctuator.attribute)
            field = schema.field(attribute)
            if not in_steps(field.type):
                raise SchemaError(
                    f'{self.name}: "{attribute}" has type {field.type}; a stream progresses on an integer, a time or a'
                    f" decimal\n  {into_steps(field)}"
                )
            progress.add(frozenset((attribute,)))
            if isinstance(punctuator, BlockEnd) and punctuator.block is not None:
                self._named(schema, punctuator.block)
            if isinstance(punctuator, ByKey):
                for name in punctuator.by:
                    self._named(schema, name)
                if punctuator.clocks is not None:
                    punctuator.clocks.check(schema, self.name)
            if isinstance(punctuator, Embedded):
                if punctuator.group:
                    progress.add(frozenset((attribute, *(self._named(schema, name) for name in punctuator.group))))
                if not pa.types.is_boolean(schema.field(self._named(schema, punctuator.marker)).type):
                    raise SchemaError(f'{self.name}: the marker "{punctuator.marker}" must be a boolean attribute')
        kept = _without(schema, [p.marker for p in self.punctuators if isinstance(p, Embedded)])
        if self.late == "divert" and ("broken" in kept or "tuple" in kept):
            raise SchemaError(f'{self.name}: late="divert" adds "broken" and "tuple"; the stream has them already')
        return kept.with_progress(progress)

    def diverted_schema(self, schema: Schema) -> Schema:
        """Return the schema of the pages of late tuples that are handed to `diverted`."""
        kept = _without(schema, [p.marker for p in self.punctuators if isinstance(p, Embedded)])
        return Schema(pa.schema([*kept.arrow, pa.field("broken", pa.string()), pa.field("tuple", pa.int64())]))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        """Pass on a page, cut where promises stand; StreamViolation at the first late tuple when they are refused."""
        self._counts["pages"] += 1
        embedded = [p for p in self.punctuators if isinstance(p, Embedded)]
        if not embedded:
            self._take(page, emit)
            return
        marked = np.zeros(len(page), np.bool_)
        for punctuator in embedded:
            marked |= pc.fill_null(page.column(punctuator.marker), False).to_numpy(zero_copy_only=False)
        schema = _without(page.schema, [p.marker for p in embedded])
        tuples = Page(schema, page.batch.select(schema.names))
        start = 0
        for index in np.flatnonzero(marked).tolist():
            self._take(tuples.slice(start, index), emit)
            for punctuator in embedded:
                self._read_mark(page, index, punctuator, emit)
            start = index + 1
        self._take(tuples.slice(start, len(tuples)), emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        """Pass on a promise that stood in the stream, if it says anything new."""
        if not self._promise(punctuation, emit):
            self._counts["stale"] += 1

    def learn(self, counts: Mapping[str, int], highest: int, emit: Emit) -> None:
        """Count tuples that another Input took for this one, and promise what the highest value among them does.

        Only for a stream that is promised by its highest value, whenever it has come a step further.
        """
        for name, count in counts.items():
            self._counts[name] += count
        (punctuator,) = self.punctuators
        for bound in punctuator.observe(np.array([highest]))[1].tolist():
            self._promise(before(punctuator.attribute, bound), emit)

    def elapse(self, now: int, emit: Emit) -> None:
        """Let the punctuators know the time, in the unit of their attribute; emit what they conclude as assumed."""
        self.came(now)
        for punctuator, clamp in zip(self.punctuators, self._clamps, strict=True):
            if clamp is not None and getattr(punctuator, "lull", None) is not None:
                clamp.elapse(now)
            bound = punctuator.elapse(now)
            if bound is not None:
                self.late_tuples.assumed(punctuator.attribute, now)
                self._promise(before(punctuator.attribute, bound, assumed=True), emit)

    def came(self, now: int) -> None:
        """Note the time, in the unit of their attribute, for what another lull would have promised by now."""
        for punctuator in self.punctuators:
            if isinstance(punctuator, (Slack, Ordered)):
                self._lateness(punctuator).elapse(now)

    def statistics(self) -> dict[str, int]:
        """Count tuples read, late and untimed, promises made or passed on, stale ones; those behind if passed on.

        Those too far ahead to be believed are counted where a jump is too far, and late ones that filters would have
        dropped where there are some.
        """
        left_out = {"pages", "ahead"} if self.allow or self.late == "revise" else {"pages", "ahead", "behind"}
        if not self._counts[FILTERED]:
            left_out.add(FILTERED)
        counts = {name: count for name, count in self._counts.items() if name not in left_out}
        keyed = [p for p in self.punctuators if isinstance(p, ByKey)]
        if keyed:
            counts["keys"] = sum(punctuator.live for punctuator in keyed)
        learnt = [slack for punctuator in keyed if (slack := punctuator.learnt_slack) is not None]
        learnt += [punctuator.slack for punctuator in self.punctuators if isinstance(punctuator, LearntSlack)]
        if learnt:
            counts["learnt_slack"] = max(learnt)
        judges = [j for j in [*self._clamps, *(p for p in keyed if p.jump is not None)] if j is not None]
        return {**counts, "ahead": self._counts["ahead"] + sum(judge.ahead for judge in judges)} if judges else counts

    def choice(self) -> str:
        """Say which slack is learnt now, and from what; nothing where it is given."""
        return "; ".join(
            f"slack {p.slack:,} ticks of {p.attribute}, learnt from {p.counted:,} tuples so that at most"
            f" {p.late_per_million / 10_000:g} % are late, changed {p.changes:,} times"
            for p in self.punctuators
            if isinstance(p, LearntSlack) and p.counted
        )

    def counts_of(self, attribute: str) -> Lateness | None:
        """Return the counts of how late tuples are by an attribute, None where no slack is given for it."""
        keyed = (p.lateness for p in self.punctuators if isinstance(p, ByKey) and p.attribute == attribute)
        return self.lateness.get(attribute) or next(keyed, None)

    def slowest(self) -> Slowest | None:
        """Return the live key that holds back a promise by key now; None where there is none."""
        found = (p.slowest() for p in self.punctuators if isinstance(p, ByKey))
        return next((slowest for slowest in found if slowest is not None), None)

    def _clocks(self) -> Iterator[KeyClocks]:
        """Yield the clocks of keys that are estimated."""
        yield from (p.clocks for p in self.punctuators if isinstance(p, ByKey) and p.clocks is not None)

    def clocks_off(self) -> tuple[dict[str, int], int, bool]:
        """Return by how many ns each clock that is off is ahead, how many are known, and if times are put right."""
        found = {key: ahead for clocks in self._clocks() for key, ahead in clocks.off()}
        return found, sum(clocks.count for clocks in self._clocks()), any(clocks.correct for clocks in self._clocks())

    def behind_by_key(self) -> dict[str, int]:
        """Return how many tuples were behind the stream's promise, by key; empty where promises are not by key."""
        found = (p.behind for p in self.punctuators if isinstance(p, ByKey))
        return next(found, {})

    @property
    def progress(self) -> Progress:
        """Return what has been promised downstream."""
        return self._progress

    def _take(self, page: Page, emit: Emit) -> None:
        """Take tuples in which no promise stands."""
        n = len(page)
        if n == 0:
            return
        for clocks in self._clocks():
            page = clocks.corrected(page)
        made = self._observe(page)
        behind = self._counts["behind"]
        late = self._late(page, made)
        if late is not None or self._counts["behind"] > behind:
            self._sample(page, made)
        for m in made:
            if len(m.positions):
                self.late_tuples.made(m.attribute, self._counts["tuples"] + int(m.positions[-1]))
        # What is passed on although it is late meets what was released before it, so each promise has its place.
        passed = self._counts["behind"] > behind or (late is not None and self.late == "revise")
        piece = 1 if passed else self.piece
        first = self._counts["tuples"]
        self._counts["tuples"] += n
        emitted = page
        kept_before: Int64s | None = None
        if late is not None:
            refused = int(late.argmax()) if self.late == "refuse" else n
            if self.late == "revise":
                self._counts["behind"] += int(late.sum())
            else:
                emitted = page.select(~late)
                kept_before = np.append(0, np.cumsum(~late))
                self._count_late(page, late)
            if self.late == "divert":
                self._divert(page, late, made, first)
            if refused < n:
                self._emit_cut(page.slice(0, refused), [m for m in made if len(m.positions)], None, piece, emit)
                raise self._violation(page, refused, made, first)
        self._emit_cut(emitted, [m for m in made if len(m.positions)], kept_before, piece, emit)

    def _count_late(self, page: Page, late: Bools) -> None:
        """Count tuples that are left out: the first where late ones are refused, else all, as who reads wants them."""
        if self.late == "refuse":
            self._counts["late"] += 1
            return
        many, unwanted = count_late(page, late, self.wanted if self.late == "drop" else None)
        self._counts["late"] += many
        self._counts[FILTERED] += unwanted

    def _emit_cut(self, page: Page, made: list[Made], kept_before: Int64s | None, piece: int, emit: Emit) -> None:
        """Emit a page in pieces, each promise after the tuple it follows; one of an attribute for `piece` tuples."""
        made = made if piece == 1 else _thinned(made, piece)
        if len(made) == 1 and len(page) and fits(emit, EmitsTogether):
            self._emit_together(page, made[0], kept_before, emit)
            return
        start = 0
        for position, attribute, bound in _in_order(made):
            end = position + 1 if kept_before is None else int(kept_before[position + 1])
            if end > len(page):
                break
            if end > start:
                emit(page.slice(start, end))
                start = end
            self._promise(before(attribute, bound), emit)
        if start < len(page):
            emit(page.slice(start, len(page)) if start else page)

    def _emit_together(self, page: Page, made: Made, kept_before: Int64s | None, emit: EmitsTogether) -> None:
        """Emit a page with the promises in it that say something new."""
        ends = made.positions + 1 if kept_before is None else kept_before[made.positions + 1]
        new = ends <= len(page)
        for i in np.flatnonzero(new).tolist():
            new[i] = self._progress.advance(before(made.attribute, int(made.bounds[i])))
        self._counts["promises"] += int(np.count_nonzero(new))
        if new.any():
            emit.together(page, Promises(made.attribute, ends[new], made.bounds[new]))
        else:
            emit(page)

    def _promise(self, punctuation: Punctuation, emit: Emit) -> bool:
        if not self._progress.advance(punctuation):
            return False
        self._counts["promises"] += 1
        emit(punctuation)
        return True

    def _observe(self, page: Page) -> list[Made]:
        """Hand the page's values to the punctuators; one entry an attribute."""
        found: dict[str, Made] = {}
        untimed: Bools | None = None
        for punctuator, clamp in zip(self.punctuators, self._clamps, strict=True):
            attribute = punctuator.attribute
            made = found.get(attribute)
            if made is None:
                values, valid = _values(page, attribute)
                bound = self._progress.bound(attribute)
                start = bound if isinstance(bound, int) else NO_TIME
                sure = isinstance(punctuator, Scheduled) and punctuator.surely(start)
                made = found[attribute] = Made(attribute, values, valid, start, _EMPTY, _EMPTY, sure)
                if valid is not None:
                    untimed = ~valid if untimed is None else untimed | ~valid
            else:
                made.sure = False
            values = made.values if clamp is None else clamp.believed(made.values)
            if isinstance(punctuator, BlockEnd) and punctuator.block is not None:
                positions, bounds = punctuator.observe_blocks(values, _values(page, punctuator.block)[0])
            elif isinstance(punctuator, ByKey):
                fields, columns = zip(*((page.schema.field(n), page.column(n)) for n in punctuator.by), strict=True)
                positions, bounds = punctuator.observe_keys(values, fields, columns)
            else:
                positions, bounds = punctuator.observe(values)
                self._count_slacks(punctuator, values)
            if len(positions):
                made.positions, made.bounds = _rising(made, positions, bounds)
        if untimed is not None:
            self._counts["untimed"] += int(untimed.sum())
        return list(found.values())

    def _count_slacks(self, punctuator: Punctuator, values: Int64s) -> None:
        """Count how late tuples are, where another slack would be possible."""
        if not isinstance(punctuator, (Slack, Ordered)):
            return
        true, less = known(punctuator), punctuator.slack if isinstance(punctuator, Slack) else -punctuator.strictly
        self._lateness(punctuator).observe(values, NO_TIME if true is None else true + less, less)

    def _lateness(self, punctuator: Slack | Ordered) -> Lateness:
        """Return the counts of an attribute, new ones where promises are made otherwise from now on."""
        attribute, step = punctuator.attribute, punctuator.step or 1
        lateness = self.lateness.get(attribute)
        if lateness is None or (lateness.step, lateness.origin) != (step, punctuator.origin):
            lateness = self.lateness[attribute] = Lateness(step, punctuator.origin)
        return lateness

    def _late(self, page: Page, made: list[Made]) -> Bools | None:
        """Return which tuples match a promise made before them, shape (n,); None when none does."""
        linear = self._progress.linear
        standing = self._standing(page, {m.attribute for m in made}) if self.allow else []
        checked = [m.attribute for m in [*made, *standing] if isinstance(linear.get(m.attribute, NO_TIME), int)]
        late = breaks(page, self._progress, besides=checked)
        behind: Bools | None = None
        for m in [*made, *standing]:
            below = m.late()
            if below is not None:
                for punctuator in self.punctuators:
                    if isinstance(punctuator, ByKey) and punctuator.attribute == m.attribute:
                        punctuator.count_behind(below)
            if below is not None and self.allow:
                behind = below if behind is None else behind | below
                below = m.late(self.allow)
            if below is not None:
                late = below if late is None else late | below
        if behind is not None:
            self._counts["behind"] += int((behind if late is None else behind & ~late).sum())
        return late

    def _sample(self, page: Page, made: list[Made]) -> None:
        """Keep the tuple of a page that is furthest behind a promise."""
        for m in [*made, *self._standing(page, {m.attribute for m in made})]:
            below = m.late()
            if below is not None:
                kind = page.schema.field(m.attribute).type
                self.late_tuples.keep(m, below, self._counts["tuples"], kind, self.lateness.get(m.attribute))

    def _standing(self, page: Page, besides: set[str]) -> list[Made]:
        """Return the promises that came with the stream, as if made before this page."""
        linear = [(a, b) for a, b in self._progress.linear.items() if a not in besides and isinstance(b, int)]
        return [Made(a, *_values(page, a), int(b), _EMPTY, _EMPTY) for a, b in linear]

    def _broken(self, page: Page, indices: Int64s, made: list[Made]) -> list[str]:
        bounds = {m.attribute: m.bound_before(indices) for m in made}
        return broken_texts(page.take(indices), self._progress, bounds)

    def _divert(self, page: Page, late: Bools, made: list[Made], first: int) -> None:
        assert self.diverted is not None
        indices = np.flatnonzero(late)
        batch = page.batch.take(pa.array(indices))
        arrays = [*batch.columns, pa.array(self._broken(page, indices, made), pa.string()), pa.array(indices + first)]
        schema = self.diverted_schema(page.schema)
        self.diverted(Page(schema, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)))

    def _violation(self, page: Page, index: int, made: list[Made], first: int) -> StreamViolation:
        (broken,) = self._broken(page, np.array([index]), made)
        for m in made:
            bound, value = int(m.bound_before(np.array([index]))[0]), int(m.values[index])
            if value < bound and (m.valid is None or m.valid[index]):
                kind = page.schema.field(m.attribute).type
                shown = f"{m.attribute} = {spoken(value, kind)}"
                behind = f"; it is {_distance(bound - value, kind)} behind: a slack larger by that allows it"
                break
        else:
            shown, behind = page.describe(index), ""
        return StreamViolation(
            f"{self.name} broke its promise: tuple {first + index} (page {self._counts['pages'] - 1}) has {shown}\n"
            f"  after the punctuation {broken}{behind}.\n"
            f'  late="drop" counts and drops such tuples, late="divert" hands them over with the promise they broke.'
        )

    def _read_mark(self, page: Page, index: int, punctuator: Embedded, emit: Emit) -> None:
        if page.column(punctuator.marker)[index].as_py() is not True:
            return
        patterns: dict[str, Pattern] = {}
        row = page.slice(index, index + 1).plain_rows()[0]
        for name in (*punctuator.group, punctuator.attribute):
            value = row[name]
            if value is not None:
                patterns[name] = Below(value) if name not in punctuator.group else Equals(value)
        # Without any value the row names no tuples: taken as a promise it would be END.
        if not patterns or not self._promise(Punctuation(patterns), emit):
            self._counts["stale"] += 1

    def _named(self, schema: Schema, name: str) -> str:
        """Check that an attribute is named by its own name: promises carry it, and timers know no schema to look in."""
        own = schema.resolve(name, where=self.name)
        if own != name:
            raise SchemaError(f'{self.name}: the punctuator names "{name}"; the attribute is called "{own}" here')
        return name


def _values(page: Page, attribute: str) -> tuple[Int64s, Bools | None]:
    values, valid = page.ticks(attribute), page.valid(attribute)
    return (values if valid is None else np.where(valid, values, NO_TIME)), valid


def _rising(made: Made, positions: Int64s, bounds: Int64s) -> tuple[Int64s, Int64s]:
    """Join promises of several punctuators on one attribute; keep those above all before them."""
    if len(made.positions):
        positions, bounds = np.append(made.positions, positions), np.append(made.bounds, bounds)
        order = np.lexsort((-bounds, positions))
        positions, bounds = positions[order], bounds[order]
    highest = np.maximum.accumulate(np.append(made.start, bounds))
    rises = bounds > highest[:-1]
    return positions[rises], bounds[rises]


def _in_order(made: list[Made]) -> list[tuple[int, str, int]]:
    """List the promises of a page by position; at one position in the order of the punctuators."""
    if len(made) == 1:
        m = made[0]
        return [(p, m.attribute, b) for p, b in zip(m.positions.tolist(), m.bounds.tolist(), strict=True)]
    listed = [
        (position, place, bound)
        for place, m in enumerate(made)
        for position, bound in zip(m.positions.tolist(), m.bounds.tolist(), strict=True)
    ]
    return [(position, made[place].attribute, bound) for position, place, bound in sorted(listed)]


def _thinned(made: list[Made], piece: int) -> list[Made]:
    """Keep the last promise of each attribute within every `piece` tuples of a page, and make it behind them.

    A promise that is true behind a tuple is true behind later ones, so no page of a few tuples is left over at the end.
    """
    found: list[Made] = []
    for m in made:
        blocks = m.positions // piece
        last = np.append(blocks[1:] != blocks[:-1], True)
        ends = np.minimum((blocks[last] + 1) * piece, len(m.values)) - 1
        found.append(attrs.evolve(m, positions=ends, bounds=m.bounds[last]))
    return found


def _without(schema: Schema, names: list[str]) -> Schema:
    if not names:
        return schema
    return Schema(pa.schema([f for f in schema.arrow if f.name not in names]))


def _distance(ticks: int, kind: pa.DataType) -> str:
    """Return a difference of two values: seconds for timestamps."""
    if not pa.types.is_timestamp(kind):
        return tick_number(ticks, kind)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    return f"{ticks / per_second:.9f}".rstrip("0").rstrip(".") + " s"
