"""Golden queries of a working day: choices, text, bits, networks, times, rates, order, and joins with ON."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping

from oop_engine.api.stream import Stream
from operators import functions as f
from operators.data.page import Row, Scalar
from tests.naive_windows import by, grouped, sliding, total
from tests.queries.golden import WINDOW, Golden, Result, longest, whole
from tests.queries.streams import MINUTE, SECOND, START, Tables

Each = Callable[[Row], Result]
Python = Callable[[Mapping[str, Stream]], Stream]
TEXT = "cast(srcPort, 'string')"


def each(text: str, columns: str, value: Each, keep: Callable[[Row], bool] | None = None, **more: object) -> Golden:
    """Make a golden query that computes one result of each packet that it keeps."""

    def expected(tables: Tables) -> Iterator[Result]:
        for row in tables["Main"]:
            if keep is None or keep(row):
                yield value(row)

    return Golden(text, text, tuple(columns.split()), expected, **more)  # pyright: ignore[reportArgumentType]


def minutes(text: str, columns: str, results: Callable[[list[Row]], Iterator[Result]], **more: object) -> Golden:
    """Make a golden query that computes results of each minute."""

    def expected(tables: Tables) -> Iterator[Result]:
        for *window, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=MINUTE):
            for result in results(list(rows)):
                yield *result, *window

    return Golden(text, text, (*columns.split(), *WINDOW), expected, **more)  # pyright: ignore[reportArgumentType]


def port(row: Row) -> int:
    """Return the source port."""
    return whole(row["srcPort"])


def other(row: Row) -> int | None:
    """Return nullif(srcPort, 80)."""
    return None if port(row) == 80 else port(row)


def network(address: object, v4: int, v6: int) -> str:
    """Return the first address of a network."""
    found = ipaddress.ip_address(str(address))
    return str(ipaddress.ip_network((found, v4 if found.version == 4 else v6), strict=False).network_address)


def counts(rows: list[Row], name: str) -> list[tuple[Scalar, int]]:
    """Return groups and their sizes."""
    return [(key, len(packets)) for (key,), packets in grouped(rows, name)]


def busiest(rows: list[Row]) -> Iterator[Result]:
    sizes = [(source, len(packets)) for (source,), packets in grouped(rows, "srcIP")]
    yield from sorted(sizes, key=lambda pair: (-pair[1], str(pair[0])))[:2]


def by_port(rows: list[Row]) -> Iterator[Result]:
    for (key,), packets in by(rows, lambda row: (other(row),)):
        yield key, len(packets)


def lowest_ports(rows: list[Row]) -> Iterator[Result]:
    yield from sorted(by_port(rows), key=lambda pair: (pair[0] is None, pair[0] or 0))[:3]


def kinds(rows: list[Row]) -> Iterator[Result]:
    for (key,), packets in by(rows, lambda row: ("web" if port(row) in (80, 443) else "other",)):
        yield key, sum(whole(row["length"]) > 700 for row in packets)


def rates(rows: list[Row]) -> Iterator[Result]:
    for (source,), packets in grouped(rows, "srcIP"):
        if len(packets) / 60 > 0.03:
            yield source, total(packets, "length") / 60, len(packets) / 60


def spread(rows: list[Row]) -> Iterator[Result]:
    yield (longest(rows) - min(whole(row["length"]) for row in rows)) / 60, len({row["destIP"] for row in rows})


def hops(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=20 * SECOND):
        yield len(rows), *window


def of_half_a_minute(tables: Tables) -> Iterator[Result]:
    rows = [row for row in (*tables["Main1"], *tables["Main2"]) if port(row) != 80]
    for wid, start, end, found in sliding(rows, "ts", size=30 * SECOND, slide=30 * SECOND, origin=10 * SECOND):
        yield start, longest(found), wid, start, end


def longest_first(tables: Tables) -> Iterator[Result]:
    yield from sorted(((row["length"], port(row)) for row in tables["Main"]), key=lambda r: (-whole(r[0]), r[1]))[:5]


def busiest_minutes(tables: Tables) -> Iterator[Result]:
    found: list[Row] = []
    for _, _, end, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=MINUTE):
        for _, size in counts(list(rows), "srcIP"):
            found.append({"end": end, "n": size})
    for *window, rows in sliding(found, "end", size=2 * MINUTE, slide=2 * MINUTE):
        yield max(whole(row["n"]) for row in rows), *window


def near(tables: Tables, low: int, high: int) -> Iterator[tuple[Row, list[Row]]]:
    """Yield the packets of one link, each with those of the other from its source that are near in time."""
    for row in tables["Main1"]:
        yield (
            row,
            [
                partner
                for partner in tables["Main2"]
                if None not in (row["ts"], partner["ts"])
                and row["srcIP"] == partner["srcIP"]
                and low <= whole(partner["ts"]) - whole(row["ts"]) <= high
            ],
        )


def joined(tables: Tables) -> Iterator[Result]:
    for row, partners in near(tables, 0, 9 * SECOND):
        for partner in partners:
            yield row["srcIP"], row["length"], partner["length"]


def outer(tables: Tables) -> Iterator[Result]:
    for row, partners in near(tables, -5 * SECOND, 5 * SECOND):
        large = [partner for partner in partners if whole(partner["length"]) > 700]
        for partner in large:
            yield row["length"], partner["length"]
        if not large:
            yield row["length"], None


def alone(tables: Tables) -> Iterator[Result]:
    for row, partners in near(tables, -20 * SECOND, 20 * SECOND):
        if not partners:
            yield row["srcIP"], row["length"]


def accompanied(tables: Tables) -> Iterator[Result]:
    for row, partners in near(tables, -20 * SECOND, 20 * SECOND):
        if any(whole(row["length"]) < whole(partner["length"]) for partner in partners) and port(row) > 80:
            yield row["srcIP"], row["length"]


def longest_pairs(tables: Tables) -> Iterator[Result]:
    pairs = [(row, partner) for row, partners in near(tables, 0, 9 * SECOND) for partner in partners]
    rows: list[Row] = [{"at": row["ts"], "sum": whole(row["length"]) + whole(p["length"])} for row, p in pairs]
    for *window, found in sliding(rows, "at", size=MINUTE, slide=MINUTE):
        yield max(whole(row["sum"]) for row in found), *window


HALF = "BETWEEN b.ts - INTERVAL '20' SECOND AND b.ts + INTERVAL '20' SECOND"
LATER = "a.srcIP = b.srcIP AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '9' SECOND"
FIRST = "2026-11-21 10:00:00"

GOLDEN = (
    each(
        "SELECT CASE WHEN srcPort = 80 THEN 'web' WHEN length > 700 THEN 'long' END AS kind, length FROM Main",
        "kind length",
        lambda r: ("web" if port(r) == 80 else "long" if whole(r["length"]) > 700 else None, r["length"]),
        python=lambda s: s["Main"].project(
            "length", kind="CASE WHEN srcPort = 80 THEN 'web' WHEN length > 700 THEN 'long' END"
        ).project("kind", "length"),
    ),
    each("SELECT CASE srcPort WHEN 80 THEN 1 WHEN 443 THEN 2 ELSE 0 END AS x FROM Main", "x",
         lambda r: ({80: 1, 443: 2}.get(port(r), 0),)),
    each("SELECT coalesce(nullif(srcPort, 80), 1) AS p FROM Main", "p", lambda r: (other(r) or 1,)),
    each("SELECT nullif(srcPort, 80) AS p FROM Main", "p", lambda r: (other(r),),
         python=lambda s: s["Main"].project(p="nullif(srcPort, 80)")),
    each("SELECT length FROM Main WHERE nullif(srcPort, 80) IS NULL", "length", lambda r: (r["length"],),
         lambda r: port(r) == 80),
    each("SELECT length FROM Main WHERE nullif(srcPort, 80) > 443", "length", lambda r: (r["length"],),
         lambda r: port(r) > 443),
    each("SELECT length FROM Main WHERE NOT nullif(srcPort, 80) > 443", "length", lambda r: (r["length"],),
         lambda r: port(r) == 443),
    each(f"SELECT srcPort FROM Main WHERE {TEXT} LIKE '_0%'", "srcPort", lambda r: (port(r),),
         lambda r: port(r) in (80, 1024), python=lambda s: s["Main"].filter(f"{TEXT} LIKE '_0%'").project("srcPort")),
    each(f"SELECT srcPort FROM Main WHERE NOT 'P' || {TEXT} ILIKE 'p8%'", "srcPort", lambda r: (port(r),),
         lambda r: port(r) != 80),
    each(f"SELECT 'p' || {TEXT} AS s, upper('p' || {TEXT}) AS u, substr({TEXT}, 2, 2) AS t, "
         f"length({TEXT}) AS n FROM Main",
         "s u t n", lambda r: (f"p{port(r)}", f"P{port(r)}", str(port(r))[1:3], len(str(port(r))))),
    each(f"SELECT srcPort FROM Main WHERE regexp_matches({TEXT}, '^(80|443)$')", "srcPort", lambda r: (port(r),),
         lambda r: port(r) in (80, 443)),
    each(f"SELECT replace({TEXT}, '4', 'x') AS x, starts_with({TEXT}, '1') AS a, ends_with({TEXT}, '3') AS b, "
         f"contains({TEXT}, '53') AS c, trim('  ' || {TEXT} || ' ') AS t FROM Main", "x a b c t",
         lambda r: (str(port(r)).replace("4", "x"), str(port(r))[0] == "1", str(port(r))[-1] == "3",
                    "53" in str(port(r)), str(port(r)))),
    each("SELECT cast(nullif(srcPort, 80), 'string') || 'x' AS s FROM Main", "s",
         lambda r: (None if port(r) == 80 else f"{port(r)}x",)),
    each("SELECT srcPort & 255 AS a, srcPort | 1 AS b, srcPort << 2 AS c, srcPort >> 3 AS d FROM Main", "a b c d",
         lambda r: (port(r) & 255, port(r) | 1, port(r) << 2, port(r) >> 3)),
    each("SELECT length FROM Main WHERE srcPort & 1 = 1 AND srcPort >> 8 <> 0", "length", lambda r: (r["length"],),
         lambda r: port(r) % 2 == 1 and port(r) > 255),
    each("SELECT network(destIP, 23) AS n FROM Main", "n", lambda r: (network(r["destIP"], 23, 64),),
         python=lambda s: s["Main"].project(n="network(destIP, 23)")),
    each("SELECT network(destIP, 8, 32) AS n FROM Main", "n", lambda r: (network(r["destIP"], 8, 32),)),
    each("SELECT length FROM Main WHERE destIP IN ('10.0.1.0/24', '2001:db8::/32')", "length", lambda r: (r["length"],),
         lambda r: r["destIP"] != "10.0.0.1"),
    each("SELECT length FROM Main WHERE destIP NOT IN ('10.0.0.0/8', '2001:db8::2')", "length",
         lambda r: (r["length"],), lambda r: r["destIP"] == "2001:db8::1"),
    each("SELECT least(length, 700) AS a, greatest(length, 700, 800) AS b FROM Main", "a b",
         lambda r: (min(whole(r["length"]), 700), max(whole(r["length"]), 800))),
    each("SELECT srcPort FROM Main WHERE srcPort = 'https' OR srcPort IN ('http', 5353)", "srcPort",
         lambda r: (port(r),), lambda r: port(r) in (80, 443, 5353)),
    each(f"SELECT length FROM Main WHERE ts BETWEEN TIMESTAMP '{FIRST}' AND '{FIRST}Z' OR ts - INTERVAL '90' SECOND "
         f">= TIMESTAMP '{FIRST}'", "length", lambda r: (r["length"],),
         lambda r: r["ts"] is not None and whole(r["ts"]) >= START + 100 * SECOND),
    each("SELECT ts + INTERVAL '1' MINUTE AS later FROM Main", "later",
         lambda r: (None if r["ts"] is None else whole(r["ts"]) + MINUTE,)),
    each("SELECT srcIP FROM Main WHERE length > 99999", "srcIP", lambda r: (r["srcIP"],),
         lambda r: whole(r["length"]) > 99999, empty=True),
    each("SELECT srcIP FROM Main WHERE coalesce(NULL, srcPort) = 80 AND TRUE", "srcIP", lambda r: (r["srcIP"],),
         lambda r: port(r) == 80),
    minutes("SELECT count(*) FROM TUMBLE(TABLE Main, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", "count",
            lambda rows: iter([(len(rows),)]), python=lambda s: s["Main"].window("1 minute").aggregate(f.count())),
    minutes("SELECT count(*) FROM Main GROUP BY time_bucket(INTERVAL '1' MINUTE, ts)", "count",
            lambda rows: iter([(len(rows),)])),
    minutes("SELECT srcIP, count(*) AS n FROM Main GROUP BY date_trunc('minute', ts), srcIP ORDER BY n DESC, srcIP "
            "LIMIT 2",
            "srcIP n", busiest,
            python=lambda s: s["Main"].window("1 minute").aggregate(n=f.count(), by="srcIP").ranked(
                ["n", "srcIP"], 2, within=["wid", "window_start", "window_end"], descending=["n"])),
    minutes("SELECT srcIP, count(*) AS n FROM Main GROUP BY date_trunc('minute', ts), srcIP ORDER BY 2 DESC LIMIT 999",
            "srcIP n", lambda rows: iter([(key, n) for key, n in counts(rows, "srcIP")])),
    minutes("SELECT p, count(*) AS n [RANGE 1 minute, WA ts] FROM Main GROUP BY nullif(srcPort, 80) AS p", "p n",
            by_port,
            python=lambda s: s["Main"].derive(p="nullif(srcPort, 80)").window("1 minute")
            .aggregate(n=f.count(), by="p")),
    minutes("SELECT p, count(*) AS n [RANGE 1 minute, WA ts] FROM Main GROUP BY nullif(srcPort, 80) AS p ORDER BY p "
            "LIMIT 3", "p n", lowest_ports),
    minutes("SELECT destIP, count(*) AS n [RANGE 1 minute, WA ts] FROM Main GROUP BY destIP HAVING n > 99 ORDER BY n",
            "destIP n", lambda _: iter(()), empty=True),
    minutes("SELECT destIP, count(*) AS n [RANGE 1 minute, WA ts] FROM Main GROUP BY destIP ORDER BY destIP DESC "
            "LIMIT 1",
            "destIP n", lambda rows: iter([max(
                ((str(key), n) for key, n in counts(rows, "destIP")),
                key=lambda pair: int(ipaddress.ip_address(pair[0])) + (":" in pair[0]) * 2**128,
            )])),
    minutes("SELECT kind, sum(length > 700) AS n [RANGE 1 minute, WA ts] FROM Main GROUP BY CASE WHEN srcPort IN "
            "('http', 'https') THEN 'web' ELSE 'other' END AS kind", "kind n", kinds),
    minutes("SELECT srcIP, rate(length), rate(*) [RANGE 1 minute, WA ts] FROM Main GROUP BY srcIP HAVING rate(*) "
            "> 0.03", "srcIP rate_length rate", rates),
    minutes("SELECT rate(max(length) - min(length)) AS r, count(DISTINCT destIP) AS n [RANGE 1 minute, WA ts] "
            "FROM Main", "r n", spread),
    Golden("HOP", "SELECT count(*) FROM HOP(TABLE Main, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)",
           ("count", *WINDOW), hops, lambda s: s["Main"].window("1 minute", slide="20 s").aggregate(f.count())),
    Golden("WITH, UNION ALL and a bucket with an origin",
           "WITH both AS (SELECT * FROM Main1 UNION ALL Main2), rest AS (SELECT * FROM both WHERE srcPort <> 'http') "
           "SELECT time_bucket('30 s', ts, TIMESTAMP '1970-01-01 00:00:10') AS begin, max(length) AS l FROM rest "
           "GROUP BY begin;",
           ("begin", "l", *WINDOW), of_half_a_minute),
    Golden("ORDER BY without a window", "SELECT length, srcPort FROM Main ORDER BY length DESC LIMIT 5",
           ("length", "srcPort"), longest_first),
    Golden("two windows in a row",
           "WITH n AS (SELECT srcIP, count(*) AS n FROM Main GROUP BY srcIP, date_trunc('minute', ts)) "
           "SELECT max(n) AS m [RANGE 2 minutes, WA window_end] FROM n",
           ("m", *WINDOW), busiest_minutes),
    Golden("JOIN ON", f"SELECT a.srcIP, a.length, b.length AS l FROM Main1 AS a JOIN Main2 AS b ON {LATER}",
           ("srcIP", "length", "l"), joined),
    Golden("LEFT JOIN with a condition of the right",
           "SELECT a.length, b.length AS l FROM Main1 AS a LEFT JOIN Main2 AS b ON a.srcIP = b.srcIP AND a.ts BETWEEN "
           "b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '5' SECOND AND b.length > 700",
           ("length", "l"), outer,
           lambda s: s["Main1"].join(s["Main2"], "srcIP", range="5 s", closed=True, kind="left",
                                     where="right_length > 700").project("length", l="right_length")),
    Golden("ANTI JOIN", f"SELECT srcIP, length FROM Main1 AS a ANTI JOIN Main2 AS b ON a.srcIP = b.srcIP "
           f"AND a.ts {HALF}", ("srcIP", "length"), alone,
           lambda s: s["Main1"].join(s["Main2"], "srcIP", range="20 s", closed=True, kind="anti")
           .project("srcIP", "length")),
    Golden("SEMI JOIN with a condition on both",
           "SELECT a.srcIP, a.length FROM Main1 AS a SEMI JOIN Main2 AS b ON a.srcIP = b.srcIP AND a.length < b.length "
           f"AND a.ts {HALF} WHERE a.srcPort > 80",
           ("srcIP", "length"), accompanied),
    Golden("ORDER BY over a join",
           "SELECT max(s) AS m FROM (SELECT a.ts AS at, a.length + b.length AS s FROM Main1 AS a JOIN Main2 AS b "
           f"ON {LATER}) AS pairs GROUP BY time_bucket('1 minute', at) ORDER BY m DESC LIMIT 1",
           ("m", *WINDOW), longest_pairs),
)  # fmt: skip
