"""Measurements of workloads of later papers: late blocks, many queries, and promises by key."""

from typing import Final

from oop_engine.figures.beyond.bulk import BULK
from oop_engine.figures.beyond.keyed import KEYED_PROMISES
from oop_engine.figures.beyond.queries import QUERIES
from oop_engine.figures.figure import Figure

FIGURES: Final[tuple[Figure, ...]] = (BULK, QUERIES, KEYED_PROMISES)
