"""Compiled pairs of slots: what windows have at their firings is made of what they had, and of their tuples."""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel


@kernel
def pair_parts(of, slots, windows, made, rest, discards, into, source):
    """Write which slot takes up which, in their order, and return how many pairs there are: `into[k]` and `source[k]`.

    - `of`: the window of each tuple, ascending; `slots`: the slot of each tuple.
    - `windows`: how often each fires, behind how many of its tuples each of all firings lies, window by window,
      whether each window had something before, and the slot that has it.
    - `made`: the slot of each firing, which holds nothing; `rest`: the slot of what is behind the last firing, which is
      that of before where a window that had something does not fire, and otherwise holds nothing.
    - `discards`: 1 where a firing has only what came since the one before it.

    There are at most as many pairs as tuples and twice the firings.
    """
    fired, ends, held, before = windows
    n = i = firing = 0
    for w in range(len(fired)):
        begin, taken = i, -1
        if held[w]:
            taken = before[w]
        for _ in range(fired[w]):
            if taken >= 0:
                into[n] = made[firing]
                source[n] = taken
                n += 1
            while i < begin + ends[firing]:
                into[n] = made[firing]
                source[n] = slots[i]
                n += 1
                i += 1
            taken = -1 if discards else made[firing]
            firing += 1
        if fired[w] > 0 and taken >= 0:
            into[n] = rest[w]
            source[n] = taken
            n += 1
        while i < len(of) and of[i] == w:
            into[n] = rest[w]
            source[n] = slots[i]
            n += 1
            i += 1
    return n
