"""Measurements of workloads of later papers: FiBA (VLDB 2019, 2023) and Desis (EDBT 2022)."""

from typing import Final

from oop_engine.figures.beyond.bulk import BULK
from oop_engine.figures.beyond.queries import QUERIES
from oop_engine.figures.figure import Figure

FIGURES: Final[tuple[Figure, ...]] = (BULK, QUERIES)
