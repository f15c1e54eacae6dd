"""The outline of a plan for the page: boxes with room for numbers that change, and the lines between them."""

from __future__ import annotations

from typing import Any, Final

from oop_engine.plan.graph import Plan
from oop_engine.report.drawing import width_of, wrapped
from oop_engine.report.facts import facts
from oop_engine.report.graph_layout import layout

_WIDTH: Final = 232.0
_LINE: Final = 17.0
_LIVE: Final = 4
"""Lines of a box that change."""
_PAD: Final = 12.0
_TITLE: Final = 2


def outline(plan: Plan) -> dict[str, Any]:
    """Return the drawing of a plan as JSON has it: its size, boxes by place, outputs behind them, and routes.

    A box has `x`, `y`, `width`, `height`, the lines of its `title`, its whole `label` and what `explain` says of it; a
    route has `upstream`, `reader` (for an output, its box) and `points`.
    """
    found = facts(plan)
    titles = [wrapped(node.label, _WIDTH, 13, _TITLE) for node in found]
    sizes = [(_wide(title), _PAD * 2 + _LINE * (len(title) + _LIVE)) for title in titles]
    inputs: list[tuple[int, ...]] = [node.inputs for node in found]
    for output in plan.outputs:
        sizes.append((110.0, 30.0))
        inputs.append((plan.position(output),))
    placed = layout(sizes, inputs, gap=26, between=40)
    boxes: list[dict[str, Any]] = []
    for place, box in enumerate(placed.boxes):
        here = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
        if place < len(found):
            node = found[place]
            told = [node.label, f"attributes: {node.attributes}", f"promises: {node.promises}", *node.remarks]
            kind = "source" if node.source else "operator"
            boxes.append({**here, "kind": kind, "title": titles[place], "label": node.label, "told": told})
        else:
            name = "results" if len(plan.outputs) == 1 else f"output {place - len(found)}"
            boxes.append({**here, "kind": "output", "title": [name], "label": name, "told": [name]})
    routes = [
        {"upstream": inputs[reader][port], "reader": reader, "points": points}
        for (reader, port), points in placed.routes.items()
    ]
    return {"width": placed.width, "height": placed.height, "boxes": boxes, "routes": routes}


def _wide(title: list[str]) -> float:
    return max(_WIDTH, *(width_of(line, 13) + 2 * _PAD for line in title))
