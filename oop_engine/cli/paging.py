"""The page of a run from the command line: served while the run goes on, its address said on stderr."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from oop_engine.messages import say
from oop_engine.page.address import Address
from oop_engine.page.feed import Feed, Results
from oop_engine.page.serving import Served
from oop_engine.plan.graph import Plan
from operators.data.schema import Schema

_LOOK: Final = 0.25
"""Seconds between two looks whether somebody reads a page."""


@contextmanager
def served(
    text: str, token: str | None, plan: Plan, schema: Schema, title: str = ""
) -> Generator[tuple[Feed, Results]]:
    """Serve the page of a run of a plan at ADDRESS:PORT, and give the feed that it shows, and what takes the results.

    The title is that of its outputs, if there is no other.
    """
    results = Results(schema)
    feed = Feed(results)
    with Served.of_plan(Address.of(text, token), plan, feed, title) as page:
        say(f"page: {page.url}")
        yield feed, results
        feed.finish()


def stay(feed: Feed) -> None:
    """Keep the page of a run that has ended for as long as somebody reads it."""
    feed.finish()
    if feed.asked:
        say("the run has ended; its page stays for as long as it is open. Ctrl-C ends it.")
    while feed.asked:
        time.sleep(_LOOK)
