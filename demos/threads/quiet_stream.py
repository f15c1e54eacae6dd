"""The last window of a stream that falls silent: https://github.com/quixio/quix-streams/pull/1133

Elsewhere: time goes on with messages alone, so the window of the last ones never comes, and people send dummy messages.
"""

from held import Link, held

import oop_engine as oop

link = Link((5, "a"), (40, "b"), (70, "a"), (110, "b"))
count = link.read("topic", oop.ordered()).window(range="1 minute").aggregate(oop.count())
held(count, link, windows=1)
print("A lull in the punctuator promises by the clock: oop.ordered(lull='30 s').")
