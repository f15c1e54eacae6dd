"""Every figure is measured at the size of tests, judged, and drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from oop_engine.figures.catalogue import figures
from oop_engine.figures.drawn import draw
from oop_engine.figures.figure import Size
from tests.examples import mostly_slow


@pytest.mark.parametrize("name", mostly_slow(figures(), but=["6-10", "7-5", "8-8", "hammer-6", "scotty-13"]))
def test_it_is_measured_and_drawn(name: str, tmp_path: Path) -> None:
    figure = figures()[name]
    drawn = draw(figure, Size("tiny"), tmp_path)
    assert drawn.verdict is not None, drawn.trace
    assert drawn.verdict.checks
    for picture, _ in figure.pictures():
        assert ElementTree.fromstring((tmp_path / f"{picture}.svg").read_text()).tag.endswith("svg")
