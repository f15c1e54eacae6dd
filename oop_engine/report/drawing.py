"""A plan as a picture, sources above and results below: SVG written by hand, and Mermaid text.

Under each box stands what its stream is punctuated on. The same plan gives the same bytes; all text is escaped, and
what does not fit is cut with its whole wording in the tooltip.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

import attrs

from oop_engine.plan.graph import Plan
from oop_engine.report.facts import Facts, facts
from oop_engine.report.graph_layout import Box, Placed, layout

TEXT_WIDTH: Final = 300.0
MARGIN: Final = 20.0
_PAD: Final = 14.0
_NOTHING: Final = "nothing before the end"

_STYLE: Final = """
  .oop-back { fill: #ffffff } .oop-box { fill: #f6f8fa; stroke: #8c959f } .oop-source { fill: #ddf4ff; stroke: #218bff }
  .oop-out { fill: #1f2328 } .oop-edge { fill: none; stroke: #6e7781; stroke-width: 1.5 } .oop-tip { fill: #6e7781 }
  .oop-pill { fill: #fff8c5; stroke: #bf8700 } .oop-none { fill: #ffffff; stroke: #8c959f; stroke-dasharray: 3 3 }
  .oop-title { fill: #1f2328; font-weight: 600 } .oop-text { fill: #57606a } .oop-promise { fill: #633c01 }
  .oop-silent { fill: #57606a } .oop-end { fill: #ffffff; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .oop-back { fill: #0d1117 } .oop-box { fill: #161b22; stroke: #6e7681 }
    .oop-source { fill: #0c2d6b; stroke: #388bfd } .oop-out { fill: #e6edf3 }
    .oop-edge { stroke: #8b949e } .oop-tip { fill: #8b949e }
    .oop-pill { fill: #3a2b05; stroke: #bb8009 } .oop-none { fill: #0d1117; stroke: #6e7681 }
    .oop-title { fill: #e6edf3 } .oop-text { fill: #9ea7b1 } .oop-promise { fill: #f2cc60 }
    .oop-silent { fill: #9ea7b1 } .oop-end { fill: #0d1117 }
  }
"""


def svg(plan: Plan) -> str:
    """Draw a plan as SVG, readable on light and on dark ground; it stands alone and needs no font and no script."""
    found = facts(plan)
    cards = [_Card.of(node) for node in found]
    inputs: list[tuple[int, ...]] = [node.inputs for node in found]
    sizes = [(card.width, card.height) for card in cards]
    outputs = [plan.position(output) for output in plan.outputs]
    for place in outputs:
        sizes.append((96.0, 30.0))
        inputs.append((place,))
    placed = layout(sizes, inputs, gap=26, between=34)
    names = ["results"] if len(outputs) == 1 else [f"output {i}" for i in range(len(outputs))]
    return "\n".join(_drawn(placed, cards, names)) + "\n"


def mermaid(plan: Plan) -> str:
    """Write the same picture as a Mermaid flowchart."""
    lines = ["flowchart TB"]
    found = facts(plan)
    for place, node in enumerate(found):
        text = "<br/>".join([f"<b>{_coded(node.label)}</b>", *map(_coded, _details(node))])
        lines.append(f'  n{place}[("{text}")]' if node.source else f'  n{place}["{text}"]')
    for place, node in enumerate(found):
        lines += [f'  n{upstream} -->|"{_coded(_promises(found[upstream]))}"| n{place}' for upstream in node.inputs]
    for number, output in enumerate(plan.outputs):
        place = plan.position(output)
        name = "results" if len(plan.outputs) == 1 else f"output {number}"
        lines.append(f'  n{place} -->|"{_coded(_promises(found[place]))}"| out{number}(["{name}"])')
    return "\n".join(lines) + "\n"


@attrs.frozen
class _Text:
    """A line of text: its size in pixels, whether it is a heading."""

    line: str
    heading: bool = False

    @property
    def height(self) -> float:
        return 18.0 if self.heading else 15.0


@attrs.frozen
class _Card:
    """A box and, under it, the pill with its promises."""

    node: Facts
    texts: tuple[_Text, ...]
    pill: tuple[str, ...]

    @classmethod
    def of(cls, node: Facts) -> _Card:
        texts = [_Text(line, heading=True) for line in wrapped(node.label, TEXT_WIDTH, 13, 3)]
        for detail in _details(node):
            texts += [_Text(line) for line in wrapped(detail, TEXT_WIDTH, 11, 3)]
        return cls(node, tuple(texts), tuple(wrapped(_promises(node), TEXT_WIDTH, 11, 3)))

    @property
    def box_height(self) -> float:
        return 2 * 10 + sum(text.height for text in self.texts)

    @property
    def pill_height(self) -> float:
        return 8 + 14.0 * len(self.pill)

    @property
    def pill_width(self) -> float:
        return max(width_of(line, 11) for line in self.pill) + 20

    @property
    def height(self) -> float:
        return self.box_height + 10 + self.pill_height

    @property
    def width(self) -> float:
        widest = max(width_of(text.line, 13.8 if text.heading else 11) for text in self.texts)
        return max(widest + 2 * _PAD, self.pill_width, 130.0)


def _drawn(placed: Placed, cards: list[_Card], names: list[str]) -> Iterator[str]:
    width, height = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN:.0f} {-MARGIN:.0f} {width:.0f} {height:.0f}" role="img" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"11\">"
    )
    yield "<title>Plan of a query: sources above, results below</title>"
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="oop-back" x="{-MARGIN:.0f}" y="{-MARGIN:.0f}" width="{width:.0f}" height="{height:.0f}"/>'
    for points in placed.routes.values():
        yield from _edge(points)
    for card, box in zip(cards, placed.boxes, strict=False):
        yield from _card(card, box)
    for name, box in zip(names, placed.boxes[len(cards) :], strict=True):
        yield f'<rect class="oop-out" {_corners(box.x, box.y, box.width, box.height)} rx="15"/>'
        yield f'<text class="oop-end" x="{box.middle:.1f}" y="{box.y + 19:.1f}" text-anchor="middle">{name}</text>'
    yield "</svg>"


def _card(card: _Card, box: Box) -> Iterator[str]:
    node = card.node
    top = box.y
    yield f"<g><title>{escape(_tooltip(node))}</title>"
    kind, round_ = ("oop-source", 14) if node.source else ("oop-box", 5)
    yield f'<rect class="{kind}" {_corners(box.x, top, box.width, card.box_height)} rx="{round_}"/>'
    y = top + 10
    for text in card.texts:
        y += text.height
        style = 'class="oop-title" font-size="13"' if text.heading else 'class="oop-text"'
        yield f'<text {style} x="{box.middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">{escape(text.line)}</text>'
    y = top + card.box_height
    yield f'<path class="oop-edge" d="M{box.middle:.1f} {y:.1f} v10"/>'
    y += 10
    x = box.middle - card.pill_width / 2
    pill, words = ("oop-pill", "oop-promise") if node.promised else ("oop-none", "oop-silent")
    yield f'<rect class="{pill}" {_corners(x, y, card.pill_width, card.pill_height)} rx="11"/>'
    for line in card.pill:
        y += 14
        yield f'<text class="{words}" x="{box.middle:.1f}" y="{y + 1:.1f}" text-anchor="middle">{escape(line)}</text>'
    yield "</g>"


def _edge(points: tuple[tuple[float, float], ...]) -> Iterator[str]:
    """Draw a smooth line that enters its last point from above, with a tip."""
    (x, y), *others = points
    ends = [*others[:-1], (others[-1][0], others[-1][1] - 6)]
    path = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in ends:
        middle = (y + to_y) / 2
        path += f" C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    yield f'<path class="oop-edge" d="{path}"/>'
    yield f'<path class="oop-tip" d="M{x - 4:.1f} {y - 1:.1f} h8 l-4 7 z"/>'


def _corners(x: float, y: float, width: float, height: float) -> str:
    return f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'


def _details(node: Facts) -> list[str]:
    attributes = [] if node.attributes.startswith("those of its input") else [node.attributes]
    if node.attributes.startswith("those of its input, and "):
        attributes = ["adds " + node.attributes.removeprefix("those of its input, and ")]
    remarks = [r for r in node.remarks if not r.startswith("late tuples are dropped")]
    return [*attributes, *remarks]


def _promises(node: Facts) -> str:
    return "; ".join(p.removesuffix(" (suffix minimum, Eq. 4.1)") for p in node.promised) or _NOTHING


def _tooltip(node: Facts) -> str:
    return "\n".join([node.label, f"attributes: {node.attributes}", f"punctuated on {node.promises}", *node.remarks])


def wrapped(text: str, width: float, size: float, most: int) -> list[str]:
    """Cut a text into at most so many lines of at most `width` pixels, words whole where they fit."""
    lines: list[str] = []
    line = ""
    for word in _pieces(text.split(" "), width, size):
        longer = f"{line} {word}" if line else word
        if line and width_of(longer, size) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    lines.append(line)
    if len(lines) <= most:
        return lines
    kept = lines[:most]
    while kept[-1] and width_of(kept[-1] + "...", size) > width:
        kept[-1] = kept[-1][:-1]
    kept[-1] = kept[-1].rstrip() + "..."
    return kept


def _pieces(words: Iterable[str], width: float, size: float) -> Iterator[str]:
    for word in words:
        piece = ""
        for character in word:
            if piece and width_of(piece + character, size) > width:
                yield piece
                piece = ""
            piece += character
        yield piece


def width_of(text: str, size: float) -> float:
    """Estimate the width of a text in pixels, on the wide side of the usual sans-serif fonts."""
    return size * sum(map(_em, text))


def _em(character: str) -> float:
    if character in "iljI|.,:;'!()[] tfr-":
        return 0.4
    if character in "mwMW@%":
        return 0.95
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.7 if character.isupper() or not character.isascii() else 0.63


def _coded(text: str) -> str:
    """Return a text as Mermaid reads it literally: whatever has a meaning there or in HTML is a character number."""
    return "".join(c if c.isalnum() or c in " ,.:()[]_-*" else f"#{ord(c)};" for c in text)
