"""Figures of Li, "Window Queries over Data Streams" (2008)."""

from __future__ import annotations

from typing import Final

from oop_engine.figures.figure import Figure
from oop_engine.figures.thesis.buffering import FIG_6_10
from oop_engine.figures.thesis.disorder import FIG_6_8, FIG_6_9
from oop_engine.figures.thesis.slack import FIG_6_11, FIG_6_12

FIGURES: Final[tuple[Figure, ...]] = (FIG_6_8, FIG_6_9, FIG_6_10, FIG_6_11, FIG_6_12)

__all__ = ["FIGURES"]
