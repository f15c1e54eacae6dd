"""A branch that passes nothing on: https://github.com/numaproj/numaflow/issues/583

Elsewhere: an edge that conditional forwarding leaves without messages is idle, and holds what reads it.
"""

from held import Link, held

import oop_engine as oop

link = Link((5, "odd"), (70, "odd"), (130, "odd"))
numbers = link.read("numbers", oop.ordered())
branches = oop.meld(numbers.filter("host = 'even'"), numbers.filter("host = 'odd'"))
held(branches.window(range="1 minute").aggregate(oop.count()), link, windows=2)
print("A filter passes promises on though it passes no tuple: only the last minute waits, and for the source.")
