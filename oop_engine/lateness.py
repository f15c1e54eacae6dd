"""How far behind its promise a tuple may be and still be of use: as far as a window that it belongs to may be open.

A tuple that is late for some of its windows keeps the open ones (semantics, "in force everywhere"). Only a Bucket can
tell which these are; where every reader of a source is one, Input lets such tuples through and the Bucket refuses and
counts what is released. Any other reader relies on what was promised, so there a late tuple stops at the Input.

A join is such a reader: of a late tuple's partners some may have been purged and others not, so its pairs would depend
on when promises came, and would break those that the join has made itself.
"""

from __future__ import annotations

from typing import Final

import attrs

from oop_engine.plan import OperatorNode, Plan, SourceNode
from operators.apply import Apply
from operators.bucket import Bucket
from operators.expression import Column
from operators.filter import Filter
from operators.meld import Meld
from operators.project import Project
from operators.slicing.aggregate import SlicingAggregate
from operators.window import LIMIT, SlidingWindow

ANY_DISTANCE: Final = LIMIT
"""What is allowed where a window may be open however far behind the tuple is."""


def allowances(plan: Plan) -> dict[int, int]:
    """Give, for the place of each source, by how many ticks a tuple may be below its promise without being late.

    It is the largest RANGE of the windows that read the source: beyond it no window is open, unless windows have no
    beginning (RANGE ALL), or another input of a meld is behind and holds them open. It is 0 when the policy is not to
    drop what breaks a promise, when a window is `consistent`, and when anything but windows on the one promised
    attribute reads the source.
    """
    readers = _Readers(plan)
    found: dict[int, int] = {}
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            promised = {name for promise in node.schema.progress for name in promise}
            generous = node.late == "drop" and len(promised) == 1
            found[place] = readers.allow(place, *promised, melded=False) if generous else 0
    return found


@attrs.define
class _Readers:
    plan: Plan
    readers: dict[int, list[tuple[int, int]]] = attrs.field(init=False)
    outputs: frozenset[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.readers = self.plan.consumers()
        self.outputs = frozenset(id(node) for node in self.plan.outputs)

    def allow(self, place: int, attribute: str, *, melded: bool) -> int:
        """Give what all who read the node at a place allow: the most that any needs, 0 when one allows nothing."""
        node = self.plan.nodes[place]
        if id(node) in self.outputs or node.schema.progress != frozenset((frozenset((attribute,)),)):
            return 0
        amounts = [self._through(reader, attribute, melded) for reader, _ in self.readers[place]]
        return max(amounts) if amounts and min(amounts) > 0 else 0

    def _through(self, place: int, attribute: str, melded: bool) -> int:
        node = self.plan.nodes[place]
        operator = node.operator if isinstance(node, OperatorNode) else None
        match operator:
            case Filter():
                return self.allow(place, attribute, melded=melded)
            case Meld():
                return self.allow(place, attribute, melded=True)
            case Project():
                schema, columns = node.inputs[0].schema, operator.columns.items()
                plain = {name: e.name for name, e in columns if isinstance(e, Column)}
                kept = [name for name, old in plain.items() if schema.resolve(old, where="plan") == attribute]
                return self.allow(place, kept[0], melded=melded) if len(kept) == 1 else 0
            case Apply() if attribute not in operator.columns:
                return self.allow(place, attribute, melded=melded)
            case Bucket() if operator.window.wattr == attribute and not operator.partition and not operator.consistent:
                window = operator.window
                return window.size if isinstance(window, SlidingWindow) and not melded else ANY_DISTANCE
            case SlicingAggregate() if all(w.wattr == attribute for w in operator.windows.values()):
                return ANY_DISTANCE if melded else operator.lateness + max(map(_length, operator.windows.values()))
            case _:
                return 0


def _length(window: object) -> int:
    """Give how long a window may be open for a tuple that is below the bound, in ticks."""
    return int(getattr(window, "size", 0) or getattr(window, "gap", 0) or ANY_DISTANCE)
