"""One run of a query from the command line: its streams opened, its results shown, what was read and was late told."""

from __future__ import annotations

import os

import attrs

from oop_engine.api.stream import Stream
from oop_engine.cli.hints import translated
from oop_engine.cli.naming import Naming
from oop_engine.cli.showing import Wishes, run_shown
from oop_engine.cli.summary import missed, noted, summary
from oop_engine.drive.meter import Statistics
from oop_engine.messages import say
from oop_engine.rewrite.passes import prepared
from oop_engine.sources.kafka_places import is_endless


def run_query(text: str, naming: Naming, wishes: Wishes) -> Statistics:
    """Run a query to its end, or until SIGINT."""
    if naming.follow or any(map(is_endless, naming.places.values())):
        wishes = attrs.evolve(wishes, endless=True, append=True)
    if naming.follow:
        # A savepoint of another folder is named by its path.
        elsewhere = wishes.savepoint is not None and os.sep in wishes.savepoint
        naming = attrs.evolve(naming, checkpoint=wishes.savepoint if elsewhere else wishes.checkpoint)
    return run_stream(translated(text, naming, wishes.to), wishes, late=naming.late, late_to=naming.late_to)


def run_stream(stream: Stream, wishes: Wishes, *, late: str = "drop", late_to: str | None = None) -> Statistics:
    """Run a stream to its end, or until SIGINT; `late` is what becomes of late tuples, and `late_to` where they go."""
    node = stream.node
    plan = prepared(node)
    kept = wishes.checkpoint is not None

    def told(statistics: Statistics, compiled: bool) -> str:
        return summary(plan, statistics, late=late, late_to=late_to, compiled=compiled, kept=kept)

    statistics = run_shown(plan, wishes, told, node=node)
    if wishes.quiet:
        # What was not read, or not counted, is no progress and no summary.
        for line in [*missed(statistics, late), *noted(statistics)]:
            say(line)
        if statistics.interrupted:
            say("interrupted: the results so far are written.")
    return statistics
