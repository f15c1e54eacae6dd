"""One message from the future, and all later ones are late: https://github.com/lf-edge/ekuiper/issues/530

Elsewhere: they are dropped as late until the server is restarted.
"""

from held import Link, held

import oop_engine as oop

link = Link((5, "a"), (36_000, "wrong clock"), (10, "a"), (15, "b"), (70, "a"))
held(link.read("sensor", oop.slack("1 s")).window(range="1 minute").aggregate(oop.count()), link, windows=1)
print("A punctuator does not believe one tuple that is so far ahead: no other is late, and the first minute came out.")
