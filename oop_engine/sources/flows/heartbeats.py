"""Heartbeats: datagrams without records, whose headers still show how far the exporter is.

It is heard with the records that came before and after it, in order, as a part without rows. Not so while data of its
session wait for their template: those are of before, whatever headers say meanwhile.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.parts import Parts
from oop_engine.sources.flows.sessions import Sessions
from operators.data.page import Bools, Int64s


@attrs.define(eq=False)
class Heartbeats:
    """The datagrams in the present flush that had no records. Cost: some array operations a flush."""

    _spoke: Bools = attrs.field(init=False, factory=lambda: np.zeros(0, np.bool_))
    _from: int = attrs.field(init=False, default=0)

    def begin(self, many: int) -> None:
        """Begin with so many datagrams."""
        self._spoke, self._from = np.zeros(many, np.bool_), 0

    def before(
        self, until: int, spoke: NDArray[np.int32], datagrams: Datagrams, heads: NDArray[np.int64], sessions: Sessions
    ) -> Int64s:
        """Return the datagrams before `until` that had no records, when those of `spoke` have; each is given once.

        Those that were not walked to their end have nobody's head; and one whose session has made room for another
        since is nobody's, too.
        """
        self._spoke[spoke] = True
        places = np.arange(self._from, until)
        self._from = max(self._from, until)
        places = places[~self._spoke[places] & (heads[places, e.H_SESSION] != e.NOBODY)]
        who = heads[places, e.H_SESSION]
        same = (
            (sessions.senders[who] == datagrams.address.reshape(-1, 2)[places]).all(axis=1)
            & (sessions.table[who, e.T_PORT] == heads[places, e.H_PORT])
            & (sessions.table[who, e.T_DOMAIN] == heads[places, e.H_DOMAIN])
            & (sessions.table[who, e.T_VERSION] == heads[places, e.H_VERSION])
        )
        return places[same]


def parts_of(
    heads: NDArray[np.int64], spoke: NDArray[np.int32], first: Int64s, rows: int, silent: Int64s | None
) -> Parts:
    """Return the parts of runs that begin at rows `first`, of the datagrams `spoke`, and of those that were silent."""
    places, recorded = spoke.astype(np.int64), np.ones(len(spoke), np.bool_)
    if silent is not None and len(silent):
        # A part without rows begins where the next one does.
        at = np.append(first, rows)[np.searchsorted(places, silent)]
        order = np.argsort(np.concatenate([places, silent]), kind="stable")
        places = np.concatenate([places, silent])[order]
        first = np.concatenate([first, at])[order]
        recorded = np.concatenate([recorded, np.zeros(len(silent), np.bool_)])[order]
    who, version, export, arrival = heads[places].T[[e.H_SESSION, e.H_VERSION, e.H_EXPORT, e.H_ARRIVAL]]
    return Parts(who, version, export, arrival, first, recorded)
