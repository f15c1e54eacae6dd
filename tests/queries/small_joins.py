"""Golden queries of several streams: joins of all kinds, unions, WITH, sub-queries and lookups in streams."""

from __future__ import annotations

from collections.abc import Mapping

import oop_engine as oop
from oop_engine.api.stream import Stream
from operators import functions as f
from tests.queries.small_cases import Case, sliding

NEAR = "a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '10' SECOND AND a.ts + INTERVAL '10' SECOND"


def near(streams: Mapping[str, Stream], kind: str, **more: object) -> Stream:
    """Return the join of T and U whose times are at most ten seconds apart."""
    return streams["T"].join(streams["U"], "k", range="10 s", closed=True, kind=kind, **more)  # pyright: ignore[reportArgumentType]


JOINS = (
    Case(
        f"SELECT a.n, b.n AS m FROM T AS a JOIN U AS b ON {NEAR}",
        lambda s: near(s, "inner").project("n", m="right_n"),
        f"SELECT a.n, b.n AS m FROM T AS a JOIN U AS b ON {NEAR}",
    ),
    Case(
        f"SELECT a.n, b.n AS m FROM T AS a LEFT JOIN U AS b ON {NEAR}",
        lambda s: near(s, "left").project("n", m="right_n"),
        f"SELECT a.n, b.n AS m FROM T AS a LEFT JOIN U AS b ON {NEAR}",
    ),
    Case(
        f"SELECT a.n, b.n AS m FROM T AS a RIGHT JOIN U AS b ON {NEAR}",
        lambda s: near(s, "right").project("n", m="right_n"),
        f"SELECT a.n, b.n AS m FROM T AS a RIGHT JOIN U AS b ON {NEAR}",
    ),
    Case(
        f"SELECT a.n, b.n AS m FROM T AS a FULL OUTER JOIN U AS b ON {NEAR}",
        lambda s: near(s, "full").project("n", m="right_n"),
        f"SELECT a.n, b.n AS m FROM T AS a FULL JOIN U AS b ON {NEAR}",
    ),
    Case(
        f"SELECT n FROM T AS a SEMI JOIN U AS b ON {NEAR}",
        lambda s: near(s, "semi").project("n"),
        f"SELECT n FROM T AS a SEMI JOIN U AS b ON {NEAR}",
    ),
    Case(
        f"SELECT n FROM T AS a ANTI JOIN U AS b ON {NEAR}",
        lambda s: near(s, "anti").project("n"),
        f"SELECT n FROM T AS a ANTI JOIN U AS b ON {NEAR}",
    ),
    Case(
        f"SELECT a.n, b.n AS m FROM T AS a LEFT JOIN U AS b ON {NEAR} AND a.v > b.v",
        lambda s: near(s, "left", where="v > right_v").project("n", m="right_n"),
        f"SELECT a.n, b.n AS m FROM T AS a LEFT JOIN U AS b ON {NEAR} AND a.v > b.v",
    ),
    Case(
        f"SELECT a.n, b.n AS m FROM T AS a JOIN U AS b ON {NEAR} WHERE a.v + b.v > 12",
        lambda s: near(s, "inner").filter("v + right_v > 12").project("n", m="right_n"),
        f"SELECT a.n, b.n AS m FROM T AS a JOIN U AS b ON {NEAR} WHERE a.v + b.v > 12",
    ),
    Case(
        "SELECT a.n, b.n AS m FROM T AS a [RANGE 1 minute, WA ts], U AS b [RANGE 5 s, WA ts] WHERE a.ip = b.ip",
        lambda s: s["T"].join(s["U"], "ip", range=("1 minute", "5 s")).project("n", m="right_n"),
        "SELECT a.n, b.n AS m FROM T AS a JOIN U AS b ON a.ip = b.ip AND b.ts > a.ts - INTERVAL 5 SECOND "
        "AND b.ts < a.ts + INTERVAL 1 MINUTE",
    ),
    Case(
        "SELECT a.n, b.n AS m FROM T AS a, U AS b [RANGE TUMBLING 2 minutes, WA ts] WHERE a.k = b.k",
        lambda s: s["T"].join(s["U"], "k", tumbling="2 minutes").project("n", m="right_n"),
        "SELECT a.n, b.n AS m FROM T AS a JOIN U AS b ON a.k = b.k AND "
        "epoch_us(a.ts) // 120000000 = epoch_us(b.ts) // 120000000",
    ),
    Case(
        f"SELECT count(*) AS c [RANGE 1 minute, WA least(a.ts, b.ts)] FROM T AS a JOIN U AS b ON {NEAR}",
        lambda s: near(s, "inner", least="low").window("1 minute", wattr="low").aggregate(c=f.count()),
        f"WITH x AS (SELECT least(a.ts, b.ts) AS ts FROM T AS a JOIN U AS b ON {NEAR}) "
        f"{sliding('count(*) AS c', size=60, slide=60, table='x')}",
    ),
    Case(
        f"SELECT count(*) AS c [RANGE 1 minute, WA greatest(a.ts, b.ts)] FROM T AS a JOIN U AS b ON {NEAR}",
        lambda s: near(s, "inner", greatest="high").window("1 minute", wattr="high").aggregate(c=f.count()),
        f"WITH x AS (SELECT greatest(a.ts, b.ts) AS ts FROM T AS a JOIN U AS b ON {NEAR}) "
        f"{sliding('count(*) AS c', size=60, slide=60, table='x')}",
    ),
    Case(
        "SELECT n FROM T UNION ALL U",
        lambda s: s["T"].meld(s["U"]).project("n"),
        "SELECT n FROM T UNION ALL SELECT n FROM U",
    ),
    Case(
        "SELECT count(*) AS c [RANGE 1 minute, WA ts] FROM T UNION U UNION E",
        lambda s: oop.meld(s["T"], s["U"], s["E"]).window("1 minute").aggregate(c=f.count()),
        f"WITH x AS (SELECT * FROM T UNION ALL SELECT * FROM U) "
        f"{sliding('count(*) AS c', size=60, slide=60, table='x')}",
    ),
    Case(
        "WITH big AS (SELECT n, v FROM T WHERE v > 5), all_ AS (SELECT * FROM big UNION ALL (SELECT n, v FROM U)) "
        "SELECT n, sum(v) AS s FROM all_ GROUP BY n",
        lambda s: (
            s["T"].project("n", "v").filter("v > 5").meld(s["U"].project("n", "v")).aggregate(s=f.sum("v"), by="n")
        ),
        "SELECT n, sum(v) AS s FROM (SELECT n, v FROM T WHERE v > 5 UNION ALL SELECT n, v FROM U) GROUP BY n",
    ),
    Case(
        "SELECT x.twice - 1 AS y FROM (SELECT 2 * n AS twice FROM T WHERE ok) AS x WHERE x.twice > 6",
        lambda s: s["T"].filter("ok").project(twice="2 * n").filter("twice > 6").project(y="twice - 1"),
        "SELECT x.twice - 1 AS y FROM (SELECT 2 * n AS twice FROM T WHERE ok) AS x WHERE x.twice > 6",
    ),
    Case(
        "SELECT n, u.n AS m FROM T LOOKUP U AS u ON k = u.k VALID FROM u.ts WAIT",
        lambda s: s["T"].lookup(s["U"], "k", columns={"m": "n"}, valid_from="ts", wait=True).project("n", "m"),
        "SELECT T.n, U.n AS m FROM T ASOF LEFT JOIN U ON T.k = U.k AND T.ts >= U.ts",
    ),
    Case(
        "SELECT n, u.v AS v2 FROM T INNER LOOKUP U AS u ON ip = u.ip WAIT",
        lambda s: s["T"].lookup(s["U"], "ip", columns={"v2": "v"}, required=True, wait=True).project("n", "v2"),
        "SELECT T.n, U.v AS v2 FROM T ASOF JOIN U ON T.ip = U.ip AND T.ts >= U.ts",
    ),
    Case(
        "SELECT n, u.n AS m, sign FROM T LOOKUP E AS u ON k = u.k REVISE 1 minute",
        lambda s: s["T"].lookup(s["E"], "k", columns={"m": "n"}, revise="1 minute").project("n", "m", "sign"),
        "SELECT n, NULL AS m, 1 AS sign FROM T",
    ),
)
