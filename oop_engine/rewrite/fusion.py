"""Window aggregates of several queries over one stream, with the same groups, are computed as one.

Queries with equal windows become one aggregate with all their functions. Queries with other windows over the same
attribute become one slicing aggregate of all windows and functions (Scotty, TODS 2021, Algorithm 2): a tuple is put
into one slice for all of them, and equal functions, whatever their names, have one accumulator. Behind it each query
gets its own results back, with its own names, types and order of attributes.

The answers are those of each query alone; only functions whose answer does not depend on where slices are cut are put
on slices that other windows cut, of which floating sums round otherwise. One thing differs: promises on results are the
same where windows repeat, but those on the begin of sessions and of windows that say their edges themselves are the
least of all fused ones; a tuple is counted as late when it is late for all of them, and late for some when it is for
any; a late tuple counts in a session that is open by promises as fine as any of them needs; and the results that one
promise releases may come in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, operator_node
from oop_engine.plan.windows import Windowing
from oop_engine.rewrite.sharing import over
from oop_engine.rewrite.steps import slicing_remarks, steps
from oop_engine.rewrite.strategy import FEWEST, LogicalAggregate, Query, Windows, computed_together, distinct
from operators.expression import Column, Literal
from operators.functions.protocol import AggregateFunction
from operators.plan_facts import Computes
from operators.rows.project import Project
from operators.window_aggregate.results import START, STOP, WID, WINDOW

if TYPE_CHECKING:
    from operators.window_aggregate.stores.slices.windows import Spec

_Functions: TypeAlias = Mapping[str, AggregateFunction]


def fused(plan: Plan, *, fewest: int = FEWEST) -> Plan:
    """Return the plan whose window aggregates over one stream are one where that pays; the outputs are the same.

    With groups, `fewest` different windows share slices, without two do.
    """
    queries = [query for node in plan.nodes if (query := Query.of(node)) is not None]
    fusions = [_Fusion.of(some) for some in computed_together(queries, fewest)]
    places = {id(query.node): (fusion, query) for fusion in fusions for query in fusion.queries}
    made: dict[int, Node] = {}
    built: dict[int, Node] = {}
    for node in plan.nodes:
        place = places.get(id(node))
        if place is None:
            made[id(node)] = over(node, made)
            continue
        fusion, query = place
        if id(fusion) not in built:
            built[id(fusion)] = fusion.aggregate(made[id(query.entry)])
        made[id(node)] = fusion.portion(query, built[id(fusion)])
    return Plan(tuple(made[id(output)] for output in plan.outputs))


def shareable(plan: Plan) -> Plan:
    """Return the plan in which every window with a name is computed from slices, which others may share while it runs.

    A single window that overlaps itself, with groups, is carried over from window to window otherwise, for that is
    faster.
    """
    made: dict[int, Node] = {}
    for node in plan.nodes:
        made[id(node)] = (_named(node, made) or over(node, made)) if isinstance(node, OperatorNode) else node
    return Plan(tuple(made[id(output)] for output in plan.outputs))


def _named(node: OperatorNode, made: Mapping[int, Node]) -> Node | None:
    """Return the slices of a node that names the results of a single window; None for other nodes."""
    name = node.operator.computed(WINDOW) if isinstance(node.operator, Computes) else None
    query = Query.of(node.inputs[0]) if isinstance(name, Literal) and isinstance(name.value, str) else None
    if query is None or query.sliced or not isinstance(name, Literal):
        return None
    # Start-up: most plans have no slices.
    from operators.window_aggregate.stores.slices import SlicingAggregate

    logical, window = query.logical, cast("Spec", query.logical.window)
    operator = SlicingAggregate({str(name.value): window}, logical.functions, logical.by, named=True)
    entry = made[id(query.entry)]
    remarks = slicing_remarks(operator, entry.schema, "windows may come and go")
    return operator_node(operator, entry, label=f"slice and {query.node.label}", remarks=remarks)


@attrs.frozen(eq=False)
class _Fusion:
    """Queries that are computed together, all their windows, and the union of their functions."""

    queries: Sequence[Query]
    windows: Windows
    functions: _Functions

    @classmethod
    def of(cls, queries: Sequence[Query]) -> _Fusion:
        """Unite the windows and functions of queries."""
        first = queries[0]
        # Short names, for every result bears one.
        windows = {str(number): window for number, window in enumerate(distinct(queries), 1)}
        taken = (*first.logical.by, WINDOW, WID, START, STOP)
        functions: dict[str, AggregateFunction] = {}
        for query in queries:
            for name, function in query.logical.functions.items():
                if function not in functions.values():
                    functions[_unused(name, (*functions, *taken))] = function
        return cls(queries, windows, functions)

    @property
    def named(self) -> bool:
        """Return whether results must be told apart by the names of windows."""
        return len(self.windows) > 1 or any(query.named for query in self.queries)

    def aggregate(self, entry: Node) -> OperatorNode:
        """Make the node that computes all."""
        first = self.queries[0]
        logical = LogicalAggregate(windows=self.windows, functions=self.functions, by=first.logical.by)
        number = len(self.queries)
        if not any(query.sliced for query in self.queries) and not self.named:
            bucket, united = steps(logical, entry.schema)
            why = f"{number} queries fused: their windows are equal; equal functions computed once"
            below = operator_node(bucket.operator, entry, label=bucket.label, remarks=bucket.remarks)
            return operator_node(united.operator, below, label=united.label, remarks=(why, *united.remarks))
        # Start-up: most plans have no slices.
        from operators.window_aggregate.stores.slices import SlicingAggregate

        shared = cast("Mapping[str, Spec]", self.windows)
        operator = SlicingAggregate(shared, self.functions, first.logical.by, named=self.named)
        why = f"{number} queries fused, equal functions computed once (Algorithm 2)"
        remarks = slicing_remarks(operator, entry.schema, why)
        return operator_node(operator, entry, label=f"slice and {logical.label()}", remarks=remarks)

    def portion(self, query: Query, aggregate: Node) -> OperatorNode:
        """Make the node that gives one query its own results, in the place of its aggregate."""
        names = list(self.functions)
        known = list(self.functions.values())
        columns = {name: name for name in query.logical.by}
        columns |= {name: names[known.index(f)] for name, f in query.logical.functions.items()}
        others = len(self.queries) - 1
        remark = f"its own results, computed with {others} other quer{'y' if others == 1 else 'ies'}"
        label = f"results of {query.node.label}"
        if not self.named:
            kept = {name: Column(old) for name, old in {**columns, WID: WID, START: START, STOP: STOP}.items()}
            return operator_node(Project(kept), aggregate, label=label, remarks=(remark,))
        called = {name: self._label(window) for name, window in query.logical.windows.items()}
        own = {called[name]: window for name, window in query.logical.windows.items()}
        labels = {called[name]: name for name in called} if query.named else {}
        # Start-up: most plans have no slices.
        from operators.window_aggregate.stores.slices import Portion

        portion = Portion(cast("Mapping[str, Spec]", own), columns, labels, by_group=STOP if query.sliced else WID)
        remark += f": window {', '.join(own)}"
        return operator_node(portion, aggregate, label=label, remarks=(remark,))

    def _label(self, window: Windowing) -> str:
        """Return what a window is called here."""
        return next(label for label, known in self.windows.items() if known == window)


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken, numbered when it is."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found
