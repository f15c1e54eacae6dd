"""The golden queries: text, the same in Python where that is short, and the answer by definition.

The texts Q1-1 to Q6-2 stand as the thesis prints them, odd spacing and case included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from oop_engine.api.stream import Stream, meld
from operators import functions as f
from operators.data.page import Row, Scalar
from tests.naive_windows import by, grouped, landmark, ranked, sliding, total
from tests.queries.streams import MINUTE, SECOND, Tables

Result = tuple[Scalar, ...]
WINDOW = ("wid", "window_start", "window_end")


@attrs.frozen
class Golden:
    """A query and its answer."""

    name: str
    text: str
    columns: tuple[str, ...]
    expected: Callable[[Tables], Iterator[Result]]
    python: Callable[[Mapping[str, Stream]], Stream] | None = None
    in_any_order: bool = True
    """Whether the answer is the same in whatever order the tuples arrive."""
    empty: bool = False
    """Whether no tuple is in the answer."""


def q1_1(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["M"], "ts", size=10 * MINUTE, slide=MINUTE):
        for (source,), packets in grouped(rows, "srcIP"):
            yield source, len(packets), *window


def q1_2(tables: Tables) -> Iterator[Result]:
    links = [*tables["Control"], *tables["Main1"], *tables["Main2"]]
    for *window, rows in sliding(links, "ts", size=MINUTE, slide=MINUTE):
        yield len(rows), *window


def q2_1(tables: Tables) -> Iterator[Result]:
    watched = [row for row in tables["Main1"] if row["srcIP"] in ("202.101.0.0", "202.101.0.1")]
    for key, packets in grouped(watched, "srcIP", "ts"):
        yield *key, len(packets)


def q5_1(tables: Tables) -> Iterator[Result]:
    yield from q1_1({"M": tables["Main"]})


def longest_of_each(size: int, slide: int) -> Callable[[Tables], Iterator[Result]]:
    """Q5-2: each source has windows over its own packets."""

    def expected(tables: Tables) -> Iterator[Result]:
        for (source,), packets in grouped(tables["Main"], "srcIP"):
            for *window, rows in ranked(packets, size=size, slide=slide):
                yield source, longest(rows), *window

    return expected


def longest_of_all(size: int, slide: int) -> Callable[[Tables], Iterator[Result]]:
    """Q5-3: windows over all packets, and each source has a share."""

    def expected(tables: Tables) -> Iterator[Result]:
        for *window, rows in ranked(tables["Main"], size=size, slide=slide):
            for (source,), packets in grouped(rows, "srcIP"):
                yield source, longest(packets), *window

    return expected


def q5_4(tables: Tables) -> Iterator[Result]:
    for *window, rows in landmark(tables["Main1"], "ts", slide=MINUTE):
        for (source,), packets in grouped(rows, "srcIP"):
            yield source, len(packets), *window


def q6_2(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=4 * MINUTE, slide=MINUTE):
        yield longest(rows), *window


def busiest(wattr: str, size: int, slide: int) -> Callable[[Tables], Iterator[Result]]:
    """Chain two windows: the greatest count of a minute."""

    def expected(tables: Tables) -> Iterator[Result]:
        minutes: list[Row] = [
            {"wid": wid, "window_end": end, "count": len(rows)}
            for wid, _, end, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=MINUTE)
        ]
        for *window, counts in sliding(minutes, wattr, size=size, slide=slide):
            yield max(whole(row["count"]) for row in counts), *window

    return expected


def talkers(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=3 * MINUTE, slide=MINUTE):
        for (source, port), packets in grouped(rows, "srcIP", "srcPort"):
            if len(packets) > 1 and total(packets, "length") >= 1000:
                yield source, port, total(packets, "length") / len(packets), *window


def sizes(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=2 * MINUTE, slide=2 * MINUTE):
        for (left,), packets in by(rows, lambda row: (whole(row["length"]) % 100,)):
            if whole(left) < 10:
                spread = longest(packets) - min(whole(row["length"]) for row in packets)
                yield left, spread, total(packets, "length") * 8, longest(packets), *window


def since_the_origin(tables: Tables) -> Iterator[Result]:
    origin = 1_795_255_500 * SECOND
    main, slide = tables["Main"], 90 * SECOND
    for *window, rows in sliding(main, "ts", size=4 * MINUTE, slide=slide, origin=origin, partial=False):
        yield len(rows), *window


def sampled(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main1"], "ts", size=10 * SECOND, slide=25 * SECOND):
        yield len(rows), total(rows, "length"), *window


def ends(tables: Tables) -> Iterator[Result]:
    inner = [row for row in tables["Main"] if row["destIP"] in ("10.0.0.1", "2001:db8::1") or row["srcPort"] == 65535]
    yield from dict.fromkeys((row["srcIP"], row["destIP"]) for row in inner)


def pairs(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=5 * MINUTE, slide=MINUTE):
        yield (
            len({row["srcIP"] for row in rows}),
            len({(row["srcIP"], row["destIP"]) for row in rows}),
            *window,
        )


def first_packets(tables: Tables) -> Iterator[Result]:
    for number, row in enumerate(tables["Main"][:20]):
        if whole(row["length"]) > 700:
            yield number, row["length"], whole(row["length"]) * 8 + 1


def filtered_rows(tables: Tables) -> Iterator[Result]:
    for *window, rows in ranked(tables["Main"], size=10, slide=5):
        kept = [row for row in rows if whole(row["length"]) > 700]
        if kept:
            yield len(kept), *window


def everything(tables: Tables) -> Iterator[Result]:
    for row in tables["Main"]:
        yield tuple(row.values())


def overall(tables: Tables) -> Iterator[Result]:
    rows = [*tables["Main1"], *tables["Main2"]]
    yield len(rows), total(rows, "length"), longest(rows)


def united(tables: Tables) -> Iterator[Result]:
    kept = [row for row in tables["Main1"] if row["srcPort"] == 80]
    kept += [row for row in tables["Main2"] if row["srcPort"] != 80]
    for *window, rows in sliding(kept, "ts", size=2 * MINUTE, slide=MINUTE):
        for (destination,), packets in grouped(rows, "destIP"):
            yield len(packets), destination, *window


def seen(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=2 * MINUTE, slide=2 * MINUTE):
        for key, _ in grouped(rows, "srcIP", "destIP"):
            yield *key, *window


def longest(rows: Sequence[Row]) -> int:
    """Give the greatest length."""
    return max(whole(row["length"]) for row in rows)


def whole(value: Scalar) -> int:
    """Give an integer as what it is."""
    assert isinstance(value, int)
    return value


Q5_2 = "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num, PA srcIP] FROM Main"
Q5_3 = "SELECT srcIP, max(length) [RANGE 1000 rows, SLIDE 10 rows, WA row-num] FROM Main GROUP-BY srcIP"
COUNTS = "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main"

GOLDEN = (
    Golden(
        "Q1-1",
        "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP",
        ("srcIP", "count", *WINDOW),
        q1_1,
        lambda s: s["M"].window(range="10 minutes", slide="1 minute").aggregate(f.count(), by="srcIP"),
    ),
    Golden(
        "Q1-2",
        "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union Main2",
        ("count", *WINDOW),
        q1_2,
        lambda s: meld(s["Control"], s["Main1"], s["Main2"]).window(range="1 minute").aggregate(f.count()),
    ),
    Golden(
        "Q2-1",
        """SELECT	srcIP, ts, count (*)
