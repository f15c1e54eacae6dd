"""Names of the columns and places in the tables of bags, for their kernels and their owner.

`operators.kernels.functions.runs` says how the tables go together.
"""

from __future__ import annotations

START, LENGTH, HOLDERS = 0, 1, 2
"""Columns of `runs`: where the keys of a run begin, how many it has, and how many references there are to it."""
RUN, TIMES, AFTER = 0, 1, 2
"""Columns of `links`: a run, how often it counts in the slot's bag, and the next entry of the slot plus one."""
USED, HELD, RUNS, FREE_RUN, LINKS, FREE_LINK, LOGGED, TOUCHED, LACKING = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Places of `tally`.

Pool entries ever used, entries of runs that are held, runs ever made, the first free run plus one, links ever made, the
first free link plus one, tuples in the log, slots in the log, room that was lacking.
"""
