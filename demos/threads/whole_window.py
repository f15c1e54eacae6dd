"""A window of 20 minutes whose results come after 20 minutes: https://github.com/ArroyoSystems/arroyo/issues/961

Elsewhere: a user takes this for a fault of the sink, and asks for the start and the end of each window.
"""

from held import Link, held

import oop_engine as oop

link = Link((0, "a"), (300, "b"), (900, "a"))
held(link.read("events", oop.ordered()).window(range="20 minutes").aggregate(oop.count(), by="host"), link)
print("Each result has window_start and window_end; early=oop.early(...) gives results meanwhile.")
