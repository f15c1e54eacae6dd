"""Run a plan as in-order engines do: sort every stream between operators, for the comparisons of the papers.

As long as no tuple is late, the answers are the same. The statistics of the sorts, merges and joins show what was held
back (thesis chapter 8, IOP against OOP).
"""

from __future__ import annotations

from typing import get_args

from oop_engine.api.stream import Stream, check_stream
from oop_engine.errors import PlanError
from oop_engine.rewrite.in_order import Buffer, ordered


def in_order(stream: Stream, *, buffer: Buffer = "output") -> Stream:
    """Return the same stream computed in order: inputs are sorted, melds merge, joins keep order.

    - `stream`: the stream. It is sorted by the attribute that its reader progresses on, as soon as promises allow it.
      Nothing is sorted before its number of arrival is given.
    - `buffer`: joins hold back their pairs, "output" (OPOB-Join), or their left tuples, "input" (OPIB-Join). Joins that
      keep tuples without a partner hold back pairs.

    PlanError for another object or another `buffer`.

    >>> links = [oop.rows([(at,) for at in times], oop.Schema.of(ts="int64")) for times in ((3, 1), (2, 9))]
    >>> results = oop.meld(*links).window(range=5).aggregate(oop.count())
    >>> oop.in_order(results).to_arrow()["count"].to_pylist()
    [3, 1]
    """
    check_stream("in_order", stream)
    if buffer not in get_args(Buffer):
        raise PlanError(
            f'in_order(buffer="{buffer}"): joins hold back their pairs, "output", or their left tuples, "input".'
        )
    return Stream(ordered(stream.node, buffer))
