"""Run a query over links that fall silent, and say what came out until then, and why no more does."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import oop_engine as oop
from oop_engine.plan.punctuate import Promise

SCHEMA = oop.Schema.of(ts="timestamp[ms]", host="string")
NOON = 1_700_049_600


class Link:
    """A link that brings rows, their times in seconds after noon, and then nothing more."""

    def __init__(self, *rows: tuple[int, str]) -> None:
        self.rows, self.gone = rows, threading.Event()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for seconds, host in self.rows:
            yield 1000 * (NOON + seconds), host
        self.gone.wait(60)

    def read(self, name: str, punctuate: Promise) -> oop.Stream:
        """Return the link as a stream of this name that is promised so."""
        return oop.rows(iter(self), SCHEMA, name=name, punctuate=punctuate)


def held(result: oop.Stream, *links: Link, windows: int = 0) -> None:
    """Print how many windows came out when all links are silent, at least so many, and what the next one waits for."""
    with tempfile.TemporaryDirectory() as folder:
        run = result.to(Path(folder, "results.csv")).start()
        try:
            while run.statistics.tuples < sum(len(link.rows) for link in links) or run.statistics.windows < windows:
                run.why(30)
            why = run.why(30)[0]
            print(f"{run.statistics.windows} windows came out, {run.statistics.late} tuples were late.")
            print(f"Why no more do: {why}")
        finally:
            for link in links:
                link.gone.set()
            run.stop()
