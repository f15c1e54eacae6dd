"""A snapshot run releases what a run would release if its streams ended here: the same plan, restored from its state.

By law 9 an operator that is restored goes on as the one whose state it was. So END is given to fresh operators with the
state of the running ones, and these take no notice. State goes by bytes, as when it is saved: no array is in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import attrs

from oop_engine.drive.circuit import Circuit, locate
from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver
from operators.fresh import fresh
from operators.overflow import overflows
from operators.protocol import Element, GoesOn, Operator, RefusesGroups
from operators.streams.lanes import Lanes
from punctuation import END


def released_at_end(circuit: Circuit) -> list[Page]:
    """Return the pages that the outputs of a circuit would get if every source that has not ended did so now.

    To be called between two calls of the circuit. Its operators, meters, readers and files stay as they are. Elements
    that an output emitted before are not repeated. Cost: time and memory to save and restore all state once, then that
    of the release; an error of an operator says where it happened.
    """
    snapshot = _Snapshot(circuit)
    for place in circuit.plan.sources:
        if not _ended(circuit, place):
            snapshot.emit(place, END)
    return snapshot.released


@attrs.define(eq=False)
class _Snapshot:
    """The operators behind the sources, restored, and who hands what to whom: each node once, however many read it.

    A source has none: Input holds no tuple back, and its END is the stream's.
    """

    circuit: Circuit
    released: list[Page] = attrs.field(init=False, factory=list)
    _operators: dict[int, Operator] = attrs.field(init=False)
    _consumers: dict[int, list[tuple[int, int]]] = attrs.field(init=False)
    _outputs: dict[int, list[int]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        plan, given = self.circuit.plan, self.circuit.given
        self._consumers, self._outputs = plan.consumers(), plan.output_numbers()
        self._operators = {}
        for place, node in plan.operators.items():
            schemas = [given[at] if given else plan.nodes[at].schema for at in plan.inputs[place]]
            self._operators[place] = _restored(self.circuit, place, node.operator, schemas)

    def emit(self, place: int, element: Element) -> None:
        """Hand on what the node at a place gives."""
        for reader, port in self._consumers[place]:
            try:
                operator, give = self._operators[reader], partial(self.emit, reader)
                deliver(operator, element, give, port)
                while isinstance(operator, GoesOn) and operator.unfinished:
                    operator.go_on(give)
            except Exception as error:
                label = self.circuit.plan.nodes[reader].label
                locate(error, f"in operator {reader} ({label}), port {port}, as if its streams ended here")
                raise
        if isinstance(element, Page):
            self.released += [element] * len(self._outputs.get(place, ()))


def _ended(circuit: Circuit, place: int) -> bool:
    """Return whether a source has ended; END may also have come within the stream."""
    if not circuit.operators:
        return False
    return circuit.inputs[place].progress.ended


def _restored(circuit: Circuit, place: int, prototype: Operator, schemas: Sequence[Schema]) -> Operator:
    """Make the operator at a place anew, as it is in the run; as it begins, when the run has not begun."""
    if not circuit.operators:
        snapshot = fresh(prototype)
        _told(snapshot, schemas)
        return snapshot
    running = circuit.operators[place]
    snapshot = attrs.evolve(running) if isinstance(running, Lanes | RefusesGroups) else fresh(prototype, running)
    _told(snapshot, schemas)
    snapshot.restore(decode_state(encode_state(running.state())))
    for own, other in zip(overflows(snapshot), overflows(running), strict=True):
        own.forgiving = other.forgiving
    return snapshot


def _told(operator: Operator, schemas: Sequence[Schema]) -> None:
    """Ask an operator for its output, as `Circuit.prepare` does, or not where it does not fit what is read."""
    with suppress(ValueError):
        operator.output_schema(*schemas)