FROM	Main1
WHERE	srcIP = "202.101.0.0" or srcIP = "202.101.0.1"
GROUP BY	srcIP, ts""",
        ("srcIP", "ts", "count"),
        q2_1,
        lambda s: (
            s["Main1"]
            .filter(lambda p: p["srcIP"].isin(["202.101.0.0", "202.101.0.1"]))
            .aggregate(f.count(), by=("srcIP", "ts"))
        ),
    ),
    Golden(
        "Q5-1",
        "Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts] From Main Group By srcIP",
        ("srcIP", "count", *WINDOW),
        q5_1,
        lambda s: s["Main"].window(range="10 minutes", slide="1 minute", wattr="ts").aggregate(f.count(), by="srcIP"),
    ),
    Golden(
        "Q5-2",
        Q5_2,
        ("srcIP", "max_length", *WINDOW),
        longest_of_each(1000, 10),
        lambda s: (
            s["Main"]
            .window(range="1000 rows", slide="10 rows", wattr="row_num", partition="srcIP")
            .aggregate(f.max("length"))
        ),
        in_any_order=False,
    ),
    Golden(
        "Q5-2 over few rows",
        Q5_2.replace("1000", "7").replace("10", "3"),
        ("srcIP", "max_length", *WINDOW),
        longest_of_each(7, 3),
        in_any_order=False,
    ),
    Golden(
        "Q5-3",
        Q5_3,
        ("srcIP", "max_length", *WINDOW),
        longest_of_all(1000, 10),
        lambda s: (
            s["Main"].window(range="1000 rows", slide="10 rows", wattr="row-num").aggregate(f.max("length"), by="srcIP")
        ),
        in_any_order=False,
    ),
    Golden(
        "Q5-3 over few rows",
        Q5_3.replace("1000", "20").replace("10 rows", "6 rows"),
        ("srcIP", "max_length", *WINDOW),
        longest_of_all(20, 6),
        in_any_order=False,
    ),
    Golden(
        "Q5-4",
        "SELECT srcIP, count(*) [RANGE ALL, SLIDE 1 minute, WA ts]\n\nFROM Main1 GROUP BY srcIP",
        ("srcIP", "count", *WINDOW),
        q5_4,
        lambda s: s["Main1"].window(range="ALL", slide="1 minute").aggregate(f.count(), by="srcIP"),
    ),
    Golden(
        "Q6-2",
        "SELECT max(length) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM Main",
        ("max_length", *WINDOW),
        q6_2,
        lambda s: s["Main"].window(range="4 minutes", slide="1 minute").aggregate(f.max("length")),
    ),
    Golden(
        "chained on wid",
        f"SELECT max(count) [RANGE 10, SLIDE 5, WA wid] FROM ({COUNTS}) AS c",
        ("max_count", *WINDOW),
        busiest("wid", 10, 5),
        lambda s: (
            s["Main"]
            .window(range="1 minute")
            .aggregate(f.count())
            .window(range=10, slide=5, wattr="wid")
            .aggregate(f.max("count"))
        ),
    ),
    Golden(
        "chained on window_end",
        f"SELECT max(c.count) AS busiest [RANGE 3 minutes, SLIDE 2 minutes, WA c.window_end] FROM ({COUNTS}) AS c",
        ("busiest", *WINDOW),
        busiest("window_end", 3 * MINUTE, 2 * MINUTE),
    ),
    Golden(
        "HAVING, several keys, a quotient of aggregates",
        """SELECT srcIP, srcPort, sum(len) / count(*) AS mean_len [RANGE 3 minutes, SLIDE 1 minute, WA ts]
        FROM Main GROUP BY srcIP, srcPort HAVING count(*) > 1 AND mean_len * count(*) >= 1000""",
        ("srcIP", "srcPort", "mean_len", *WINDOW),
        talkers,
    ),
    Golden(
        "expressions before and after the aggregates",
        """SELECT left, max(len) - min(len) AS spread, sum(len * 8), max(Main.length) [RANGE TUMBLING 2 minutes]
        FROM Main GROUP BY length % 100 AS left HAVING left < 10""",
        ("left", "spread", "sum(len * 8)", "max_length", *WINDOW),
        sizes,
    ),
    Golden(
        "ORIGIN and NO PARTIAL",
        """SELECT count(*) AS n [RANGE 4 minutes, SLIDE 90 s, WA ts, ORIGIN "2026-11-21T10:05:00Z", NO PARTIAL]
        FROM Main""",
        ("n", *WINDOW),
        since_the_origin,
        lambda s: (
            s["Main"]
            .window(range="4 minutes", slide="90 s", origin="1795255500 s", partial=False)
            .aggregate(n=f.count())
        ),
    ),
    Golden(
        "windows with gaps between them",
        "SELECT count(*), sum(length) [RANGE 10 s, SLIDE 25 s, WA ts] FROM Main1",
        ("count", "sum_length", *WINDOW),
        sampled,
    ),
    Golden(
        "SELECT DISTINCT, IN and networks",
        """SELECT DISTINCT srcIP, destIP FROM Main
        WHERE destIP IN NETWORK "10.0.0.0/24" OR destIP IN ("2001:db8::1", "::") OR srcPort BETWEEN 65000 AND 65535""",
        ("srcIP", "destIP"),
        ends,
        lambda s: (
            s["Main"]
            .filter('destIP in "10.0.0.0/24" or destIP = "2001:db8::1" or srcPort = 65535')
            .distinct("srcIP", "destIP")
        ),
    ),
    Golden(
        "count distinct",
        """SELECT count(DISTINCT srcIP) AS sources, count(DISTINCT srcIP, destIP) AS pairs
        [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM Main""",
        ("sources", "pairs", *WINDOW),
        pairs,
    ),
    Golden(
        "arrival numbers are given before WHERE",
        "SELECT row-num AS n, len, len * 8 + 1 AS bits FROM Main WHERE row_num < 20 AND NOT len <= 700",
        ("n", "len", "bits"),
        first_packets,
        in_any_order=False,
    ),
    Golden(
        "a row window counts what WHERE leaves out",
        "SELECT count(*) [RANGE 10 rows, SLIDE 5 rows, WA row-num] FROM Main WHERE length > 700",
        ("count", *WINDOW),
        filtered_rows,
        in_any_order=False,
    ),
    Golden("every attribute", "SELECT * FROM Main", ("ts", "srcIP", "destIP", "srcPort", "length"), everything),
    Golden(
        "aggregates without window and group",
        "SELECT count(*), sum(length), max(length) FROM Main1 UNION Main2",
        ("count", "sum_length", "max_length"),
        overall,
        lambda s: s["Main1"].meld(s["Main2"]).aggregate(f.count(), f.sum("length"), f.max("length")),
    ),
    Golden(
        "a union of queries, the aggregate before its group",
        """SELECT count(*), destIP [RANGE 2 minutes, SLIDE 1 minute, WA ts]
        FROM (SELECT ts, destIP FROM Main1 WHERE srcPort = 80) UNION (SELECT ts, destIP FROM Main2 WHERE srcPort <> 80)
        GROUP BY destIP""",
        ("count", "destIP", *WINDOW),
        united,
    ),
    Golden(
        "groups alone",
        "SELECT srcIP AS source, destIP [RANGE TUMBLING 2 minutes, WA ts] FROM Main GROUP BY srcIP, destIP",
        ("source", "destIP", *WINDOW),
        seen,
    ),
)
