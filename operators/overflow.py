"""Report results that do not fit their type: an error that names the place, or null and a count in a live run.

A file can be read again and summed otherwise. A live stream cannot, and one record with a wrong number must not end a
collection of many senders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Page
from operators.errors import AggregateOverflow
from operators.expression import Bound
from operators.functions.protocol import Slots
from operators.plan_facts import Composed
from operators.protocol import Operator
from operators.protocol_checks import fits


class Finalizing(Protocol):
    """An object that has the results of slots: an accumulator."""

    def finalize(self, slots: Slots, /) -> pa.Array:
        """Return one result per slot; AggregateOverflow when one does not fit."""
        ...


@attrs.define
class Overflow:
    """Say what becomes of values and results that do not fit their type, and count those that are null for it.

    The count is in no operator's state, for operators that remember nothing count too: a job saves it for each.

    >>> forgiving = Overflow(forgiving=True)
    >>> def small(start, stop):
    ...     return pa.array([2**n for n in range(60 + start, 60 + stop)], pa.int64())
    >>> forgiving.filled(5, pa.int64(), small).to_pylist(), forgiving.count
    ([1152921504606846976, 2305843009213693952, 4611686018427387904, None, None], 2)
    """

    forgiving: bool = False
    count: int = 0

    def filled(self, n: int, kind: pa.DataType, compute: Callable[[int, int], pa.Array]) -> pa.Array:
        """Return compute(0, n), of n values of a type; where it is forgiven, null for each value that does not fit.

        AggregateOverflow or OverflowError, as `compute` raises it, where it is not. Cost: log2(n) calls of `compute`
        for each value that does not fit, none otherwise.
        """
        try:
            return compute(0, n)
        except (AggregateOverflow, OverflowError):
            if not self.forgiving:
                raise
        return pa.concat_arrays(list(self._halves(0, n, kind, compute)))

    def _halves(
        self, start: int, stop: int, kind: pa.DataType, compute: Callable[[int, int], pa.Array]
    ) -> Iterator[pa.Array]:
        """Yield the values from `start` to `stop`, which do not all fit."""
        if stop - start == 1:
            self.count += 1
            yield pa.nulls(1, kind)
            return
        middle = (start + stop) // 2
        for low, high in ((start, middle), (middle, stop)):
            try:
                yield compute(low, high)
            except (AggregateOverflow, OverflowError):
                yield from self._halves(low, high, kind, compute)

    def evaluated(self, bound: Bound, page: Page) -> pa.Array:
        """Return the values of an expression for the tuples of a page."""

        def some(start: int, stop: int) -> pa.Array:
            return bound.evaluate(page if stop - start == len(page) else page.slice(start, stop))

        return self.filled(len(page), bound.type, some)

    def finalized(
        self, name: str, accumulator: Finalizing, slots: Slots, kind: pa.DataType, where: Callable[[int], str]
    ) -> pa.Array:
        """Return the results of slots, of a type; `where` tells of which window and group that at a place is.

        AggregateOverflow names the aggregate, and where it was, if it is not forgiven.
        """
        try:
            return accumulator.finalize(slots)
        except (AggregateOverflow, OverflowError) as overflow:
            if self.forgiving:
                return self.filled(len(slots), kind, lambda start, stop: accumulator.finalize(slots[start:stop]))
            if not isinstance(overflow, AggregateOverflow):
                raise
            at = int(np.argmax(slots == overflow.slot))
            raise AggregateOverflow(f"aggregate {name} of {where(at)}: {overflow}") from overflow


def overflows(operator: Operator) -> Iterator[Overflow]:
    """Yield what an operator, or each that it is made of, does with what does not fit."""
    if fits(operator, Composed):
        for link in operator.links():
            yield from overflows(link)
    elif isinstance(found := getattr(operator, "overflow", None), Overflow):
        yield found
