"""Choose how window aggregates run: each by itself, several windows over a stream, several queries, or in two levels.

The logical aggregate says windows, functions and groups. A strategy says how they are computed: all give the same
answer, and differ in time and memory. Every choice of a plan is made here, from the windows, the properties of the
functions and the facts that operators state; what an operator decides itself while it runs is in
`operators.window_aggregate.strategy`. `steps` makes the operators, and `explain` shows the choice and its reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.aggregates import listed
from oop_engine.plan.graph import Node, OperatorNode
from oop_engine.plan.windows import Windowing, window_text
from operators.data.schema import ROW_NUM, Schema
from operators.functions.ordered import by_arrival, ordered
from operators.functions.protocol import AggregateFunction
from operators.plan_facts import TwoLevels
from operators.plan_facts import levels as levels_of
from operators.window import LandmarkWindow, MadeOf, SlidingWindow, Window, made_of
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.strategy import MEASURED, subtractable, waits

if TYPE_CHECKING:
    from operators.window_aggregate.triggers.condition import Condition

Windows: TypeAlias = Mapping[str, Windowing]
_COMBINED: Final = ("wid", "panes", "differential", "two_stacks")
_BUCKETED: Final = (*_COMBINED, "adaptive", "adaptive_panes", "buffer", "buffer_panes", "negative", "two_level")
_MANY_SLIDES: Final = 16
"""From so many windows a tuple on, an ungrouped window is answered by slices in order, not combined anew."""
FEWEST: Final = 3
"""With groups, from so many different windows on shared slices are cheaper than an aggregate each, also where windows
overlap: alone these are carried over from window to window, but shared slices are vectors of groups."""
_SESSIONS: Final = 62
"""Session windows that can share slices."""


@attrs.frozen(kw_only=True)
class LogicalAggregate:
    """The windows and functions that a user asks for, whatever computes them."""

    windows: Mapping[str, Windowing]
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = ()
    strategy: str = "auto"
    options: Mapping[str, object] = attrs.field(factory=dict)
    """What the strategy leaves open, as `oop_engine.plan.strategies` has it."""
    consistent: bool = False
    empty: bool = False
    lateness: int = 0
    partition: tuple[str, ...] = ()
    """Attributes that give each of their values windows of its own, where tuples are counted (PA)."""
    discards: bool = False
    """Whether what comes late is a result of its own, instead of changing that of its window."""
    once: frozenset[str] = frozenset()
    """The windows that late tuples do not change, whatever the lateness: parts of others that gave early results."""
    condition: Condition | None = None
    """When open windows give what they have so far, where that is not on event time."""
    interval: float | None = None
    """The share of windows whose final value is to lie in the interval that such results have; None for no interval."""
    named: bool = False
    """Whether windows have names, so that others may share the slices of even a single one while it runs."""

    @property
    def window(self) -> Windowing:
        """Return the first window, the only one for most."""
        return next(iter(self.windows.values()))

    def label(self) -> str:
        """Write the aggregates, and the groups."""
        return f"aggregate {listed(self.functions)}" + (f" by {', '.join(self.by)}" if self.by else "")


@attrs.frozen
class Choice:
    """The strategy of a window aggregate, and why."""

    strategy: str
    """One of `oop_engine.plan.strategies`; "ranked" where windows are defined by the tuples themselves."""
    why: str


def chosen(logical: LogicalAggregate, schema: Schema) -> Choice:
    """Choose how an aggregate over a stream of this schema is computed; PlanError when its strategy does not fit it."""
    choice = _best(logical, schema) if logical.strategy == "auto" else Choice(logical.strategy, "asked for")
    strategy, window = choice.strategy, logical.window
    ranked = MadeOf.RANKS in made_of(window)
    if ranked and logical.strategy != "auto":
        raise PlanError(
            f'aggregate(strategy="{strategy}"): the windows of {window_text(window, schema)} are defined by the tuples '
            "themselves,\n  and there is one way to compute them. Leave strategy out."
        )
    if len(logical.windows) > 1 and strategy != "slicing":
        raise PlanError(
            f'aggregate(strategy="{strategy}"): several windows share slices, which is strategy="slicing".\n'
            "  Leave strategy out, or aggregate each window by itself."
        )
    if logical.empty and (ranked or strategy not in ("auto", *_COMBINED)):
        raise PlanError(_no_empty(logical, schema, strategy))
    if logical.lateness and not (share_slices(logical.windows) or _fires_again(logical)):
        raise PlanError(_unrevised(logical, schema))
    if logical.lateness and strategy != "slicing" and logical.condition is None:
        raise PlanError(
            f'aggregate(lateness=...): results are revised by strategy="slicing", and this is {strategy}.\n'
            "  Leave strategy out, or let late tuples be dropped."
        )
    if logical.lateness and logical.condition is not None and logical.consistent:
        raise PlanError(
            "aggregate(early=..., lateness=...): a late tuple changes those of its windows that are not settled, and"
            " consistent=True\n  leaves it out of all. Leave one of them out."
        )
    if ranked:
        return Choice("ranked", "")
    if logical.consistent and strategy not in _BUCKETED and strategy != "auto":
        raise PlanError(_inconsistent(logical, strategy))
    if (unfit := _unfit(logical, schema, strategy)) is not None:
        raise PlanError(unfit)
    return choice


def _fires_again(logical: LogicalAggregate) -> bool:
    """Return whether a window fires, and is given again when late tuples change it: one known by its window-ids."""
    window = logical.window
    known = isinstance(window, Window) and not made_of(window) and window.wattr != ROW_NUM
    return logical.condition is not None and known


def _unfit(logical: LogicalAggregate, schema: Schema, strategy: str) -> str | None:
    """Say why the window of an aggregate cannot be computed by a strategy, None where it can."""
    window = logical.window
    if strategy == "slicing":
        if MadeOf.SLICES in made_of(window):
            return None
        return (
            f'aggregate(strategy="slicing"): {window_text(window, schema)} is not made of slices.\n'
            "  Leave strategy out."
        )
    if strategy == "stacks":
        if isinstance(window, SlidingWindow) and not logical.by:
            return None
        what = "groups" if logical.by else window_text(window, schema)
        return (
            f'aggregate(strategy="stacks"): it is for sliding windows without groups, not for {what}.\n'
            '  Write strategy="two_stacks", which has a stack for every group, or leave it out.'
        )
    if not isinstance(window, Window):
        return (
            f'aggregate(strategy="{strategy}"): {window_text(window, schema)} has no window-ids that a tuple alone '
            'tells.\n  Leave strategy out: it is "slicing".'
        )
    if strategy == "wid" or MadeOf.STEPS in made_of(window):
        return None
    return (
        f'aggregate(strategy="{strategy}"): {window_text(window, schema)} is known by its window-ids alone, so that'
        ' there is one way\n  to compute it. Leave strategy out: it is "wid".'
    )


def _no_empty(logical: LogicalAggregate, schema: Schema, strategy: str) -> str:
    """Say that windows without a tuple cannot be given, and what can be done instead, if anything."""
    windows = logical.windows.values()
    several = len(windows) > 1
    stepped = [w for w in windows if isinstance(w, SlidingWindow | LandmarkWindow)]
    seen, way = f'this is strategy="{strategy}"', ""
    if several:
        seen = "these are several"
    elif not stepped:
        seen = f"this is {window_text(logical.window, schema)}"
    in_order = any(map(ordered, logical.functions.values())) and not all(map(by_arrival, stepped))
    if len(stepped) == len(windows) and not logical.by and not in_order:
        if not logical.lateness:
            way = ", or aggregate each window by itself" if several else ', or ask for strategy="panes"'
        elif logical.strategy == "auto" and not several:
            way = ", or leave lateness out"
    return f"aggregate(empty=True) is for a sliding or landmark window by itself, and {seen}.\n  Leave empty out{way}."


def _unrevised(logical: LogicalAggregate, schema: Schema) -> str:
    """Say which window cannot be given again when a late tuple comes, and what can be done instead."""
    window = next(w for w in logical.windows.values() if MadeOf.SLICES not in made_of(w))
    return (
        f"aggregate(lateness=...): {window_text(window, schema)} cannot be revised; sliding windows over a time,"
        " sessions, bands\n  and most windows of your own can. Leave lateness out, and give the stream so much more"
        ' slack, e.g. slack="10 s":\n  then tuples are in time that would have been late.'
    )


def _inconsistent(logical: LogicalAggregate, strategy: str) -> str:
    """Say that a strategy cannot leave a late tuple out of all its windows, and which way there is."""
    several = len(logical.windows) > 1
    way = ""
    if all(MadeOf.STEPS in made_of(w) for w in logical.windows.values()):
        way = ", or aggregate each window by itself" if several else ', or ask for strategy="panes"'
    return (
        f"{'windows' if several else 'window'}(consistent=True): a tuple that is late for one of its windows is left"
        f" out of all of them,\n  which {strategy} cannot do. Leave consistent out{way}."
    )


def _best(logical: LogicalAggregate, schema: Schema) -> Choice:
    """Choose a strategy where the user left it open."""
    window = logical.window
    if logical.condition is not None:
        return Choice("wid", "windows fire as tuples arrive")
    if len(logical.windows) > 1:
        return Choice("slicing", "several windows share slices")
    carried = isinstance(window, SlidingWindow) and bool(logical.by) and window.size > window.slide
    named = logical.named and not logical.empty and not logical.consistent
    if named and MadeOf.SLICES in made_of(window) and not carried:
        return Choice("slicing", "the window has a name, and others may share its slices while it runs")
    if logical.lateness and MadeOf.SLICES in made_of(window):
        return Choice("slicing", "released windows may be revised")
    if MadeOf.STEPS not in made_of(window):
        if isinstance(window, FixedBandWindow):
            return Choice("wid", "a band is a single window")
        if isinstance(window, Window):
            return Choice("wid", "a window of your own that tells the window-ids of a tuple")
        return Choice("slicing", "these windows are no fixed steps of the attribute")
    if isinstance(window, SlidingWindow | LandmarkWindow) and not by_arrival(window):
        in_order = next((name for name, function in logical.functions.items() if ordered(function)), None)
        if in_order is not None and isinstance(window, LandmarkWindow):
            raise PlanError(
                f"aggregate: {in_order} is not commutative, and RANGE ALL is computed as tuples arrive.\n"
                "  Give the window a RANGE, or declare the aggregate commutative, if it is."
            )
        if in_order is not None:
            return Choice("slicing", f"{in_order} is over tuples in the order of {window.wattr}")
    if isinstance(window, SlidingWindow) and not logical.by and not logical.empty and not logical.consistent:
        if window.wattr == ROW_NUM and _stackable(window, logical.functions, schema):
            return Choice("stacks", "row numbers are in order")
        if window.size > _MANY_SLIDES * window.slide:
            return Choice("slicing", f"{window.size // window.slide} windows a tuple, and no groups")
    tuples, groups = (logical.options.get(name) for name in ("tuples", "groups"))
    if isinstance(window, SlidingWindow) and isinstance(tuples, int) and isinstance(groups, int):
        known = {"tuples": float(tuples), "groups": float(groups)}
        invertible = _invertible(logical.functions, schema)
        why = f"the cheapest {MEASURED.told(window, **known)}"
        return Choice(MEASURED.cheapest(window, **known, invertible=invertible), why)
    return Choice("auto", "carried over where cheaper")


def _invertible(functions: Mapping[str, AggregateFunction], schema: Schema) -> bool:
    """Return whether all that functions aggregate over a stream of this schema can be subtracted again."""
    try:
        return subtractable(function.accumulator(schema) for function in functions.values())
    except SchemaError:
        # The operator says it in its own words.
        return False


def _stackable(window: SlidingWindow, functions: Mapping[str, AggregateFunction], schema: Schema) -> bool:
    """Return whether stacks hold what these functions aggregate."""
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.stacks.aggregate import StackAggregate

    try:
        StackAggregate(window, functions).output_schema(schema)
    except SchemaError:
        return False
    return True


def share_slices(windows: Windows) -> bool:
    """Return whether windows are such that share slices."""
    return all(MadeOf.SLICES in made_of(window) for window in windows.values())


def parts(windows: Windows) -> tuple[Windows, ...]:
    """Part windows into those that share slices and those that are computed by themselves, in their order."""
    found: dict[object, dict[str, Windowing]] = {}
    for name, window in windows.items():
        found.setdefault(window.wattr if MadeOf.SLICES in made_of(window) else (name,), {})[name] = window
    return tuple(found.values())


def check_asked(windows: Windows, *, strategy: str, empty: bool, lateness: object) -> None:
    """Refuse what only one kind of window can do; PlanError with the way out."""
    asked = (
        f'strategy="{strategy}"' if strategy not in ("auto", "slicing") else "empty=True" if empty
        else "lateness=..." if lateness and len({w.wattr for w in windows.values()}) > 1 else None
    )  # fmt: skip
    if asked is not None:
        raise PlanError(
            f"aggregate({asked}): {', '.join(windows)} are windows of kinds that are computed side by side.\n"
            f"  Leave {asked.partition('=')[0]} out, or aggregate the windows it is for by themselves."
        )


@attrs.frozen(eq=False)
class Query:
    """A window aggregate that may be computed together with others over its stream."""

    node: OperatorNode
    entry: Node
    """The stream that its windows are over."""
    logical: LogicalAggregate
    sliced: bool
    """Whether it is computed from slices by itself."""

    @classmethod
    def of(cls, node: Node) -> Query | None:
        """Take a node that gives the results of windows, None for others and where the user said how."""
        if not isinstance(node, OperatorNode) or node.logical is None or node.logical.aggregate.strategy != "auto":
            return None
        logical, entry = node.logical.aggregate, node.logical.entry(node)
        if logical.condition is not None:
            return None
        strategy = node.logical.strategy
        if strategy == "slicing":
            twice = any(one == other for one, other in combinations(logical.windows.values(), 2))
            return None if logical.lateness or twice else cls(node, entry, logical, sliced=True)
        usual = isinstance(logical.window, SlidingWindow) and not logical.empty and not logical.consistent
        return cls(node, entry, logical, sliced=False) if strategy == "auto" and usual else None

    @property
    def named(self) -> bool:
        """Return whether its results bear the names of windows."""
        return self.sliced and (self.logical.named or len(self.logical.windows) > 1)

    @property
    def movable(self) -> bool:
        """Return whether no answer depends on where slices are cut, so that other windows may cut them.

        Functions that estimate give others where their partial aggregates are others.
        """
        functions = self.logical.functions.values()
        return all(function.commutative and not getattr(function, "estimates", False) for function in functions)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what fused queries have in common: stream, groups, attribute, and whether tuples are kept."""
        logical = self.logical
        return (id(self.entry), frozenset(logical.by), logical.window.wattr, self.sliced and _keeps_tuples(logical))


