"""Promises of streams, and the policies for tuples that break them: the parameters that all sources share."""

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
    """Make a stream of any source, with its promises.

    - `source`: an object as `oop_engine.sources.protocol.Source` describes it.
    - `punctuate`: one promise, or several in a list: `oop.ordered()`, `oop.slack("2s")`, `oop.blocks(...)` and others.
      By default a source that can be read twice is promised exactly: it is read ahead once, by the attribute that
      windows use. What can be read only once needs `punctuate` or `slack`.
    - `slack`: short for `punctuate=oop.slack(slack, on=on)`; "auto" learns it.
    - `on`: the attribute that `slack` is on.
    - `late`: what happens to a tuple that breaks a promise. "drop" leaves it out of windows that are released (thesis
      6.1.5.2), "refuse" raises StreamViolation, "revise" passes it on. All are counted.
    - `divert`: take late tuples out of the stream, to a function of pages or to a file such as "late.parquet".
    - `arrival_ts`: add the time of arrival, in ns by the system's clock (True) or by a function that returns ns since
      1970. Windows over it need no other promise. For a file it is the time of reading, not of recording.

    If several outputs of a run read the stream, "drop" judges a tuple by the promises that each needs. A tuple is
    refused or diverted by the finest promise that any output needs.

    PlanError when the source, a promise or the policy is none, SchemaError for an unknown attribute.

    >>> import pyarrow as pa
    >>> from oop_engine.sources.memory import Rows
    >>> source = Rows("mine", (pa.record_batch({"ts": [3, 1, 7]}),))
    >>> oop.from_source(source, slack=5).window(range=5).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
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
    """Return the promises as a tuple; PlanError for anything else that a user writes there."""
    given: tuple[object, ...] = tuple(said) if isinstance(said, (list, tuple, set, frozenset, Iterator)) else (said,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    promises = tuple(promise for promise in given if isinstance(promise, Promise))
    if said is not None and len(promises) < len(given):
        raise PlanError(
            f"punctuate is {said!r}, which is no promise.\n"
            '  Write punctuate=oop.slack("2s"), oop.every("1s"), oop.ordered() or a list of such.'
        )
    return promises
