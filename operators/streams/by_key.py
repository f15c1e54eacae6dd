"""A stream makes progress by key: each key as far as its own tuples are, the stream as far as the slowest live key.

One key whose clock is ahead makes no tuple of another late, and one that falls silent is waited for only so long.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data.distinct import distinct
from operators.data.group_text import group_text
from operators.data.keys import KeyIndex
from operators.data.memory import grown
from operators.data.page import Bools, Int64s
from operators.data.saved import decode_state, encode_state, part, prefixed, read_array, read_batch, read_int, read_text
from operators.data.schema import Schema
from operators.kernels.streams import by_key as kernels
from operators.protocol import State
from operators.streams.clamp import AGREE
from operators.streams.key_clocks import KeyClocks
from operators.streams.lateness import Lateness, rounded
from punctuation import NEVER, NO_TIME
from punctuation.plain import Plain

NAMED: Final = 1000
"""Keys that are named in counts, at most; what is behind of others is counted in one sum."""
_ROOM: Final = 16
_LATE: Final = "late."
_CLOCKS: Final = "clocks."
FOLLOWED: Final = 65_536
"""Tuples of which it is followed what shorter times of `idle` would have promised."""
_SHORTER: Final = ((3, 4), (1, 2), (1, 3), (1, 4), (1, 6), (1, 8))
"""The shares of `idle` that are followed."""


@attrs.frozen
class Slowest:
    """The live key that holds a promise back: how it reads, its bound, and how far the foremost key is beyond that."""

    key: str
    bound: int
    behind: int


@attrs.frozen
class ShorterIdle:
    """A shorter `idle`: the bound it would have promised, NO_TIME for none, and how many of `counted` made late."""

    idle: int
    promised: int
    late: int
    counted: int


@attrs.define(eq=False)
class ByKey:
    """Promise the least bound of all live keys; the bound of a key is its highest value less `slack`.

    `by` names the attributes of a key. A key is idle, and holds nothing back, after event time has moved on by `idle`
    without it: another key has had two tuples since, so far apart. That is counted in sixteenths of `idle`, so it
    takes up to an eighth longer. A key that comes back is new. Keys that were not heard as yet are waited for in the
    same way, so that nothing is promised before some key has come so far. A new key counts at once.

    `jump`: a value further ahead of its own key moves nothing until 16 of that key in a row are that far; of its first
    two values the lower one is believed. `lull`: the stream is live, so a key is also idle after `idle` by the clock;
    when all are, the time less `lull` is promised. `step` and `origin`: bounds are origin + k * step.

    `late_per_million`: `slack` is not given but learnt: of each key, so that at most so many of a million of its tuples
    are behind it, and twice what was seen of it and of all keys while these are too few to tell. One that is further
    behind than `jump` teaches nothing. It takes 4 kB a live key.

    The cut of the stream into pages does not change the promises. Cost: O(log keys) a tuple, and some 500 bytes a live
    key.

    >>> read = ByKey("ts", ("k",), slack=0, idle=16)
    >>> columns = [pa.field("k", pa.string())], [pa.array(["a", "b", "a", "a", "b", "a"])]
    >>> positions, bounds = read.observe_keys(np.array([100, 3, 115, 130, 4, 131]), *columns)
    >>> positions.tolist(), bounds.tolist()
    ([3, 4], [3, 4])
    >>> read.slowest()
    Slowest(key='k = b', bound=4, behind=127)
    """

    attribute: str
    by: tuple[str, ...] = attrs.field(converter=tuple)
    slack: int = attrs.field(kw_only=True, validator=attrs.validators.ge(0))
    idle: int = attrs.field(kw_only=True, validator=attrs.validators.ge(1))
    step: int | None = attrs.field(default=None, kw_only=True)
    origin: int = attrs.field(default=0, kw_only=True)
    lull: int | None = attrs.field(default=None, kw_only=True)
    jump: int | None = attrs.field(default=None, kw_only=True)
    late_per_million: int | None = attrs.field(default=None, kw_only=True)
    clocks: KeyClocks | None = attrs.field(default=None, kw_only=True)
    """The clocks of the keys, where they are estimated; times are put right before they are observed."""
    lateness: Lateness = attrs.field(init=False, repr=False)
    """How many tuples another slack would have made late, where it is given."""
    _index: KeyIndex | None = attrs.field(init=False, default=None, repr=False)
    _ids: np.ndarray[tuple[int], np.dtype[np.int32]] = attrs.field(init=False, repr=False)
    """The keys of the page that was observed last."""
    _keys: Int64s = attrs.field(init=False, repr=False)
    _parts: Int64s = attrs.field(init=False, repr=False)
    _places: Int64s = attrs.field(init=False, repr=False)
    _tree: Int64s = attrs.field(init=False, repr=False)
    _stream: Int64s = attrs.field(init=False, repr=False)
    _counts: Int64s = attrs.field(init=False, repr=False)
    """How late the tuples were, of all keys and of each, where the slack is learnt."""
    _learnt: Int64s = attrs.field(init=False, repr=False)
    _behind: dict[str, int] = attrs.field(init=False, factory=dict, repr=False)
    _others: int = attrs.field(init=False, default=0, repr=False)
    _shorter: tuple[ByKey, ...] = attrs.field(init=False, default=(), repr=False)
    """The same with shorter times of `idle`, of the same ids: of a key that is idle here each of them has no bound."""
    _followed: int | None = attrs.field(init=False, default=0, repr=False)
    """The tuples that those have had; None where they are not followed any more."""

    def __attrs_post_init__(self) -> None:
        self.lateness = Lateness(self.step or 1, self.origin)
        self._ids = np.empty(0, np.int32)
        self._keys = np.zeros((_ROOM, kernels.KEY_FIELDS), np.int64)
        self._parts = np.zeros((_ROOM, kernels.ROOM), np.int64)
        self._places = np.zeros((_ROOM, kernels.ROOM), np.int64)
        learns = self.late_per_million is not None
        if learns:
            self._followed = None
        self._counts = np.zeros((_ROOM + 1 if learns else 1, kernels.BUCKETS if learns else 1), np.int64)
        self._learnt = np.zeros((len(self._counts), kernels.LEARNT_FIELDS), np.int64)
        self._stream = np.zeros(kernels.STREAM_FIELDS, np.int64)
        self._stream[[kernels.PROMISED, kernels.NOW, kernels.BEGAN, kernels.REACHED]] = NO_TIME
        self._stream[[kernels.IDLE, kernels.OLDEST, kernels.NEWEST]] = -1
        self._stream[kernels.UNHEARD] = 1
        self._plant()

    def observe(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Raise ValueError: values mean nothing here without their keys."""
        raise ValueError(f"promises are made by {', '.join(self.by)}: hand the keys of the values to observe_keys")

    def observe_keys(
        self, values: Int64s, fields: Sequence[pa.Field], columns: Sequence[pa.Array]
    ) -> tuple[Int64s, Int64s]:
        """Read the next values and the columns of their keys, all of length n; say what is promised, and where.

        After `values[positions[i]]`, `[attribute < bounds[i]]` is promised. NO_TIME is no value; a null is a key.
        """
        if self._index is None:
            self._index = KeyIndex(list(fields))
        self._forget()
        self._ids = self._index.assign(columns)
        self._follow(values)
        return self._take(values, self._index.capacity)

    def _take(self, values: Int64s, capacity: int) -> tuple[Int64s, Int64s]:
        """Take values whose keys have the ids that stand in `_ids`."""
        self._reserve(capacity)
        positions, bounds = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        given = np.asarray(values, np.int64).view()
        given.flags.writeable = False
        rules = np.zeros(kernels.RULE_FIELDS, np.int64)
        rules[kernels.GIVEN], rules[kernels.JUMP] = self.slack, -1 if self.jump is None else self.jump
        rules[kernels.PART], rules[kernels.AGREE] = -(-self.idle // kernels.PARTS), AGREE
        rules[kernels.STEP], rules[kernels.ORIGIN] = self.step or 1, self.origin
        rules[kernels.PER_MILLION] = -1 if self.late_per_million is None else self.late_per_million
        looked = 0 if self.late_per_million is not None else self.lateness.look(len(values))
        rules[kernels.LOOKED] = looked
        said = kernels.follow(
            self._ids, given, rules, self._keys, self._parts, self._places, self._tree, self._stream, positions,
            bounds, (self._counts, self._learnt, self.lateness.cells),
        )  # fmt: skip
        return positions[:said], bounds[:said]

    def _follow(self, values: Int64s) -> None:
        """Follow what shorter times of `idle` would promise, while few tuples came."""
        if self._followed is not None and self._followed + len(values) > FOLLOWED:
            self._shorter, self._followed = (), None
        if self._followed is None or self._index is None:
            return
        self._begin()
        self._followed += len(values)
        for one in self._shorter:
            one._ids = self._ids
            one._take(values, self._index.capacity)

    def _begin(self) -> None:
        """Begin to follow shorter times before the first tuple, and before the clock is told."""
        if self._followed == 0 and not self._shorter:
            self._shorter = self._with_shorter()

    def _with_shorter(self) -> tuple[ByKey, ...]:
        """Return new ones with shorter times, none of which lets a key go later than this one does."""
        part = -(-self.idle // kernels.PARTS)
        lengths = {rounded(self.idle * share // of) for share, of in _SHORTER}
        fit = (
            idle for idle in lengths if idle and -(-idle // kernels.PARTS) * (kernels.PARTS + 1) <= part * kernels.PARTS
        )
        made = tuple(attrs.evolve(self, idle=idle) for idle in sorted(fit, reverse=True))
        for one in made:
            one._followed = None
        return made

    def shorter(self) -> tuple[ShorterIdle, ...]:
        """Return what shorter times of `idle` would have done, the longest first; none where that is not followed."""
        counted = self._followed or 0
        return tuple(
            ShorterIdle(one.idle, int(one._stream[kernels.PROMISED]), int(one._stream[kernels.BELOW]), counted)
            for one in self._shorter
        )

    def sooner(self, need: int) -> ShorterIdle | None:
        """Return the longest shorter `idle` with which a bound would be promised by now; None where none is known."""
        return next((one for one in self.shorter() if one.promised >= need), None)

    def count_behind(self, behind: Bools) -> None:
        """Count which tuples of the page that was observed last, shape (n,), were behind what had been promised."""
        assert self._index is not None
        for key, number in zip(*np.unique(self._ids[behind], return_counts=True), strict=True):
            text = self._text(int(key))
            if text in self._behind or len(self._behind) < NAMED:
                self._behind[text] = self._behind.get(text, 0) + int(number)
            else:
                self._others += int(number)

    @property
    def behind(self) -> dict[str, int]:
        """Return how many tuples were behind what had been promised, by key; those of further keys as "others"."""
        return {**self._behind, **({"others": self._others} if self._others else {})}

    @property
    def live(self) -> int:
        """Return the number of keys that are not idle."""
        return int(self._stream[kernels.COUNT])

    @property
    def ahead(self) -> int:
        """Return how many values were too far ahead of their keys and moved nothing; the last ones in a row may yet."""
        waiting = self._keys[self._keys[:, kernels.LIVE] == 1, kernels.RUN]
        return int(self._stream[kernels.AHEAD] + waiting.sum())

    @property
    def learnt_slack(self) -> int | None:
        """Return the greatest slack of a live key now, where it is learnt."""
        live = self._keys[self._keys[:, kernels.LIVE] == 1]
        if self.late_per_million is None or not len(live):
            return None
        return int((live[:, kernels.HIGHEST] - live[:, kernels.BOUND]).max())

    def slowest(self) -> Slowest | None:
        """Return the live key that holds the promise back, of several the one that is silent for longest; O(keys)."""
        live = np.flatnonzero(self._keys[:, kernels.LIVE])
        if not len(live):
            return None
        bounds = self._tree[len(self._tree) // 2 + live]
        least = int(bounds.min())
        slow = live[bounds == least]
        slow = slow[self._keys[slow, kernels.HEARD].argmin()]
        return Slowest(self._text(int(slow)), least, int(bounds.max()) - least)

    def known(self) -> int | None:
        """Return the bound that is true now, however finely it is promised."""
        waits = self._stream[kernels.UNHEARD] or not self.live
        return None if waits else int(self._tree[1])

    def regrain(self, step: int | None, origin: int) -> None:
        """Promise at origin + k * step from now on."""
        self.step, self.origin = step, origin
        self.lateness = Lateness(step or 1, origin)
        for one in self._shorter:
            one.regrain(step, origin)

    def elapse(self, now: int) -> int | None:
        """Take the clock, in the unit of the attribute; give a bound to assume, or None."""
        if self.lull is None:
            return None
        self._begin()
        for one in self._shorter:
            one.elapse(now)
        kernels.expire(now, self.idle, self._keys, self._tree, self._stream)
        if self._stream[kernels.UNHEARD]:
            return None
        if self.live:
            reached = int(self._tree[1]) + self.slack
            self._stream[kernels.REACHED] = max(int(self._stream[kernels.REACHED]), min(reached, NEVER))
        bound = int(self._tree[1]) if self.live else now - self.lull
        bound = max(bound - (bound - self.origin) % (self.step or 1), NO_TIME)
        if bound <= self._stream[kernels.PROMISED]:
            return None
        self._stream[kernels.PROMISED] = bound
        return bound

    def state(self) -> Plain:
        """Return the memory as text: the live keys in the order they were last heard, and what is known of each."""
        self._forget()
        saved = self._memory(self._index) | prefixed(_LATE, self.lateness.state())
        saved |= {"behind": json.dumps([self._others, self._behind])}
        if self.clocks is not None:
            saved |= prefixed(_CLOCKS, self.clocks.state())
        if self._followed is not None:
            saved["followed"] = self._followed
            for one in self._shorter:
                saved |= prefixed(f"idle {one.idle}.", one._memory(self._index))
        return encode_state(saved).hex()

    def _memory(self, index: KeyIndex | None) -> State:
        saved: State = {"stream": self._stream}
        if index is not None:
            live = np.flatnonzero(self._keys[:, kernels.LIVE])
            live = live[np.argsort(self._keys[live, kernels.HEARD])].astype(np.int32)
            saved["keys"] = pa.RecordBatch.from_arrays(index.keys(live), schema=pa.schema(list(index.fields)))
            saved["fields"], saved["parts"] = self._keys[live], self._parts[live]
            saved["places"] = self._places[live]
            if self.late_per_million is not None:
                rows = np.append(0, live + 1)
                saved["counts"], saved["learnt"] = self._counts[rows], self._learnt[rows]
        return saved

    def restore(self, state: Plain) -> None:
        """Become the punctuator whose `state` this was; ValueError for what is none. The time is told anew."""
        if not isinstance(state, str):
            raise ValueError(f"the saved memory of promises by key is text, not {state!r:.60}")
        saved = decode_state(bytes.fromhex(state))
        counts = json.loads(read_text(saved, "behind"))
        if not _are_counts(counts):
            raise ValueError("the saved memory of promises by key does not have the fields of a stream")
        self._others, self._behind = counts
        if self.clocks is not None:
            self.clocks.restore(part(_CLOCKS, saved))
        late = Lateness()
        if kept := part(_LATE, saved):
            late.restore(kept)
        if (late.step, late.origin) == (self.lateness.step, self.lateness.origin):
            self.lateness = late
        if "keys" in saved:
            self._index = KeyIndex(list(read_batch(saved, "keys").schema))
        self._take_up(saved, self._index)
        # What was saved before shorter times were followed says nothing of them.
        self._followed = read_int(saved, "followed", least=0) if "followed" in saved else None
        self._shorter = () if self._followed is None else self._with_shorter()
        for one in self._shorter:
            if its := part(f"idle {one.idle}.", saved):
                one._take_up(its, self._index)

    def _take_up(self, saved: State, index: KeyIndex | None) -> None:
        """Take up the stream and the keys of a saved state, of which an index has the ids."""
        stream = read_array(saved, "stream", like=self._stream)
        # Fields that came later: it was saved before anything was counted by slacks, or what was below a promise.
        later = np.array([NO_TIME, 0], np.int64)
        if kernels.REACHED <= len(stream) < kernels.STREAM_FIELDS:
            stream = np.append(stream, later[len(stream) - kernels.STREAM_FIELDS :])
        if len(stream) != kernels.STREAM_FIELDS:
            raise ValueError("the saved memory of promises by key does not have the fields of a stream")
        stream[[kernels.NOW, kernels.BEGAN]] = NO_TIME
        stream[[kernels.OLDEST, kernels.NEWEST]] = -1
        stream[kernels.COUNT] = 0
        self._stream = stream
        if index is not None and "keys" in saved:
            self._take_up_keys(saved, stream, index)

    def _take_up_keys(self, saved: State, stream: Int64s, index: KeyIndex) -> None:
        """Take up the keys, in the order they were last heard."""
        batch = read_batch(saved, "keys")
        if tuple(batch.schema.names) != self.by:
            raise ValueError(
                f"the saved promises are by {', '.join(batch.schema.names)}, and these by {', '.join(self.by)}"
            )
        ids, n = index.assign(batch.columns), batch.num_rows
        fields = read_array(saved, "fields", like=self._keys)
        parts, places = read_array(saved, "parts", like=self._parts), read_array(saved, "places", like=self._places)
        first, kept, heard = (fields[:, f] for f in (kernels.FIRST, kernels.KEPT, kernels.HEARD))
        fits = len(fields) == len(parts) == len(places) == n == len(distinct(ids))
        if not fits or not bool(
            ((first >= 0) & (first < kernels.ROOM) & (kept >= 0) & (kept <= kernels.ROOM)).all()
            and (np.diff(heard, append=stream[kernels.PLACE]) > 0).all()
            and (heard >= stream[kernels.IDLE]).all()
        ):
            raise ValueError("the saved memory of promises by key has keys that do not fit together")
        self._reserve(index.capacity)
        if self.late_per_million is not None:
            counts = read_array(saved, "counts", like=self._counts)
            learnt = read_array(saved, "learnt", like=self._learnt)
            if not len(counts) == len(learnt) == n + 1 or (counts < 0).any() or (learnt < 0).any():
                raise ValueError("the saved memory of promises by key says nothing of how late tuples were")
            rows = np.append(0, ids + 1)
            self._counts[rows], self._learnt[rows] = counts, learnt
        self._keys[ids], self._parts[ids], self._places[ids] = fields, parts, places
        self._keys[ids, kernels.LIVE], self._keys[ids, kernels.STAMP] = 1, NO_TIME
        self._keys[ids, kernels.OLDER] = np.append(-1, ids[:-1])[:n]
        self._keys[ids, kernels.NEWER] = np.append(ids[1:], -1)[:n]
        if n:
            stream[[kernels.OLDEST, kernels.NEWEST]] = ids[0], ids[-1]
        stream[kernels.COUNT] = n
        self._plant()

    def _forget(self) -> None:
        """Free the ids of idle keys."""
        if self._index is not None and len(self._index) > self.live:
            held = self._index.live()
            self._index.free(held[self._keys[held, kernels.LIVE] == 0])
        self._ids = self._ids[:0]

    def _reserve(self, capacity: int) -> None:
        if capacity <= len(self._keys):
            return
        capacity = 1 << (capacity - 1).bit_length()
        self._keys, self._parts = grown(self._keys, capacity), grown(self._parts, capacity)
        self._places = grown(self._places, capacity)
        if self.late_per_million is not None:
            self._counts, self._learnt = grown(self._counts, capacity + 1), grown(self._learnt, capacity + 1)
        self._plant()

    def _plant(self) -> None:
        """Grow the tree of minima anew: leaf `key` has the bound of a live key, NEVER for any other."""
        size = len(self._keys)
        live = self._keys[:, kernels.LIVE] == 1
        self._tree = np.full(2 * size, NEVER, np.int64)
        self._tree[size:][live] = self._keys[live, kernels.BOUND]
        while size > 1:
            level = self._tree[size : 2 * size]
            self._tree[size // 2 : size] = np.minimum(level[::2], level[1::2])
            size //= 2

    def _text(self, key: int) -> str:
        assert self._index is not None
        schema = Schema(pa.schema(list(self._index.fields)))
        return group_text(schema, schema.names, self._index.keys(np.array([key], np.int32)))


def _are_counts(counts: object) -> bool:
    match counts:
        case [int(), dict(named)]:
            return all(isinstance(text, str) and isinstance(number, int) for text, number in named.items())
        case _:
            return False
