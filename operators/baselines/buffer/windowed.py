"""Count nulls as tuples come, for operators that keep tuples and show them to functions later, or once a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
import numpy as np

from operators.data.page import Int32s, Int64s, Page
from operators.data.schema import Schema
from operators.functions.protocol import Accumulator
from operators.window_aggregate.shell import StoreShell
from operators.window_aggregate.store import WindowStore

S = TypeVar("S", bound=WindowStore)


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class Buffering(StoreShell[S]):
    """Aggregate what a Bucket gives with a store that keeps tuples."""

    def _accumulators(self, schema: Schema) -> Sequence[Accumulator]:
        """Make one accumulator a function; none shares its state, as each may get tuples in an order of its own."""
        return [function.accumulator(schema) for function in self.functions.values()]

    def _update(self, store: S, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        self._count_nulls(page)
        store.update(page, first, last, groups, capacity)

    def _count_nulls(self, page: Page) -> None:
        """Let each function count the tuples it skips for a null, once, however many windows they are in."""
        for function in self.functions.values():
            columns = [page.column(name) for name in function.arguments]
            if any(column.null_count for column in columns):
                accumulator = function.accumulator(page.schema)
                accumulator.reserve(1)
                accumulator.init(np.zeros(1, np.int32))
                accumulator.update(np.zeros(len(page), np.int32), page)
                self._nulls += accumulator.nulls

    def _null_arguments(self) -> int:
        return self._nulls
