"""Golden queries of what the brackets of a window say beside RANGE and SLIDE, and of what FROM does to tuples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import oop_engine as oop
from oop_engine.api.stream import Stream
from operators import functions as f
from operators.data.page import Row
from tests.naive_predicate import Rule, naive_predicate
from tests.naive_spread import naive_spread
from tests.naive_windows import grouped, sliding
from tests.queries.golden import WINDOW, Golden, Result, longest, whole
from tests.queries.streams import MINUTE, SECOND, START, Tables

FIRED = ("fired", "final")
AHEAD = 345 * MINUTE
SHIFT = 480 * MINUTE
BAND_START = START + 70 * SECOND


def timed(tables: Tables) -> list[Row]:
    """Return the packets that have a time, in the order of it."""
    return sorted((row for row in tables["Main"] if row["ts"] is not None), key=lambda row: whole(row["ts"]))


def minutes(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=MINUTE):
        yield len(rows), *window


def longest_of_each(tables: Tables) -> Iterator[Result]:
    for *window, rows in sliding(tables["Main"], "ts", size=3 * MINUTE, slide=MINUTE):
        for (source,), packets in grouped(rows, "srcIP"):
            yield source, longest(packets), *window


def with_revision(tables: Tables) -> Iterator[Result]:
    for result in minutes(tables):
        yield *result, 0


def every_minute(tables: Tables) -> Iterator[Result]:
    """Yield the minutes between the first and the last that have a packet, the empty ones too."""
    found = {whole(wid): (count, wid, start, end) for count, wid, start, end in minutes(tables)}
    for wid in range(min(found), max(found) + 1):
        yield found.get(wid, (0, wid, wid * MINUTE, (wid + 1) * MINUTE))


def firing(*shares: float) -> list[tuple[int, bool]]:
    """Return how long after the begin of a minute its results come, and whether they are the last."""
    return [*((round(share * MINUTE), False) for share in shares), (MINUTE, True)]


def early(tables: Tables, *shares: float) -> Iterator[Result]:
    for wid, start, end, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=MINUTE):
        assert start is not None
        for after, final in firing(*shares):
            inside = [row for row in rows if whole(row["ts"]) < start + after]
            if inside:
                yield len(inside), wid, start, end, start + after, final


def new_only(tables: Tables) -> Iterator[Result]:
    for wid, start, end, rows in sliding(tables["Main"], "ts", size=MINUTE, slide=MINUTE):
        assert start is not None
        begin = 0
        for after, final in firing(1 / 3, 1 / 2, 2 / 3):
            inside = [row for row in rows if start + begin <= whole(row["ts"]) < start + after]
            begin = after
            if inside:
                yield len(inside), wid, start, end, start + after, final


def one_band(tables: Tables) -> Iterator[Result]:
    end = BAND_START + 3 * MINUTE
    inside = [row for row in timed(tables) if BAND_START <= whole(row["ts"]) < end]
    yield len(inside), 0, BAND_START, end


def days(tables: Tables) -> Iterator[Result]:
    """Yield the days of Kathmandu, which is 5:45 hours ahead of UTC, so that one begins within the stream."""
    rows = [{**row, "at": whole(row["ts"]) + SHIFT + AHEAD} for row in timed(tables)]
    for _, start, end, found in sliding(rows, "at", size=24 * 60 * MINUTE, slide=24 * 60 * MINUTE):
        assert start is not None
        yield len(found), start - AHEAD, start - AHEAD, end - AHEAD


def between_marks(tables: Tables) -> Iterator[Result]:
    rows = timed(tables)
    marks = sorted({whole(row["ts"]) for row in rows if row["srcPort"] == 80})
    for start, end in pairwise(marks):
        yield sum(start <= whole(row["ts"]) < end for row in rows), start, start, end


def replies(tables: Tables) -> Iterator[Result]:
    """The packets of each destination from one of port 80 on, to the first of another port, within two minutes."""
    says = Rule(lambda row: row["srcPort"] == 80, lambda row: row["srcPort"] != 80, within=2 * MINUTE)
    for row in naive_predicate(says, {"count": len}, ("destIP",), timed(tables)):
        yield row["destIP"], row["count"], row["wid"], row["window_start"], row["window_end"]


def last_rows(tables: Tables) -> Iterator[Result]:
    rows, before = timed(tables), []
    slides = range(whole(rows[0]["ts"]) // MINUTE, whole(rows[-1]["ts"]) // MINUTE + 1)
    for wid in slides:
        last = [row for row in rows if whole(row["ts"]) < (wid + 1) * MINUTE][-5:]
        if last and last != before:
            yield longest(last), len(last), wid, (wid + 1) * MINUTE
        before = last


def several(tables: Tables) -> Iterator[Result]:
    for name, size in (("short", MINUTE), ("long", 4 * MINUTE)):
        for *window, rows in sliding(tables["Main"], "ts", size=size, slide=MINUTE):
            for (source,), packets in grouped(rows, "srcIP"):
                yield source, len(packets), name, *window
    for (source,), packets in grouped(timed(tables), "srcIP"):
        for session in sessions(packets, 30 * SECOND):
            begin, end = whole(session[0]["ts"]), whole(session[-1]["ts"]) + 30 * SECOND
            yield source, len(session), "burst", begin, begin, end


def busiest_of_several(tables: Tables) -> Iterator[Result]:
    for name, size in (("short", MINUTE), ("long", 4 * MINUTE)):
        for *window, rows in sliding(tables["Main"], "ts", size=size, slide=size):
            sizes = [(source, len(packets)) for (source,), packets in grouped(rows, "srcIP")]
            source, count = min(sizes, key=lambda pair: (-pair[1], str(pair[0])))
            yield source, count, name, *window


def sessions(rows: list[Row], gap: int) -> Iterator[list[Row]]:
    """Yield the packets of each session, in the order of time."""
    session: list[Row] = []
    for row in rows:
        if session and whole(row["ts"]) - whole(session[-1]["ts"]) >= gap:
            yield session
            session = []
        session.append(row)
    if session:
        yield session


def shared(tables: Tables) -> Iterator[Result]:
    """Share the bytes of each packet of port 80, as of a flow that lasts a minute."""
    flows: list[Row] = [
        {"ts": whole(row["ts"]), "end_ts": whole(row["ts"]) + MINUTE, "n": row["length"]}
        for row in timed(tables)
        if row["srcPort"] == 80
    ]
    parts = naive_spread(flows, ["n"], step=MINUTE // 2)
    for *window, rows in sliding(parts, "ts", size=MINUTE // 2, slide=MINUTE // 2):
        yield sum(whole(row["n"]) for row in rows), *window


def numbered_web(tables: Tables) -> Iterator[Result]:
    web = [row for row in tables["Main"] if row["srcPort"] == 80]
    yield from ((number, row["length"]) for number, row in enumerate(web))


def spread(streams: Mapping[str, Stream]) -> Stream:
    flows = streams["Main"].filter("srcPort = 80").project("ts", n="length", until="ts + '1 minute'")
    return flows.spread("n", step="30 s", end="until").window("30 s").aggregate(n=f.sum("n"))


def windows_of(streams: Mapping[str, Stream]) -> Stream:
    windows = {
        "short": oop.tumbling("1 minute"),
        "long": oop.sliding("4 minutes", "1 minute"),
        "burst": oop.session("30 s"),
    }
    return streams["Main"].windows(windows).aggregate(n=f.count(), by="srcIP")


KATHMANDU = "Asia/Kathmandu"
SHIFTED = "SELECT ts + INTERVAL '8' HOUR AS ts FROM Main"
COUNT = "SELECT count(*) [RANGE 1 minute, WA ts"
LONG = "SELECT srcIP, max(length) AS l [RANGE 3 minutes, SLIDE 1 minute, WA ts"

GOLDEN = (
    Golden("LATENESS", f"{COUNT}, LATENESS 2 minutes] FROM Main", ("count", *WINDOW, "revision"), with_revision,
           lambda s: s["Main"].window("1 minute").aggregate(f.count(), lateness="2 minutes")),
    Golden("LATENESS, taken back", f"{COUNT}, LATENESS 2 minutes RETRACT] FROM Main",
           ("count", *WINDOW, "revision", "sign"), lambda tables: ((*row, 1) for row in with_revision(tables)),
           lambda s: s["Main"].window("1 minute").aggregate(f.count(), lateness="2 minutes", refine="retract")),
    Golden("LATENESS, what is new", f"{COUNT}, LATENESS 2 minutes DISCARD] FROM Main", ("count", *WINDOW, "revision"),
           with_revision,
           lambda s: s["Main"].window("1 minute").aggregate(f.count(), lateness="2 minutes", refine="discard")),
    Golden("EARLY and LATENESS", f"{COUNT}, EARLY AT 50 %, LATENESS 2 minutes] FROM Main",
           ("count", *WINDOW, *FIRED, "revision"), lambda tables: ((*row, 0) for row in early(tables, 0.5)),
           lambda s: s["Main"].window("1 minute").aggregate(
               f.count(), early=oop.early(at=0.5), lateness="2 minutes")),
    Golden("results that change, counted once",
           f"SELECT sum(count) AS s, count(*) AS n FROM ({COUNT}, EARLY 20 s RETRACT, LATENESS 2 minutes] FROM Main)",
           ("s", "n"), lambda tables: iter([(sum(n for n, *_ in minutes(tables)), len([*minutes(tables)]))])),
    Golden("CONSISTENT", f"{COUNT}, CONSISTENT] FROM Main", ("count", *WINDOW), minutes,
           lambda s: s["Main"].window("1 minute", consistent=True).aggregate(f.count())),
    Golden("EMPTY", f"{COUNT}, EMPTY] FROM Main", ("count", *WINDOW), every_minute,
           lambda s: s["Main"].window("1 minute").aggregate(f.count(), empty=True)),
    Golden("EARLY AT", f"{COUNT}, EARLY AT 50 % AND 45 s] FROM Main", ("count", *WINDOW, *FIRED),
           lambda tables: early(tables, 0.5, 0.75),
           lambda s: s["Main"].window("1 minute").aggregate(f.count(), early=oop.early(at=[0.5, "45 s"]))),
    Golden("EARLY AT one share", f"{COUNT}, EARLY AT 12.5 %] FROM Main", ("count", *WINDOW, *FIRED),
           lambda tables: early(tables, 0.125)),
    Golden("EARLY and AT, what is new", f"{COUNT}, EARLY 20 s AT 30 s DISCARD] FROM Main",
           ("count", *WINDOW, *FIRED), new_only),
    Golden("STRATEGY", f"{LONG}, STRATEGY panes] FROM Main GROUP BY srcIP", ("srcIP", "l", *WINDOW), longest_of_each,
           lambda s: s["Main"].window("3 minutes", slide="1 minute").aggregate(
               l=f.max("length"), by="srcIP", strategy="panes")),
    Golden("STRATEGY with options", f"{LONG}, STRATEGY slicing(store lazy)] FROM Main GROUP BY srcIP",
           ("srcIP", "l", *WINDOW), longest_of_each),
    Golden("STRATEGY with two options", f"{LONG}, STRATEGY two_level(size 16, flush lazy)] FROM Main GROUP BY srcIP",
           ("srcIP", "l", *WINDOW), longest_of_each),
    Golden("BAND", "SELECT count(*) [BAND 3 minutes FROM '2026-11-21T10:01:00Z', WA ts] FROM Main",
           ("count", *WINDOW), one_band,
           lambda s: s["Main"].window(oop.band(f"{BAND_START} ns", "3 minutes")).aggregate(f.count())),
    Golden("CALENDAR", f"SELECT count(*) [CALENDAR day IN '{KATHMANDU}', WA ts] FROM ({SHIFTED})",
           ("count", *WINDOW), days,
           lambda s: s["Main"].project(ts="ts + '8 h'").window(oop.calendar("day", zone=KATHMANDU))
           .aggregate(f.count())),
    Golden("date_trunc in a time zone",
           f"SELECT count(*) AS count FROM ({SHIFTED}) GROUP BY date_trunc('day', ts, '{KATHMANDU}')",
           ("count", *WINDOW), days),
    Golden("MARKED BY", "SELECT count(*) [MARKED BY web, WA ts] FROM (SELECT ts, srcPort = 80 AS web FROM Main)",
           ("count", *WINDOW), between_marks,
           lambda s: s["Main"].derive(web="srcPort = 80").window(oop.marked("web")).aggregate(f.count())),
    Golden("WHEN", "SELECT destIP, count(*) [WHEN srcPort = 80 UNTIL srcPort <> 80 WITHIN 2 minutes, WA ts, PA destIP] "
           "FROM Main",
           ("destIP", "count", *WINDOW), replies,
           lambda s: s["Main"].window(oop.when(enter="srcPort = 80", leave=lambda p: p["srcPort"] != 80,
                                               within="2 minutes", by="destIP")).aggregate(f.count())),
    Golden("NO IDLE",
           "SELECT l, n, wid, window_end FROM (SELECT max(length) AS l, count(*) AS n [RANGE 5 rows, SLIDE 1 minute, "
           "WA ts, NO IDLE] FROM Main)",
           ("l", "n", "wid", "window_end"), last_rows,
           lambda s: s["Main"].window(oop.latest(5, every="1 minute", idle=False))
           .aggregate(l=f.max("length"), n=f.count()).project("l", "n", "wid", "window_end")),
    Golden("several windows",
           "SELECT srcIP, count(*) AS n [RANGE 1 minute, WA ts] AS short, [RANGE 4 minutes, SLIDE 1 minute, WA ts] AS "
           "long, [SESSION 30 s, WA ts] AS burst FROM Main GROUP BY srcIP",
           ("srcIP", "n", "window", *WINDOW), several, windows_of),
    Golden("the busiest of several windows",
           "SELECT srcIP, count(*) AS n [RANGE 1 minute] AS short, [RANGE 4 minutes] AS long FROM Main GROUP BY srcIP "
           "ORDER BY n DESC, srcIP LIMIT 1",
           ("srcIP", "n", "window", *WINDOW), busiest_of_several),
    Golden("SPREAD",
           "SELECT sum(n) AS n [RANGE 30 s, WA ts] FROM (SELECT ts, ts + INTERVAL '1' MINUTE AS until, length AS n "
           "FROM Main WHERE srcPort = 80) SPREAD n OVER ts, until BY 30 s",
           ("n", *WINDOW), shared, spread),
    Golden("NUMBER", "SELECT n, length FROM (SELECT * FROM Main WHERE srcPort = 80) NUMBER AS n AS web",
           ("n", "length"), numbered_web, lambda s: s["Main"].filter("srcPort = 80").number("n").project("n", "length"),
           in_any_order=False),
)  # fmt: skip
