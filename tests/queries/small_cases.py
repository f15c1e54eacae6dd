"""A query over small streams is a text, the same in Python, and the same in SQL where DuckDB can say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

import oop_engine as oop
from oop_engine.api.column_expressions import Computed
from oop_engine.api.stream import Stream
from operators.functions.protocol import AggregateFunction
from tests.queries.small import SECOND, START

Python = Callable[[Mapping[str, Stream]], Stream]
FIRST, LAST = START // (60 * SECOND) - 10, START // (60 * SECOND) + 20
"""Minutes before and after all rows."""


@attrs.frozen
class Case:
    """A query, the same in Python, and in SQL where DuckDB can say it."""

    text: str
    python: Python
    sql: str | None = None


def value(text: str, sql: str | None = "", python: Computed | None = None, *, where: str = "") -> Case:
    """Make a query of one value of each tuple; `sql` "" is the same text, None nothing that DuckDB says."""
    kept = f" WHERE {where}" if where else ""

    def computed(streams: Mapping[str, Stream]) -> Stream:
        stream = streams["T"].filter(where) if where else streams["T"]
        return stream.project("n", x=text if python is None else python)

    other = None if sql is None else f"SELECT n, {sql or text} AS x FROM T{kept}"
    return Case(f"SELECT n, {text} AS x FROM T{kept}", computed, other)


def kept(text: str, sql: str | None = "", python: Computed | None = None) -> Case:
    """Make a query that keeps the tuples for which a condition is true."""
    other = None if sql is None else f"SELECT n FROM T WHERE {sql or text}"
    return Case(
        f"SELECT n FROM T WHERE {text}",
        lambda streams: streams["T"].filter(text if python is None else python).project("n"),
        other,
    )


def total(call: str, sql: str | None, function: AggregateFunction, *, by: str = "proto", where: str = "") -> Case:
    """Make a query of one aggregate a group, without windows."""
    kept = f" WHERE {where}" if where else ""

    def aggregated(streams: Mapping[str, Stream]) -> Stream:
        stream = streams["T"].filter(where) if where else streams["T"]
        return stream.aggregate(x=function, by=by)

    other = None if sql is None else f"SELECT {by}, {sql or call} AS x FROM T{kept} GROUP BY {by}"
    return Case(f"SELECT {by}, {call} AS x FROM T{kept} GROUP BY {by}", aggregated, other)


def sliding(
    items: str, *, size: int, slide: int, by: str = "", where: str = "TRUE", having: str = "", origin: int = 0,
    table: str = "T",
) -> str:  # fmt: skip
    """Return the SQL of an aggregate over windows of so many seconds, as its definition has it."""
    begin = f"(wid + 1) * {slide} - {size} + {origin}"
    end = f"(wid + 1) * {slide} + {origin}"
    first, last = FIRST * 60 // slide - 2, LAST * 60 // slide + 2
    groups = f"{by}, " if by else ""
    return (
        f"SELECT {groups}{items}, wid, make_timestamp(({begin}) * 1000000) AS a, "
        f"make_timestamp(({end}) * 1000000) AS b FROM {table} "
        f"JOIN (SELECT unnest(range({first}, {last})) AS wid) ON epoch_us(ts) >= ({begin}) * 1000000 AND "
        f"epoch_us(ts) < ({end}) * 1000000 WHERE {where} GROUP BY {groups}wid{having}"
    )


def sessions(items: str, gap: int, *, by: str = "") -> str:
    """Return the SQL of an aggregate over sessions that end after so many seconds without a tuple."""
    part = f"PARTITION BY {by} " if by else ""
    groups = f"{by}, " if by else ""
    since = f"lag(ts) OVER ({part}ORDER BY ts)"
    goes_on = f"ts - {since} < INTERVAL {gap} SECOND"
    fresh = f"SELECT *, CASE WHEN {goes_on} THEN 0 ELSE 1 END AS fresh FROM T WHERE ts IS NOT NULL"
    numbered = f"SELECT *, sum(fresh) OVER ({part}ORDER BY ts) AS number FROM ({fresh})"
    return (
        f"SELECT {groups}{items}, epoch_us(min(ts)) * 1000 AS wid, min(ts) AS a, max(ts) + INTERVAL {gap} SECOND AS b "
        f"FROM ({numbered}) GROUP BY {groups}number"
    )


def window(items: str, brackets: str, sql: str | None, python: Python, *, rest: str = "", source: str = "T") -> Case:
    """Make a query of aggregates over windows."""
    return Case(f"SELECT {items} [{brackets}] FROM {source}{rest}", python, sql)


MINUTE = "RANGE 1 minute, WA ts"


def minutes(streams: Mapping[str, Stream]) -> oop.Windowed:
    """Return the minutes of T."""
    return streams["T"].window("1 minute")
