"""A worker that has run a small plan has all that a plan needs at hand: modules, and kernels out of their cache."""

from __future__ import annotations

import attrs
import pyarrow as pa

from oop_engine.demand import columns
from oop_engine.plan import Plan, source_node
from oop_engine.punctuate import slack
from oop_engine.sources.memory import Rows
from oop_engine.spark.room import Room, elsewhere
from oop_engine.spark.stages import FRONT, KEYED, TAIL, cut
from oop_engine.stream import Stream
from operators.functions import count, sum


def warm() -> None:
    """Run a window aggregate by address over a few tuples, as a stream would, and save what it remembers."""
    from operators.schema import ip_field

    arrow = pa.schema([pa.field("ts", pa.timestamp("ns", "UTC")), ip_field("srcIP"), pa.field("length", pa.int64())])
    arrays = [pa.array([1, 10**10, 10**11]).view(arrow.field(0).type), pa.array([bytes(16)] * 3, pa.binary(16))]
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array([1, 2, 3])], schema=arrow)
    stream = Stream(source_node(Rows("warm", (batch,)), promises=[slack("1 s")]))
    for by in ("srcIP", "length"):
        node = stream.window(range="2 s", slide="1 s").aggregate(count(), sum("length"), by=by).node
        whole = cut(Plan((node,)), ordered=True)
        small = attrs.evolve(whole, plan=elsewhere(whole.plan))
        buckets = {KEYED: 2, TAIL: 1}
        front, keyed = Room(small, FRONT, buckets), Room(small, KEYED, buckets)
        front.read(0, batch.select(list(columns(whole.plan)[0])))
        for row in front.rows():
            keyed.take(row)
        Room(small, KEYED, buckets).restore(keyed.state())
        keyed.end()
