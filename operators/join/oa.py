"""OA-Join joins two streams in whatever order tuples come: it waits for nothing, and keeps what may still be met."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import Ids
from operators.data.page import ROWS, Bools, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Expression
from operators.join.bounds import latest
from operators.join.cardinality import CARDINALITIES, Cardinality, KeyCheck, checks
from operators.join.memory import Candidates, Memory
from operators.join.policy import Policy
from operators.join.promises import Promises, Punctuate
from operators.join.segments import Found
from operators.join.shape import KINDS, Columns, Kind, Shape, fit
from operators.join.store import UNLIMITED
from operators.join.tuples import Tuples
from operators.join.window import JoinWindow, check_window, unsettled, usable
from operators.kernels.ticks import FOREVER
from operators.protocol import Emit
from operators.retractions import refused
from punctuation import END, Punctuation, Range, whole

_NOT_UNIQUE = "not_unique"
_COUNTERS = (
    "not_stored", "purged", "results", "unmatched", "unjoinable", "without_value", "peak_state_tuples", _NOT_UNIQUE,
)  # fmt: skip
_PROMISES = attrs.validators.in_(("individual", "joint", "both"))


@attrs.define(eq=False)
class OAJoin(memory.Stateful):
    """Join the tuples of two inputs whose times are within a window of each other and whose keys are equal.

    Gives the attributes of the left tuple, then those of the right, `prefix` before a name that the left has too;
    `attributes` leaves out all others. `least` and `greatest` name further attributes, the lesser and the greater of
    both times. `residual` is a predicate on attributes of both. `kind`: "inner"; "left", "right" and "full" give tuples
    without a partner once, beside nulls; "semi" and "anti" give the left tuples that have a partner, or none, once, as
    they are. Null equals nothing, also not null; NaN equals NaN. `cardinality`: "many to one" states that the right
    `on` attributes are a key, so that a left tuple has at most one partner; it is not kept once it met one ("one to
    many", "one to one" alike). Tuples that break the statement are counted (`not_unique`), and some of their pairs may
    be missing.

    Pass: a pair when the later of its tuples comes; a tuple without a partner with the promise that settles it.
    Keep: the tuples that a later one of the other input may meet: one whose partners have all passed is never stored,
    and the other input's promise, linear or of single keys, drops it exactly when it has none to come.
    Propagate: `[left time < v]`, `[right time < u]`, and jointly `[left time < v, right time < u]`, as tight as what is
    promised and stored allows; the like of single keys; other promises of an input when no stored tuple matches them.
    Cost: O(1) a tuple and O(1) a pair, and O(log n) for a key of many; what is outside a tuple's band costs nothing.
    A promise costs what it drops. `patience` is how many looks at a stored page by pages of the other input are
    cheaper than to index it; 0 indexes all at once.
    Source: thesis Fig 7-1 to 7-4 and 3.2 with docs/semantics.md rows 22 to 32.

    >>> from operators.drive import drive, rows
    >>> from operators.join.window import Band
    >>> from punctuation import before
    >>> schema = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])
    >>> join = OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")], attributes=["ts", "right_ts"])
    >>> output = join.output_schema(schema, schema)
    >>> one, other = Page.of(schema, {"ts": [7], "k": ["a"]}), Page.of(schema, {"ts": [10, 6], "k": ["a", "a"]})
    >>> found = drive(join, [(0, one), (1, other), (0, before("ts", 8)), (1, before("ts", 9))])
    >>> rows(found), [str(e) for e in found if isinstance(e, Punctuation)]
    ([{'ts': 7, 'right_ts': 6}], ['[ts < 7]', '[right_ts < 6]', '[right_ts < 9, ts < 8]'])
    """

    window: JoinWindow
    on: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=lambda pairs: tuple((a, b) for a, b in pairs))
    residual: Expression | None = attrs.field(default=None, kw_only=True)
    kind: Kind = attrs.field(default="inner", kw_only=True, validator=attrs.validators.in_(KINDS))
    prefix: str = attrs.field(default="right_", kw_only=True)
    attributes: tuple[str, ...] = attrs.field(default=(), converter=tuple, kw_only=True)
    least: str = attrs.field(default="", kw_only=True)
    greatest: str = attrs.field(default="", kw_only=True)
    promises: Punctuate = attrs.field(default="both", kw_only=True, validator=_PROMISES)
    cardinality: Cardinality = attrs.field(
        default="many to many", kw_only=True, validator=attrs.validators.in_(tuple(CARDINALITIES)),
        metadata={memory.PARAMETER_ADDED: True},
    )  # fmt: skip
    patience: int = attrs.field(default=8, kw_only=True, validator=attrs.validators.ge(0))
    in_order: bool = attrs.field(default=False, kw_only=True)
    """Give the pairs that an arriving page makes in the order of its tuples."""
    page_rows: int = attrs.field(default=ROWS, kw_only=True, validator=attrs.validators.ge(1))
    """Most tuples in a page of results, so that many pairs stream out instead of filling the memory."""
    _shape: Shape | None = attrs.field(
        init=False,
        default=None,
        metadata=memory.bound(
            "output_schema", "right", name="left", of=lambda join: join._shape and join._shape.inputs
        ),
    )
    _memory: Memory = attrs.field(init=False, metadata=memory.part())
    _told: Promises = attrs.field(init=False, metadata=memory.part())
    _checks: dict[int, KeyCheck] = attrs.field(init=False, factory=dict, metadata=memory.parts("unique"))
    """What checks that the equality attributes of an input are a key, by its port."""
    _single: bool = attrs.field(init=False, default=False)
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTERS, 0), metadata=memory.counters(added=(_NOT_UNIQUE,))
    )

    def __attrs_post_init__(self) -> None:
        check_window(self.window)

    retracted = refused

    @property
    def inputs(self) -> int:
        return 2

    def __len__(self) -> int:
        """Return the number of stored tuples."""
        return 0 if self._shape is None else len(self._memory)

    def output_schema(self, *inputs: Schema) -> Schema:
        shape = fit(
            inputs,
            self.window,
            on=self.on,
            residual=self.residual,
            kind=self.kind,
            prefix=self.prefix,
            attributes=self.attributes,
            extremes=(self.least, self.greatest),
            individual=self.promises != "joint",
            joint=self.promises != "individual",
            once=CARDINALITIES[self.cardinality],
        )
        if self._shape is None or self._shape.inputs != shape.inputs:
            self._shape = shape
            self._memory = Memory(shape, self.window, self._policy(0 if any(shape.once) else self.patience))
            self._checks = checks(self.cardinality, shape.keys, shape.on, shape.wattrs, self.window)
            self._told = Promises(shape, self.window, self.promises)
            nothing = np.empty(0, np.int64)
            self._single = self.residual is None and self.window.exact(nothing, nothing) is None
        return shape.output

    def _policy(self, patience: int) -> Policy:
        """Return what decides which pages lie plain."""
        return Policy(patience)

    def needs(self, wanted: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Name the attributes of each input that the join looks at, or that some attributes of the result come from."""
        shape = self._fitted()
        looked: tuple[set[str], set[str]] = (set(), set())
        for port in (0, 1):
            looked[port].update(name for name, out in shape.names[port].items() if out in wanted)
            looked[port].update((*shape.on[port], shape.wattrs[port]))
        for port, number in shape.asked:
            looked[port].add(shape.inputs[port].names[number])
        return frozenset(looked[0]), frozenset(looked[1])

    def promised_when(self, attribute: str, bound: int) -> Sequence[tuple[int, str, int]]:
        """Return what suffices for a promise on a time: its own input's, and the other's until no partner can come."""
        shape = self._fitted()
        times = shape.wattrs
        for port in (0, 1):
            if shape.names[port].get(times[port]) == attribute:
                return (port, times[port], bound), (1 - port, times[1 - port], unsettled(self.window, bound, port))
        if attribute == shape.extremes[1]:
            return (0, times[0], bound), (1, times[1], bound)
        return [(port, times[port], unsettled(self.window, bound, 1 - port)) for port in (0, 1)]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        shape, memory = self._fitted(), self._memory
        page, tuples = self._arriving(shape, page, port, emit)
        if len(page) == 0:
            return
        if (check := self._checks.get(port)) is not None:
            self._counts[_NOT_UNIQUE] += check.came(tuples)
        memory.policy.saw(port, tuples.ticks)
        met, plain = memory.met(tuples, port), memory.policy.plain(tuples, port)
        tuples, stays = memory.number(tuples, port, met, plain=plain)
        struck: list[tuple[Candidates, Ids]] = []
        # A semi or anti join asks of a left tuple only whether there is a partner.
        limit = 1 if self._single and shape.filtering and port == 0 else UNLIMITED
        blind = self._single and shape.tells_all(port)
        for some in memory.candidates(tuples, port, met, limit=limit, size=self.page_rows, blind=blind):
            pairs = self._accepted(shape, page, tuples, port, some)
            if len(pairs.rows) == 0:
                continue
            if shape.filtering and port == 1:
                struck += self._first_partner(shape, pairs, tuples.ids, emit)
                continue
            if tuples.matched is not None:
                tuples.matched[pairs.rows] = 1
            if not shape.filtering:
                if shape.once[1 - port]:
                    struck += self._first_partner(shape, pairs, tuples.ids, emit)
                elif shape.tracked[1 - port]:
                    pairs.found.mark()
                self._emit_pairs(shape, page, port, pairs, emit)
        memory.strike(struck, 1 - port)
        if struck and shape.filtering:
            self._tell(False, emit)
        self._keep(shape, page, port, tuples, stays, plain, emit)
        memory.tidy(tuples)
        if struck and not shape.filtering:
            # Promises on the time of the arriving input count with what has just been stored of it.
            self._tell(False, emit)
        self._counts["peak_state_tuples"] = max(self._counts["peak_state_tuples"], len(memory))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        shape, memory = self._fitted(), self._memory
        if memory.bounds.linear[port] == FOREVER:
            return
        bound = whole(punctuation.bound(shape.wattrs[port]))
        if punctuation.is_end:
            self._advance(shape, port, FOREVER, punctuation, emit)
        elif bound is not None:
            if latest(bound) > memory.bounds.linear[port]:
                self._advance(shape, port, latest(bound), punctuation, emit)
        else:
            self._advance_keys(shape, port, punctuation, emit)

    def needless(self, port: int) -> Punctuation | None:
        """Return which tuples of an input show in nothing, since the other input has ended and none stored meets them.

        None where the other goes on, or a tuple of this input comes out without a partner, too.
        """
        shape = self._fitted()
        alone = ("left", "full", "anti") if port == 0 else ("right", "full")
        if self.kind in alone or self._memory.bounds.linear[1 - port] < FOREVER:
            return None
        latest = self._memory.sides[1 - port].latest(END)
        return (
            END if latest is None else Punctuation({shape.wattrs[port]: Range(self.window.reach(latest, 1 - port) + 1)})
        )

    def statistics(self) -> dict[str, int]:
        if self._shape is None:
            return {"state_tuples": 0, **self._counts}
        memory = self._memory
        left, right = memory.sides
        return {
            "state_tuples": len(memory),
            "state_bytes": memory.nbytes + sum(check.nbytes for check in self._checks.values()),
            "state_left": len(left),
            "state_right": len(right),
            "state_plain": sum(len(plain) for side in memory.sides for plain in side.plain),
            "keys": 0 if memory.index is None else len(memory.index),
            **self._counts,
        }

    def _fitted(self) -> Shape:
        if self._shape is None:
            raise SchemaError(
                "join: the schemas of both inputs are not known yet.\n"
                "  Call output_schema(left, right) before the first page."
            )
        return self._shape

    def _arriving(self, shape: Shape, page: Page, port: int, emit: Emit) -> tuple[Page, Tuples]:
        """Return the tuples that can have a partner; those without a key or a time come out, or go, at once.

        A time out of range may well have partners, which cannot be told: such a tuple is counted, and never given as
        one without.
        """
        wattr = shape.wattrs[port]
        page = self._in_range(page, wattr)
        ticks = page.ticks(wattr)
        low, high = self.window.partners(ticks, port)
        masks = [page.valid(wattr), *(_valid(page.column(name)) for name in shape.on[port])]
        able = low <= high
        for mask in masks:
            if mask is not None:
                able &= mask
        if not able.all():
            alone = page.select(~able)
            self._counts["unjoinable"] += len(alone)
            if shape.outer[port]:
                self._emit_alone(shape, port, lambda i: alone.batch.column(i), len(alone), emit)
            page, ticks, low, high = page.select(able), ticks[able], low[able], high[able]
        columns = [page.batch.column(i) for i in shape.stored[port]]
        return page, Tuples(
            batch=pa.RecordBatch.from_arrays(columns, schema=shape.stored_schemas[port]),
            keys=shape.key_columns(page, port),
            ids=np.zeros(len(page), np.int32),
            ticks=ticks,
            low=low,
            high=high,
            matched=np.zeros(len(page), np.uint8) if shape.tracked[port] else None,
        )

    def _in_range(self, page: Page, wattr: str) -> Page:
        """Leave out tuples whose times are out of range; they are counted, and those that have none are too."""
        within, valid = usable(page.ticks(wattr)), page.valid(wattr)
        if valid is not None:
            self._counts["without_value"] += int(np.count_nonzero(~valid))
            # What stands where there is no value is no time at all.
            within = None if within is None else within | ~valid
        if within is None or within.all():
            return page
        self._counts["without_value"] += int(np.count_nonzero(~within))
        return page.select(within)

    def _accepted(self, shape: Shape, page: Page, tuples: Tuples, port: int, some: Candidates) -> Candidates:
        """Return the pairs that the window relates and that satisfy the residual predicate."""
        if self._single:
            return some
        stored = np.concatenate([segment.ticks[rows] for segment, rows in some.found.parts])
        own = tuples.ticks[some.rows]
        related = self.window.exact(own, stored) if port == 0 else self.window.exact(stored, own)
        if related is not None:
            some = some.select(related)
        accepted = shape.accepts(*self._columns(shape, page, port, some), len(some.rows))
        return some if accepted is None else some.select(accepted)

    def _columns(self, shape: Shape, page: Page, port: int, pairs: Candidates) -> tuple[Columns, Columns]:
        """Return how to get the attributes of both tuples of each pair, left and right."""
        rows, found = pa.array(pairs.rows), pairs.found
        places = {number: place for place, number in enumerate(shape.stored[1 - port])}
        equal = shape.equal[1 - port]

        def arriving(number: int) -> pa.Array:
            return pc.take(page.batch.column(number), rows, boundscheck=False)

        def stored(number: int) -> pa.Array:
            return arriving(equal[number]) if number in equal else found.column(places[number])

        return (arriving, stored) if port == 0 else (stored, arriving)

    def _emit_pairs(self, shape: Shape, page: Page, port: int, pairs: Candidates, emit: Emit) -> None:
        out = shape.page(*self._columns(shape, page, port, pairs), len(pairs.rows))
        if self.in_order and pairs.found.order is not None:
            out = out.take(np.argsort(pairs.rows, kind="stable"))
        self._counts["results"] += len(out)
        emit(out)

    def _emit_alone(self, shape: Shape, port: int, columns: Columns, length: int, emit: Emit) -> None:
        """Emit tuples without a partner: in an anti join as they are, in an outer join beside nulls."""
        self._counts["unmatched"] += length
        self._emit_pages(shape.page(*((columns, None) if port == 0 else (None, columns)), length), emit)

    def _emit_pages(self, page: Page, emit: Emit) -> None:
        for start in range(0, len(page), self.page_rows):
            emit(page.slice(start, min(start + self.page_rows, len(page))))

    def _first_partner(self, shape: Shape, pairs: Candidates, ids: Ids, emit: Emit) -> Iterator[tuple[Candidates, Ids]]:
        """Yield the stored tuples that had no partner before, and need none any more; emit those of a semi join."""
        start = 0
        for segment, rows in pairs.found.parts:
            distinct, places = np.unique(rows, return_index=True)
            assert segment.matched is not None
            fresh = segment.matched[distinct] == 0
            distinct, places = distinct[fresh], pairs.rows[start + places[fresh]]
            start += len(rows)
            if len(distinct) == 0:
                continue
            segment.matched[distinct] = 1
            found = Found([(segment, distinct)], None)
            if shape.kind == "semi":
                self._emit_left(shape, found, emit)
            yield Candidates(places, found, pairs.plain), ids[places]

    def _emit_left(self, shape: Shape, found: Found, emit: Emit) -> None:
        places = {number: place for place, number in enumerate(shape.stored[0])}
        length = sum(len(rows) for _, rows in found.parts)
        self._counts["results"] += length
        self._emit_pages(shape.page(lambda number: found.column(places[number]), None, length), emit)

    def _keep(
        self, shape: Shape, page: Page, port: int, tuples: Tuples, stays: Bools | None, plain: bool, emit: Emit
    ) -> None:
        """Store the tuples that may still meet a partner, and give those that have met none and will meet none."""
        matched = tuples.matched
        goes = None if stays is None else ~stays
        if goes is not None:
            self._counts["not_stored"] += int(goes.sum())
            if shape.outer[port] and matched is not None:
                alone = page.select(goes & (matched == 0))
                if len(alone):
                    self._emit_alone(shape, port, lambda i: alone.batch.column(i), len(alone), emit)
        if shape.filtering and port == 0 and matched is not None:
            done = matched == 1
            if shape.kind == "semi" and done.any():
                partnered = page.select(done)
                self._counts["results"] += len(partnered)
                self._emit_pages(shape.page(lambda i: partnered.batch.column(i), None, len(partnered)), emit)
            goes = done if goes is None else goes | done
        elif shape.once[port] and matched is not None:
            goes = matched == 1 if goes is None else goes | (matched == 1)
        if goes is not None and goes.any():
            tuples = tuples.select(~goes)
        self._memory.hold(tuples, port, plain=plain)

    def _gone(self, shape: Shape, port: int, dropped: list[Found], emit: Emit) -> None:
        """Emit the dropped tuples that had no partner, if the join keeps such."""
        for found in dropped:
            self._counts["purged"] += sum(len(rows) for _, rows in found.parts)
            if shape.outer[port]:
                alone = found.select(found.unmatched())
                length = sum(len(rows) for _, rows in alone.parts)
                if length:
                    places = {number: place for place, number in enumerate(shape.stored[port])}
                    self._emit_alone(shape, port, lambda i, a=alone, p=places: a.column(p[i]), length, emit)

    def _advance(self, shape: Shape, port: int, bound: int, punctuation: Punctuation, emit: Emit) -> None:
        memory, told = self._memory, self._told
        if (check := self._checks.get(port)) is not None:
            check.clear() if bound == FOREVER else check.advance(bound)
        memory.bounds.linear[port] = bound
        settled = told.settled(memory.bounds, 1 - port)
        self._gone(shape, 1 - port, memory.advance(port, bound, settled), emit)
        if all(b == FOREVER for b in memory.bounds.linear):
            memory.clear()
            emit(END)
            return
        self._tell(punctuation.assumed, emit)

    def _tell(self, assumed: bool, emit: Emit) -> None:
        """Promise what has become true."""
        memory, told = self._memory, self._told
        for promise in told.advanced(memory.bounds, memory.sides, assumed):
            emit(promise)
        for promise in told.settled_waiting(memory.bounds):
            emit(promise)
        if memory.index is not None:
            pinned = memory.bounds.pinned
            for promise in told.of_keys(memory.bounds, memory.sides, memory.index, pinned, named=False):
                emit(promise)

    def _advance_keys(self, shape: Shape, port: int, punctuation: Punctuation, emit: Emit) -> None:
        memory, told = self._memory, self._told
        if (check := self._checks.get(port)) is not None:
            check.advance_keys(punctuation)
        listed = False
        if memory.names_keys(port, punctuation):
            ids, listed = memory.lift(port, punctuation)
            settled = told.settled_keys(memory.bounds, 1 - port, ids)
            dropped = memory.drop_keys(1 - port, ids, settled)
            self._gone(shape, 1 - port, dropped, emit)
            if listed and memory.index is not None:
                for promise in told.of_keys(memory.bounds, memory.sides, memory.index, ids, named=True):
                    emit(promise)
            if dropped:
                self._tell(punctuation.assumed, emit)
        if not listed:
            for promise in told.settled_by_keys(1 - port, memory.without_partners):
                emit(promise)
            for promise in told.wait(port, punctuation, memory.sides[port], memory.without_partners):
                emit(promise)


def _valid(column: pa.Array) -> Bools | None:
    """Return which values are not null, shape (n,); None when all are."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return None if column.null_count == 0 else np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
