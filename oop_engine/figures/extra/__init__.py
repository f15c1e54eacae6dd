"""Plots that no paper has, of what the thesis says in words."""

from typing import Final

from oop_engine.figures.extra.granularity import GRANULARITY
from oop_engine.figures.extra.join_choice import JOIN_CHOICE
from oop_engine.figures.extra.joint import JOINT_LATENCY
from oop_engine.figures.extra.slide_by_tuple import SLIDE
from oop_engine.figures.extra.unions import UNIONS
from oop_engine.figures.figure import Figure

FIGURES: Final[tuple[Figure, ...]] = (GRANULARITY, UNIONS, SLIDE, JOINT_LATENCY, JOIN_CHOICE)
