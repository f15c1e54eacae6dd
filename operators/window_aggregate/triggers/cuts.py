"""The tuples of a page are cut, window by window, where the window fires."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.kernels.ticks import FOREVER
from operators.window_aggregate.triggers.condition import Compiled, Seen


@attrs.frozen(eq=False)
class Cuts:
    """Hold where windows fire in a page, a row for each window, and the state that they are left in."""

    counts: Int64s
    """The tuples of each window."""
    fired: Int64s
    """How often each window fires."""
    ends: Int64s
    """Of all firings, window by window, behind how many tuples of the window they lie."""
    steps: Int64s

    @property
    def left(self) -> Int64s:
        """Return how many tuples each window got since its last firing in the page, or since the page began."""
        last = np.cumsum(self.fired) - 1
        return self.counts - np.where(self.fired > 0, np.append(self.ends, 0)[last], 0)


def cut(compiled: Compiled, seen: Seen, counts: Int64s) -> Cuts:
    """Return where windows that have seen this fire, while so many tuples come to each.

    >>> from operators.window_aggregate.triggers.condition import Rows
    >>> one, none = np.array([1]), np.array([0])
    >>> cut(Compiled.of(Rows(3)), Seen(one, one, none, none, none), np.array([6])).ends.tolist()
    [2, 5]
    """
    node, steps = compiled.node, seen.steps.copy()
    which, behind = np.arange(len(counts)), np.zeros(len(counts), np.int64)
    owners, ends = [which[:0]], [behind[:0]]
    while len(which):
        lacking = node.lacking(seen, least=np.ones(len(which), np.int64))
        fires = lacking <= counts[which] - behind
        which, behind = which[fires], (behind + np.where(fires, lacking, 0))[fires]
        owners.append(which)
        ends.append(behind)
        none = np.zeros(len(which), np.int64)
        if compiled.repeats:
            period = compiled.fresh
            if 0 < period < FOREVER:
                more = (counts[which] - behind) // period
                owners.append(np.repeat(which, more))
                each = np.arange(int(more.sum())) - np.repeat(np.cumsum(more) - more, more)
                ends.append(np.repeat(behind, more) + (each + 1) * period)
            break
        taken = lacking[fires]
        at = Seen(
            seen.rows[fires] + taken, seen.all_rows[fires] + taken, seen.signals[fires], seen.all_signals[fires],
            seen.steps[fires],
        )  # fmt: skip
        steps[which] = node.stepped(at, np.ones(len(which), np.bool_))
        seen = Seen(none, at.all_rows, none, at.all_signals, steps[which])
    owner, end = np.concatenate(owners), np.concatenate(ends)
    return Cuts(counts, np.bincount(owner, minlength=len(counts)), end[np.lexsort((end, owner))], steps)
