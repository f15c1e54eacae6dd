"""Golden queries of aggregates without windows: every function, groups, HAVING, ORDER BY, DISTINCT, no tuples."""

from __future__ import annotations

from operators import functions as f
from tests.queries.small_cases import MINUTE, Case, minutes, sliding, total

TOTALS = (
    total("count(*)", "", f.count()),
    total("count(v)", "", f.count("v")),
    total("sum(v)", "", f.sum("v")),
    total("min(f)", "", f.min("f"), where="n <> 2"),
    total("max(f)", "", f.max("f"), where="n <> 2"),
    total("avg(v)", "", f.avg("v"), where="n <> 7"),
    total("min(k)", "", f.min("k")),
    total("max(ts)", "", f.max("ts")),
    total("variance(v)", "var_samp(v)", f.variance("v"), where="n <> 7"),
    total("stddev(v)", "stddev_samp(v)", f.stddev("v"), where="n <> 7"),
    total("count(DISTINCT k)", "", f.count_distinct("k")),
    total("count(DISTINCT ip)", "", f.count_distinct("ip")),
    total("median(v)", "quantile_disc(v, 0.5)", f.median("v"), where="n <> 7"),
    total("quantile(v, 0.25)", "quantile_disc(v, 0.25)", f.quantile("v", 0.25)),
    total("p95(v)", "quantile_disc(v, 0.95)", f.quantile("v", 0.95)),
    total("mode(port)", None, f.mode("port")),
    total("argmax(k, v)", "arg_max(k, v)", f.argmax("k", "v"), where="n NOT IN (0, 2)"),
    total("argmin(n, f)", "arg_min(n, f)", f.argmin("n", "f"), where="n <> 2"),
    total("geometric_mean(v)", "geomean(v)", f.geometric_mean("v"), where="v > 0 AND n <> 7"),
    total("top_k(k, 2)", None, f.top_k("k", 2)),
    total("heavy_hitters(k, 0.5)", None, f.heavy_hitters("k", 0.5)),
    total("minmax(v)", None, f.minmax("v")),
    total("concat(k, ts)", "string_agg(k, '' ORDER BY ts)", f.concat("k", "ts"), where="ts IS NOT NULL"),
    total("centre_of_mass(v, n)", None, f.centre_of_mass("v", "n"), where="n < 7"),
    total("approx_count_distinct(k)", "count(DISTINCT k)", f.approx_count_distinct("k")),
    total("sum(v)", "", f.sum("v"), by="k"),
    total("count(*)", "", f.count(), by="ok"),
    total("avg(f)", "", f.avg("f"), by="ip"),
    total("count(*)", "", f.count(), by="f"),
    Case(
        "SELECT k, proto, count(*) AS c FROM T GROUP BY k, proto",
        lambda s: s["T"].aggregate(c=f.count(), by=["k", "proto"]),
        "SELECT k, proto, count(*) AS c FROM T GROUP BY k, proto",
    ),
    Case(
        "SELECT sum(v > 5) AS large, count(*) - sum(v > 5) AS rest FROM T WHERE v IS NOT NULL",
        lambda s: (
            s["T"]
            .filter("v IS NOT NULL")
            .derive(big=lambda p: p["v"] > 5)
            .aggregate(large=f.sum("big"), c=f.count())
            .project("large", rest="c - large")
        ),
        "SELECT count(*) FILTER (v > 5) AS large, count(*) FILTER (NOT v > 5) AS rest FROM T WHERE v IS NOT NULL",
    ),
    Case(
        "SELECT max(v) - min(v) AS spread, sum(v) / count(v) AS mean FROM T WHERE n < 7",
        lambda s: (
            s["T"]
            .filter("n < 7")
            .aggregate(a=f.max("v"), b=f.min("v"), c=f.sum("v"), d=f.count("v"))
            .project(spread="a - b", mean="c / d")
        ),
        "SELECT max(v) - min(v) AS spread, avg(v) AS mean FROM T WHERE n < 7",
    ),
    Case(
        "SELECT kind, count(*) AS c FROM T GROUP BY CASE WHEN port < 1024 THEN 'low' ELSE 'high' END AS kind",
        lambda s: (
            s["T"].derive(kind="CASE WHEN port < 1024 THEN 'low' ELSE 'high' END").aggregate(c=f.count(), by="kind")
        ),
        "SELECT CASE WHEN port < 1024 THEN 'low' ELSE 'high' END AS kind, count(*) AS c FROM T GROUP BY ALL",
    ),
    Case(
        "SELECT k, sum(v) AS s FROM T GROUP BY k HAVING sum(v) > 5 AND k IS NOT NULL",
        lambda s: s["T"].aggregate(s=f.sum("v"), by="k").filter("s > 5 AND k IS NOT NULL"),
        "SELECT k, sum(v) AS s FROM T GROUP BY k HAVING sum(v) > 5 AND k IS NOT NULL",
    ),
    Case(
        "SELECT k, count(*) AS c FROM T GROUP BY k ORDER BY c DESC, k LIMIT 3",
        lambda s: s["T"].aggregate(c=f.count(), by="k").ranked(["c", "k"], 3, within=[], descending=["c"]),
        "SELECT k, count(*) AS c FROM T GROUP BY k ORDER BY c DESC, k NULLS LAST LIMIT 3",
    ),
    Case(
        "SELECT n, v FROM T ORDER BY v LIMIT 4",
        lambda s: s["T"].project("n", "v").ranked(["v"], 4, within=[]),
        "SELECT n, v FROM T ORDER BY v NULLS LAST LIMIT 4",
    ),
    Case(
        "SELECT proto, n, v FROM T ORDER BY v DESC, n LIMIT 2 WITHIN proto",
        lambda s: s["T"].project("proto", "n", "v").ranked(["v", "n"], 2, within=["proto"], descending=["v"]),
        "SELECT proto, n, v FROM T QUALIFY row_number() OVER (PARTITION BY proto ORDER BY v DESC NULLS LAST, n) <= 2",
    ),
    Case(
        f"SELECT proto, k, count(*) AS c [{MINUTE}] FROM T GROUP BY proto, k ORDER BY c DESC, k LIMIT 1 WITHIN proto",
        lambda s: (
            minutes(s)
            .aggregate(c=f.count(), by=["proto", "k"])
            .ranked(["c", "k"], 1, within=["proto", "wid", "window_start", "window_end"], descending=["c"])
        ),
        f"SELECT * FROM ({sliding('count(*) AS c', size=60, slide=60, by='proto, k')}) QUALIFY row_number() OVER "
        "(PARTITION BY wid, proto ORDER BY c DESC, k NULLS LAST) = 1",
    ),
    Case(
        "SELECT n, f FROM T WHERE n <> 2 ORDER BY f DESC, n LIMIT 3",
        lambda s: s["T"].filter("n <> 2").project("n", "f").top(3, "f", within=[]),
        "SELECT n, f FROM T WHERE n <> 2 ORDER BY f DESC NULLS LAST, n LIMIT 3",
    ),
    Case(
        "SELECT DISTINCT proto, ok FROM T", lambda s: s["T"].distinct("proto", "ok"), "SELECT DISTINCT proto, ok FROM T"
    ),
    Case(
        "SELECT DISTINCT v % 2 AS odd FROM T",
        lambda s: s["T"].project(odd="v % 2").distinct(),
        "SELECT DISTINCT abs(v % 2) AS odd FROM T",
    ),
    Case("SELECT * FROM E", lambda s: s["E"], "SELECT * FROM E"),
    Case(
        "SELECT n, upper(k) AS u FROM E WHERE v > 0",
        lambda s: s["E"].filter("v > 0").project("n", u="upper(k)"),
        "SELECT n, upper(k) AS u FROM E WHERE v > 0",
    ),
    Case(
        "SELECT k, count(*) AS c FROM E GROUP BY k",
        lambda s: s["E"].aggregate(c=f.count(), by="k"),
        "SELECT k, count(*) AS c FROM E GROUP BY k",
    ),
    Case(
        f"SELECT count(*) AS c [{MINUTE}] FROM E",
        lambda s: s["E"].window("1 minute").aggregate(c=f.count()),
        sliding("count(*) AS c", size=60, slide=60, table="E"),
    ),
)
