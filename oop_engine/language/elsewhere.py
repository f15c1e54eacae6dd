"""Functions that other languages have and this one has not: where what they compute is found."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from operators.expression.scalar_functions import OPERATORS

CASE: Final = "Write CASE WHEN length > 100 THEN 1 ELSE 0 END; a condition also counts as 1 or 0 in sum(length > 100)."
TEXT: Final = 'Other text is computed in Python: stream.derive(x=lambda p: pc.utf8_reverse(p.column("s"))).'
MATCHES: Final = "Write x LIKE 'a%', or regexp_matches(x, '^a'), whose patterns are those of RE2."
JSON: Final = "A query has no paths into objects: make them attributes before it, with jq or stream.derive(...)."
_OTHERS: Final = "It is computed in Python: stream.derive(y=lambda p: ...)."
_RANDOM: Final = "A query has no random numbers, or it would not be repeatable."
CLOCKS: Final = ("current_timestamp", "current_date", "current_time", "localtimestamp", "sysdate")
_DISTINCT: Final = "Write count(DISTINCT x), or approx_count_distinct(x)."
_MOMENT: Final = "Write TIMESTAMP '2013-05-02 20:20:45'; a column of seconds is read as a time with --types x=epoch."
_FORMATTED: Final = 'Times are written in Python: stream.derive(x=lambda p: pc.strftime(p.column("ts"), "%H:%M")).'
_BETWEEN: Final = "Times are subtracted, end_ts - ts, and moved, ts + INTERVAL '1' DAY."
_INCREASE: Final = "Write max(x) - min(x), or rate(max(x) - min(x)) for that a second."
_CAST: Final = "Write cast(x, 'int64') or cast(x, 'float64')."
CALENDAR: Final = 'The calendar is asked in Python: stream.derive(x=lambda p: pc.hour(p.column("ts"))).'
_NULLS: Final = "Write coalesce(x, 0): the first value that is not null."
_CLOCK: Final = 'A query does not ask what time it is, or it would not be repeatable: write "2026-11-21T10:00:00Z".'
_STEPS: Final = (
    'ts // "1 hour" numbers the hours, and ts - ts % "1 hour" is when one begins; a window does it too: '
    "[RANGE TUMBLING 1 hour, WA ts].\n  In GROUP BY, time_bucket('1 hour', ts) and "
    "date_trunc('hour', ts) make such a window."
)
_RATE: Final = (
    "rate stands in the SELECT list or in HAVING, and outside of other aggregates: SELECT rate(bytes) [RANGE 1 minute, "
    "WA ts] FROM ..."
)
PROMISES: Final = (
    'Streams promise their time where they are read: punctuate=oop.slack("10 s", on="ts"), or --slack 10s.'
)
EMPTY: Final = "Windows without a tuple are asked for in the brackets: [RANGE 1 minute, WA ts, EMPTY]."
_TUMBLING: Final = "SELECT ... [RANGE TUMBLING 1 minute, WA ts] FROM ..."
_WINDOWS: Final[dict[str, str]] = {
    **dict.fromkeys(("tumble", "tumbling", "window", "time_window", "table", "tumblingwindow"), _TUMBLING),
    **dict.fromkeys(
        ("hop", "hopping", "slide", "sliding", "cumulate", "hoppingwindow", "slidingwindow"),
        "SELECT ... [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM ...",
    ),
    **dict.fromkeys(("session", "session_window", "sessionwindow"), "SELECT ... [SESSION 1 minute, WA ts] FROM ..."),
}
JOINED: Final = "Write a || ', ' || b for values of one tuple."
_BOUNDS: Final = ("_start", "_end", "_rowtime", "_proctime")
_FUNCTIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("if", "iif", "decode", "multiif", "switch"), CASE),
    **dict.fromkeys(("ifnull", "nvl", "isnull", "zeroifnull", "fill_null"), _NULLS),
    **dict.fromkeys(("now", "today", "current_timestamp", "getdate", "systimestamp"), _CLOCK),
    **dict.fromkeys(("date_trunc", "time_bucket", "trunc", "datetrunc", "date_bin"), _STEPS),
    **dict.fromkeys(("extract", "date_part", "year", "month", "day", "hour", "minute", "second", "weekday"), CALENDAR),
    **dict.fromkeys(("char_length", "character_length", "strlen", "len"), "Write length(x), in characters."),
    **dict.fromkeys(("substring", "mid", "left"), "Write substr(x, 1, 3): the first 3 characters."),
    **dict.fromkeys(("ltrim", "rtrim", "btrim"), "Write trim(x), which takes blanks from both ends."),
    **dict.fromkeys(("lcase", "tolower", "casefold"), "Write lower(x)."),
    **dict.fromkeys(("ucase", "toupper"), "Write upper(x)."),
    **dict.fromkeys(("concat_ws", "strcat"), JOINED),
    **dict.fromkeys(("regexp_like", "regexp", "rlike", "match", "regexp_match", "regexp_contains"), MATCHES),
    **dict.fromkeys(("startswith", "hasprefix"), "Write starts_with(x, 'a')."),
    **dict.fromkeys(("endswith", "hassuffix"), "Write ends_with(x, 'a')."),
    **dict.fromkeys(("instr", "strpos", "charindex"), "Write contains(x, 'a')."),
    **dict.fromkeys(("right", "position", "split_part", "reverse", "regexp_replace", "regexp_extract"), TEXT),
    **dict.fromkeys(("bitand", "bit_and", "bitwise_and"), "Write x & y."),
    **dict.fromkeys(("bitor", "bit_or", "bitwise_or"), "Write x | y."),
    **dict.fromkeys(("subnet", "cidr", "ipv4cidrtorange", "set_masklen", "prefix"), "Write network(ip, 24)."),
    **dict.fromkeys(
        ("inet_contains", "isipaddressinrange", "ip_in_network", "cidrmatch", "ipv4_is_in_range"),
        "Write ip IN '10.0.0.0/8'.",
    ),
    **dict.fromkeys(("date", "todate", "to_date", "floor_date"), "Write date_trunc('day', ts) in GROUP BY."),
    **dict.fromkeys(("epoch_ms", "epoch_us", "epoch_ns", "epoch_s", "rowtime"), "Write cast(ts, 'int64')."),
    **dict.fromkeys(("dayofweek", "dayofyear", "week", "quarter", "dow", "isodow", "hour_of_day"), CALENDAR),
    **dict.fromkeys(("runningdifference", "difference", "elapsed", "counter_agg"), _INCREASE),
    **dict.fromkeys(("list", "values", "stats_values"), "Write collect(x), or top_k(x, 9)."),
    **dict.fromkeys(("columns", "fields"), "Name the attributes that are wanted: SELECT a, b."),
    **dict.fromkeys(("dictget", "lookup", "geoip"), "Write FROM Main LOOKUP hosts ON srcIP = hosts.ip."),
    **dict.fromkeys(("latest_by_offset", "latest", "lastwithtime"), "Write last(x), or argmax(x, ts)."),
    **dict.fromkeys(("earliest_by_offset", "earliest", "firstwithtime"), "Write first(x), or argmin(x, ts)."),
    **dict.fromkeys(("convert", "safe_cast"), _CAST),
    **dict.fromkeys(("dc", "estdc", "uniqcombined", "uniqhll12", "count_distinct_approx"), _DISTINCT),
    **dict.fromkeys(("perc95", "p95_approx", "percentile_agg"), "Write quantile(x, 0.95) or p95(x)."),
    **dict.fromkeys(("proctime", "localtime", "sysdatetime"), _CLOCK),
    **dict.fromkeys(("withwatermark", "watermark"), PROMISES),
    **dict.fromkeys(("span", "timechart", "fieldtobucket"), _STEPS),
    **dict.fromkeys(("count_if", "countif"), "Write sum(length > 100): a condition counts as 1 or 0."),
    **dict.fromkeys(("string_agg", "group_concat", "listagg"), "Write concat(x), or concat(x, ts)."),
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), "Write quantile(x, 0.95)."),
    **dict.fromkeys(("pow", "power"), "Write x * x; in Python stream.derive(y=lambda p: np.power(p[\"x\"], 2))."),
    **dict.fromkeys(("uniq", "uniqexact", "approx_distinct", "ndv", "dcount"), _DISTINCT),
    **dict.fromkeys(("tostartofminute", "tostartofhour", "tostartofday", "tostartofinterval", "time_floor"), _STEPS),
    **dict.fromkeys(("bin", "floor_time", "timestamp_trunc", "datetime_trunc", "time_slice"), _STEPS),
    **dict.fromkeys(("ipv4numtostring", "ipv6numtostring", "inet_ntoa", "inet6_ntoa", "host"), "Write srcIP alone."),
    **dict.fromkeys(("to_timestamp", "from_unixtime", "parse_timestamp", "todatetime", "timestamp_seconds"), _MOMENT),
    **dict.fromkeys(("unix_timestamp", "to_unixtime", "tounixtimestamp", "epoch"), "Write cast(ts, 'int64')."),
    **dict.fromkeys(("date_format", "strftime", "to_char", "formatdatetime", "format_date"), _FORMATTED),
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff", "dateadd", "date_add", "timestampadd"), _BETWEEN),
    **dict.fromkeys(("rollup", "cube", "grouping"), "Write a query for each grouping: GROUP BY a, b; GROUP BY a."),
    **dict.fromkeys(("any", "any_value", "arbitrary"), "Write first(x) or max(x); of a list write x IN (1, 2)."),
    **dict.fromkeys(("array_agg", "collect_list", "grouparray"), "Write collect(x)."),
    **dict.fromkeys(("collect_set", "groupuniqarray"), "Write collect(x) or top_k(x, 9)."),
    **dict.fromkeys(("percentile_approx", "approx_percentile", "quantileexact"), "Write quantile(x, 0.95) or p95(x)."),
    **dict.fromkeys(("var_samp", "var_pop", "varsamp", "varpop"), "Write variance(x)."),
    **dict.fromkeys(("bool_or", "bool_and", "every", "logical_or", "logical_and"), "Write sum(length > 100) > 0."),
    **dict.fromkeys(("safe_divide", "div0", "intdiv"), "Write a / b, or a // b for whole numbers."),
    **dict.fromkeys(("split", "split_to_array", "explode", "string_to_array"), TEXT),
    **dict.fromkeys(("json_extract", "json_value", "get_json_object", "jsonextractstring"), JSON),
    **dict.fromkeys(("toint32", "toint64", "touint64", "tofloat64", "to_number", "tonumber", "try_cast"), _CAST),
    **dict.fromkeys(("tostring", "to_string", "str"), "Write cast(x, 'string')."),
    **dict.fromkeys(("derivative", "irate", "increase", "delta", "non_negative_derivative"), _INCREASE),
    **dict.fromkeys(("histogram", "width_bucket", "bucket"), "Write GROUP BY x // 100 AS hundreds."),
    "iff": CASE,
    **dict.fromkeys(("max_by", "maxby"), "Write argmax(x, y): the x of the largest y."),
    **dict.fromkeys(("min_by", "minby"), "Write argmin(x, y): the x of the smallest y."),
    **dict.fromkeys(("sumif", "sum_if", "avgif", "avg_if"), "Write sum(CASE WHEN length > 100 THEN x END)."),
    **dict.fromkeys(("approx_top_k", "approx_top_count", "topn"), "Write top_k(x, 10), or heavy_hitters(x, 0.01)."),
    **dict.fromkeys(("md5", "sha1", "sha256", "hash", "crc32", "bit_count", "popcount"), _OTHERS),
    **dict.fromkeys(("random", "rand", "uuid", "gen_random_uuid"), _RANDOM),
    **dict.fromkeys(("current_date", "current_time", "localtimestamp", "sysdate", "ago"), _CLOCK),
    **dict.fromkeys(("time_bucket_gapfill", "gapfill", "locf", "interpolate"), EMPTY),
    "rank": "Write ORDER BY x DESC LIMIT 10: the first of each window.",
    "mod": "Write x % y.",
    "rate": _RATE,
    "div": "Write x // y.",
    "row_number": "Write row-num, the number of a tuple in the order of arrival.",
    **dict.fromkeys(("lag", "lead", "ntile", "dense_rank"), "Other tuples are asked for by windows or joins."),
}  # fmt: skip


def about_function(name: str, known: Collection[str]) -> str:
    """Say of a function that there is not what to write instead, or list the `known`, those of one tuple's values."""
    if there := without_function(name):
        return f"{there}\n  {of_one_tuple(known)}"
    near = get_close_matches(name, set(known) - OPERATORS, n=1, cutoff=0.8)
    return f'Did you mean "{near[0]}"?' if near else of_one_tuple(known)


def without_function(name: str) -> str:
    """Say how what a function of another language computes is computed here; empty where that is not known."""
    return _FUNCTIONS.get(name.lower(), "") or of_windows(name)


def of_windows(name: str) -> str:
    """Say where a window stands here, of a function that makes one in another language; empty for any other."""
    short = name.lower()
    for bound in _BOUNDS:
        if short.endswith(bound) and (window := _WINDOWS.get(short.removesuffix(bound))):
            return f"Results have window_start and window_end. A window stands in brackets: {window}"
    window = _WINDOWS.get(short)
    return f"A window stands in brackets after the SELECT list: {window}" if window else ""


def of_one_tuple(known: Collection[str]) -> str:
    """List the functions of one tuple's values."""
    return f"Functions of one tuple's values are {', '.join(sorted(set(known) - OPERATORS))}."
