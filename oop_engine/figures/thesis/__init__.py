"""Figures of Li, "Window Queries over Data Streams" (2008)."""

from __future__ import annotations

from typing import Final

from oop_engine.figures.figure import Figure
from oop_engine.figures.thesis.adaptive import FIG_6_19, FIG_6_19_SKEW
from oop_engine.figures.thesis.buffering import FIG_6_10
from oop_engine.figures.thesis.disorder import FIG_6_8, FIG_6_9
from oop_engine.figures.thesis.expensive import FIG_8_3
from oop_engine.figures.thesis.joins import FIG_7_5, FIG_7_6, FIG_7_7
from oop_engine.figures.thesis.low_level import FIG_8_7
from oop_engine.figures.thesis.memory import FIG_8_8, FIG_8_9, FIG_8_10, FIG_8_11
from oop_engine.figures.thesis.panes import FIG_6_15
from oop_engine.figures.thesis.promises import FIG_RATIO
from oop_engine.figures.thesis.retention import FIG_8_4, FIG_8_5
from oop_engine.figures.thesis.slack import FIG_6_11, FIG_6_12
from oop_engine.figures.thesis.sustained import TABLE_8_1

FIGURES: Final[tuple[Figure, ...]] = (
    FIG_6_8, FIG_6_9, FIG_6_10, FIG_6_11, FIG_6_12, FIG_6_15, FIG_6_19, FIG_6_19_SKEW,
    FIG_7_5, FIG_7_6, FIG_7_7,
    FIG_8_3, FIG_8_4, FIG_8_5, FIG_8_7, TABLE_8_1, FIG_8_8, FIG_8_9, FIG_8_10, FIG_8_11,
    FIG_RATIO,
)  # fmt: skip

__all__ = ["FIGURES"]
