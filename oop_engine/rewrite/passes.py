"""Rewrite passes that turn a logical plan into the one that runs: for every run, explanation and worker.

Late tuples reach the windows that are open for them, whatever else reads the stream (`lateness.guarded`); what several
outputs have in common is computed once (`sharing`), and their window aggregates over one stream together (`fusion`).
"""

from __future__ import annotations

from collections.abc import Iterable

from oop_engine.plan.graph import Node, Plan
from oop_engine.rewrite.fusion import fused
from oop_engine.rewrite.lateness import guarded
from oop_engine.rewrite.sharing import shared


def prepared(output: Node) -> Plan:
    """Return the plan of one output as it is run."""
    return guarded(Plan((output,)))


def together(outputs: Iterable[Node]) -> Plan:
    """Return the plan of several outputs as they are run at once."""
    return guarded(fused(shared(Plan(tuple(outputs)))))
