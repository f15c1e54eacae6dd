"""Names of the rows and places in what the techniques over panes hold and remember, for all of their kernels.

`panes` and `out` have a row a column of the kind, `marks` says where a technique stands, as places in `panes`, and
`kept` has a few partial aggregates.
"""

from __future__ import annotations

LEAST = 0
"""The row of `panes` and `out` of a least key."""
TOTAL, REST = 0, 1
"""Rows of `panes` and `out`, and places of the running sum in `kept`: a sum; its upper limb, or what rounding lost."""
RUNNING, MIDDLE = 0, 2
"""Places of `kept` where the running partial aggregate begins, and that from the middle to the back."""
LARGEST = 1
"""The place of `kept` of the largest key there is, of a least key."""
TOP, BOTTOM, INFINITE, SIGN, TURN = 0, 1, 2, 3, 4
"""Places of what floating keys are made by: largest and smallest key, the bits of infinity, the sign's place, turn."""
HEAD, TAIL = 0, 1
"""Places of `marks`: the first pane of the window before, and the pane after its last one."""
FLIP = 0
"""The place of `marks` for two stacks, besides TAIL: panes before it are in the front stack."""
LEFT, RIGHT, ACCUMULATED, BACK, END = 1, 2, 3, 4, 5
"""Places of `marks` for the de-amortised banker's aggregator, besides HEAD, in rising order."""
PLACES = 6
"""Places that `marks` has."""
