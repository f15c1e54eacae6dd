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
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, operator_node
from oop_engine.plan.windows import Windowing
from oop_engine.rewrite.sharing import over
from oop_engine.rewrite.strategy import Wanted, slicing_remarks, steps
from operators.expression import Column, Literal
from operators.functions.protocol import AggregateFunction
from operators.lazy import is_of
from operators.rows.project import Project
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.results import START, STOP, WID, WINDOW
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import is_slicing

if TYPE_CHECKING:
    from operators.window_aggregate.stores.slices import SlicingAggregate
    from operators.window_aggregate.stores.slices.windows import Spec

FEWEST: Final = 3
"""With groups, from so many different windows on shared slices are cheaper than an aggregate each, also where windows
overlap: alone these are carried over from window to window, but shared slices are vectors of groups."""
_SESSIONS: Final = 62
"""Session windows that can share slices."""
_ESTIMATES: Final = ("operators.functions.sketches", "ApproxCountDistinct", "ApproxHeavyHitters", "ApproxQuantile")
"""Functions that estimate otherwise when their partial aggregates are others."""
_Functions: TypeAlias = Mapping[str, AggregateFunction]
_Windows: TypeAlias = "Mapping[str, Spec]"


def fused(plan: Plan, *, fewest: int = FEWEST) -> Plan:
    """Return the plan whose window aggregates over one stream are one where that pays; the outputs are the same.

    With groups, `fewest` different windows share slices, without two do.
    """
    fusions = _fusions(plan, fewest)
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
    name = node.operator.columns.get(WINDOW) if isinstance(node.operator, Project) else None
    query = _Query.of(node.inputs[0]) if isinstance(name, Literal) and isinstance(name.value, str) else None
    if query is None or query.sliced or not isinstance(name, Literal):
        return None
    # Start-up: most plans have no slices.
    from operators.window_aggregate.stores.slices import SlicingAggregate

    operator = SlicingAggregate(
        {str(name.value): query.windows[""]}, query.operator.functions, query.operator.by, named=True
    )
    entry = made[id(query.entry)]
    remarks = slicing_remarks(operator, entry.schema, "windows may come and go")
    return operator_node(operator, entry, label=f"slice and {query.node.label}", remarks=remarks)


