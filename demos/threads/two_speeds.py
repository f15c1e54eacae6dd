"""A join of streams whose watermarks are apart: https://github.com/risingwavelabs/risingwave/issues/18445

Elsewhere: joins do not wait for windows, for fear of streams that are not aligned and of what nobody could monitor.
"""

from held import Link, held

import oop_engine as oop

left, right = Link((5, "a"), (70, "a"), (130, "a"), (200, "b")), Link((10, "a"), (75, "a"))
pairs = left.read("clicks", oop.ordered()).join(right.read("views", oop.ordered()), "host", tumbling="1 minute")
held(pairs.window(range="1 minute").aggregate(oop.count()), left, right, windows=1)
