"""Entries wait by the value at which they expire, so that a rising bound finds the expired ones without a scan."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

import attrs
import numpy as np

from operators.data.keys import Ids
from operators.data.page import Bools, Int64s


@attrs.define(eq=False)
class Expiry:
    """Keep ids by an integer value each, in sorted runs under a heap.

    Cost: to add n ids O(n log n); to expire k of them O(k + runs touched).

    >>> expiry = Expiry()
    >>> expiry.add(np.array([0, 1, 2], np.int32), np.array([5, 3, 9]))
    >>> sorted(expiry.expire(6).tolist()), expiry.expire(6).tolist()
    ([0, 1], [])
    """

    _runs: list[tuple[int, int, Int64s, Ids]] = attrs.field(factory=list, init=False)
    _serial: Iterator[int] = attrs.field(factory=count, init=False)

    def add(self, ids: Ids, values: Int64s) -> None:
        """Add ids, shape (n,), with their values, shape (n,); no id is added twice before it expired."""
        if len(ids):
            order = np.argsort(values, kind="stable")
            self._push(values[order], ids[order])

    def expire(self, bound: int) -> Ids:
        """Take out and give the ids whose value is below a bound."""
        expired: list[Ids] = []
        while self._runs and self._runs[0][0] < bound:
            _, _, values, ids = heapq.heappop(self._runs)
            cut = len(values) if values[-1] < bound else int(np.searchsorted(values, bound))
            expired.append(ids[:cut])
            if cut < len(values):
                self._push(values[cut:], ids[cut:])
        return np.concatenate(expired) if expired else np.empty(0, np.int32)

    def forget(self, gone: Bools) -> None:
        """Take out every id for which `gone`, shape (largest id + 1,), is true."""
        runs, self._runs = self._runs, []
        for _, _, values, ids in runs:
            stays = ~gone[ids]
            if stays.any():
                self._push(values[stays], ids[stays])

    def _push(self, values: Int64s, ids: Ids) -> None:
        heapq.heappush(self._runs, (int(values[0]), next(self._serial), values, ids))