def _keeps_tuples(logical: LogicalAggregate) -> bool:
    """Return whether slices keep the tuples of an aggregate, too."""
    # Start-up: few plans share slices.
    from operators.window_aggregate.stores.slices import windows

    used = windows.Windows.of(cast("Mapping[str, windows.Spec]", logical.windows))
    return bool(waits(logical.functions.values(), used.contexts, in_order=False))


def computed_together(queries: Iterable[Query], fewest: int) -> list[list[Query]]:
    """Return the queries that are to be computed as one; with groups, `fewest` different windows share slices."""
    kinds: dict[tuple[object, ...], list[Query]] = {}
    for query in queries:
        kinds.setdefault(query.kind, []).append(query)
    found: list[list[Query]] = []
    for alike in kinds.values():
        sharing, apart = _sharing(alike, fewest)
        found += [some for some in (sharing, *_alike(apart)) if len(some) > 1]
    return found


def _sharing(queries: Sequence[Query], fewest: int) -> tuple[list[Query], list[Query]]:
    """Part the queries into those that are to share slices and the others."""
    free = [query for query in queries if query.movable]
    sliced = [query for query in free if query.sliced]
    for some, least in ((free, fewest if queries[0].logical.by else 2), (sliced, 2)):
        windows = distinct(some)
        fits = sum(isinstance(window, SessionWindow) for window in windows) <= _SESSIONS
        if len(some) > 1 and len(windows) >= least and fits:
            return some, [query for query in queries if query not in some]
    return [], list(queries)


