# pyright: reportMissingParameterType=false
"""Compiled windows that never let go of a tuple: they begin as tuples arrive, and triggers that count these fire them.

The windows of a group that have begun are a list in their order. A window begins with the first tuple that none before
it has, and takes up what the one before it has by then. A tuple goes into its own window and into all behind it.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import FOREVER
from operators.kernels.windows.layout import *


@kernel
def arrive(groups, wids, limits, rule, heads, begun, spare, fresh, targets, pairs, found, cursor):
    """Take tuples into the windows of their groups as they come, and list the windows that fire.

    Tuple i is of group `groups[i]`, whose windows below `limits[i]` are over, and in the windows from `wids[i]` on. The
    columns of `targets` are tuples and slots to update. Each window that is new, and what goes on behind a window that
    is new or has fired, takes a slot of `fresh`. The slots of `pairs` are to be combined in order, once all tuples are
    in. Starts at `cursor[TUPLE]`; stops where there is no room for a tuple, and before one of a window that Python is
    to be asked about.
    """
    discards = rule[DISCARDS] != 0
    while cursor[TUPLE] < len(groups):
        i = cursor[TUPLE]
        g, w, limit = groups[i], wids[i], limits[i]
        before, at = -1, heads[g]
        while at >= 0 and begun[WID, at] < w:
            before, at = at, begun[FOLLOWER, at]
        needed, behind = 1, at
        waits = before >= 0 and begun[LACKING, before] == 0 and begun[WID, before] >= limit
        while behind >= 0:
            needed += 1
            waits = waits or (begun[LACKING, behind] == 0 and begun[WID, behind] >= limit)
            behind = begun[FOLLOWER, behind]
        if waits and cursor[ASKED] > 0:
            return
        if (
            cursor[TAKEN] + 2 * needed + 2 > len(fresh)
            or cursor[AIMED] + 2 * needed > targets.shape[1]
            or cursor[COMBINED] + 2 * needed + 2 > pairs.shape[1]
            or cursor[LISTED] + needed > found.shape[1]
            or cursor[ASKED] + needed > pairs.shape[1]
        ):
            cursor[NEEDED] = needed
            return
        cursor[TUPLE] = i + 1
        if at < 0 or begun[WID, at] != w:
            following = at
            cursor[SPARED] -= 1
            at = spare[cursor[SPARED]]
            begun[:, at] = 0
            begun[WID, at] = w
            begun[OWNER, at] = g
            begun[FOLLOWER, at] = following
            begun[LACKING, at] = rule[LACKS]
            begun[WHOLE, at] = fresh[cursor[TAKEN]]
            cursor[TAKEN] += 1
            begun[NEW, at] = begun[WHOLE, at]
            if discards:
                begun[NEW, at] = fresh[cursor[TAKEN]]
                cursor[TAKEN] += 1
            if before < 0:
                heads[g] = at
            else:
                begun[FOLLOWER, before] = at
                old = begun[WHOLE, before]
                pairs[INTO, cursor[COMBINED]] = begun[WHOLE, at]
                pairs[SOURCE, cursor[COMBINED]] = old
                cursor[COMBINED] += 1
                if discards:
                    pairs[INTO, cursor[COMBINED]] = begun[NEW, at]
                    pairs[SOURCE, cursor[COMBINED]] = old
                    cursor[COMBINED] += 1
                # What comes to the window before goes into another slot, for this one has what came until now.
                again = fresh[cursor[TAKEN]]
                cursor[TAKEN] += 1
                pairs[INTO, cursor[COMBINED]] = again
                pairs[SOURCE, cursor[COMBINED]] = old
                cursor[COMBINED] += 1
                pairs[SPENT, cursor[LEFT]] = old
                cursor[LEFT] += 1
                if not discards:
                    begun[NEW, before] = again
                begun[WHOLE, before] = again
            if rule[TELLS] != 0 and w >= limit:
                begun[LACKING, at] = 1
        while at >= 0:
            slot = begun[NEW, at]
            targets[0, cursor[AIMED]] = i
            targets[1, cursor[AIMED]] = slot
            cursor[AIMED] += 1
            if discards:
                targets[0, cursor[AIMED]] = i
                targets[1, cursor[AIMED]] = begun[WHOLE, at]
                cursor[AIMED] += 1
            begun[TUPLES, at] += 1
            begun[ALL_TUPLES, at] += 1
            if begun[LACKING, at] != FOREVER:
                begun[LACKING, at] = max(0, begun[LACKING, at] - 1)
            if begun[LACKING, at] == 0 and begun[WID, at] >= limit:
                if rule[REPEATS] == 0:
                    pairs[ASKS, cursor[ASKED]] = at
                    cursor[ASKED] += 1
                else:
                    found[GROUP, cursor[LISTED]] = g
                    found[SLOT, cursor[LISTED]] = slot
                    found[WINDOW, cursor[LISTED]] = begun[WID, at]
                    found[NUMBER, cursor[LISTED]] = begun[FIRINGS, at]
                    cursor[LISTED] += 1
                    again = fresh[cursor[TAKEN]]
                    cursor[TAKEN] += 1
                    if not discards:
                        pairs[INTO, cursor[COMBINED]] = again
                        pairs[SOURCE, cursor[COMBINED]] = slot
                        cursor[COMBINED] += 1
                        begun[WHOLE, at] = again
                    begun[NEW, at] = again
                    begun[TUPLES, at] = 0
                    begun[SIGNALS, at] = 0
                    begun[FIRINGS, at] += 1
                    begun[LACKING, at] = rule[LACKS]
            at = begun[FOLLOWER, at]
