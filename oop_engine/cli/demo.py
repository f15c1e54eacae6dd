"""`oop-engine demo`: Q1-2 of the thesis on three generated links, and what in-order processing would have held."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from oop_engine.cli.errors import reported
from oop_engine.cli.options import expanded
from oop_engine.messages import say
from oop_engine.stopping import begin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oop_engine.api.stream import Stream
    from oop_engine.cli.replay import Clock, Replay, Result
    from oop_engine.drive.circuit import Circuit
    from oop_engine.page.feed import Feed

QUERY: Final = "SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union Main2"
SECOND: Final = 1_000_000_000
TICK: Final = SECOND
RATE: Final = 1000
"""Packets a second on each of the main links."""
SKEW: Final = 20
"""Seconds by which Main2 arrives later than it was sent."""
DISORDER: Final = 1
"""Seconds that a fifth of the packets are late within their link."""
BAR: Final = 40
_LOOK: Final = 0.1
"""Seconds between two looks whether the page wants a view."""


@click.command(name="demo", short_help="Run a query of the thesis on three generated links.")
@click.option(
    "--seconds", type=click.IntRange(60, 3600), default=240, show_default=True, metavar="N", help="Seconds of traffic."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Another seed gives other packets.",
)
@click.option(
    "--page", is_flag=False, flag_value="127.0.0.1:8080", metavar="[ADDRESS:PORT]", help="Serve a page that shows which"
    " link holds each minute, and why, and replay the links slowly.  [127.0.0.1:8080 if left out]",
)  # fmt: skip
@click.option(
    "--speed", type=click.FloatRange(min=0.1, max=1000), default=10, show_default=True, metavar="N", help="How many"
    " times faster than they came --page replays the links.",
)  # fmt: skip
@click.option(
    "--record",
    metavar="FILE",
    help="Replay the links as --page does, and keep what it shows for `oop-engine page FILE`.",
)
def command(seconds: int, seed: int, page: str | None, speed: float, record: str | None) -> None:
    """Count the packets of three links every minute, and measure what sorting them first would have cost.

    The links are generated; no file is read. Waiting is measured by the packets' times of arrival.

    With --page, the links are replayed so that you can watch: Main2 arrives late, and Control falls silent for a third
    of the time, so each holds minutes open in turn. The page says which, and why. It stays after the end for as long
    as it is open; Ctrl-C ends it.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.compiling import compiled, notice

        if not compiled():
            say(notice())
        if page is None and record is None:
            _run(seconds, seed)
        else:
            _watched(seconds, seed, page, speed, record)