def _alike(queries: Sequence[Query]) -> list[list[Query]]:
    """Put queries with equal windows together."""
    found: list[list[Query]] = []
    for query in queries:
        windows = list(query.logical.windows.values())
        for some in found:
            if query.sliced == some[0].sliced and windows == list(some[0].logical.windows.values()):
                some.append(query)
                break
        else:
            found.append([query])
    return found


def distinct(queries: Iterable[Query]) -> list[Windowing]:
    """Return the different windows of queries."""
    found: list[Windowing] = []
    for query in queries:
        found += [window for window in query.logical.windows.values() if window not in found]
    return found


def levels(node: Node, size: int) -> TwoLevels | None:
    """Return the two levels of a node's operator, so that parts of its input are reduced apart; None where it has none.

    `size`: partial results that the low level holds at most.
    """
    return levels_of(node.operator, node.inputs[0].schema, size) if isinstance(node, OperatorNode) else None


def apart(node: Node) -> tuple[LogicalAggregate, Node] | None:
    """Return what a node aggregates, and the stream that the window is over, where two levels can give the same.

    In one process two levels mostly cost more than they save, so no plan chooses them there; where the user did, or
    left it open, they may run in two processes.
    """
    if not isinstance(node, OperatorNode) or node.logical is None:
        return None
    logical, entry = node.logical.aggregate, node.logical.entry(node)
    if logical.strategy == "two_level":
        return logical, entry
    query = Query.of(node)
    if logical.strategy != "auto" or logical.empty or logical.lateness or len(logical.windows) > 1:
        return None
    if logical.condition is not None:
        return None
    if MadeOf.RANKS in made_of(logical.window) or (query is not None and query.named):
        # The results of named windows have the name of the window.
        return None
    return attrs.evolve(logical, strategy="two_level", options={}), entry
