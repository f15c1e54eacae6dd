"""Decide how slices, stacks and stores of a window aggregate compute, from what is declared or measured.

Which operators compute a window aggregate is chosen by a plan (`oop_engine.rewrite.strategy`), which asks here what
each of them would do. Four questions, in this order:

- Slices shared by windows: whether tuples must be kept besides slices (Fig 4) and whether slices must be split (Fig 5;
  Scotty, TODS 2021, sections 5.1 and 5.2); whether they are combined ahead of the windows, and whether the groups of a
  slice are a vector. Whether they are combined ahead is decided anew while they run, from what was seen
  (`stores.slices.choice`). Nothing is removed from a slice (Fig 6 there): a tuple of a window of n tuples waits outside
  of slices until its rank is final (`stores.ranked.waiting`).
- Stacks: which of four techniques gives the same answers at the least cost (`stack_technique`).
- Slices of one query: whether a window is carried over from the one before it (`carries_over`), and whether its groups
  are in vectors or each in a slot of its own (`fills_vectors`).
- Panes: whether they cost less than updating every window of a tuple (`Costs`, thesis 6.2.1 and 6.2.3).

Each answer of the first comes with the reason that leads to it, for `explain`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final, Literal, TypeAlias

import attrs

from operators.errors import SchemaError, did_you_mean
from operators.functions.ordered import ordered
from operators.functions.protocol import Accumulator, AggregateFunction, Subtractable
from operators.window import SlidingWindow

Context: TypeAlias = Literal["CF", "session", "FCF", "FCA"]
"""The class of a window; sessions are FCF, yet need neither tuples nor splits."""
Measure: TypeAlias = Literal["time", "count"]
Named: TypeAlias = Literal["recompute", "subtract", "two_stacks", "daba"]
Technique: TypeAlias = Literal["auto", "recompute", "subtract", "two_stacks", "daba"]
Carrying: TypeAlias = Literal["differential", "two_stacks"]
Way: TypeAlias = Literal["combined", "differential", "two_stacks", "vectors", "carried vectors"]
"""How windows are made of slices at a time."""
Cheapest: TypeAlias = Literal["panes", "differential", "wid"]
TECHNIQUES: Final[tuple[Technique, ...]] = ("auto", "recompute", "subtract", "two_stacks", "daba")
_MANY: Final = 256
"""Slices a window from which combining ahead pays."""
PARTS_A_WINDOW: Final = 16_384
"""To carry over a window costs as much as to combine so many partial aggregates, whatever it holds."""
_PASSES: Final = 3
WRONG: Final = 4
"""A choice is made anew where what it was made from has changed by this factor, so that no stream goes to and fro."""
_MANY_GROUPS: Final = 1 << 10
"""Groups from which a slot for each of them in a slice takes long to be found."""


@attrs.frozen
class Decision:
    """A yes or no, and why."""

    yes: bool
    why: str

    def __bool__(self) -> bool:
        return self.yes


def keeps_tuples(*, in_order: bool, commutative: bool, context: Context, measure: Measure) -> Decision:
    """Return whether tuples must be kept besides partial aggregates (Fig 4).

    >>> keeps_tuples(in_order=False, commutative=True, context="session", measure="time")
    Decision(yes=False, why='a late tuple only updates, extends or merges slices')
    """
    if in_order:
        if context == "FCA":
            return Decision(True, "later tuples show where earlier windows begin")
        return Decision(False, "in order, every edge is known before the tuples after it")
    if not commutative:
        return Decision(True, "a late tuple belongs between others, and the aggregate depends on the order")
    if context not in ("CF", "session"):
        return Decision(True, "a late tuple may set an edge within a slice")
    if measure == "count":
        return Decision(True, "a late tuple moves every later one by a place")
    return Decision(False, "a late tuple only updates, extends or merges slices")


def splits(*, in_order: bool, context: Context) -> Decision:
    """Return whether a slice may have to be cut in two (Fig 5)."""
    if context in ("CF", "session"):
        why = "edges are known beforehand" if context == "CF" else "a gap has no tuples, so a cut in it is an update"
        return Decision(False, why)
    if in_order and context == "FCF":
        return Decision(False, "in order, every edge is known before the tuples after it")
    if context == "FCA":
        return Decision(True, "later tuples show where earlier windows begin")
    return Decision(True, "a late tuple may set an edge within a slice")


def waits(functions: Iterable[AggregateFunction], contexts: Iterable[Context], *, in_order: bool) -> Decision:
    """Return whether tuples of a workload over time must be kept until a promise makes their order certain."""
    commutative = not any(ordered(function) for function in functions)
    decision = Decision(False, "there is no window")
    for context in contexts:
        decision = keeps_tuples(in_order=in_order, commutative=commutative, context=context, measure="time")
        if decision:
            return decision
    return decision


def splits_any(contexts: Iterable[Context], *, in_order: bool) -> Decision:
    """Return whether slices that windows of several classes share may have to be cut in two, and why."""
    decision = Decision(False, "there is no window")
    for context in contexts:
        decision = splits(in_order=in_order, context=context)
        if decision:
            return decision
    return decision


def combines_ahead(*, by: bool, revised: bool, tracked: bool, store: str, slices_a_window: int) -> Decision:
    """Return whether slices are combined ahead of the windows, the eager store, and why.

    `tracked`: whether only tuples show where some window begins and ends; `store`: what was asked for.
    """
    if by and store != "eager":
        return Decision(False, "with groups, slices are combined when a window is complete")
    if revised:
        return Decision(False, "released windows may change")
    if tracked:
        return Decision(False, "only tuples show where windows begin and end")
    if store != "auto":
        return Decision(store == "eager", "asked for")
    return Decision(slices_a_window > _MANY, f"about {slices_a_window} slices a window, and it pays beyond {_MANY}")


def in_vectors(functions: Iterable[AggregateFunction], *, by: bool, same_edges: bool) -> bool:
    """Return whether the groups of a slice are a vector: edges are the same for all, and any order of combining does.

    `same_edges`: whether no group and no order of tuples sets edges of its own.
    """
    return by and same_edges and all(function.commutative and not function.arrival_order for function in functions)


def check_technique(technique: str) -> None:
    """Check a name; SchemaError that lists the techniques."""
    if technique not in TECHNIQUES:
        raise SchemaError(
            f'aggregate(technique="{technique}"): there is no such technique. {did_you_mean(technique, TECHNIQUES)}'
        )


def stack_technique(technique: Technique, size: int, slide: int, *, few: int, invertible_exactly: bool) -> Named:
    """Return the technique for one aggregate: what was asked for, or by "auto" the cheapest that is exact.

    Windows of at most `few` panes are recomputed, which is as cheap as any stack and remembers nothing. Otherwise
    subtraction where it is exact; for what cannot be taken away, or only with rounding, two stacks.
    """
    if technique != "auto":
        return technique
    if -(-size // slide) * (1 if size % slide == 0 else 2) <= few:
        return "recompute"
    return "subtract" if invertible_exactly else "two_stacks"


def carries_over(
    accumulators: Iterable[Accumulator], *, windows: int, parts: float, slots: float, carried: Carrying | None = None
) -> Carrying | None:
    """Decide how the windows that open slices are in are made of them; None to combine each anew.

    To combine costs every slot once a window (Eq. 6.1), `parts` in all; to carry over costs something for each of the
    `windows`, and the `slots` only as they enter, turn over and leave (Eq. 6.2). `carried`: how they are made now,
    which is given up once it costs `WRONG` times as much as to combine.

    >>> from operators.data.schema import Schema
    >>> from operators.functions import count
    >>> sums = [count().accumulator(Schema.of(ts="int64"))]
    >>> carries_over(sums, windows=1, parts=20_000, slots=1_000)
    'differential'
    >>> carries_over(sums, windows=1, parts=10_000, slots=1_000)
    >>> carries_over(sums, windows=1, parts=10_000, slots=1_000, carried="differential")
    'differential'
    """
    over = PARTS_A_WINDOW * windows + _PASSES * slots
    if carried is not None:
        return carried if WRONG * parts >= over else None
    if parts < over:
        return None
    accumulators = list(accumulators)
    if subtractable(accumulators):
        return "differential"
    return "two_stacks" if all(getattr(a, "bounded", True) for a in accumulators) else None


def fills_vectors(*, groups: int, slices: int, parts: int, width: int, beside: int) -> bool:
    """Return whether vectors of all groups take clearly less memory than a slot for each group that a slice has.

    There are `parts` of these, each of `width` bytes, and as a slot of so many `beside`.
    """
    return groups > _MANY_GROUPS and 4 * slices * groups * width <= 3 * parts * (width + beside)


def leaves_vectors(*, groups: int, slices: int, parts: int, width: int, beside: int) -> bool:
    """Return whether vectors are not filled by far: not even by `WRONG` times the groups that slices have.

    A window costs a look at each place of its vectors, so that few groups among many places take long.
    """
    return slices > 0 and not fills_vectors(
        groups=max(groups, _MANY_GROUPS + 1), slices=slices, parts=WRONG * parts, width=width, beside=beside
    )


def subtractable(accumulators: Iterable[Accumulator]) -> bool:
    """Return whether slices can be taken away from what they were combined into."""
    return all(isinstance(a, Subtractable) for a in accumulators)


_WAYS: Final[dict[Way, str]] = {
    "combined": "each window is combined anew of its slices",
    "differential": "windows are carried over, and what leaves is subtracted",
    "two_stacks": "windows are carried over by two stacks",
    "vectors": "each window is combined anew of its slices, which are vectors of groups",
    "carried vectors": "windows are carried over in vectors of groups, and what leaves is subtracted",
}


@attrs.define
class Seen:
    """Count what a window aggregate has seen up to its last release, and remember how it makes windows.

    It counts what this run has seen: an aggregate that is restored begins anew.
    """

    window: SlidingWindow
    tuples: int = 0
    parts: int = 0
    """Partial aggregates of the slices that no window needs any more."""
    slices: int = 0
    """These slices."""
    way: Way | None = None
    changes: int = 0

    def released(self, way: Way, *, parts: int, slices: int) -> None:
        """Take note of a release, after which so many slices with so many partial aggregates are no more."""
        self.parts, self.slices = self.parts + parts, self.slices + slices
        self.changes += self.way not in (None, way)
        self.way = way

    def told(self, windows: float) -> str:
        """Say how windows are made now, and the numbers behind it; nothing before `windows` had any tuple.

        >>> seen = Seen(SlidingWindow("ts", size=4, slide=1), tuples=6000)
        >>> seen.released("combined", parts=30, slices=3)
        >>> seen.told(3).partition(": ")[0]
        'each window is combined anew of its slices, chosen anew 0 times'
        """
        if self.way is None or not windows or not self.slices:
            return ""
        tuples = self.tuples * self.window.size / self.window.slide / windows
        costs = MEASURED.told(self.window, tuples=tuples, groups=self.parts / self.slices)
        return (
            f"{_WAYS[self.way]}, chosen anew {self.changes:,} time{'s' * (self.changes != 1)}: {costs}, as was seen; a"
            f" choice stands until it is wrong by a factor of {WRONG}"
        )


@attrs.frozen
class Costs:
    """Costs of one step, in any unit: a tuple into a pane, a result out of a pane, a result into a window, and without
    panes a tuple into a window (a, b, c and a' of Eq. 6.1 to 6.4).

    `carried` is what a window costs besides that is carried over from the one before it, whatever it holds.
    """

    tuple_in: float = 1.0
    pane_out: float = 1.0
    pane_in: float = 1.0
    tuple_in_window: float = 1.0
    carried: float = 0.0

    def paned(self, window: SlidingWindow, *, tuples: float, groups: float, differential: bool) -> float:
        """Cost of a window with panes, for so many tuples a window and groups a pane (Eq. 6.1, 6.2)."""
        pane = gcd(window.size, window.slide)
        panes = window.size // pane
        moved = 2 * (window.slide // pane) if differential else panes
        besides = self.carried if differential else 0.0
        return self.tuple_in * tuples / panes + self.pane_out * groups + self.pane_in * groups * moved + besides

    def plain(self, window: SlidingWindow, *, tuples: float, differential: bool) -> float:
        """Cost of a window without panes (Eq. 6.3; 6.4 for a buffer that adds and subtracts single tuples)."""
        if differential:
            return 2 * self.tuple_in_window * window.slide * tuples / window.size
        return self.tuple_in_window * tuples

    def prefer_panes(self, window: SlidingWindow, *, tuples: float, groups: float, differential: bool = False) -> bool:
        """Return whether panes are cheaper; they are not for many groups a pane, or few panes a window.

        >>> Costs().prefer_panes(SlidingWindow("ts", size=60, slide=1), tuples=6e6, groups=1000)
        True
        >>> Costs().prefer_panes(SlidingWindow("ts", size=60, slide=60), tuples=6e6, groups=6e6)
        False
        """
        with_panes = self.paned(window, tuples=tuples, groups=groups, differential=differential)
        return with_panes < self.plain(window, tuples=tuples, differential=differential)

    def cheapest(self, window: SlidingWindow, *, tuples: float, groups: float, invertible: bool) -> Cheapest:
        """Return the strategy of the least cost; carried over only what is `invertible`.

        What adds and subtracts single tuples (Eq. 6.4) keeps them, and is never chosen.

        >>> MEASURED.cheapest(SlidingWindow("ts", size=60, slide=1), tuples=6e6, groups=1000, invertible=True)
        'differential'
        >>> MEASURED.cheapest(SlidingWindow("ts", size=60, slide=1), tuples=6e6, groups=100, invertible=True)
        'panes'
        """
        costs: dict[Cheapest, float] = {
            "panes": self.paned(window, tuples=tuples, groups=groups, differential=False),
            "wid": self.plain(window, tuples=tuples, differential=False),
        }
        if invertible and window.size > window.slide:
            costs["differential"] = self.paned(window, tuples=tuples, groups=groups, differential=True)
        return min(costs, key=lambda name: costs[name])

    def told(self, window: SlidingWindow, *, tuples: float, groups: float) -> str:
        """Say what a window costs in each way, for so many tuples a window and groups a pane.

        >>> Costs().told(SlidingWindow("ts", size=4, slide=1), tuples=8000, groups=10)  # doctest: +NORMALIZE_WHITESPACE
        'for 8,000 tuples a window and 10 groups a pane, a window costs 2,050 combined of panes (Eq. 6.1), 2,030 carried
        over (6.2), 8,000 without panes (6.3) and 4,000 by single tuples (6.4)'
        """
        paned = [self.paned(window, tuples=tuples, groups=groups, differential=each) for each in (False, True)]
        plain = [self.plain(window, tuples=tuples, differential=each) for each in (False, True)]
        return (
            f"for {tuples:,.0f} tuples a window and {groups:,.0f} groups a pane, a window costs {paned[0]:,.0f}"
            f" combined of panes (Eq. 6.1), {paned[1]:,.0f} carried over (6.2), {plain[0]:,.0f} without panes (6.3) and"
            f" {plain[1]:,.0f} by single tuples (6.4)"
        )


MEASURED: Final = Costs(tuple_in=5.0, tuple_in_window=7.0, carried=PARTS_A_WINDOW)
"""Costs as they were measured, in units of one aggregate that is combined into another, some 10 ns."""
