"""Boxes of a layered graph get places: sources above what reads them, edges through the gaps, no two boxes overlapping.

The layers are the longest paths to an output; an edge that passes a layer gets a place of its own there, so that it
runs between the boxes. Everything is deterministic. Cost: O(E log E) for E edges, those that pass layers cut there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs

SWEEPS: Final = 8


@attrs.frozen
class Box:
    """The size of a node, and once it is placed its upper left corner."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@attrs.frozen
class Placed:
    """The places of all nodes and lines."""

    boxes: tuple[Box, ...]
    routes: Mapping[tuple[int, int], tuple[tuple[float, float], ...]]
    """For (place of the reader, port): the points an edge goes through, from the upper box to the lower."""
    width: float
    height: float


def layout(
    sizes: Sequence[tuple[float, float]], inputs: Sequence[Sequence[int]], *, gap: float = 28, between: float = 64
) -> Placed:
    """Place boxes of these sizes; `inputs[i]` names the boxes above box i, all with smaller numbers than i."""
    graph = _Graph.of(sizes, inputs)
    graph.order()
    graph.spread(gap)
    return graph.placed(between)


@attrs.define
class _Graph:
    """Nodes are the boxes, then one of no size for every layer that an edge passes."""

    sizes: list[tuple[float, float]]
    ports: list[tuple[tuple[int, int], list[int]]]
    """Each edge: (reader, port) and the nodes it goes through, from above."""
    layers: list[list[int]]
    boxes: int
    above: dict[int, list[int]] = attrs.field(factory=dict)
    below: dict[int, list[int]] = attrs.field(factory=dict)
    x: dict[int, float] = attrs.field(factory=dict)

    @classmethod
    def of(cls, sizes: Sequence[tuple[float, float]], inputs: Sequence[Sequence[int]]) -> _Graph:
        depth = [0] * len(sizes)
        for reader in reversed(range(len(sizes))):
            for upstream in inputs[reader]:
                depth[upstream] = max(depth[upstream], depth[reader] + 1)
        deepest = max(depth, default=0)
        layers: list[list[int]] = [[] for _ in range(deepest + 1)]
        for node, d in enumerate(depth):
            layers[deepest - d].append(node)
        graph = cls(list(sizes), [], layers, len(sizes))
        for reader, upstreams in enumerate(inputs):
            for port, upstream in enumerate(upstreams):
                path = [upstream]
                for layer in range(deepest - depth[upstream] + 1, deepest - depth[reader]):
                    graph.layers[layer].append(len(graph.sizes))
                    path.append(len(graph.sizes))
                    graph.sizes.append((0.0, 0.0))
                path.append(reader)
                graph.ports.append(((reader, port), path))
                for upper, lower in pairwise(path):
                    graph.below.setdefault(upper, []).append(lower)
                    graph.above.setdefault(lower, []).append(upper)
        return graph

    def order(self) -> None:
        """Order each layer by the middle of its neighbours' ranks, down and up in turn, to cross few edges."""
        for sweep in range(SWEEPS):
            down = sweep % 2 == 1
            neighbours = self.above if down else self.below
            layers = self.layers if down else self.layers[::-1]
            for fixed, free in pairwise(layers):
                rank = {node: i for i, node in enumerate(fixed)}
                keys = {
                    node: sum(rank[n] for n in near) / len(near)
                    for node in free
                    if (near := [n for n in neighbours.get(node, []) if n in rank])
                }
                free.sort(key=lambda node: keys.get(node, 0.0))

    def spread(self, gap: float) -> None:
        """Move each node to the middle of its neighbours, as far as those beside it allow."""
        for layer in self.layers:
            at = 0.0
            for node in layer:
                self.x[node] = at + self.sizes[node][0] / 2
                at += self.sizes[node][0] + gap
        for sweep in range(2 * SWEEPS):
            down = sweep % 2 == 1
            neighbours = self.above if down else self.below
            for layer in self.layers if down else self.layers[::-1]:
                wanted = [
                    sum(self.x[n] for n in near) / len(near) if (near := neighbours.get(node)) else self.x[node]
                    for node in layer
                ]
                for node, x in zip(layer, _apart(wanted, [self.sizes[n][0] for n in layer], gap), strict=True):
                    self.x[node] = x

    def placed(self, between: float) -> Placed:
        """Return corners and points, nothing left of or above 0."""
        left = min((self.x[n] - self.sizes[n][0] / 2 for n in self.x), default=0.0)
        boxes: dict[int, Box] = {}
        y = 0.0
        for layer in self.layers:
            height = max((self.sizes[n][1] for n in layer), default=0.0)
            for node in layer:
                width, own = self.sizes[node]
                if node >= self.boxes:
                    own = height
                # Boxes of a layer stand on one line, so that the edges below them have the same length.
                boxes[node] = Box(width, own, self.x[node] - width / 2 - left, y + height - own)
            y += height + between
        routes = self._routes(boxes)
        right = max((b.x + b.width for b in boxes.values()), default=0.0)
        return Placed(tuple(boxes[i] for i in range(self.boxes)), routes, right, max(0.0, y - between))

    def _routes(self, boxes: Mapping[int, Box]) -> dict[tuple[int, int], tuple[tuple[float, float], ...]]:
        """Lead each edge around the boxes; a box takes several inputs side by side, in the order they come."""
        arriving: dict[int, list[tuple[float, tuple[int, int]]]] = {}
        for key, path in self.ports:
            arriving.setdefault(key[0], []).append((boxes[path[-2]].middle, key))
        entries: dict[tuple[int, int], float] = {}
        for reader, edges in arriving.items():
            box = boxes[reader]
            step = min(24.0, 0.7 * box.width / len(edges))
            for i, (_, key) in enumerate(sorted(edges)):
                entries[key] = box.middle + (i - (len(edges) - 1) / 2) * step
        routes: dict[tuple[int, int], tuple[tuple[float, float], ...]] = {}
        for key, path in self.ports:
            points: list[tuple[float, float]] = []
            for node in path[:-1]:
                box = boxes[node]
                if node >= self.boxes:
                    points.append((box.middle, box.y))
                points.append((box.middle, box.y + box.height))
            routes[key] = (*points, (entries[key], boxes[path[-1]].y))
        return routes


def _apart(wanted: Sequence[float], widths: Sequence[float], gap: float) -> list[float]:
    """Return the middles nearest to the wanted ones (least squares) at which nothing overlaps, in the given order.

    Pool adjacent violators: boxes that would overlap become one block, which stands at the mean of what they want.
    """
    offsets = [0.0]
    for i in range(1, len(wanted)):
        offsets.append(offsets[-1] + (widths[i - 1] + widths[i]) / 2 + gap)
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        mean, size = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        blocks.append((mean, size))
    means = [mean for mean, size in blocks for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
