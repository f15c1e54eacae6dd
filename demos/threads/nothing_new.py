"""Windows that wait for ever when nothing new comes: https://github.com/risingwavelabs/risingwave/issues/19860

Elsewhere: a proposal to take the later of two watermarks, one from the data and one from the clock.
"""

from held import Link, held

import oop_engine as oop

link = Link((5, "a"), (40, "b"), (70, "a"), (110, "b"))
both = oop.slack("5 s", lull="0.2 s")
held(link.read("source", both).window(range="1 minute").aggregate(oop.count()), link, windows=2)
print("Tuples are 5 s late at most; where none came for 0.2 s, the clock promised, and both minutes came out.")
