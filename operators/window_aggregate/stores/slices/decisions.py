"""The three decision trees of general stream slicing, as functions of what is declared of a workload.

Whether tuples must be kept besides slices (Fig 4), whether slices must be split (Fig 5), and how tuples are removed
from slices (Fig 6; Scotty, TODS 2021, sections 5.1 and 5.2). Each answer comes with the reason that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import attrs

from operators.functions.ordered import ordered
from operators.functions.protocol import AggregateFunction

Context: TypeAlias = Literal["CF", "session", "FCF", "FCA"]
"""The class of a window; sessions are FCF, yet need neither tuples nor splits."""
Measure: TypeAlias = Literal["time", "count"]
Removal: TypeAlias = Literal["never", "add alone", "invert", "recompute"]


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


def removes(*, in_order: bool, measure: Measure, newest: bool, invertible: bool) -> Removal:
    """Return how a tuple that a late one pushes out of its slice is removed from it (Fig 6).

    `newest`: whether the late tuple still belongs to the newest slice, so that it pushes none out.
    """
    if measure != "count" or in_order:
        return "never"
    if newest:
        return "add alone"
    return "invert" if invertible else "recompute"


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
