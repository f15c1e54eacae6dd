"""Names of the columns and places in the tables of queues, for their kernels and their owners.

`tables` are the memory of queues, the six arrays named first; `operators.kernels.ranked.ranked` says how they go
together. `cursor` is where a listing goes on whose columns were full.
"""

from __future__ import annotations

PLACES, HEADS, COUNTERS, KEYS, ITEMS, SPARE = 0, 1, 2, 3, 4, 5
"""Places of `tables`."""
BASE, ROOM, START, SIZE = 0, 1, 2, 3
"""Columns of `places`, by queue: where its room begins in the arena, how large it is, its first entry, how many."""
LEAST_LEVEL = 2
"""The power of two that the smallest room has entries."""
USED, ENTRIES = 0, 1
"""Places of `counters`: entries of the arena ever used, and entries that count."""
QUEUE, WINDOW = 0, 1
"""Places of `cursor`: which of the queues asked for is next, and which window of it."""
INTO, SOURCE = 0, 1
"""Rows of `pairs`: the slot that takes up another, and that other, in order."""
ID, SEED = 0, 1
"""Rows of `drafts`: the ids of bins that are to be made, and the slots that each of them begins with, or -1."""
LOW, HIGH, WID, FROM = 0, 1, 2, 3
"""Rows of `ranges`: slots (or values) low <= i < high of each, the window that it is of, the key of its first entry."""
ENTERS, LEAVES = 1, 2
"""Bits of what predicates say of a tuple."""
BETWEEN, RUNS, FROM_EACH = 0, 1, 2
"""Where windows of predicates end: behind a tuple that leaves; before one that does not enter; before one that does."""
GOES_ON, GIVEN, LEFT_OUT = 0, 1, 2
"""Whether a partition goes on, or is over, and what then becomes of its open window."""
BEGIN, LAST = 0, 1
"""Places of `opened`, by partition: where its open window begins, FOREVER for none, and the last tick in that."""
END = 1
"""The row of `windows` below BEGIN: where each ends, FOREVER for one that goes on, BEFORE_ALL for one left out."""
OWNER, SLOT = 0, 1
"""Rows of `results`: the group of each, and the slot that holds it."""
FIRED, TOLD, NEXT, HELD = 2, 3, 4, 5
"""Places of `sessions` besides BEGIN and LAST, by partition: the tick up to which its open session has fired, the end
that its last early result told, FOREVER for none, when it fires next, FOREVER for never, and its slot, -1 for none.
"""
REACH, CEILING = 6, 7
"""More places of `sessions`, by slot of a run of tuples that waits: its last tick, and what it may not reach."""
NEWEST = 8
"""The place of `sessions` of a table by partition: which aggregate takes tuples that come in order."""
NEWEST_TICK, NEWEST_CEILING, NEWEST_SLOT, NEWEST_OPEN = 0, 1, 2, 3
"""Columns of that table: its last tick and what it may not reach, BEFORE_ALL where there is none, its slot, and 1 where
it is that of the open session.
"""
GAP, EVERY, DISCARDS = 0, 1, 2
"""Places of `rule`: the gap of sessions, how often they fire, 0 for never, and whether results are what is new."""
BEGINS, ENDS, FIRES = 2, 3, 4
"""Rows of `found` besides OWNER and SLOT: where each session begins and ends, and when its result fires."""
MERGES = 3
"""The place of `rule` besides these: whether tuples may be combined in any order."""
ENTRY = 1
"""The place of `cursor` besides QUEUE: which of the tuples is next."""
APART = 0
"""The place of `cursor` besides ENTRY, where tuples arrive: how many of them begin runs among those that wait."""
SPENT = 2
"""The row of `pairs` of slots that are of no use once the pairs are combined."""
ROWS, ALL_ROWS, LACKING, SIGNALS, ALL_SIGNALS, STEPS, FIRINGS = 2, 3, 4, 5, 6, 7, 8
"""Rows of `arrived` besides BEGIN and LAST, a column for each session: what a trigger has seen of it, how many tuples
it lacks until it fires, and how often it has.
"""
TOLD_END, AGGREGATE, FOLLOWER, PARTITION, CERTAIN = 9, 10, 11, 12, 13
"""More of these rows: the end that its last early result told, FOREVER for none, its slot, the next session of its
partition, -1 for none, its partition, and 1 once no tuple can come before its begin.
"""
SESSION_ROWS = 14
TURNS, STANDS, DIGEST = 14, 15, 16
"""More of these rows where late tuples change sessions: how often it was given since it was over, 1 where no tuple came
since, and the digest of what was given.
"""
REVISED_ROWS = 17
REPEATS, FRESH, REVISES = 1, 3, 4
"""Places of `rule` besides GAP and DISCARDS, for triggers: 1 where a session that has fired is as a new one, how many
tuples a new one lacks, and 1 where late tuples change sessions.
"""
TURN = 5
"""The row of `found` besides OWNER, SLOT, BEGINS, ENDS and FIRES where late tuples change sessions: how often each was
given since it was over. What is taken back has the slot -1.
"""
TUPLE, TAKEN, COMBINED, LEFT, LISTED, SPARED, READY = 0, 1, 2, 3, 4, 5, 6
"""Places of `cursor` where tuples arrive: how many of them are in, the slots used, pairs and slots left behind, the
firings found, the spare columns of `arrived`, and the least begin of the sessions that a promise lets fire, BEFORE_ALL
where none comes in the page.
"""
