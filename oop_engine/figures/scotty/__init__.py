"""Figures of Traub and others, *Scotty: General and Efficient Open-source Window Aggregation* (TODS 2021)."""

from typing import Final

from oop_engine.figures.figure import Figure
from oop_engine.figures.scotty.functions import FIG_18_COUNT
from oop_engine.figures.scotty.holistic import FIG_19
from oop_engine.figures.scotty.latency import FIG_16
from oop_engine.figures.scotty.measures import FIG_21
from oop_engine.figures.scotty.memory import FIG_15A, FIG_15B, FIG_15C, FIG_15D
from oop_engine.figures.scotty.parallel import FIG_22
from oop_engine.figures.scotty.splits import FIG_20
from oop_engine.figures.scotty.systems import FIG_23
from oop_engine.figures.scotty.throughput import FIG_13, FIG_14, FIG_17A, FIG_17B, FIG_18

FIGURES: Final[tuple[Figure, ...]] = (
    FIG_13, FIG_14, FIG_15A, FIG_15B, FIG_15C, FIG_15D, FIG_16, FIG_17A, FIG_17B, FIG_18, FIG_18_COUNT, FIG_19, FIG_20,
    FIG_21, FIG_22, FIG_23,
)  # fmt: skip
"""In the order of the paper."""
