"""A source that has never given anything: https://github.com/numaproj/numaflow/issues/3006

Elsewhere: idleness is measured from the first message on, so a source that is empty from the start holds all for ever.
"""

from held import Link, held

import oop_engine as oop

busy, empty = Link((5, "a"), (70, "b"), (130, "a")), Link()
streams = busy.read("generator", oop.ordered()), empty.read("http", oop.ordered())
held(oop.meld(*streams).window(range="1 minute").aggregate(oop.count()), busy, empty)
