# pyright: reportMissingParameterType=false
"""Compiled sessions of tuples in the order of arrival: they grow, they join, and triggers that count tuples fire them.

The sessions of a partition are a list in the order of their begin. A session is certain if no tuple is to come before
its begin. Where none comes late, only the first one can be, so what joins it has never fired. Where late tuples change
sessions, what was given of one that has another begin now, or that another one took in, is taken back at once.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ranked.layout import *
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.kernels.windows.conditions import holds, stepped


@kernel
def arrive(parts, ticks, limits, trigger, heads, arrived, spare, fresh, targets, pairs, found, cursor):
    """Take tuples into the sessions of their partitions as they come, and list the sessions that fire.

    Tuple i is of partition `parts[i]`, of which all before `limits[i]` is known; it goes into the slot `targets[i]`.
    Each session that is new, or goes on after a firing, takes a slot of `fresh`. The slots of `pairs` are to be
    combined in order, once all tuples are in. `trigger` is (rule, nodes, held, active), where the nodes are those of
    the condition. Starts at `cursor[TUPLE]`; stops where `fresh` has no more, and before a tuple that stands behind a
    promise which lets a session fire. What is taken back is listed among the sessions that fire, as it comes.
    """
    rule, nodes, held, active = trigger
    gap, revises = rule[GAP], rule[REVISES] != 0
    while cursor[TUPLE] < len(parts) and cursor[TAKEN] + 2 <= len(fresh):
        i = cursor[TUPLE]
        if BEFORE_ALL < cursor[READY] <= limits[i]:
            return
        cursor[TUPLE] = i + 1
        p, t, limit = parts[i], ticks[i], limits[i]
        before, at = -1, heads[p]
        while at >= 0 and arrived[LAST, at] + gap <= t:
            before, at = at, arrived[FOLLOWER, at]
        rows = 1
        if at < 0 or t + gap <= arrived[BEGIN, at]:
            following = at
            cursor[SPARED] -= 1
            at = spare[cursor[SPARED]]
            arrived[:, at] = 0
            arrived[BEGIN, at] = t
            arrived[LAST, at] = t
            arrived[LACKING, at] = rule[FRESH]
            arrived[TOLD_END, at] = FOREVER
            arrived[AGGREGATE, at] = fresh[cursor[TAKEN]]
            cursor[TAKEN] += 1
            arrived[FOLLOWER, at] = following
            arrived[PARTITION, at] = p
            if before < 0:
                heads[p] = at
            else:
                arrived[FOLLOWER, before] = at
        elif t < arrived[BEGIN, at]:
            if revises:
                _begin_anew(rule, arrived, at, found, cursor)
            arrived[BEGIN, at] = t
        elif t > arrived[LAST, at]:
            arrived[LAST, at] = t
            other = arrived[FOLLOWER, at]
            if other >= 0 and arrived[BEGIN, other] - t < gap:
                if revises:
                    _take_back(arrived, other, found, cursor)
                arrived[LAST, at] = arrived[LAST, other]
                arrived[FOLLOWER, at] = arrived[FOLLOWER, other]
                rows += arrived[ALL_ROWS, other]
                pairs[INTO, cursor[COMBINED]] = arrived[AGGREGATE, at]
                pairs[SOURCE, cursor[COMBINED]] = arrived[AGGREGATE, other]
                cursor[COMBINED] += 1
                pairs[SPENT, cursor[LEFT]] = arrived[AGGREGATE, other]
                cursor[LEFT] += 1
                arrived[PARTITION, other] = -1
                spare[cursor[SPARED]] = other
                cursor[SPARED] += 1
        slot = arrived[AGGREGATE, at]
        targets[i] = slot
        arrived[ROWS, at] += rows
        arrived[ALL_ROWS, at] += rows
        if revises:
            arrived[STANDS, at] = 0
        if rule[REPEATS] == 0:
            # Steps and stops may make the trigger hold between two counts, and not at the second.
            arrived[LACKING, at] = 0 if _holds(nodes, held, arrived, at) else 1
        elif arrived[LACKING, at] != FOREVER:
            arrived[LACKING, at] = max(0, arrived[LACKING, at] - rows)
        if arrived[BEGIN, at] > limit:
            if arrived[LACKING, at] == 0:
                cursor[READY] = min(cursor[READY], arrived[BEGIN, at])
            continue
        arrived[CERTAIN, at] = 1
        end = arrived[LAST, at] + gap
        if arrived[LACKING, at] > 0 or (revises and end <= limit):
            continue
        found[OWNER, cursor[LISTED]] = p
        found[SLOT, cursor[LISTED]] = slot
        found[BEGINS, cursor[LISTED]] = arrived[BEGIN, at]
        found[ENDS, cursor[LISTED]] = end
        found[FIRES, cursor[LISTED]] = arrived[FIRINGS, at]
        found[TURN, cursor[LISTED]] = arrived[TURNS, at] if revises else 0
        cursor[LISTED] += 1
        again = fresh[cursor[TAKEN]]
        cursor[TAKEN] += 1
        if rule[DISCARDS] == 0:
            pairs[INTO, cursor[COMBINED]] = again
            pairs[SOURCE, cursor[COMBINED]] = slot
            cursor[COMBINED] += 1
        if rule[REPEATS] == 0:
            arrived[STEPS, at] = stepped(nodes, held, active, arrived[STEPS, at])
        arrived[AGGREGATE, at] = again
        arrived[ROWS, at] = 0
        arrived[SIGNALS, at] = 0
        arrived[FIRINGS, at] += 1
        arrived[TOLD_END, at] = end
        # What has just fired lacks a tuple at least.
        arrived[LACKING, at] = rule[FRESH] if rule[REPEATS] else 1


@kernel
def _take_back(arrived, at, found, cursor):
    """List a session that is no more, if anything of it was given."""
    if arrived[FIRINGS, at] > 0:
        found[OWNER, cursor[LISTED]] = arrived[PARTITION, at]
        found[SLOT, cursor[LISTED]] = -1
        found[BEGINS, cursor[LISTED]] = arrived[BEGIN, at]
        found[ENDS, cursor[LISTED]] = FOREVER
        found[FIRES, cursor[LISTED]] = arrived[FIRINGS, at]
        found[TURN, cursor[LISTED]] = arrived[TURNS, at]
        cursor[LISTED] += 1


@kernel
def _begin_anew(rule, arrived, at, found, cursor):
    """Let a session that gets another begin be a new one, of which all tuples are new."""
    _take_back(arrived, at, found, cursor)
    arrived[ROWS, at] = arrived[ALL_ROWS, at]
    arrived[SIGNALS, at] = 0
    arrived[ALL_SIGNALS, at] = 0
    arrived[STEPS, at] = 0
    arrived[FIRINGS, at] = 0
    arrived[TURNS, at] = 0
    arrived[TOLD_END, at] = FOREVER
    lacking = rule[FRESH]
    arrived[LACKING, at] = lacking if lacking == FOREVER else max(0, lacking - arrived[ROWS, at])


@kernel
def _holds(nodes, held, arrived, at):
    """Return whether the trigger holds for what a session has seen."""
    return holds(
        nodes, held, arrived[ROWS, at], arrived[ALL_ROWS, at], arrived[SIGNALS, at], arrived[ALL_SIGNALS, at],
        arrived[STEPS, at],
    )  # fmt: skip
