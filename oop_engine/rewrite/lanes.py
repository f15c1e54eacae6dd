"""Choose which operators of a plan work in lanes, by what their pages are divided, and say why the others do not.

The facts are those by which a plan is spread on Spark. Lanes pay where pages are large, and pages of live sources are
not: there an operator works alone, as it does with one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.plan.graph import Node, OperatorNode, Plan, SourceNode
from oop_engine.rewrite.needs import alone, below, need
from operators.foreign import foreign
from operators.plan_facts import Keys, LeavesOutLate, Together, reduces
from operators.protocol import Operator
from operators.streams.lanes import AtOnce, KeyLanes, RowLanes, Windows
from operators.streams.spill import Shelf, SpillLanes, parts_of
from operators.window_aggregate.results import STOP, WID, WINDOW

_WINDOWS: Final = Windows(WID, STOP, WINDOW, "windows")
MOST: Final = 8
"""Lanes of an operator: each costs some calls of Python a page, which no two threads make at once."""


@attrs.frozen
class Division:
    """The way to divide an operator's pages: by rows, by keys, or, for the reason `why`, not at all."""

    keys: tuple[Keys, ...] = ()
    """By port, the attributes by which tuples are divided; none where that is by rows."""
    kinds: tuple[pa.DataType, ...] = ()
    """The types in which keys are compared."""
    why: str = ""
    windows: Windows | None = None
    """How results tell their windows, if they are of windows."""

    def lanes(self, operator: Operator, threads: int, at_once: AtOnce) -> RowLanes | KeyLanes:
        """Return the lanes of an operator for so many threads."""
        lanes = min(threads, MOST)
        if self.keys:
            return KeyLanes(operator, lanes, self.keys, self.kinds, at_once=at_once, windows=self.windows)
        return RowLanes(operator, lanes, at_once=at_once)

    def limited(
        self, operator: Operator, limit: int, shelf: Shelf, seed: int, threads: int, at_once: AtOnce
    ) -> SpillLanes:
        """Return the lanes of an operator that may hold so many bytes, of which the rest goes to a shelf."""
        return SpillLanes(
            operator, parts_of(limit), self.keys, self.kinds, shelf, limit, windows=self.windows, seed=seed,
            threads=threads, at_once=at_once, by_parts=True,
        )  # fmt: skip

    def why_not_shed(self, node: Node) -> str:
        """Say why a node that holds groups cannot refuse any; nothing where it can, or holds none."""
        if not self.keys or not isinstance(node, OperatorNode):
            return ""
        # Start-up: few runs refuse groups.
        from operators.window_aggregate.admission import why_not_admitted

        return why_not_admitted(node.operator, node.inputs[0].schema)

    def spilled(self, share: str = "its share of the memory") -> str:
        """Say for `explain` which part of an operator goes to disk above its share."""
        if not self.keys:
            return f"stays in memory: {self.why or 'it holds next to nothing'}"
        return f"above {share}, parts go to disk by {self._names}; results of one promise leave part by part"

    def shed(self, node: Node, share: str) -> str:
        """Say for `explain` which groups an operator refuses above its share."""
        if not self.keys:
            return f"refuses nothing: {self.why or 'it holds next to nothing'}"
        if why := self.why_not_shed(node):
            return f"cannot refuse groups, so the run is refused: {why}"
        return (
            f"above {share}, new groups by {self._names} are refused and counted by window, and results of these"
            " windows are marked incomplete"
        )

    @property
    def _names(self) -> str:
        return " and ".join(dict.fromkeys(", ".join(keys) for keys in self.keys))

    def told(self, threads: int) -> str:
        """Say it for `explain`."""
        lanes = min(threads, MOST)
        if self.why:
            return f"one thread: {self.why}"
        if not self.keys:
            return f"{lanes} threads, each a slice of every large page"
        return f"{lanes} threads by {self._names}, where pages are large"


def divisions(plan: Plan, *, to_disk: bool = False) -> tuple[Division, ...]:
    """Return the division of every node's pages, in the order of `plan.nodes`.

    If parts may go `to_disk`, pages of any size are divided, and so are those of functions that take the tuples of a
    group as they arrive.
    """
    needs = [need(node) for node in plan.nodes]
    ordered = below(plan, (place for place, n in enumerate(needs) if n.arrival))
    live: list[str] = []
    found: list[Division] = []
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            live.append("" if node.source.rewindable else node.label)
            found.append(Division(why="a source is read in a thread of its own"))
            continue
        live.append(next((at for upstream in plan.inputs[place] if (at := live[upstream])), ""))
        why = f"{live[-1]} comes live, in small pages" if live[-1] and not to_disk else ""
        division = Division(why=why) if why else _division(node, needs[place], arrival=to_disk)
        if division.keys and place in ordered:
            # Lanes by rows keep the order of tuples, those by keys do not.
            division = Division(why="an operator behind it depends on the order of tuples")
        found.append(division)
    return tuple(found)


def _division(node: OperatorNode, needs: Together, *, arrival: bool) -> Division:
    if own := foreign(node.operator):
        return Division(why=f"{own} is not of this package, and may not be made for threads")
    operator = alone(node.operator)
    if needs.stateless:
        if len(node.inputs) > 1 or reduces(operator):
            return Division(why="it does next to nothing")
        if isinstance(operator, LeavesOutLate):
            return Division(why="it judges tuples by the promises before them")
        return Division()
    if (needs.arrival and not arrival) or not needs.parted:
        return Division(why=needs.why or "all tuples must be in one place")
    of_windows = {WID, STOP} <= set(node.schema.names) - set(node.inputs[0].schema.names)
    return Division(needs.keys, _kinds(node, needs.keys), windows=_WINDOWS if of_windows else None)


def _kinds(node: OperatorNode, keys: Sequence[Keys]) -> tuple[pa.DataType, ...]:
    """Return the types in which keys are compared, which hold all values of either input."""
    schemas = [upstream.schema.arrow for upstream in node.inputs]
    sides = [[schema.field(name) for name in names] for schema, names in zip(schemas, keys, strict=True)]
    fields = sides[0]
    if len(sides) > 1:
        # Start-up: few plans join.
        from operators.join.shape import common_field

        fields = [common_field(left, right) for left, right in zip(*sides, strict=True)]
    return tuple(f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in fields)
