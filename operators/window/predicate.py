"""Windows that predicates on tuples begin and end, in the order of an attribute, whatever the order of arrival."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pyarrow as pa

from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Expression
from operators.kernels.ranked.layout import BETWEEN, FROM_EACH, RUNS
from operators.plan_facts import Attributes
from operators.window.protocol import MadeOf, check_ticks


@attrs.frozen
class PredicateWindow:
    """Windows that begin with a tuple for which `enter` is true while none is open; null is not true.

    Tuples of one tick of `wattr` count together: `enter` is true of a tick if it is of one of its tuples, and so is
    `leave`. Therefore the order of arrival makes no difference. Where a window ends is one of three:

    - with `leave`, behind the first later tick for which that is true, whose tuples it still has.
    - with `runs`, before the first later tick for which `enter` is not true; it has only tuples for which it is.
    - with neither, before the next tick for which `enter` is true, which begins the next window.

    And `within` ticks after it began, if that comes first. Windows do not overlap, and a tuple that is in none is
    counted. One that is open at the end of the stream ends behind its last tuple, or is left out unless `unfinished`.
    The window-id is the tick at which a window begins. Sources: threshold windows and boundary windows of Grossniklaus
    et al., Frames (DEBS 2016); punctuation-based windows in Scotty, section 4.4.

    >>> from operators.expression import Column
    >>> window = PredicateWindow("ts", Column("load") > 80, runs=True)
    >>> window.context, str(window)
    ('FCA', 'WHEN load > 80')
    """

    made_of: ClassVar[MadeOf] = MadeOf.RANKS
    wattr: str
    enter: Expression = attrs.field(eq=str)
    leave: Expression | None = attrs.field(default=None, kw_only=True, eq=str)
    within: int | None = attrs.field(default=None, kw_only=True)
    runs: bool = attrs.field(default=False, kw_only=True)
    unfinished: bool = attrs.field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.within is not None:
            check_ticks(self.wattr, WITHIN=self.within)

    @property
    def context(self) -> str:
        return "FCA"

    @property
    def rule(self) -> int:
        """Return by which of three rules windows end, as the kernels name it."""
        return RUNS if self.runs else FROM_EACH if self.leave is None else BETWEEN

    @property
    def ends_late(self) -> bool:
        """Return whether no window ends before what is promised when it is given."""
        return self.within is not None or not self.unfinished

    def predicates(self) -> tuple[Expression, ...]:
        """Return `enter`, and `leave` if there is one."""
        return (self.enter,) if self.leave is None else (self.enter, self.leave)

    def attributes(self, schema: Schema) -> Attributes:
        """Name the attributes that the predicates are about."""
        return frozenset[str]().union(*(p.reads(schema, where="window") for p in self.predicates()))

    def check(self, schema: Schema) -> None:
        """Check that each predicate is a truth value over a schema; SchemaError with what to write instead."""
        for predicate in self.predicates():
            kind = predicate.bind(schema).type
            if not pa.types.is_boolean(kind):
                raise SchemaError(
                    f"when({predicate}): this is of type {kind}, and a window begins and ends by truth values.\n"
                    "  Compare it with something, e.g. load > 80."
                )

    def __str__(self) -> str:
        """Write the window as the query language does, but for `within`."""
        if self.runs:
            return f"WHEN {self.enter}"
        return f"WHEN {self.enter} UNTIL {'NEXT' if self.leave is None else self.leave}"
