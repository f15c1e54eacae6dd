"""The picture of a plan: well-formed, the same every time, nothing overlapping, and safe against what names contain."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.api.stream import Stream, meld
from oop_engine.plan.graph import Plan, source_node
from oop_engine.report.drawing import TEXT_WIDTH, mermaid, svg, width_of, wrapped
from oop_engine.report.graph_layout import layout
from oop_engine.sources.packets import Packets
from operators.functions import count
from tests.examples import share

SVG = "{http://www.w3.org/2000/svg}"


def packets(name: str) -> Stream:
    return Stream(source_node(Packets((Path(name),), name)))


def plan() -> Plan:
    links = meld(packets("Control"), packets("Main1"), packets("Main2"))
    return Plan((links.window(range="1 minute").aggregate(count()).node,))


def texts(drawn: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawn).iter(f"{SVG}text")]


def test_a_picture_shows_operators_promises_and_results() -> None:
    shown = texts(svg(plan()))
    for expected in ("Control", "meld of 3", "wid_from", "results"):
        assert expected in shown
    assert "bucket [RANGE 1 minute, SLIDE 1 minute, WA ts]" in " ".join(shown)
    assert shown.count("ts, exactly, every 1 minute") == 3


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert svg(plan()) == svg(plan())
    assert mermaid(plan()) == mermaid(plan())


def test_a_picture_needs_nothing_from_outside_and_runs_nothing() -> None:
    drawn = svg(plan())
    assert not re.search(r"<script|href|url\(|@import|on\w+=", drawn)
    assert "prefers-color-scheme: dark" in drawn


HOSTILE = '</title><script>alert(1)</script>"&\x00\x1b[31m\u202e\udcff]]>'


def test_names_from_outside_are_text_in_the_picture() -> None:
    drawn = svg(Plan((packets(HOSTILE).node,)))
    elements = {element.tag for element in ET.fromstring(drawn).iter()}
    assert f"{SVG}script" not in elements
    assert "<script" not in drawn
    assert "\\x1b[31m" in drawn
    drawn.encode()


def test_names_from_outside_are_text_in_mermaid() -> None:
    written = mermaid(Plan((packets(HOSTILE + '"]; click n0 call()').node,)))
    assert "script>" not in written
    assert written.count('"') == 3 * 2
    written.encode()


def test_mermaid_has_every_node_and_edge() -> None:
    written = mermaid(plan())
    assert written.startswith("flowchart TB\n")
    assert written.count("-->") == 6
    assert 'n3 -->|"ts"| n4' in written
    assert "wid#59; window_start#59; window_end" in written


def test_long_labels_are_cut_and_told_in_full_by_the_tooltip() -> None:
    name = "x" * 500
    drawn = svg(Plan((packets(name).node,)))
    titles = [element.text or "" for element in ET.fromstring(drawn).iter(f"{SVG}title")]
    assert any(name in title for title in titles)
    assert max(len(shown) for shown in texts(drawn)) < 100


@given(st.text(max_size=200), st.integers(1, 4))
@share(4)
def test_wrapped_lines_fit(text: str, most: int) -> None:
    lines = wrapped(text, TEXT_WIDTH, 11, most)
    assert 1 <= len(lines) <= most
    assert all(width_of(line, 11) <= TEXT_WIDTH for line in lines)


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, ...]]:
    inputs: list[tuple[int, ...]] = []
    for node in range(draw(st.integers(1, 14))):
        above = draw(st.lists(st.integers(0, node - 1), max_size=3, unique=True)) if node else []
        inputs.append(tuple(above))
    return inputs


@given(graphs(), st.data())
@share(5)
def test_no_two_boxes_overlap_and_every_edge_goes_down(inputs: list[tuple[int, ...]], data: st.DataObject) -> None:
    sizes = [(data.draw(st.floats(20, 200)), data.draw(st.floats(20, 90))) for _ in inputs]
    placed = layout(sizes, inputs)
    for one, other in itertools.combinations(placed.boxes, 2):
        beside = one.x + one.width <= other.x + 1e-6 or other.x + other.width <= one.x + 1e-6
        above = one.y + one.height <= other.y + 1e-6 or other.y + other.height <= one.y + 1e-6
        assert beside or above
    assert set(placed.routes) == {(node, port) for node, ports in enumerate(inputs) for port in range(len(ports))}
    for (reader, port), points in placed.routes.items():
        upper, lower = placed.boxes[inputs[reader][port]], placed.boxes[reader]
        assert points[0] == (upper.middle, upper.y + upper.height)
        assert points[-1][1] == lower.y
        assert lower.x <= points[-1][0] <= lower.x + lower.width
        assert all(a[1] <= b[1] + 1e-6 for a, b in itertools.pairwise(points))
        assert all(0 <= x <= placed.width + 1e-6 and 0 <= y <= placed.height + 1e-6 for x, y in points)


def test_a_chain_stands_in_one_line() -> None:
    placed = layout([(50, 20), (80, 20), (60, 20)], [(), (0,), (1,)])
    middles = {box.middle for box in placed.boxes}
    assert max(middles) - min(middles) == pytest.approx(0)
