"""What a signal makes operators emit does not pass what they emitted before and has no room yet."""

from __future__ import annotations

import pytest
import trio

import oop_engine as oop
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import run_plan
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element
from operators.signals import Event
from tests.oop_engine.checkpoints.scenarios import Steps
from tests.oop_engine.schedules import scheduled


@pytest.mark.parametrize("seed", range(4))
def test_firings_of_a_window_leave_in_their_order(seed: int) -> None:
    """Inboxes have no room at all, and a page is given with promises between its tuples."""
    stream = oop.rows([(i, i % 3) for i in range(1500)], oop.Schema.of(ts="int64", k="int64"))
    trigger = oop.Trigger.rows(3) | oop.Trigger.event("now")
    results = stream.window(range=100, slide=20).aggregate(oop.count(), by="k", early=trigger)
    plan, given = prepared(results.node), list[Element]()

    def watch(circuit: Circuit) -> None:
        circuit.fire(Event("now"))

    async def main() -> None:
        await run_plan(plan, (given.append,), page_rows=100, inbox=0, waiting=False, watch=watch)

    with scheduled(seed):
        trio.run(main, clock=Steps())
    last, bound = dict[tuple[int, int], int](), -(2**63)
    for element in given:
        if isinstance(element, Page):
            for row in element.rows():
                key = (row["k"], row["wid"])
                assert row["wid"] >= bound and row["firing"] == last.get(key, -1) + 1
                last[key] = row["firing"]
        elif not element.is_end and isinstance(reached := element.bound("wid"), int):
            bound = max(bound, reached)
    assert max(last.values()) > 11, "events fire besides the tuples"
