"""Hand pages and promises to operators by a clock of the experiment; see when results come, and what is held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Final

import attrs
import pyarrow as pa

from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.protocol import Element

SECOND: Final = 1_000
"""Ticks are milliseconds."""
SCHEMA: Final = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
Steps = Iterable[tuple[int, Sequence[tuple[int, Element]]]]
"""What comes at each time, in ticks: elements with their ports."""


@attrs.frozen
class Observed:
    """Hold what operators gave.

    - `counts`: the result by the end of the window and the group.
    - `latency`: the mean time from the end of a window to its results, in seconds, but for what END released.
    - `held`: the most tuples and partial aggregates at the end of a step.
    """

    counts: dict[tuple[int, int], int]
    latency: float
    held: int


def observe(operators: Chain, steps: Steps) -> Observed:
    """Run operators that count `n` by `k` in windows.

    - `operators`: the last one gives the results; all inputs have the schema `SCHEMA`.
    - `steps`: what comes when; the last step ends the stream.

    >>> from operators.functions import count
    >>> from operators.window import tumbling
    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.window_aggregate.stores.per_window.wid import WindowAggregate
    >>> from punctuation import END, before
    >>> window = tumbling("ts", 10)
    >>> counting = Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ["k"])])
    >>> page = Page.of(SCHEMA, {"ts": [3, 4], "k": [7, 7]})
    >>> found = observe(counting, [(5, [(0, page)]), (1010, [(0, before("ts", 10))]), (1011, [(0, END)])])
    >>> found.counts, found.latency, found.held
    ({(10, 7): 2}, 1.0, 1)
    """
    operators.output_schema(*[SCHEMA] * operators.inputs)
    counts, latencies, held, now = dict[tuple[int, int], int](), list[int](), 0, 0
    ended = False

    def take(element: Element) -> None:
        if isinstance(element, Page):
            ends = element["window_end"].tolist()
            for end, k, n in zip(ends, element["k"].tolist(), element["n"].tolist(), strict=True):
                counts[end, k] = n
                if not ended:
                    latencies.append(now - end)

    for time, elements in steps:
        now = time
        for port, element in elements:
            ended = not isinstance(element, Page) and element.is_end
            deliver(operators, element, take, port)
        held = max(held, operators.statistics()["state_tuples"])
    return Observed(counts, mean(latencies) / SECOND, held)
