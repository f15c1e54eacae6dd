"""Figures of Traub and others, *Scotty: General and Efficient Open-source Window Aggregation* (TODS 2021)."""

from typing import Final

from oop_engine.figures.figure import Figure
from oop_engine.figures.scotty.throughput import FIG_13, FIG_14, FIG_17A, FIG_17B, FIG_18

FIGURES: Final[tuple[Figure, ...]] = (FIG_13, FIG_14, FIG_17A, FIG_17B, FIG_18)
"""In the order of the paper."""
