"""Sessions that stay open: https://github.com/risingwavelabs/risingwave/issues/20834

Elsewhere: sessions with a gap of 5 s are not emitted, though their customer has long gone.
"""

from held import Link, held

import oop_engine as oop

link = Link((0, "ABCD"), (3, "ABCD"), (20, "EFGH"), (22, "EFGH"))
sessions = link.read("events", oop.slack("5 s")).window(oop.session("5 s"))
held(sessions.aggregate(oop.count(), by="host"), link, windows=1)
