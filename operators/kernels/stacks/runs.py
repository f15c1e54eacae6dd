"""Two stacks with a run-length encoded front: one entry for each change of the least, instead of one a pane.

The least from a pane to the flip never falls on the way to younger panes, so equal neighbours are runs. The memory of
the front is the number of runs; every pop has to compare a place. Hammer Slide, section 3.2 (4), found it slower, and
it is here to be measured; panes, heads, tails, marks and kept are as in `stacks_least.two_stacks`.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel


@kernel
def two_stacks_runs(panes, heads, tails, marks, kept, keys, ends, out):
    """Write the least of each window; run r of the front is keys[r], up to pane ends[r]; there are marks[2] of them.

    The oldest run is the last. `keys` and `ends` have room for the runs of the longest window.
    """
    least = panes[0]
    found = out[0]
    flip = marks[0]
    tail = marks[1]
    runs = marks[2]
    running = kept[0]
    for i in range(len(heads)):
        head = heads[i]
        stop = tails[i]
        if head >= flip:
            keys[0] = least[stop - 1]
            ends[0] = stop
            runs = 1
            for k in range(stop - 2, head - 1, -1):
                if least[k] < keys[runs - 1]:
                    keys[runs] = least[k]
                    ends[runs] = k + 1
                    runs += 1
            flip = stop
            tail = stop
            running = kept[1]
        while ends[runs - 1] <= head:
            runs -= 1
        while tail < stop:
            running = min(running, least[tail])
            tail += 1
        found[i] = min(keys[runs - 1], running)
    marks[0] = flip
    marks[1] = tail
    marks[2] = runs
    kept[0] = running
