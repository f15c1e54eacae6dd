"""The memory costs of lazy and eager aggregation of one group, and the rule that chooses between them.

Lazy keeps the group's tuples, eager one partial aggregate for each open window. `wed` is the window extent duration,
`vol` the tuples a tick of the group, all in ticks of the windowing attribute; `vols` and `offsets` are those of each
source, an offset being how far its high-watermark is behind that of the source that is furthest.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import attrs

from operators.errors import SchemaError

Number: TypeAlias = int | float | Fraction


def eager_cost(aggr: Number, wed: Number, slide: Number) -> Number:
    """Return the memory of one partial aggregate for each open window (Eq. 6.5)."""
    return aggr * (wed / slide)


def lazy_cost(
    tup: Number, vol: Number, wed: Number, vols: Sequence[Number] = (), offsets: Sequence[Number] = ()
) -> Number:
    """Return the memory of the buffered tuples: Eq. 6.8, which is Eq. 6.6 when there are no offsets."""
    return tup * buffered(vol, wed, vols, offsets)


def buffered(vol: Number, wed: Number, vols: Sequence[Number] = (), offsets: Sequence[Number] = ()) -> Number:
    """Return the number of tuples that lazy aggregation buffers (Eq. 6.7)."""
    missing: Number = 0
    for v, offset in zip(vols, offsets, strict=True):
        missing += v * offset
    return vol * wed - missing


def threshold(
    aggr: Number, tup: Number, wed: Number, slide: Number, vols: Sequence[Number] = (), offsets: Sequence[Number] = ()
) -> Number:
    """Return the right side of condition 6.9: eager is preferred when winVol = vol * wed is above it."""
    found: Number = aggr * wed / (tup * slide)
    for v, offset in zip(vols, offsets, strict=True):
        found += v * offset
    return found


@attrs.frozen
class Cost:
    """Say what a partial aggregate and a buffered tuple cost, in any one unit, and how wide the band is.

    A lazy group turns eager when its window volume is above the threshold, an eager one turns lazy when it is below the
    threshold less the part `band` of it (two thresholds, thesis 6.3.4.2, so that no load oscillates within the band).
    """

    aggr: float = attrs.field(default=1.0, kw_only=True)
    tup: float = attrs.field(default=1.0, kw_only=True)
    band: float = attrs.field(default=0.2, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, value in (("aggr", self.aggr), ("tup", self.tup)):
            if not 0 < value < float("inf"):
                raise SchemaError(f"Cost({name}={value}): a cost is above 0; give both in one unit, as bytes.")
        if not 0 <= self.band < 1:
            raise SchemaError(
                f"Cost(band={self.band}): the band is the part of the threshold by which the second one is lower.\n"
                "  Write a number from 0 (one threshold) to less than 1."
            )
