"""Each figure of the thesis at a tiny size, and its verdict on made-up numbers both ways."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from oop_engine.figures.drawn import draw
from oop_engine.figures.figure import Figure, Measured, Size
from oop_engine.figures.thesis import FIGURES, buffering, disorder


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_it_is_measured_and_drawn(figure: Figure, tmp_path: Path) -> None:
    drawn = draw(figure, Size("tiny"), tmp_path)
    assert drawn.verdict is not None, drawn.trace
    assert drawn.verdict.checks
    for name, _ in figure.pictures():
        assert ElementTree.fromstring((tmp_path / f"{name}.svg").read_text()).tag.endswith("svg")


def outcome(figure: Figure, rows: list[dict[str, object]]) -> str:
    return figure.judge(Measured.of(rows)).outcome


def test_a_band_is_told_from_points_outside_it() -> None:
    starts = [x / 10 for x in range(1000)]

    def points(delays: list[float]) -> list[dict[str, object]]:
        return [{"series": "f", "start": s, "arrival": s + d} for s, d in zip(starts, delays, strict=True)]

    full = [(n * 37 % 32) / 10 for n in range(1000)]
    assert outcome(disorder.FIG_6_8, points(full)) == "holds"
    assert outcome(disorder.FIG_6_8, points([*full[:-1], 4.0])) == "does not hold"
    assert outcome(disorder.FIG_6_8, points([0.1] * 1000)) == "does not hold"


def test_blocks_are_told_from_overlaps_and_order() -> None:
    def points(starts: list[float]) -> Measured:
        return Measured(pa.table({"series": ["f"] * len(starts), "position": range(len(starts)), "start": starts}))

    shuffled = [block * 60.0 + n * 31 % 60 for block in range(4) for n in range(60)]
    assert disorder.FIG_6_9.judge(points(shuffled)).outcome == "holds"
    assert disorder.FIG_6_9.judge(points(sorted(shuffled))).outcome == "does not hold"
    assert disorder.FIG_6_9.judge(points([*shuffled[60:], *shuffled[:60]])).outcome == "does not hold"


def test_wid_is_faster_only_where_it_is() -> None:
    def rows(wid: list[float], buffered: list[float]) -> list[dict[str, object]]:
        series = {buffering.WID: wid, buffering.BUFFERING: buffered, buffering.SCAN: [0.1] * 3}
        return [
            {"series": name, "slide": slide, "seconds": seconds}
            for name, values in series.items()
            for slide, seconds in zip((1, 100, 4000), values, strict=True)
        ]

    assert outcome(buffering.FIG_6_10, rows([5, 1, 0.2], [50, 4, 0.2])) == "holds"
    assert outcome(buffering.FIG_6_10, rows([5, 1, 0.2], [4, 0.5, 0.2])) == "does not hold"
    assert outcome(buffering.FIG_6_10, rows([5, 1, 0.2], [6, 2, 0.9])) == "does not hold"
