"""What all ways to make a stream say of its promises, and of the tuples that break them.

By default a bounded stream is punctuated exactly (it is read ahead once, by the attribute that windows use);
`slack="2s"` or `punctuate=` say otherwise, and are needed for what can be read only once. `on` is the attribute that
`slack` is on.

`late` is what happens to a tuple that breaks a promise: "drop" leaves it out of the windows that are released (thesis
6.1.5.2, generous), "refuse" raises StreamViolation at the first, "revise" passes it on (counted as `behind`, and as
late where a window then refuses it), and `divert=` takes every one out of the stream, to a function of pages or to a
file such as "late.parquet". All are counted. Where several outputs of a run read the stream, each is judged by the
promises that its own queries need; but what is refused or diverted is judged once for all, by the finest that any
needs.

With `arrival_ts` a stream also says when its tuples arrived, in ns by the system's clock (True) or by a function that
gives ns since 1970: one stamp for all that was read at once, never less than the one before, so windows over arrival_ts
need no other promise. For a file that is the time of its reading, not of its recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Divert, Late, source_node
from oop_engine.plan.punctuate import Promise
from oop_engine.plan.punctuate import slack as slack_promise
from oop_engine.plan.ticks import Amount
from oop_engine.sources.arrival import Clock, stamped_source
from oop_engine.sources.protocol import Source
from operators.data.schema import Schema

Promises: TypeAlias = "Promise | Iterable[Promise] | None"
Arrival: TypeAlias = "bool | Clock"


def from_source(
    source: Source,
    *,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of any source; `slack` is short for `punctuate=oop.slack(slack, on=on)`.

    PlanError for what is no source, promise or policy, SchemaError for an attribute that there is not.
    """
    # Callers without a type checker give a path here; the annotation does not stop them.
    if not isinstance(source, Source):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"from_source takes a source, and {type(source).__name__} {source!r:.60} is none.\n  "
            + (f'For a file write oop.read("{source}"). ' if isinstance(source, (str, Path)) else "")
            + "A source has name, arrow, rewindable, promised, open and values (oop_engine.sources.protocol.Source)."
        )
    promises = promises_said(punctuate)
    if slack is not None:
        promises = (*promises, slack_promise(slack, on=on))
    elif on != "ts":
        Schema(source.arrow).resolve(on, where=f"{source.name}: on")
    if arrival_ts is not False:
        clock = arrival_ts if callable(arrival_ts) else None
        if clock is None and arrival_ts is not True:
            raise PlanError(f"arrival_ts is {arrival_ts!r}; write True, or a function that gives ns since 1970.")
        source = stamped_source(source, clock=clock)
    return Stream(source_node(source, promises=promises, late=late, divert=divert))


def promises_said(said: object) -> tuple[Promise, ...]:
    """Give the promises as a tuple; PlanError for whatever else users write there."""
    given: tuple[object, ...] = tuple(said) if isinstance(said, (list, tuple, set, frozenset, Iterator)) else (said,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    promises = tuple(promise for promise in given if isinstance(promise, Promise))
    if said is not None and len(promises) < len(given):
        raise PlanError(
            f"punctuate is {said!r}, which is no promise.\n"
            '  Write punctuate=oop.slack("2s"), oop.every("1s"), oop.ordered() or a list of such.'
        )
    return promises