def _run(seconds: int, seed: int) -> None:
    # Start-up: help needs nothing of the engine.
    from oop_engine.cli.replay import Clock, replay
    from oop_engine.language.translate import query
    from oop_engine.plan.graph import Plan
    from oop_engine.sources.generator import START

    lull = (seconds // 3, seconds // 3)
    click.echo(f"Q1-2  {QUERY}\n")
    click.echo(
        f"Three links, {seconds} s: Control, a packet in two seconds and none from second {lull[0]} to {sum(lull)};\n"
        f"Main1 and Main2, {RATE:,} packets/s each, a fifth up to {DISORDER} s late, Main2 arriving {SKEW} s behind.\n"
    )
    clock = Clock(START, TICK, (seconds + SKEW + 3 * DISORDER) * SECOND // TICK)
    live, silent = _links(seconds, seed, lull, clock)
    click.echo("minute (UTC)     count  released")
    melded = replay(Plan((query(QUERY, live).node,)), clock, released=_show)
    merged = replay(Plan((_in_order(live).node,)), clock)
    alone = replay(Plan((_in_order(silent).node,)), clock)
    click.echo(_compared(melded, merged, alone))


def _watched(seconds: int, seed: int, page: str | None, speed: float, record: str | None) -> None:
    """Replay the links in real time, at a speed, while a page shows them, or they are recorded for one."""
    # Start-up: help needs nothing of the engine.
    from oop_engine.cli.replay import Clock, replay
    from oop_engine.language.translate import query
    from oop_engine.page.shown import Shown
    from oop_engine.plan.graph import Plan
    from oop_engine.sources.generator import START

    begin()
    lull = (seconds // 3, seconds // 3)
    clock = Clock(START, TICK, (seconds + SKEW + 3 * DISORDER) * SECOND // TICK)
    # Only tuples say how far these links are, so a link that is silent holds all.
    _, silent = _links(seconds, seed, lull, clock)
    node = query(QUERY, silent).node
    plan = Plan((node,))
    click.echo(f"Q1-2  {QUERY}\n")
    click.echo(
        f"Three links, {seconds} s, replayed {speed:g} times as fast as they came. Main2 arrives {SKEW} s late;\n"
        f"Control is silent from second {lull[0]} to {sum(lull)}, and nothing else says how far it is.\n"
    )
    with ExitStack() as stack:
        kept = None if record is None else expanded(record)
        shown = stack.enter_context(Shown(plan, page, None, kept, node.schema, QUERY))
        click.echo("minute (UTC)     count  released")
        began, ticks = time.monotonic(), 0

        def passing(circuit: Circuit) -> None:
            nonlocal ticks
            ticks += 1
            due = began + ticks * TICK / SECOND / speed
            while True:
                shown.watch(circuit)
                left = due - time.monotonic()
                if left <= 0:
                    return
                time.sleep(min(left, _LOOK))

        replay(plan, clock, released=_show, taken=shown.take, passing=passing)
        shown.finish()
        if shown.feed is not None:
            _stay(shown.feed)


def _stay(feed: Feed) -> None:
    """Keep the page of a run that has ended for as long as somebody reads it."""
    if feed.asked:
        say("the run has ended; its page stays for as long as it is open. Ctrl-C ends it.")
    while feed.asked:
        time.sleep(_LOOK)


def _links(seconds: int, seed: int, lull: tuple[int, int], clock: Clock) -> tuple[dict[str, Stream], dict[str, Stream]]:
    """Make the links, once with promises that go on in a lull, once with promises from tuples alone."""
    # Start-up: help needs nothing of the engine.
    from oop_engine.api.promising import from_source
    from oop_engine.cli.replay import Link
    from oop_engine.plan.punctuate import slack
    from oop_engine.sources.generator import Band, packets

    live: dict[str, Stream] = {}
    silent: dict[str, Stream] = {}
    for name, rate, skew in (("Control", 0.5, 0), ("Main1", RATE, 0), ("Main2", RATE, SKEW)):
        lulls = (((lull[0] * SECOND, lull[1] * SECOND)),) if name == "Control" else ()
        active = seconds - (lull[1] if lulls else 0)
        generated = packets(
            int(active * rate),
            rate=rate,
            sources=1000,
            disorder=Band(DISORDER * SECOND),
            late_share=0.2,
            skew=skew * SECOND,
            lulls=lulls,
            seed=seed,
            link=name,
            arrival=True,
        )
        link = Link.of(generated, clock)
        allowance, delay = f"{DISORDER} s", f"{skew + DISORDER} s"
        live[name] = from_source(link, punctuate=slack(allowance, step="1 s", lull=delay))
        silent[name] = from_source(link, punctuate=slack(allowance, step="1 s"))
    return live, silent


def _in_order(streams: Mapping[str, Stream]) -> Stream:
    # Start-up: help needs nothing of the engine.
    from oop_engine.api.stream import merge
    from operators.functions import count

    return merge(*streams.values()).window(range="1 minute", wattr="ts").aggregate(count())


def _show(result: Result) -> None:
    start, at, count = _number(result, "window_start"), result.at, _number(result, "count")
    click.echo(f"{_clock(start)}  {count:>12,}  {_clock(at)}  {'▇' * round(count / (120 * RATE) * BAR)}")


def _compared(melded: Replay, merged: Replay, alone: Replay) -> str:
    runs = (melded, merged, alone)
    same = len({tuple(sorted((_number(r, "wid"), _number(r, "count")) for r in run.results)) for run in runs}) == 1
    rows = [
        ("", "out of order", "in order", "in order,"),
        ("", "Meld", "Merge", "tuples alone"),
        ("held at most: tuples or counts", *(f"{run.peak_tuples:,}" for run in runs)),
        ("  in kB", *(f"{run.peak_bytes / 1000:,.1f}" for run in runs)),
        ("a packet waits in the union, mean", *(f"{run.waiting:.1f} s" for run in runs)),
        ("a count waits after its minute, longest", *(f"{_longest_wait(run):.0f} s" for run in runs)),
    ]
    lines = ["", "The same packets, put in order first:" if same else "THE ANSWERS DIFFER: please report this.", ""]
    lines += [f"{head:<40}" + "".join(f"{cell:>15}" for cell in cells) for head, *cells in rows]
    most = max(run.peak_tuples for run in runs)
    lines += ["", "held at most"]
    for name, run in zip(("Meld", "Merge", "Merge, tuples alone"), runs, strict=True):
        lines.append(f"  {name:<20} {'▇' * max(1, round(run.peak_tuples / most * BAR))} {run.peak_tuples:,}")
    lines += [
        "",
        "Meld passes packets on in any order: each is added to the count of its minute and forgotten, and a minute",
        "is released when all three links have promised that none of its packets can follow.",
        f"Merge must hold every packet until no link can bring an earlier one: {SKEW} s of a main link for the skew",
        "and, where only packets tell how far a link is, all traffic for as long as Control is silent.",
        f"So in-order state grows with skew, lull and rate, here to {_factor(merged, melded)} and"
        f" {_factor(alone, melded)} times as much, for an order that a",
        "count does not need.",
    ]
    return "\n".join(lines)


def _factor(run: Replay, least: Replay) -> str:
    return f"{run.peak_tuples / max(least.peak_tuples, 1):,.0f}"


def _longest_wait(run: Replay) -> float:
    """Return the longest time, on the arrival clock, from a window's end to its result."""
    return max((r.at - _number(r, "window_end")) / SECOND for r in run.results)


def _number(result: Result, name: str) -> int:
    value = result.row[name]
    assert isinstance(value, int)
    return value


def _clock(ns: int) -> str:
    seconds = ns // SECOND % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
