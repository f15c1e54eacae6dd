"""What waits takes room for what waits, however many pages it came in."""

from __future__ import annotations

import numpy as np

from operators.window_aggregate.stores.ranked.waiting import Owners


def test_owners_take_room_for_their_slots_and_not_for_each_page() -> None:
    owners = Owners()
    for page in range(200):
        owners.add(np.array([page % 7], np.int32), np.array([page % 3], np.int32))
    assert owners.nbytes <= 16 * (4 + 8)
    owners.add(np.array([5_000], np.int32), np.array([2], np.int32))
    assert owners.of(np.array([5_000], np.int32)).tolist() == [2] and owners.nbytes <= 2 * 5_000 * 4 + 16 * 8
