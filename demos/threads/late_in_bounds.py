"""A tuple within the bound of lateness that is in no result: https://github.com/feldera/feldera/issues/3164

Elsewhere: a minute is emitted as soon as the next one begins, so tuples within the bound miss the result.
"""

from held import Link, held

import oop_engine as oop

link = Link((0, "a"), (30, "b"), (61, "c"), (45, "late, in bounds"), (90, "d"), (92, "e"), (20, "too late"))
held(link.read("flows", oop.slack("30 s")).window(range="1 minute").aggregate(oop.count()), link, windows=1)
print("The first minute was held until 30 s after it: it has three tuples. One tuple came later than that.")
