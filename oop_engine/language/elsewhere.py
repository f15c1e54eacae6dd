"""Functions that other languages have and this one has not: where what they compute is found."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

CASE: Final = (
    "There is no CASE: a condition counts as 1 or 0 in sum(length > 100) and cast(length > 100, 'int64');\n"
    '  else in Python: stream.derive(x=lambda p: np.where(p["length"] > 100, 1, 0)).'
)
TEXT: Final = 'Text is computed with in Python: stream.derive(x=lambda p: pc.utf8_lower(p.column("s"))).'
_NULLS: Final = (
    'x IS NULL asks for a null; one is replaced in Python: stream.derive(x=lambda p: pc.fill_null(p.column("x"), 0)).'
)
_CLOCK: Final = 'A query does not ask what time it is, or it would not be repeatable: write "2026-11-21T10:00:00Z".'
_STEPS: Final = (
    'ts // "1 hour" numbers the hours, and ts - ts % "1 hour" is when one begins; a window does it too: '
    "[RANGE TUMBLING 1 hour, WA ts]."
)
_TUMBLING: Final = "SELECT ... [RANGE TUMBLING 1 minute, WA ts] FROM ..."
_WINDOWS: Final[dict[str, str]] = {
    **dict.fromkeys(("tumble", "tumbling", "window", "time_window", "table", "tumblingwindow"), _TUMBLING),
    **dict.fromkeys(
        ("hop", "hopping", "slide", "sliding", "cumulate", "hoppingwindow", "slidingwindow"),
        "SELECT ... [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM ...",
    ),
    **dict.fromkeys(("session", "session_window", "sessionwindow"), "SELECT ... [SESSION 1 minute, WA ts] FROM ..."),
}
_BOUNDS: Final = ("_start", "_end", "_rowtime", "_proctime")
_CALENDAR: Final = 'The calendar is asked in Python: stream.derive(x=lambda p: pc.hour(p.column("ts"))).'
_FUNCTIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("if", "iif", "decode", "greatest", "least"), CASE),
    **dict.fromkeys(("coalesce", "ifnull", "nvl", "nullif", "isnull", "zeroifnull"), _NULLS),
    **dict.fromkeys(("now", "today", "current_timestamp", "getdate", "systimestamp"), _CLOCK),
    **dict.fromkeys(("date_trunc", "time_bucket", "trunc", "datetrunc", "date_bin"), _STEPS),
    **dict.fromkeys(("extract", "date_part", "year", "month", "day", "hour", "minute", "second", "weekday"), _CALENDAR),
    **dict.fromkeys(
        ("lower", "upper", "length", "char_length", "strlen", "trim", "ltrim", "rtrim", "substr", "substring",
         "replace", "concat_ws", "left", "right", "position", "split_part", "regexp_matches", "starts_with"),
        TEXT,
    ),
    **dict.fromkeys(("count_if", "countif"), "Write sum(length > 100): a condition counts as 1 or 0."),
    **dict.fromkeys(("string_agg", "group_concat", "listagg", "array_agg"), "Write concat(x), or concat(x, ts)."),
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), "Write quantile(x, 0.95)."),
    **dict.fromkeys(("pow", "power"), "Write x * x; in Python stream.derive(y=lambda p: np.power(p[\"x\"], 2))."),
    "mod": "Write x % y.",
    "div": "Write x // y.",
    "row_number": "Write row-num, the number of a tuple in the order of arrival.",
    **dict.fromkeys(("lag", "lead", "ntile", "dense_rank"), "Other tuples are asked for by windows or joins."),
}  # fmt: skip


def about_function(name: str, known: Collection[str]) -> str:
    """Say of a function that there is not what to write instead, or list the `known`, those of one tuple's values."""
    if there := without_function(name):
        return f"{there}\n  {of_one_tuple(known)}"
    near = get_close_matches(name, known, n=1, cutoff=0.8)
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
    return f"Functions of one tuple's values are {', '.join(sorted(known))}."
