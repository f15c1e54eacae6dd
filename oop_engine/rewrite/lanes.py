"""Choose which operators of a plan work in lanes, by what their pages are divided, and say why the others do not.

The facts are those by which a plan is spread on Spark. Lanes pay where pages are large, and pages of live sources are
not: there an operator works alone, as it does with one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.plan.graph import OperatorNode, Plan, SourceNode
from oop_engine.rewrite.needs import need
from operators.foreign import foreign
from operators.plan_facts import Keys, LeavesOutLate, reduces
from operators.protocol import Operator
from operators.streams.lanes import AtOnce, KeyLanes, RowLanes

MOST: Final = 8
"""Lanes of an operator: each costs some calls of Python a page, which no two threads make at once."""


@attrs.frozen
class Division:
    """What becomes of an operator's pages: parts by rows or by keys, or, for the reason `why`, none."""

    keys: tuple[Keys, ...] = ()
    """By port, the attributes by which tuples are divided; none where that is by rows."""
    kinds: tuple[pa.DataType, ...] = ()
    """The types in which keys are compared."""
    why: str = ""

    def lanes(self, operator: Operator, threads: int, at_once: AtOnce) -> RowLanes | KeyLanes:
        """Return the lanes of an operator for so many threads."""
        lanes = min(threads, MOST)
        if self.keys:
            return KeyLanes(operator, lanes, self.keys, self.kinds, at_once=at_once)
        return RowLanes(operator, lanes, at_once=at_once)

    def told(self, threads: int) -> str:
        """Say it for `explain`."""
        lanes = min(threads, MOST)
        if self.why:
            return f"one thread: {self.why}"
        if not self.keys:
            return f"{lanes} threads, each a slice of every large page"
        names = " and ".join(dict.fromkeys(", ".join(keys) for keys in self.keys))
        return f"{lanes} threads by {names}, where pages are large"


def divisions(plan: Plan) -> tuple[Division, ...]:
    """Return the division of every node's pages, in the order of `plan.nodes`."""
    places = {id(node): place for place, node in enumerate(plan.nodes)}
    live: list[str] = []
    found: list[Division] = []
    for node in plan.nodes:
        if isinstance(node, SourceNode):
            live.append("" if node.source.rewindable else node.label)
            found.append(Division(why="a source is read in a thread of its own"))
            continue
        above = next((live[places[id(upstream)]] for upstream in node.inputs if live[places[id(upstream)]]), "")
        live.append(above)
        found.append(Division(why=f"{above} comes live, in small pages") if above else _division(node))
    return tuple(found)


def _division(node: OperatorNode) -> Division:
    needs = need(node)
    if own := foreign(node.operator):
        return Division(why=f"{own} is not of this package, and may not be made for threads")
    if needs.stateless:
        if len(node.inputs) > 1 or reduces(node.operator):
            return Division(why="it does next to nothing")
        if isinstance(node.operator, LeavesOutLate):
            return Division(why="it judges tuples by the promises before them")
        return Division()
    if needs.arrival or not needs.parted:
        return Division(why=needs.why or "all tuples must be in one place")
    return Division(needs.keys, _kinds(node, needs.keys))


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
