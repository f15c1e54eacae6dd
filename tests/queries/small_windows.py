"""Golden queries of windows of all kinds, in brackets and as SQL spells them."""

from __future__ import annotations

import oop_engine as oop
from operators import functions as f
from tests.queries.small import SECOND, START
from tests.queries.small_cases import MINUTE, Case, minutes, sessions, sliding, window

WINDOWS = (
    window(
        "count(*) AS c",
        MINUTE,
        sliding("count(*) AS c", size=60, slide=60),
        lambda s: minutes(s).aggregate(c=f.count()),
    ),
    window(
        "sum(v) AS s, max(k) AS k",
        MINUTE,
        sliding("sum(v) AS s, max(k) AS k", size=60, slide=60),
        lambda s: minutes(s).aggregate(s=f.sum("v"), k=f.max("k")),
    ),
    window(
        "k, count(*) AS c",
        MINUTE,
        sliding("count(*) AS c", size=60, slide=60, by="k"),
        lambda s: minutes(s).aggregate(c=f.count(), by="k"),
        rest=" GROUP BY k",
    ),
    window(
        "k, count(*) AS c",
        MINUTE,
        sliding("count(*) AS c", size=60, slide=60, by="k", having=" HAVING count(*) > 1"),
        lambda s: minutes(s).aggregate(c=f.count(), by="k").filter("c > 1"),
        rest=" GROUP BY k HAVING c > 1",
    ),
    window(
        "count(*) AS c",
        MINUTE,
        sliding("count(*) AS c", size=60, slide=60, where="ok"),
        lambda s: s["T"].filter("ok").window("1 minute").aggregate(c=f.count()),
        rest=" WHERE ok",
    ),
    window(
        "avg(v) AS a",
        "RANGE 2 minutes, SLIDE 30 s, WA ts",
        sliding("avg(v) AS a", size=120, slide=30, where="n <> 7"),
        lambda s: s["T"].filter("n <> 7").window("2 minutes", slide="30 s").aggregate(a=f.avg("v")),
        rest=" WHERE n <> 7",
    ),
    window(
        "count(*) AS c",
        "RANGE 20 s, SLIDE 1 minute, WA ts",
        sliding("count(*) AS c", size=20, slide=60),
        lambda s: s["T"].window("20 s", slide="1 minute").aggregate(c=f.count()),
    ),
    window(
        "max(f) AS m",
        "RANGE TUMBLING 1 minute, WA ts, ORIGIN 15 s",
        sliding("max(f) AS m", size=60, slide=60, origin=15),
        lambda s: s["T"].window("1 minute", origin="15 s").aggregate(m=f.max("f")),
    ),
    window(
        "count(*) AS c",
        "SESSION 30 s, WA ts",
        sessions("count(*) AS c", 30),
        lambda s: s["T"].window(oop.session("30 s")).aggregate(c=f.count()),
    ),
    window(
        "proto, max(v) AS m",
        "SESSION 1 minute, WA ts",
        sessions("max(v) AS m", 60, by="proto"),
        lambda s: s["T"].window(oop.session("1 minute")).aggregate(m=f.max("v"), by="proto"),
        rest=" GROUP BY proto",
    ),
    window("count(*) AS c", f"{MINUTE}, EMPTY", None, lambda s: minutes(s).aggregate(c=f.count(), empty=True)),
    window(
        "count(*) AS c", f"{MINUTE}, LATENESS 10 s", None, lambda s: minutes(s).aggregate(c=f.count(), lateness="10 s")
    ),
    window(
        "count(*) AS c",
        f"{MINUTE}, EARLY 20 s, LATENESS 10 s",
        None,
        lambda s: minutes(s).aggregate(c=f.count(), early="20 s", lateness="10 s"),
    ),
    window(
        "count(*) AS c",
        f"{MINUTE}, LATENESS 10 s DISCARD",
        None,
        lambda s: minutes(s).aggregate(c=f.count(), lateness="10 s", refine="discard"),
    ),
    window("count(*) AS c", f"{MINUTE}, EARLY 20 s", None, lambda s: minutes(s).aggregate(c=f.count(), early="20 s")),
    window(
        "count(*) AS c",
        f"{MINUTE}, EARLY AT 50 % DISCARD",
        None,
        lambda s: minutes(s).aggregate(c=f.count(), early=oop.early(at=[0.5], refine="discard")),
    ),
    window(
        "sum(v) AS x",
        f"{MINUTE}, EARLY AT 10 s RETRACT",
        None,
        lambda s: minutes(s).aggregate(x=f.sum("v"), early=oop.early(at=["10 s"], refine="retract")),
    ),
    window(
        "count(*) AS c",
        f"{MINUTE}, CONSISTENT",
        sliding("count(*) AS c", size=60, slide=60),
        lambda s: s["T"].window("1 minute", consistent=True).aggregate(c=f.count()),
    ),
    window(
        "count(*) AS c",
        f"{MINUTE}, STRATEGY wid",
        sliding("count(*) AS c", size=60, slide=60),
        lambda s: minutes(s).aggregate(c=f.count(), strategy="wid"),
    ),
    window(
        "max(v) AS m",
        "RANGE 3 minutes, SLIDE 1 minute, WA ts, STRATEGY two_stacks",
        sliding("max(v) AS m", size=180, slide=60),
        lambda s: s["T"].window("3 minutes", slide="1 minute").aggregate(m=f.max("v"), strategy="two_stacks"),
    ),
    window(
        "count(*) AS c",
        "RANGE ALL, SLIDE 1 minute, WA ts",
        None,
        lambda s: s["T"].window("ALL", slide="1 minute").aggregate(c=f.count()),
    ),
    window(
        "max(n) AS m",
        "RANGE 4 rows, SLIDE 2 rows, WA row-num",
        None,
        lambda s: s["T"].window("4 rows", slide="2 rows", wattr="row_num").aggregate(m=f.max("n")),
    ),
    window(
        "max(n) AS m",
        "RANGE 4 rows, SLIDE 2 rows, WA rank(ts)",
        None,
        lambda s: s["T"].window(oop.counted(4, slide=2)).aggregate(m=f.max("n")),
    ),
    window(
        "proto, count(*) AS c",
        "RANGE 2 rows, WA row-num, PA proto",
        None,
        lambda s: s["T"].window("2 rows", wattr="row_num", partition="proto").aggregate(c=f.count()),
    ),
    window(
        "max(v) AS m",
        "RANGE 3 rows, SLIDE 1 minute, WA ts",
        None,
        lambda s: s["T"].window(oop.latest(3, every="1 minute")).aggregate(m=f.max("v")),
    ),
    window(
        "count(*) AS c",
        "RANGE 1 minute, RATTR ts, SLIDE 4 rows, SATTR rank(ts)",
        None,
        lambda s: s["T"].window(oop.slide_by_rank("1 minute", 4)).aggregate(c=f.count()),
    ),
    window(
        "count(*) AS c",
        "BAND 1 minute FROM '2026-11-21T10:00:10Z', WA ts",
        "SELECT count(*) AS c, 0 AS wid, TIMESTAMP '2026-11-21 10:00:10' AS a, TIMESTAMP '2026-11-21 10:01:10' AS b "
        "FROM T WHERE ts >= a AND ts < b",
        lambda s: s["T"].window(oop.band(f"{START + 10 * SECOND} ns", "1 minute")).aggregate(c=f.count()),
    ),
    window(
        "sum(v) AS s", "MARKED BY ok, WA ts", None, lambda s: s["T"].window(oop.marked("ok")).aggregate(s=f.sum("v"))
    ),
    window(
        "count(*) AS c", "WHEN v > 2, WA ts", None, lambda s: s["T"].window(oop.when("v > 2")).aggregate(c=f.count())
    ),
    window(
        "sum(v) AS s",
        "WHEN ok UNTIL v > 2 WITHIN 1 minute, WA ts",
        None,
        lambda s: s["T"].window(oop.when(enter="ok", leave="v > 2", within="1 minute")).aggregate(s=f.sum("v")),
    ),
    window(
        "sum(v) AS s",
        "WHEN ok UNTIL NEXT, WA ts",
        None,
        lambda s: s["T"].window(oop.when(enter="ok")).aggregate(s=f.sum("v")),
    ),
    window(
        "count(*) AS c",
        "CALENDAR day IN 'America/New_York', WA ts",
        None,
        lambda s: s["T"].window(oop.calendar("day", zone="America/New_York")).aggregate(c=f.count()),
    ),
    window(
        "count(*) AS c",
        "CALENDAR month, WA ts",
        None,
        lambda s: s["T"].window(oop.calendar("month")).aggregate(c=f.count()),
    ),
    window(
        "max(v) AS m",
        "RANGE 10, SLIDE 5, WA n",
        "SELECT max(v) AS m, wid, (wid + 1) * 5 - 10 AS a, (wid + 1) * 5 AS b FROM T JOIN "
        "(SELECT unnest(range(-9, 9)) AS wid) "
        "ON n >= (wid + 1) * 5 - 10 AND n < (wid + 1) * 5 GROUP BY wid",
        lambda s: s["T"].window(10, slide=5, wattr="n").aggregate(m=f.max("v")),
    ),
    Case(
        "SELECT count(*) AS c [RANGE 1 minute, WA ts] AS short, [RANGE 2 minutes, WA ts] AS long FROM T",
        lambda s: s["T"].windows(short=oop.tumbling("1 minute"), long=oop.tumbling("2 minutes")).aggregate(c=f.count()),
        f"SELECT c, 'short' AS window, wid, a, b FROM ({sliding('count(*) AS c', size=60, slide=60)}) UNION ALL "
        f"SELECT c, 'long', wid, a, b FROM ({sliding('count(*) AS c', size=120, slide=120)})",
    ),
    Case(
        "SELECT k, count(*) AS c FROM TUMBLE(TABLE T, DESCRIPTOR(ts), INTERVAL '2' MINUTE) GROUP BY k, window_start",
        lambda s: s["T"].window("2 minutes").aggregate(c=f.count(), by="k"),
        sliding("count(*) AS c", size=120, slide=120, by="k"),
    ),
    Case(
        "SELECT sum(v) AS s FROM HOP(TABLE T, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTES)",
        lambda s: s["T"].window("3 minutes", slide="1 minute").aggregate(s=f.sum("v")),
        sliding("sum(v) AS s", size=180, slide=60),
    ),
    Case(
        "SELECT count(*) AS c FROM SESSION(TABLE T, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
        lambda s: s["T"].window(oop.session("1 minute")).aggregate(c=f.count()),
        sessions("count(*) AS c", 60),
    ),
    Case(
        "SELECT time_bucket('90 s', ts) AS begin, count(*) AS c FROM T GROUP BY begin",
        lambda s: (
            s["T"]
            .window("90 s")
            .aggregate(c=f.count())
            .project("c", "wid", "window_start", "window_end", begin="window_start")
            .project("begin", "c", "wid", "window_start", "window_end")
        ),
        f"SELECT a AS begin, c, wid, a, b FROM ({sliding('count(*) AS c', size=90, slide=90)})",
    ),
    Case(
        "SELECT date_bin(INTERVAL '1' HOUR, ts) AS h, max(v) AS m FROM T GROUP BY h",
        lambda s: (
            s["T"]
            .window("1 hour")
            .aggregate(m=f.max("v"))
            .project(h="window_start", m="m", wid="wid", window_start="window_start", window_end="window_end")
        ),
        f"SELECT a AS h, m, wid, a, b FROM ({sliding('max(v) AS m', size=3600, slide=3600)})",
    ),
    Case(
        "SELECT k, rate(v) AS r FROM T WHERE n <> 7 GROUP BY k, date_trunc('minute', ts)",
        lambda s: (
            s["T"]
            .filter("n <> 7")
            .window("1 minute")
            .aggregate(r=f.sum("v"), by="k")
            .project("k", r="r / 60", wid="wid", window_start="window_start", window_end="window_end")
        ),
        sliding("sum(v) / 60 AS r", size=60, slide=60, by="k", where="n <> 7"),
    ),
    Case(
        f"SELECT k, v [{MINUTE}] FROM T GROUP BY k, v",
        lambda s: (
            minutes(s).aggregate(by=["k", "v"], c=f.count()).project("k", "v", "wid", "window_start", "window_end")
        ),
        f"SELECT k, v, wid, a, b FROM ({sliding('count(*) AS c', size=60, slide=60, by='k, v')})",
    ),
    Case(
        f"SELECT k, count(*) AS c [{MINUTE}] FROM T GROUP BY k ORDER BY c DESC, k LIMIT 1",
        lambda s: (
            minutes(s)
            .aggregate(c=f.count(), by="k")
            .ranked(["c", "k"], 1, within=["wid", "window_start", "window_end"], descending=["c"])
        ),
        f"SELECT * FROM ({sliding('count(*) AS c', size=60, slide=60, by='k')}) QUALIFY row_number() OVER "
        "(PARTITION BY wid ORDER BY c DESC, k NULLS LAST) = 1",
    ),
    Case(
        "SELECT max(c) AS m [RANGE 2 minutes, WA window_end] FROM "
        "(SELECT k, count(*) AS c [RANGE 1 minute, WA ts] FROM T GROUP BY k) AS x",
        lambda s: (
            minutes(s).aggregate(c=f.count(), by="k").window("2 minutes", wattr="window_end").aggregate(m=f.max("c"))
        ),
        f"WITH x AS (SELECT c, b AS ts FROM ({sliding('count(*) AS c', size=60, slide=60, by='k')})) "
        f"{sliding('max(c) AS m', size=120, slide=120, table='x')}",
    ),
    Case(
        f"SELECT sum(n) AS total [{MINUTE}] FROM T ALERT busy WHEN total > 8 FOR 1 WINDOWS CLEAR BELOW 3",
        lambda s: minutes(s).aggregate(total=f.sum("n")).alert("busy", "total > 8", clear="total < 3"),
        None,
    ),
    Case(
        "SELECT sum(v) AS s [RANGE 20 s, WA ts] FROM T SPREAD v OVER ts, until BY 20 s WHERE n <> 7",
        lambda s: (
            s["T"]
            .spread("v", step="20 s", start="ts", end="until")
            .filter("n <> 7")
            .window("20 s")
            .aggregate(s=f.sum("v"))
        ),
        None,
    ),
    Case(
        "SELECT arrived, n FROM T NUMBER AS arrived WHERE ok",
        lambda s: s["T"].number("arrived").filter("ok").project("arrived", "n"),
        "SELECT n AS arrived, n FROM T WHERE ok",
    ),
    Case(
        "SELECT row_num, n FROM (SELECT n FROM T WHERE row_num > 3 AND ok) AS x WHERE row_num < 9",
        lambda s: s["T"].number("row_num").filter("row_num > 3 AND ok AND row_num < 9").project("row_num", "n"),
        "SELECT n AS row_num, n FROM T WHERE n > 3 AND ok AND n < 9",
    ),
)
