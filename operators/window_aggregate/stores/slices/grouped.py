"""The grouped store combines the vectors of slices into windows, once for all windows that end with the same slice.

They are longer and shorter ends of a row of slices, so the vector of the shortest goes on to be that of the next.
Cost: one combination for each slice and group of the longest; of few groups, for each slice and group of every window.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from operators.data.page import Int32s, Int64s
from operators.kernels.slicing import place as slicer
from operators.kernels.ticks import FAR
from operators.window_aggregate.stores.slices.lazy import OnDemand, occupied
from operators.window_aggregate.stores.slices.slices import Held
from operators.window_aggregate.stores.slices.vectors import Vectors


@attrs.define(eq=False)
class Grouped(OnDemand):
    """Answer windows from vectors at the moment they are asked."""

    vectors: Vectors

    def _rows(self) -> tuple[Int32s, Int64s]:
        """Return the slices in order of time, and the begins of their cells."""
        live, n = occupied(self.slices)
        cells = live[slicer.NUMBER, :n]
        return self.slices.cells[cells, slicer.HEAD].astype(np.int32), live[slicer.START, :n]

    def answers(self, opens: Int64s, closes: Int64s, firsts: Int64s) -> Iterator[Held]:
        """Yield the results of windows [opens[i], closes[i]); one window at a time where groups are many.

        `firsts` as in `Lazy`.
        """
        vectors = self.vectors
        rows, begins = self._rows()
        starts = firsts if len(firsts) else np.searchsorted(begins, opens)
        stops = np.searchsorted(begins, closes)
        if vectors.few:
            yield from vectors.of_groups(vectors.everyone(), -FAR, closes, starts, stops, rows)
            return
        end = low = -1
        running: Int32s | None = None
        for w in np.lexsort((-starts, stops)).tolist() if len(stops) > 1 else (0,):
            start, stop, close = int(starts[w]), int(stops[w]), int(closes[w])
            if start == stop:
                continue
            if stop != end:
                if running is not None:
                    vectors.empty(running)
                end = low = stop
            if stop - start == 1:
                yield vectors.held(w, int(rows[start]), close)
                continue
            if running is None:
                running = vectors.running()
            vectors.pour(rows[start:low], running)
            low = start
            yield vectors.held(w, running, close)
        if running is not None:
            vectors.empty(running)

    def begins(self, which: Int32s) -> Int64s:
        """Return the begins of the slices that have any of these groups."""
        rows, begins = self._rows()
        return begins[self.vectors.having(which, rows)]

    def of_groups(self, which: Int32s, past: int, opens: Int64s, closes: Int64s) -> Iterator[Held]:
        """Yield the results of single groups in windows [opens[i], closes[i]), but those that they have had."""
        if len(opens):
            rows, begins = self._rows()
            starts, stops = np.searchsorted(begins, opens), np.searchsorted(begins, closes)
            yield from self.vectors.of_groups(which, past, closes, starts, stops, rows)

    def drop_groups(self, which: Int32s, low: int) -> None:
        """Forget what single groups have in slices that end at or before `low`."""
        live, n = occupied(self.slices)
        cells = self.slices.cells[live[slicer.NUMBER, :n]]
        self.vectors.remove(which, cells[cells[:, slicer.END] <= low, slicer.HEAD].astype(np.int32))
