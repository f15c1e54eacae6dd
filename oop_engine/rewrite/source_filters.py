"""Find the tuples of a source that any operator wants: those that pass the filters on some path behind it.

A late tuple that no filter lets through is missing in no result, so it is not counted as late.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from oop_engine.plan.graph import OperatorNode, Plan
from operators.data.page import Bools, Page
from operators.fresh import fresh
from operators.plan_facts import Selects, links
from operators.streams.input import Wanted


def wanted(plan: Plan, place: int) -> Wanted | None:
    """Return what tells which tuples of the source, or of the guard, at a place are wanted; None where all are."""
    consumers, outputs = plan.consumers(), plan.output_numbers()
    if place in outputs or not consumers[place]:
        return None
    ways: list[tuple[Selects, ...]] = []
    for reader, _ in consumers[place]:
        filters: list[Selects] = []
        here = [reader]
        while len(here) == 1:
            node = plan.nodes[here[0]]
            leading, whole = _leading(node)
            filters += leading
            here = [next_ for next_, _ in consumers[here[0]]] if whole and here[0] not in outputs else []
        if not filters:
            return None
        ways.append(tuple(filters))
    return partial(_through, tuple(ways))


def _leading(node: object) -> tuple[list[Selects], bool]:
    """Return the filters that a node begins with, ready to be run apart, and whether it is nothing else."""
    if not isinstance(node, OperatorNode):
        return [], False
    found: list[Selects] = []
    for operator in links(node.operator):
        if not isinstance(operator, Selects):
            return found, False
        copy = fresh(operator)
        assert isinstance(copy, Selects)
        found.append(copy)
    return found, True


def _through(ways: tuple[tuple[Selects, ...], ...], page: Page) -> Bools:
    """Return which tuples of a page get through all filters of some way."""
    masks = [reduce(np.logical_and, (one.mask(page) for one in filters)) for filters in ways]
    return reduce(np.logical_or, masks)
