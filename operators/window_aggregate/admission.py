"""Admission bounds the groups of an aggregate: beyond a limit new ones are refused, and counted by window.

What is admitted depends on the tuples, the promises and the limit, tuple by tuple, and not on pages: bytes are reckoned
by key and slice, from what functions take. A window that refused a group admits no other group from then on, so each
group that has a result in it has all of its tuples there; windows that come later admit groups again, once promises
have let go of enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import saved
from operators.data.keys import KeyIndex
from operators.data.memory import grown
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import part, prefixed, read_int, read_integers
from operators.data.schema import Schema
from operators.fresh import fresh
from operators.functions.sharing import accumulators
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows import admission as kernels
from operators.protocol import Element, Emit, Measured, Operator, Promises, RefusedIn, State, StateValue
from operators.streams.lanes import ADMITTED, deliver_with
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.facts import Grouping, windows_of
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.results import WID, WINDOW
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from punctuation import Punctuation

MOST_WINDOWS: Final = 1 << 17
"""Windows, at most, that one tuple may be in: they are counted one by one."""
_TOLD: Final = 1 << 16
"""Windows of which counts are kept, the latest ones."""
_TRIED: Final = 1 << 12
"""Slots that say how many bytes one takes."""
_ENTRY: Final = 24
"""Bytes beside what functions take: the numbers of the group, the slice, and the slot."""
_ALWAYS: Final = 1 << 20
"""Bytes that an operator may take without any group."""
_INDEXES: Final = 3
"""An index of keys here, one in the operator, and room in both."""
_SUMS: Final = "sums"

Ends: TypeAlias = dict[int, int]


def why_not_admitted(operator: Operator, schema: Schema) -> str:
    """Say why the groups of an operator over an input cannot be refused; nothing where they can."""
    if not isinstance(operator, WindowAggregate | SlicingAggregate | GroupAggregate):
        return "what it refused would be missing in results of other groups, or could not be counted by window"
    if not operator.by:
        return "it has no groups"
    if isinstance(operator, GroupAggregate):
        held = any(promise <= set(operator.by) for promise in schema.progress)
        return "its groups end one by one, by promises on what they are made by" if held else ""
    for window in windows_of(operator):
        if not isinstance(window, SlidingWindow):
            return f"tuples of {type(window).__name__} do not tell which windows they are in"
        if window.size > MOST_WINDOWS * window.slide:
            return f"each tuple is in {window.size // window.slide:,} windows, more than {MOST_WINDOWS:,}"
    return ""


def reckoned(operator: Operator, schema: Schema) -> tuple[int, int]:
    """Return the bytes that a key is reckoned to take, texts aside, and those of a key in one slice.

    >>> from operators.functions import count
    >>> reckoned(GroupAggregate({"n": count()}, ("k",)), Schema.of(k=pa.int64()))
    (96, 64)
    """
    assert isinstance(operator, Grouping)
    slots = accumulators(operator.functions.values(), schema)
    for accumulator in slots:
        accumulator.reserve(_TRIED)
    slot = sum(accumulator.nbytes for accumulator in slots) // _TRIED + _ENTRY
    each = windows_of(operator) if getattr(operator, "strategy", "") == "wid" else ()
    windows = max((-(-w.size // w.slide) for w in each if isinstance(w, SlidingWindow)), default=1)
    width = KeyIndex([schema.field(name) for name in operator.by]).width
    return _INDEXES * (8 * width + _ENTRY), 2 * slot * windows


@attrs.define(eq=False)
class Admission:
    """Stand before an aggregate and refuse the tuples of new groups beyond about `limit` bytes.

    Pass: what the aggregate gives, but groups in windows that lack some of their tuples. Keep: the keys that are
    admitted, the last promise that each of them waits for, and how many tuples each open window refused.
    Propagate: what the aggregate does. Cost: O(1) a tuple, and what it refuses O(windows) a page.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import tumbling
    >>> from punctuation import before
    >>> windows = SlicingAggregate({"w": tumbling("ts", 10)}, {"n": count()}, ("k",))
    >>> page = Page.of(Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"]), {"ts": [1, 2, 3], "k": [7, 8, 7]})
    >>> admission = Admission(windows, 250)
    >>> [(row["k"], row["n"]) for row in rows(drive(admission, [page, before("ts", 10)]))]
    [(7, 2)]
    >>> list(admission.refused())
    [RefusedIn(operator='', window='', wid=0, start=0, end=10, tuples=1)]
    """

    operator: Operator
    limit: int = attrs.field(validator=attrs.validators.ge(1))
    """Bytes of the groups that are admitted."""
    _own: Operator = attrs.field(init=False)
    _names: tuple[str, ...] = attrs.field(init=False)
    """Names of the windows; one that is empty where there are no several."""
    _windows: tuple[SlidingWindow, ...] = attrs.field(init=False)
    """Their specifications; none where groups have no windows."""
    _lateness: int = attrs.field(init=False)
    _attribute: str = attrs.field(init=False)
    """The attribute whose promises complete windows; empty where groups have none."""
    _input: Schema | None = attrs.field(init=False, default=None)
    _index: KeyIndex | None = attrs.field(init=False, default=None)
    _horizon: Int64s = attrs.field(init=False)
    """By id of a key, the promise that completes all its windows."""
    _since: Int64s = attrs.field(init=False)
    """By id of a key and specification, the first window in which it has all its tuples."""
    _cost: Int64s = attrs.field(init=False)
    """By id of a key, the bytes that go with it."""
    _opens: Int64s = attrs.field(init=False)
    _closed: Int64s = attrs.field(init=False)
    _costs: Int64s = attrs.field(init=False)
    _ends: Ends = attrs.field(init=False, factory=dict)
    """By horizon, the bytes that are let go of there."""
    _counts: list[dict[int, int]] = attrs.field(init=False)
    """By specification and window that is open, the tuples that it refused."""
    _told: list[tuple[int, int, int]] = attrs.field(init=False, factory=list)
    """Specification, window and count of windows that were released."""
    _sums: dict[str, int] = attrs.field(init=False, factory=lambda: {"shed": 0, "shed_partly": 0, "shed_windows": 0})
    _before: int = attrs.field(init=False, default=0)
    """Windows that refused tuples, and of which the counts are not kept any more."""

    def __attrs_post_init__(self) -> None:
        self._own = fresh(self.operator)
        named = isinstance(self.operator, SlicingAggregate) and self.operator.named
        given = getattr(self.operator, "windows", None)
        self._names = tuple(given) if named and isinstance(given, Mapping) else ("",)
        self._windows = tuple(window for window in windows_of(self.operator) if isinstance(window, SlidingWindow))
        self._lateness = int(getattr(self.operator, "lateness", 0))
        ticks = self._windows[0].wattr if self._windows else ""
        self._attribute = ticks if isinstance(self.operator, SlicingAggregate) else FROM if self._windows else ""
        self._counts = [{} for _ in self._names]
        self._closed = np.full(len(self._names), BEFORE_ALL)
        self._opens = np.full(len(self._names), BEFORE_ALL)
        self._costs = np.zeros(kernels.COSTS, np.int64)
        self._forget()

    def _forget(self) -> None:
        self._input, self._index, self._ends = None, None, {}
        self._horizon, self._cost = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._since = np.zeros((0, len(self._names)), np.int64)
        self._costs[:] = 0

    @property
    def inputs(self) -> int:
        return 1

    @property
    def _by(self) -> tuple[str, ...]:
        assert isinstance(self.operator, Grouping)
        return tuple(self.operator.by)

    def links(self) -> Sequence[Operator]:
        return (self._own,)

    def output_schema(self, *inputs: Schema) -> Schema:
        return self._own.output_schema(*inputs)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._take(page, None, emit)

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        """Take a page with the linear promises in it, each behind the tuples that it follows."""
        start, done = 0, 0
        positions, bounds = promises.positions, promises.bounds
        if promises.attribute == self._attribute:
            for number, bound in enumerate(bounds.tolist()):
                if not self._lets_go(bound):
                    continue
                stop = int(positions[number])
                own = attrs.evolve(
                    promises, positions=positions[done : number + 1] - start, bounds=bounds[done : number + 1]
                )
                self._take(page.slice(start, stop), own, emit)
                self._release(bound)
                start, done = stop, number + 1
        own = attrs.evolve(promises, positions=positions[done:] - start, bounds=bounds[done:])
        self._take(page.slice(start, len(page)), own, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._own.punctuate(punctuation, self._kept(emit), port)
        if punctuation.is_end:
            self._release(FOREVER)
            self._forget()
        elif self._attribute and isinstance(bound := punctuation.bound(self._attribute), int):
            self._release(bound)

    def _lets_go(self, bound: int) -> bool:
        """Return whether a promise may complete a window that is open."""
        found = self._opened(bound)
        return bool((found > self._opens).any())

    def _opened(self, bound: int) -> Int64s:
        """Return the first window that a promise leaves open, of each specification."""
        if self._attribute == FROM or not self._windows:
            return np.full(len(self._names), bound)
        most = FOREVER // 2
        at = max(-most, min(most, bound)) - self._lateness
        return np.array([window.complete(at) for window in self._windows], np.int64)

    def _release(self, bound: int) -> None:
        """Let go of the keys that no window waits for any more, and close the books of windows that are over."""
        opens = self._opened(bound)
        if not (opens > self._opens).any() and bound != FOREVER:
            return
        self._opens = np.maximum(opens, self._opens)
        reached = bound if self._attribute == FROM or bound == FOREVER else bound - self._lateness
        ended = [end for end in self._ends if end <= reached]
        self._costs[kernels.HELD] -= sum(self._ends.pop(end) for end in ended)
        if ended and self._index is not None:
            live = self._index.live()
            gone = live[self._horizon[live] <= reached]
            self._costs[kernels.HELD] -= int(self._cost[gone].sum())
            self._index.free(gone)
        for which, counts in enumerate(self._counts):
            over = sorted(wid for wid in counts if wid < opens[which] or bound == FOREVER)
            self._told += [(which, wid, counts.pop(wid)) for wid in over]
        if (more := len(self._told) - _TOLD) > 0:
            del self._told[:more]
            self._before += more

    def _take(self, page: Page, promises: Promises | None, emit: Emit) -> None:
        if len(page):
            taken = self._admitted(page)
            if taken is not None:
                if promises is not None:
                    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(taken)))
                    promises = attrs.evolve(promises, positions=before[promises.positions])
                page = page.select(taken)
        if len(page) or (promises is not None and len(promises.bounds)):
            deliver_with(self._own, page, promises, self._kept(emit))

    def _admitted(self, page: Page) -> Bools | None:
        """Return which tuples of a page are taken, None for all, and count those that are not."""
        index = self._index if self._index is not None else self._bind(page.schema)
        n, many = len(page), len(self._names)
        first, last, horizons = self._in_windows(page)
        columns = [page.column(name) for name in self._by]
        ids = index.find(columns)
        numbers, extra, where = self._unknown(index, columns, ids)
        new = len(extra)
        tuples = np.stack((ids, numbers, horizons, np.zeros(n, np.int64)), axis=1, dtype=np.int64)
        fresh, fresh_from = np.zeros((new, kernels.NEW), np.int64), np.zeros((new, many), np.int64)
        fresh[:, kernels.NEW_COST], fresh[:, kernels.ENTERED] = extra, -1
        until, taken = np.empty((n, many), np.int64), np.empty(n, np.bool_)
        self._costs[kernels.LIMIT] = self.limit if not self._beyond() else 0
        kernels.admit(
            tuples, first, last, self._opens, self._closed, self._horizon, self._since, fresh, fresh_from, self._costs,
            until, taken,
        )  # fmt: skip
        self._pay(horizons, tuples[:, kernels.PAID])
        chosen = np.flatnonzero(fresh[:, kernels.ENTERED] >= 0)
        if len(chosen):
            rows = pa.array(where[chosen])
            made = index.assign([column.take(rows) for column in columns])
            capacity = max(index.capacity, 2 * len(self._horizon)) if index.capacity > len(self._horizon) else 0
            self._horizon, self._cost = grown(self._horizon, capacity), grown(self._cost, capacity)
            self._since = grown(self._since, capacity)
            self._horizon[made] = fresh[chosen, kernels.NEW_HORIZON]
            self._since[made] = fresh_from[chosen]
            self._cost[made] = extra[chosen] + self._costs[kernels.KEY]
        return self._count(first, until, taken)

    def _unknown(self, index: KeyIndex, columns: Sequence[pa.Array], ids: Int32s) -> tuple[Int32s, Int64s, Int64s]:
        """Number the keys not known; return the number of each tuple's, the bytes of its texts, and a tuple of it."""
        numbers = np.full(len(ids), -1, np.int32)
        unknown = np.flatnonzero(ids < 0)
        if not len(unknown):
            return numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = pa.array(unknown)
        taken = [column.take(rows) for column in columns]
        numbers[unknown], introduced = KeyIndex(index.fields).assign_new(taken)
        where = unknown[introduced]
        extra = np.zeros(len(where), np.int64)
        for column in taken:
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
                plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                sizes = pc.fill_null(pc.binary_length(plain), 0).to_numpy(zero_copy_only=False)
                extra += _INDEXES * sizes[introduced].astype(np.int64)
        return numbers, extra, where

    def _in_windows(self, page: Page) -> tuple[Int64s, Int64s, Int64s]:
        """Return the windows that tuples are in, by specification, and the promise that completes all of them."""
        n, many = len(page), len(self._names)
        if not self._windows:
            return np.zeros((n, 1), np.int64), np.ones((n, 1), np.int64), np.ones(n, np.int64)
        if self._attribute == FROM:
            first, last = page.ticks(FROM), page.ticks(UNTIL)
            return first.reshape(n, 1).copy(), last.reshape(n, 1).copy(), last.copy()
        values, valid = page.ticks(self._attribute), page.valid(self._attribute)
        first, last = np.empty((n, many), np.int64), np.empty((n, many), np.int64)
        horizons = np.full(n, BEFORE_ALL)
        for which, window in enumerate(self._windows):
            begins, ends = window.wids(values)
            if valid is not None:
                ends = np.where(valid, ends, begins)
            first[:, which], last[:, which] = begins, ends
            some = begins < ends
            horizons = np.where(some, np.maximum(horizons, window.origin + ends * window.slide), horizons)
        return first, last, horizons

    def _pay(self, horizons: Int64s, paid: Int64s) -> None:
        some = paid > 0
        if some.any():
            found, inverse = np.unique(horizons[some], return_inverse=True)
            for end, size in zip(
                found.tolist(), np.bincount(inverse, paid[some]).astype(np.int64).tolist(), strict=True
            ):
                self._ends[end] = self._ends.get(end, 0) + size

    def _count(self, first: Int64s, until: Int64s, taken: Bools) -> Bools | None:
        lacks = np.zeros(len(taken), np.bool_)
        for which, counts in enumerate(self._counts):
            begins = np.maximum(first[:, which], self._opens[which])
            some = until[:, which] > begins
            if not some.any():
                continue
            lacks |= some
            edges, places = np.unique(np.concatenate((begins[some], until[some, which])), return_inverse=True)
            changes = np.bincount(places[: len(places) // 2], minlength=len(edges))
            changes = np.cumsum(changes - np.bincount(places[len(places) // 2 :], minlength=len(edges)))
            for at in np.flatnonzero(changes).tolist():
                for wid in range(int(edges[at]), int(edges[at + 1])):
                    if wid not in counts:
                        self._sums["shed_windows"] += 1
                    counts[wid] = counts.get(wid, 0) + int(changes[at])
        if not lacks.any():
            return None
        refused = int(np.count_nonzero(~taken))
        self._sums["shed"] += refused
        self._sums["shed_partly"] += int(np.count_nonzero(lacks)) - refused
        return taken if refused else None

    def _kept(self, emit: Emit) -> Emit:
        """Return an emit that leaves out groups in windows that lack tuples of theirs."""

        def keep(element: Element) -> None:
            if isinstance(element, Page) and len(element) and self._windows and self._index is not None:
                element = self._whole(element, self._index)
                if not len(element):
                    return
            emit(element)

        return keep

    def _whole(self, page: Page, index: KeyIndex) -> Page:
        wids = page.ticks(WID)
        if int(wids.min()) >= int(self._closed.max()):
            return page
        ids = index.find([page.column(name) for name in self._by])
        which = np.zeros(len(page), np.int64)
        if WINDOW in page.schema:
            places = pc.index_in(page.column(WINDOW), pa.array(self._names))
            which = places.to_numpy(zero_copy_only=False).astype(np.int64)
        lacking = (ids >= 0) & (self._since[ids, which] > wids)
        return page.select(~lacking) if lacking.any() else page

    def _bind(self, schema: Schema) -> KeyIndex:
        """Make the index for an input, and reckon what a key costs."""
        self._input = schema
        index = self._index = KeyIndex([schema.field(name) for name in self._by])
        self._costs[kernels.KEY], self._costs[kernels.CELL] = reckoned(self.operator, schema)
        return index

    def _beyond(self) -> bool:
        """Return whether functions hold so many values that the groups take far more than was reckoned."""
        return self.nbytes > 2 * self.limit + _ALWAYS

    @property
    def nbytes(self) -> int:
        """Count the bytes held."""
        found = getattr(self._own, "nbytes", None)
        if found is None:
            found = self._own.statistics().get("state_bytes", 0) if isinstance(self._own, Measured) else 0
        own = 0 if self._index is None else self._index.nbytes
        return int(found) + own + self._horizon.nbytes + self._since.nbytes + self._cost.nbytes

    def refused(self, label: str = "") -> Iterator[RefusedIn]:
        """Yield how many tuples each window refused, those that were released first; the last 65,536 of these.

        `label` is what the operator is called there.
        """
        still = ((which, *found) for which, counts in enumerate(self._counts) for found in sorted(counts.items()))
        for which, wid, tuples in (*self._told, *still):
            start, end = self._windows[which].extent(wid) if self._windows else (-FOREVER, FOREVER)
            yield RefusedIn(label, self._names[which], wid, start, end, tuples)

    @property
    def sheds(self) -> bool:
        """Return whether a tuple was refused."""
        return bool(self._sums["shed_windows"])

    def extents(self) -> Iterator[tuple[int, int]]:
        """Yield the first tick of each window that refused tuples, and the one behind its last."""
        for which, window in enumerate(self._windows):
            wids = {wid for specification, wid, _ in [*self._told] if specification == which}
            yield from (window.extent(wid) for wid in wids.union([*self._counts[which]]))

    def statistics(self) -> dict[str, int]:
        own = self._own.statistics() if isinstance(self._own, Measured) else {}
        return {**own, "state_bytes": self.nbytes, **self._sums}

    def state(self) -> State:
        state: State = prefixed("operator.", self._own.state())
        state |= {ADMITTED: True, "opens": self._opens, "closed": self._closed, "costs": self._costs}
        state |= {"told": np.array(self._told, np.int64).reshape(-1), "before": self._before}
        state |= {"ends": json.dumps([*self._ends.items()]), _SUMS: json.dumps(self._sums)}
        state["counts"] = json.dumps([[*counts.items()] for counts in self._counts])
        if self._index is not None and self._input is not None:
            state |= saved.save_input(self._input) | prefixed("index.", self._index.state())
            capacity = self._index.capacity
            state |= {"horizon": self._horizon[:capacity], "cost": self._cost[:capacity]}
            state["since"] = self._since[:capacity].reshape(-1)
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        if ADMITTED not in state:
            raise ValueError(
                "the state was saved without groups that were refused: which of its groups are whole is not known"
            )
        self._own.restore(part("operator.", state))
        many = len(self._names)
        self._opens = read_integers(state, "opens", length=many)
        self._closed = read_integers(state, "closed", length=many)
        self._costs = read_integers(state, "costs", length=kernels.COSTS)
        self._told = [tuple(row) for row in read_integers(state, "told", width=3).tolist()]
        self._before = read_int(state, "before", least=0)
        self._ends = {int(end): int(size) for end, size in json.loads(saved.read_text(state, "ends"))}
        self._sums |= {str(name): int(value) for name, value in json.loads(saved.read_text(state, _SUMS)).items()}
        counts = json.loads(saved.read_text(state, "counts"))
        self._counts = [{int(wid): int(number) for wid, number in found} for found in counts]
        self._input = saved.read_input(state)
        if self._input is not None:
            index = self._index = KeyIndex([self._input.field(name) for name in self._by])
            index.restore(part("index.", state))
            capacity = index.capacity
            self._horizon = read_integers(state, "horizon", length=capacity)
            self._cost = read_integers(state, "cost", length=capacity)
            self._since = read_integers(state, "since", width=many)