@attrs.frozen(eq=False)
class _Query:
    """A window aggregate that may be computed together with others."""

    node: OperatorNode
    entry: Node
    """What the windows are over."""
    operator: WindowAggregate | SlicingAggregate
    windows: _Windows

    @classmethod
    def of(cls, node: Node) -> _Query | None:
        """Take a node that gives the results of windows, None for others and where the user said how."""
        if not isinstance(node, OperatorNode) or node.logical is None:
            return None
        operator, (below, *_) = node.operator, node.inputs
        if is_slicing(operator):
            windows = operator.windows
            twice = any(one == other for one, other in combinations(windows.values(), 2))
            asked = operator.lateness or operator.store != "auto"
            return None if asked or twice else cls(node, below, operator, windows)
        if not isinstance(operator, WindowAggregate) or operator.empty or operator.strategy != "auto":
            return None
        if not isinstance(operator.window, SlidingWindow) or not isinstance(below, OperatorNode):
            return None
        if not isinstance(below.operator, Bucket) or below.operator.consistent:
            return None
        return cls(node, below.inputs[0], operator, {"": operator.window})

    @property
    def sliced(self) -> bool:
        """Return whether it is computed from slices by itself."""
        return is_slicing(self.operator)

    @property
    def named(self) -> bool:
        """Return whether its results bear the names of windows."""
        return is_slicing(self.operator) and self.operator.named

    @property
    def movable(self) -> bool:
        """Return whether no answer depends on where slices are cut, so that other windows may cut them."""
        functions = self.operator.functions.values()
        return all(function.commutative and not is_of(function, *_ESTIMATES) for function in functions)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what fused queries have in common: stream, groups, attribute, and whether tuples are kept."""
        slicing = self.operator if is_slicing(self.operator) else None
        needs = (False, False) if slicing is None else (bool(slicing.waits), slicing.ordered)
        wattr = next(iter(self.windows.values())).wattr
        return (id(self.entry), frozenset(self.operator.by), wattr, *needs)


def _fusions(plan: Plan, fewest: int) -> list[_Fusion]:
    """Find the queries to compute together."""
    kinds: dict[tuple[object, ...], list[_Query]] = {}
    for node in plan.nodes:
        if (query := _Query.of(node)) is not None:
            kinds.setdefault(query.kind, []).append(query)
    fusions: list[_Fusion] = []
    for queries in kinds.values():
        together, apart = _sharing(queries, fewest)
        chosen = [together, *_alike(apart)]
        fusions += [_Fusion.of(some) for some in chosen if len(some) > 1]
    return fusions


def _sharing(queries: Sequence[_Query], fewest: int) -> tuple[list[_Query], list[_Query]]:
    """Part the queries into those that are to share slices and the others."""
    free = [query for query in queries if query.movable]
    sliced = [query for query in free if query.sliced]
    for some, least in ((free, fewest if queries[0].operator.by else 2), (sliced, 2)):
        windows = _distinct(some)
        fits = sum(isinstance(window, SessionWindow) for window in windows) <= _SESSIONS
        if len(some) > 1 and len(windows) >= least and fits:
            return some, [query for query in queries if query not in some]
    return [], list(queries)


def _alike(queries: Sequence[_Query]) -> list[list[_Query]]:
    """Put queries with equal windows together."""
    found: list[list[_Query]] = []
    for query in queries:
        for some in found:
            if query.sliced == some[0].sliced and list(query.windows.values()) == list(some[0].windows.values()):
                some.append(query)
                break
        else:
            found.append([query])
    return found


def _distinct(queries: Iterable[_Query]) -> list[Spec]:
    """Return the different windows of queries."""
    found: list[Spec] = []
    for query in queries:
        found += [window for window in query.windows.values() if window not in found]
    return found


@attrs.frozen(eq=False)
class _Fusion:
    """Queries that are computed together, all their windows, and the union of their functions."""

    queries: Sequence[_Query]
    windows: _Windows
    functions: _Functions

    @classmethod
    def of(cls, queries: Sequence[_Query]) -> _Fusion:
        """Unite the windows and functions of queries."""
        first = queries[0]
        # Short names, for every result bears one.
        windows = {str(number): window for number, window in enumerate(_distinct(queries), 1)}
        taken = (*first.operator.by, WINDOW, WID, START, STOP)
        functions: dict[str, AggregateFunction] = {}
        for query in queries:
            for name, function in query.operator.functions.items():
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
        windows = cast(Mapping[str, Windowing], self.windows)
        wanted = Wanted(windows=windows, functions=self.functions, by=first.operator.by)
        number = len(self.queries)
        if not any(query.sliced for query in self.queries) and not self.named:
            bucket, united = steps(wanted, entry.schema)
            why = f"{number} queries fused: their windows are equal; equal functions computed once"
            below = operator_node(bucket.operator, entry, label=bucket.label, remarks=bucket.remarks)
            return operator_node(united.operator, below, label=united.label, remarks=(why, *united.remarks))
        # Start-up: most plans have no slices.
        from operators.window_aggregate.stores.slices import SlicingAggregate

        ordered = any(is_slicing(q.operator) and q.operator.ordered for q in self.queries)
        operator = SlicingAggregate(self.windows, self.functions, first.operator.by, named=self.named, ordered=ordered)
        why = f"{number} queries fused, equal functions computed once (Algorithm 2)"
        remarks = slicing_remarks(operator, entry.schema, why)
        return operator_node(operator, entry, label=f"slice and {wanted.label()}", remarks=remarks)

    def portion(self, query: _Query, aggregate: Node) -> OperatorNode:
        """Make the node that gives one query its own results, in the place of its aggregate."""
        names = list(self.functions)
        known = list(self.functions.values())
        columns = {name: name for name in query.operator.by}
        columns |= {name: names[known.index(f)] for name, f in query.operator.functions.items()}
        others = len(self.queries) - 1
        remark = f"its own results, computed with {others} other quer{'y' if others == 1 else 'ies'}"
        label = f"results of {query.node.label}"
        if not self.named:
            kept = {name: Column(old) for name, old in {**columns, WID: WID, START: START, STOP: STOP}.items()}
            return operator_node(Project(kept), aggregate, label=label, remarks=(remark,))
        called = {name: self._label(window) for name, window in query.windows.items()}
        own = {called[name]: window for name, window in query.windows.items()}
        labels = {called[name]: name for name in called} if query.named else {}
        # Start-up: most plans have no slices.
        from operators.window_aggregate.stores.slices import Portion

        portion = Portion(own, columns, labels, by_group=STOP if query.sliced else WID)
        remark += f": window {', '.join(own)}"
        return operator_node(portion, aggregate, label=label, remarks=(remark,))

    def _label(self, window: Spec) -> str:
        """Return what a window is called here."""
        return next(label for label, known in self.windows.items() if known == window)


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken, numbered when it is."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found
