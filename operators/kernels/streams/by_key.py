"""Compiled progress of a stream by keys: the least bound of all keys that are not idle, after every tuple.

Live keys stand in a list by when they were last heard, so an idle one is found at its end, and their bounds are the
leaves of a tree of minima, so that a tuple costs O(log keys).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import inlined_kernel, kernel
from operators.kernels.streams.lateness import cell_of
from operators.kernels.ticks import BEFORE_ALL, FAR, FOREVER, LIMIT

Int64s = npt.NDArray[np.int64]

PARTS = 16
"""Event time that passes is counted in parts of `idle`: a key is idle after more than so many of another key's."""
ROOM = PARTS + 2
"""Parts that are remembered of a key."""

HIGHEST, TUPLES, RUN, LEAST, HEARD, STAMP, OLDER, NEWER, LIVE, FIRST, KEPT, BOUND, KEY_FIELDS = range(13)
"""Fields of a key: the highest value believed, whether it had no, one or more tuples, how many in a row were too far
ahead and the least of them, the place and the time it was last heard, its neighbours in the list, whether it is in it,
the first and number of its parts, and what it promises."""

GIVEN, JUMP, PART, STEP, ORIGIN, AGREE, PER_MILLION, LOOKED, RULE_FIELDS = range(9)
"""Rules: the slack, how far ahead a value may be (-1: any value is believed), the length of a part, what bounds are
multiples of and from where, how many values that are too far ahead are believed, and how many tuples of a million may
be late where the slack is learnt (-1: it is given), and of how many values is counted how late they are."""

SLACK, SEEN, LEARNT_FIELDS = range(3)
"""What was learnt of a key: the slack, and from how many tuples."""
EIGHTHS = 8
BUCKETS = 61 * EIGHTHS
"""How late tuples were is counted in buckets: eight for each power of two, those below eight alone."""
OFTEN = 256
"""After so many tuples a slack is learnt anew, if none was later than it before."""

PLACE, IDLE, OLDEST, NEWEST, PROMISED, UNHEARD, COUNT, AHEAD, NOW, BEGAN, REACHED, BELOW, STREAM_FIELDS = range(13)
"""Fields of the stream: the tuples so far, the place before which a key must have been heard to be idle, the ends of
the list, the bound that was promised, whether unheard keys are waited for, the live keys, the values that were too far
ahead, the time now, when there was one first, what would have been promised without a slack, and how many tuples were
below what was promised."""


@inlined_kernel
def _set(tree: Int64s, key: int, bound: int) -> None:
    """Write the bound of a key into the tree of minima."""
    at = len(tree) // 2 + key
    tree[at] = bound
    at //= 2
    while at >= 1:
        tree[at] = min(tree[2 * at], tree[2 * at + 1])
        at //= 2


@inlined_kernel
def _unlink(key: int, keys: Int64s, stream: Int64s) -> None:
    """Take a key out of the list."""
    older, newer = keys[key, OLDER], keys[key, NEWER]
    if older >= 0:
        keys[older, NEWER] = newer
    else:
        stream[OLDEST] = newer
    if newer >= 0:
        keys[newer, OLDER] = older
    else:
        stream[NEWEST] = older


@inlined_kernel
def floored(bound: int, step: int, origin: int) -> int:
    """Return the greatest origin + k * step up to a bound."""
    if bound == BEFORE_ALL:
        return bound
    return max(bound - (bound - origin) % step, BEFORE_ALL)


@inlined_kernel
def bucket_of(lateness: int) -> int:
    """Return the bucket of a lateness, 0 or more."""
    if lateness < EIGHTHS:
        return lateness
    power = 0
    while lateness >= 2 * EIGHTHS:
        lateness >>= 1
        power += 1
    return (power + 1) * EIGHTHS + lateness - EIGHTHS


@inlined_kernel
def edge_of(bucket: int) -> int:
    """Return the greatest lateness of a bucket."""
    if bucket < EIGHTHS:
        return bucket
    power = bucket // EIGHTHS - 1
    return ((EIGHTHS + bucket % EIGHTHS + 1) << power) - 1


@inlined_kernel
def learn(row: int, lateness: int, per_million: int, counts: Int64s, learnt: Int64s) -> None:
    """Count a lateness, and learn the slack of which at most half of `per_million` were later.

    As long as that allows for none, the slack is twice the greatest.
    """
    counts[row, bucket_of(lateness)] += 1
    learnt[row, SEEN] += 1
    seen = learnt[row, SEEN]
    if lateness <= learnt[row, SLACK] and seen % OFTEN:
        return
    allowed = seen * per_million // 2_000_000
    later, bucket = 0, BUCKETS - 1
    while bucket > 0 and later + counts[row, bucket] <= allowed:
        later += counts[row, bucket]
        bucket -= 1
    slack = min(edge_of(bucket), FAR)
    learnt[row, SLACK] = slack if allowed else FAR if slack > FAR // 2 else 2 * slack


@inlined_kernel
def _let_go_of_oldest(keys: Int64s, tree: Int64s, stream: Int64s) -> None:
    """Let the key that is silent for longest be idle, so that it holds nothing back."""
    gone = stream[OLDEST]
    _unlink(gone, keys, stream)
    _set(tree, gone, FOREVER)
    keys[gone, LIVE] = 0
    stream[COUNT] -= 1
    stream[AHEAD] += keys[gone, RUN]


