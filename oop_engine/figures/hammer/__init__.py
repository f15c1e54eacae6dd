"""Figures of Theodorakis, Koliousis, Pietzuch and Pirk, *Hammer Slide* (ADMS 2018)."""

from typing import Final

from oop_engine.figures.figure import Figure
from oop_engine.figures.hammer.bursts import FIG_11
from oop_engine.figures.hammer.parts import FIG_1, FIG_4B, FIG_12, FIG_BARS
from oop_engine.figures.hammer.sliding import FIG_4A, FIG_6, FIG_7, FIG_8, FIG_9, FIG_10

FIGURES: Final[tuple[Figure, ...]] = (
    FIG_1, FIG_BARS, FIG_4A, FIG_4B, FIG_6, FIG_7, FIG_8, FIG_9, FIG_10, FIG_11, FIG_12,
)  # fmt: skip
"""In the order of the paper."""
