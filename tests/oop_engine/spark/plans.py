"""Small plans over small streams, one for each way in which a plan can be cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from hypothesis import strategies as st

from oop_engine.api.early import early
from oop_engine.api.stream import Stream, meld
from oop_engine.api.windowing import counted, session
from oop_engine.plan.graph import source_node
from oop_engine.plan.punctuate import Promise, slack
from oop_engine.sources.memory import Rows
from operators import functions as f
from operators.data.page import Page
from operators.data.schema import Schema

ARROW = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("x", pa.int64())])
Row = tuple[int | None, str | None, int | None, int | None]
Streams = Mapping[str, Stream]


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Make a record batch of rows."""
    columns = [[row[i] for row in rows] for i in range(len(ARROW))]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, field.type) for c, field in zip(columns, ARROW, strict=True)], schema=ARROW
    )


def stream(name: str, pages: Sequence[Sequence[Row]], *promises: Promise, late: str = "drop") -> Stream:
    """Make a stream of pages."""
    return Stream(source_node(Rows(name, tuple(map(batch, pages)), ARROW), promises=promises, late=late))


times = st.integers(0, 40)
rows = st.tuples(
    st.one_of(times, times, times, times, st.none()),
    st.sampled_from(["a", "b", "c", None]),
    st.one_of(st.integers(0, 2), st.none()),
    st.one_of(st.integers(-9, 9), st.none()),
)
pages = st.lists(st.lists(rows, min_size=1, max_size=6), max_size=8)

SPREAD = Schema.of(least=pa.int64(), most=pa.int64())


def _spread(tuples: Page, window: Page) -> object:
    """Return the least and the greatest x of a window, nothing where none has one."""
    x = tuples.column("x").drop_null().to_pylist()
    return {"least": min(x), "most": max(x)} if x else None


FREE: Mapping[str, Callable[[Streams], Stream]] = {
    "sliding": lambda s: s["a"].window(range=6, slide=2).aggregate(f.count(), f.sum("x"), f.avg("x"), by="k"),
    "two keys": lambda s: s["a"].window(range=5, slide=5).aggregate(f.min("x"), f.max("x"), by=("n", "k")),
    "median": lambda s: s["a"].window(range=4, slide=3).aggregate(f.median("x"), by="k"),
    "consistent": lambda s: s["a"].window(range=6, slide=2, consistent=True).aggregate(f.count(), f.sum("x"), by="k"),
    "early": lambda s: (
        s["a"].window(range=6, slide=3).aggregate(f.count(), f.sum("x"), by="k", early=early(2, refine="retract"))
    ),
    "sessions": lambda s: s["a"].window(session(3)).aggregate(f.count(), by="n"),
    "whole windows": lambda s: s["a"].window(range=6, slide=3).process(_spread, SPREAD, by="k", columns=["x", "n"]),
    "no groups": lambda s: s["a"].window(range=7, slide=3).aggregate(f.count(), f.sum("x")),
    "landmark": lambda s: s["a"].window(range="ALL", slide=9).aggregate(f.count(), by="k"),
    "groups": lambda s: s["a"].aggregate(f.count(), f.sum("x"), by=("k", "ts")),
    "distinct": lambda s: s["a"].filter("x > -5").distinct("k", "n"),
    "ranked windows": lambda s: (
        s["a"].window(range=6, slide=3).aggregate(c=f.count(), by=("k", "n"))
        .ranked(["c", "k"], 2, within=["wid", "window_start", "window_end"], descending=["c"])
    ),
    "ranked": lambda s: s["a"].ranked(["x"], 5, within=[]),
    "ranked by time": lambda s: s["a"].ranked(["x", "k"], 2, within=["ts"], descending=["x"]),
    "filter": lambda s: s["a"].filter("x > 0").project("k", double="x * 2"),
    "spread": lambda s: (
        s["a"].derive(later="ts + 7").spread("x", step=4, end="later")
        .window(range=8, slide=4).aggregate(f.count(), f.sum("x"), by="k")
    ),
    "bills": lambda s: (
        s["a"].window(range=3).aggregate(f.sum("x"), c=f.count(), by="k")
        .billing("sum_x", per=12, share=0.75, sources="k", c=f.sum("c"))
    ),
    "dedup": lambda s: (
        s["a"].derive(later="ts + 4").dedup(keys="k", observers="n", end="later", reach=1, step=1, mark="twice")
    ),
    "meld": lambda s: meld(s["a"], s["b"]).window(range=6, slide=3).aggregate(f.count(), by="k"),
    "join": lambda s: s["a"].join(s["b"], "k", range=(4, 3)),
    "left join": lambda s: s["a"].join(s["b"], ["k", "n"], range=3, kind="left"),
    "full join": lambda s: s["a"].join(s["b"], "n", range=2, kind="full"),
    "join without equality": lambda s: s["a"].join(s["b"], range=2),
    "join of aggregates": lambda s: (
        s["a"].window(range=5, slide=5).aggregate(c=f.count(), by=("k", "n"))
        .join(s["b"].window(range=5, slide=5).aggregate(m=f.count(), by="k"), "k", tumbling=5, wattr="window_start")
    ),
    "aggregate of an aggregate": lambda s: (
        s["a"].window(range=4, slide=2).aggregate(c=f.count(), by=("k", "n"))
        .window(range=8, slide=4, wattr="window_end").aggregate(f.max("c"), by="k")
    ),
    "join of a keyed and a plain stream": lambda s: (
        s["a"].window(range=4, slide=4).aggregate(c=f.count(), by="k")
        .join(s["b"], range=3, wattr=("window_start", "ts"))
    ),
    "windows beside their tuples": lambda s: (
        s["a"].window(range=6, slide=3).aggregate(c=f.count(), by="k")
        .join(s["a"].filter("x > 0"), "k", range=4, wattr=("window_start", "ts"))
    ),
    "busiest": lambda s: (
        s["a"].window(range=4, slide=4).aggregate(c=f.count(), by="k")
        .window(range=8, slide=4, wattr="window_end").aggregate(f.max("c"))
    ),
}  # fmt: skip
"""Plans whose answer does not depend on the order of arrival."""

ORDERED: Mapping[str, Callable[[Streams], Stream]] = {
    "numbered": lambda s: s["a"].number().filter("x > 0").project("row_num", "k"),
    "rows": lambda s: s["a"].window(range="4 rows", slide="2 rows", wattr="row_num").aggregate(f.sum("x"), by="k"),
    "rows of each": lambda s: (
        s["a"].window(range="3 rows", slide="2 rows", wattr="row_num", partition="k").aggregate(f.sum("x"))
    ),
    "all rows of each": lambda s: (
        s["a"].window(range="ALL", slide="2 rows", wattr="row_num", partition="k").aggregate(f.count(), by="n")
    ),
    "first": lambda s: s["a"].window(range=6, slide=3).aggregate(f.first("x"), by="k"),
    "counted": lambda s: s["a"].window(counted(3)).aggregate(f.sum("x"), by="k"),
}
"""Plans whose answer does."""

ONE: Mapping[str, Callable[[Streams], Stream]] = {
    **{name: plan for name, plan in FREE.items() if name not in ("meld",) and "join" not in name},
    **{name: plan for name, plan in ORDERED.items()},
}
"""Plans over one stream."""


def promised(given: Sequence[Sequence[Row]], late: str = "drop") -> Streams:
    """Make a stream that promises with a slack that may not suffice."""
    return {"a": stream("a", given, slack(4), late=late)}