@kernel
def follow(
    ids: npt.NDArray[np.int32], values: Int64s, rules: Int64s,
    keys: Int64s, parts: Int64s, places: Int64s, tree: Int64s, stream: Int64s, positions: Int64s, bounds: Int64s,
    counted: tuple[Int64s, Int64s, Int64s],
) -> int:  # fmt: skip
    """Take tuples, shape (n,), by the ids of their keys; write what is promised and where, and return how often.

    The least int64 is no value and says nothing. `rules` has RULE_FIELDS. Of a key, `parts` and
    `places`, shape (keys, ROOM), are a ring: a part of event time that it was in, and where it was last in that.
    `counted` are three tables. A slack that is not given is learnt from `counts`, shape (keys + 1, BUCKETS), and put
    into `learnt`, shape (keys + 1, LEARNT_FIELDS): first of all keys together, then of each. One that is given: `late`,
    shape (lateness.CELLS,), counts the first LOOKED tuples by the largest slack with which they would be late.
    """
    counts, learnt, late = counted
    slack, jump, part, step = rules[GIVEN], rules[JUMP], rules[PART], rules[STEP]
    origin, agree, per_million = rules[ORIGIN], rules[AGREE], rules[PER_MILLION]
    said = 0
    for i in range(len(values)):
        place = stream[PLACE]
        stream[PLACE] += 1
        value = values[i]
        if value == BEFORE_ALL:
            continue
        stream[BELOW] += value < stream[PROMISED]
        if i < rules[LOOKED] and -LIMIT <= value < stream[REACHED] <= LIMIT:
            end = value + 1 if step == 1 else value - (value - origin) % step + step
            if stream[REACHED] >= end:
                late[cell_of(np.int64(stream[REACHED] - end + 1))] += 1
        key = ids[i]
        if keys[key, LIVE]:
            _unlink(key, keys, stream)
        else:
            keys[key, LIVE], keys[key, TUPLES], keys[key, RUN], keys[key, KEPT] = 1, 0, 0, 0
            stream[COUNT] += 1
            if per_million >= 0:
                counts[key + 1] = 0
                learnt[key + 1] = 0
        keys[key, HEARD], keys[key, STAMP] = place, stream[NOW]
        keys[key, OLDER], keys[key, NEWER] = stream[NEWEST], -1
        if stream[NEWEST] >= 0:
            keys[stream[NEWEST], NEWER] = key
        else:
            stream[OLDEST] = key
        stream[NEWEST] = key

        highest = keys[key, HIGHEST]
        lateness = -1
        if keys[key, TUPLES] == 0 or value >= highest:
            lateness = 0
        elif value >= -(FAR // 2) and highest <= FAR // 2:
            lateness = highest - value
        if keys[key, TUPLES] == 0:
            highest = value
        elif jump < 0:
            highest = max(highest, value)
        elif keys[key, TUPLES] == 1 and highest >= BEFORE_ALL + jump and value < highest - jump:
            # Of two values that disagree, the lower one is safe.
            highest = value
            lateness = 0
            keys[key, KEPT] = 0
            stream[AHEAD] += 1
        elif highest > FOREVER - jump or value <= highest + jump:
            highest = max(highest, value)
            stream[AHEAD] += keys[key, RUN]
            keys[key, RUN] = 0
        else:
            keys[key, LEAST] = value if keys[key, RUN] == 0 else min(keys[key, LEAST], value)
            keys[key, RUN] += 1
            if keys[key, RUN] >= agree:
                highest = keys[key, LEAST]
                keys[key, RUN] = 0
        keys[key, TUPLES] = min(keys[key, TUPLES] + 1, 2)
        keys[key, HIGHEST] = highest

        now = min(max(highest // part, -FAR), FAR)
        first, kept = keys[key, FIRST], keys[key, KEPT]
        while kept > 0 and parts[key, first] < now - PARTS:
            stream[IDLE] = max(stream[IDLE], places[key, first])
            first = first + 1 if first + 1 < ROOM else 0
            kept -= 1
        last = (first + kept - 1) % ROOM
        if kept == 0 or parts[key, last] < now:
            last = (first + kept) % ROOM
            kept += 1
            parts[key, last] = now
        places[key, last] = place
        keys[key, FIRST], keys[key, KEPT] = first, kept

        while keys[stream[OLDEST], HEARD] < stream[IDLE]:
            _let_go_of_oldest(keys, tree, stream)
        if stream[IDLE] >= 0:
            stream[UNHEARD] = 0
        if per_million >= 0:
            if lateness >= 0 and (jump < 0 or lateness <= jump):
                learn(0, lateness, per_million, counts, learnt)
                learn(key + 1, lateness, per_million, counts, learnt)
            slack = learnt[key + 1, SLACK]
            if learnt[key + 1, SEEN] * per_million < 2_000_000:
                slack = max(slack, learnt[0, SLACK])
        bound = highest - slack if highest >= BEFORE_ALL + slack else BEFORE_ALL
        keys[key, BOUND] = bound
        if tree[len(tree) // 2 + key] != bound:
            _set(tree, key, bound)
        if not stream[UNHEARD] and tree[1] < FOREVER - slack:
            stream[REACHED] = max(stream[REACHED], tree[1] + slack)
        if not stream[UNHEARD] and tree[1] > stream[PROMISED]:
            least = floored(tree[1], step, origin)
            if least > stream[PROMISED]:
                stream[PROMISED] = least
                positions[said], bounds[said] = i, least
                said += 1
    return said


@kernel
def expire(now: int, idle: int, keys: Int64s, tree: Int64s, stream: Int64s) -> None:
    """Take the clock: keys that were silent for longer than `idle` are idle, and so are those not heard as yet."""
    if stream[BEGAN] == BEFORE_ALL:
        stream[BEGAN] = now
    stream[NOW] = max(stream[NOW], now)
    began = stream[BEGAN]
    while stream[OLDEST] >= 0 and now - max(keys[stream[OLDEST], STAMP], began) > idle:
        _let_go_of_oldest(keys, tree, stream)
    if now - began > idle:
        stream[UNHEARD] = 0
