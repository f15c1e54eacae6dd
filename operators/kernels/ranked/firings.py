# pyright: reportMissingParameterType=false
"""Compiled firings of sessions: what each has at the ticks at which it fires, and when it ends.

Tuples come by partition, those of one partition in the order of their tick. A result that fires at a tick is over the
tuples before it, so it leaves before a tuple of that tick is taken.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.ranked.layout import *
from operators.kernels.ticks import FOREVER


@kernel
def next_event(begin, last, fired, rule, after):
    """Return the tick at which a session fires or ends next, whichever comes first.

    It fires each EVERY ticks, and so many ticks `after` its begin, which rise; it has fired up to the tick `fired`.
    """
    behind = fired - begin
    found = last + rule[GAP]
    if rule[EVERY] > 0:
        found = min(found, begin + (behind // rule[EVERY] + 1) * rule[EVERY])
    for i in range(len(after)):
        if after[i] > behind:
            return min(found, begin + after[i])
    return found


@kernel
def fire(parts, ends, ticks, slots, bound, rule, after, sessions, fresh, cursor, pairs, found):
    """Take final tuples into the sessions of their partitions, and list the results of those that fire or end.

    Results that fire up to `bound` are due. A result that is not final holds a copy in a slot of `fresh`, or with
    DISCARDS the slot that the session had. Goes on at `cursor`; stops where `found` is full, and the queue at the
    cursor is then not the last. Returns (combinations, slots spent, slots of `fresh` used, results).
    """
    begins, lasts, fireds, tolds = sessions[BEGIN], sessions[LAST], sessions[FIRED], sessions[TOLD]
    nexts, helds = sessions[NEXT], sessions[HELD]
    combined = spent = used = made = 0
    while cursor[QUEUE] < len(parts):
        j = cursor[QUEUE]
        p = parts[j]
        i = cursor[ENTRY]
        stop = ends[j]
        while True:
            if begins[p] != FOREVER and nexts[p] <= (ticks[i] if i < stop else bound):
                if made == found.shape[1]:
                    cursor[ENTRY] = i
                    return combined, spent, used, made
                end = lasts[p] + rule[GAP]
                tick = nexts[p]
                if helds[p] >= 0:
                    slot = helds[p]
                    if tick < end and rule[DISCARDS] == 0:
                        slot = fresh[used]
                        used += 1
                        pairs[INTO, combined] = slot
                        pairs[SOURCE, combined] = helds[p]
                        combined += 1
                    else:
                        helds[p] = -1
                    found[OWNER, made] = p
                    found[SLOT, made] = slot
                    found[BEGINS, made] = begins[p]
                    found[ENDS, made] = end
                    found[FIRES, made] = tick
                    made += 1
                    tolds[p] = end
                if tick == end:
                    begins[p] = FOREVER
                    lasts[p] = FOREVER
                    fireds[p] = FOREVER
                    tolds[p] = FOREVER
                    nexts[p] = FOREVER
                else:
                    fireds[p] = tick
                    nexts[p] = next_event(begins[p], lasts[p], tick, rule, after)
                continue
            if i == stop:
                break
            if begins[p] == FOREVER:
                begins[p] = ticks[i]
                fireds[p] = ticks[i]
            lasts[p] = ticks[i]
            nexts[p] = next_event(begins[p], lasts[p], fireds[p], rule, after)
            if helds[p] < 0:
                helds[p] = slots[i]
            else:
                pairs[INTO, combined] = helds[p]
                pairs[SOURCE, combined] = slots[i]
                combined += 1
                pairs[SPENT, spent] = slots[i]
                spent += 1
            i += 1
        cursor[QUEUE] = j + 1
        cursor[ENTRY] = stop
    return combined, spent, used, made
