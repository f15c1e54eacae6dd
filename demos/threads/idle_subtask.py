"""A reader without data holds all windows: https://github.com/apache/beam/issues/31085

Elsewhere: with more readers than shards, the idle ones give no watermark, and no window is ever triggered.
"""

from held import Link, held

import oop_engine as oop

shards = Link((5, "a"), (70, "b"), (130, "a")), Link((10, "c"), (50, "c"))
streams = [link.read(f"shard {n}", oop.ordered()) for n, link in enumerate(shards)]
held(oop.meld(*streams).window(range="1 minute").aggregate(oop.count()), *shards)
