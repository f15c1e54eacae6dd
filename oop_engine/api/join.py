"""Turn a join as users write it into a node of the plan: amounts in ticks, names resolved, promises checked.

RANGE on an input says how long its own tuples stay, and wait for partners: with ranges L and R, left and right tuples
meet when l - R < r < l + L (docs/semantics.md row 22). A join whose tuples nothing could ever purge is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.arrival_attributes import numbered, stamped
from oop_engine.plan.graph import Node, OperatorNode, operator_node, retracted_of, settled
from oop_engine.plan.strategies import flush_of
from oop_engine.plan.ticks import Amount, ticks_of
from oop_engine.plan.window_join import SIDES, WindowJoin
from oop_engine.plan.windows import check_steps, window_text
from oop_engine.rewrite.unreleasable import unpromised
from oop_engine.sources.protocol import ARRIVAL
from operators.data.schema import ROW_NUM, Schema
from operators.errors import SchemaError, did_you_mean
from operators.expression import Column, Expression
from operators.join import Band, JoinWindow, OAJoin, SameWindow, WidJoin
from operators.join.cardinality import CARDINALITIES, Cardinality
from operators.retractions import SIGN
from operators.rows.project import Project
from operators.window_aggregate.partial_final import CompleteFlush, Flush

Kind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
Promises: TypeAlias = Literal["both", "individual", "joint"]
Flushes: TypeAlias = Literal["complete", "slow", "lazy"]
On: TypeAlias = "str | tuple[str, str] | Mapping[str, str] | Sequence[str | tuple[str, str]]"
"""Attributes that must be equal: one name that both inputs have, a pair of names, or several of these."""
Pair: TypeAlias = "Amount | tuple[Amount, Amount]"
"""An amount for both inputs, or one for each."""
KINDS: Final[tuple[Kind, ...]] = ("inner", "left", "right", "full", "semi", "anti")
PROMISES: Final[tuple[Promises, ...]] = ("both", "individual", "joint")
FLUSHES: Final[tuple[Flushes, ...]] = ("complete", "slow", "lazy")
_ALONE: Final = ("left", "right", "full", "anti")
_EXAMPLE: Final = 'range="2 minutes", range=("3 minutes", "2 minutes") for left and right, or tumbling="5 minutes"'


@attrs.frozen(kw_only=True)
class Joining:
    """The checked parameters of a join; names are those of the inputs."""

    window: JoinWindow
    on: tuple[tuple[str, str], ...] = ()
    residual: Expression | None = None
    kind: Kind = "inner"
    prefix: str = "right_"
    least: str = ""
    greatest: str = ""
    promises: Promises = "both"
    flush: Flush = attrs.field(factory=CompleteFlush)
    cardinality: Cardinality = "many to many"

    def over(self, left: Node, right: Node) -> OperatorNode:
        """Make the node of the join of two streams.

        SchemaError when it does not fit them, PlanError when nothing could ever purge what it stores.
        """
        join = OAJoin(
            self.window,
            self.on,
            residual=self.residual,
            kind=self.kind,
            prefix=self.prefix,
            least=self.least,
            greatest=self.greatest,
            promises=self.promises,
            cardinality=self.cardinality,
        )
        join.output_schema(left.schema, right.schema)
        operator = WindowJoin(join, (left.schema, right.schema), flush=self.flush)
        for port, (partner, node) in enumerate(((right, left), (left, right))):
            _check_purged(operator, port, partner, node)
        signed = [port for port, node in enumerate((left, right)) if (told := retracted_of(node)) and told.signed]
        own = [port for port, node in enumerate((left, right)) if SIGN in node.schema and port not in signed]
        if not signed or own or not operator.multiplies:
            return operator_node(operator, left, right, label=label(operator), remarks=operator.remarks())
        inputs = [node if port in signed else settled(node) for port, node in enumerate((left, right))]
        operator = attrs.evolve(operator, signed=True)
        node = operator_node(operator, *inputs, label=label(operator), remarks=operator.remarks())
        return _multiplied(node, operator.names[1][SIGN]) if len(signed) > 1 else node


def _multiplied(node: OperatorNode, other: str) -> OperatorNode:
    """Return a join of two signed streams with one sign, the product of that of the left and an `other` one."""
    product = (Column(SIGN) * Column(other)).cast("int8")
    columns = {name: product if name == SIGN else Column(name) for name in node.schema.names if name != other}
    made = operator_node(Project(columns), node, label="multiply the signs of each pair")
    return attrs.evolve(made, retracted=node.retracted)


def entered(left: Node, right: Node, wattrs: tuple[str, str]) -> tuple[Node, Node]:
    """Return the inputs with their windowing attributes, where arrival gives these; one stream stays one."""
    one, other = (_with(node, wattr) for node, wattr in zip((left, right), wattrs, strict=True))
    return (one, one) if left is right and wattrs[0] == wattrs[1] else (one, other)


def join_window(
    left: Schema,
    right: Schema,
    wattrs: tuple[str, str],
    *,
    range: Pair | None = None,
    tumbling: Amount | None = None,
    closed: bool = False,
    origin: Amount = 0,
) -> JoinWindow:
    """Make the window of a join from amounts as users write them; PlanError when one does not fit its attribute."""
    fields = [_field(schema, wattr, side) for schema, wattr, side in zip((left, right), wattrs, SIDES, strict=True)]
    names = (fields[0].name, fields[1].name)
    if range is None and tumbling is None:
        raise PlanError(f"join: it is not said how long tuples wait for their partners.\n  Give {_EXAMPLE}.")
    if range is not None and tumbling is not None:
        raise PlanError(
            f"join: range and tumbling are two ways to say which tuples meet; keep one.\n  E.g. {_EXAMPLE}."
        )
    if tumbling is not None:
        if closed:
            raise PlanError(
                "join(closed=True): tumbling windows hold their begin and not their end; closed is for range=...\n"
                "  Leave closed out."
            )
        size = _ticks(tumbling, fields[0], "tumbling", positive=True)
        start = ticks_of(origin, fields[0], what="the origin", rows=names[0] == ROW_NUM, signed=True)
        if (other := ticks_of(tumbling, fields[1], what="tumbling", rows=names[1] == ROW_NUM)) != size:
            raise SchemaError(
                f'join(tumbling="{tumbling}"): that is {size} ticks of "{names[0]}" ({fields[0].type}) and {other} of'
                f' "{names[1]}" ({fields[1].type}).\n  Windows need one unit; cast one of them first.'
            )
        return SameWindow(*names, size=size, origin=start)
    if origin != 0:
        raise PlanError("join(origin=...): only tumbling windows begin somewhere. Leave origin out.")
    assert range is not None
    given = range if isinstance(range, tuple) else (range, range)
    if len(given) != 2:  # pyright: ignore[reportUnnecessaryComparison]
        raise PlanError(f"join(range={range!r}): give one range for both inputs, or two, for the left and the right.")
    ticks = [
        _ticks(amount, field, f"range of the {side} input", positive=not closed)
        for amount, field, side in zip(given, fields, SIDES, strict=True)
    ]
    return Band(*names, left=ticks[0], right=ticks[1], closed=closed)


def pairs_of(on: On, *, where: str = "join") -> tuple[tuple[str, str], ...]:
    """Return the pairs of attributes that must be equal, left and right; PlanError for what is no such thing.

    `where` is the call that messages name.
    """
    listed: Iterable[object]
    if isinstance(on, str):
        listed = [on]
    elif isinstance(on, Mapping):
        listed = list(on.items())
    elif isinstance(on, tuple) and on and all(isinstance(name, str) for name in on):
        listed = [on]
    else:
        listed = on
    found: list[tuple[str, str]] = []
    for item in listed:
        match item:
            case str():
                found.append((item, item))
            case (str() as a, str() as b):
                found.append((a, b))
            case _:
                raise PlanError(
                    f"{where}(on={on!r}): {item!r} is neither a name nor a pair of names.\n"
                    '  Write on="srcIP" where both inputs have it, on=("srcIP", "destIP") for a left and a right'
                    ' attribute,\n  and several of these in a list: on=["proto", ("srcIP", "destIP")].'
                )
    return tuple(found)


def check_choices(kind: str, promises: str, cardinality: str) -> None:
    """Check what is one of few words; PlanError with the one that may be meant."""
    given = (("kind", kind, KINDS), ("promises", promises, PROMISES), ("cardinality", cardinality, CARDINALITIES))
    for name, value, known in given:
        if value not in known:
            raise PlanError(f'join({name}="{value}"): there is no such {name}.\n  {did_you_mean(str(value), known)}')


def join_flush(kind: str, flush: str, every: int | None, delay: int | None) -> Flush:
    """Return how tuples without a partner leave a join; PlanError for an unknown flush, or where there are none."""
    if flush not in FLUSHES:
        raise PlanError(f'join(flush="{flush}"): there is no such flush.\n  {did_you_mean(str(flush), FLUSHES)}')
    if flush != "complete" and kind not in _ALONE:
        raise PlanError(
            f'join(kind="{kind}", flush="{flush}"): only tuples without a partner wait for a flush, and this join gives'
            f" none.\n  Leave flush out, or choose a kind of {', '.join(_ALONE)}."
        )
    options = {"flush": flush, "every": every, "delay": delay}
    for name in ("every", "delay"):
        value = options[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise PlanError(f"join({name}={value!r}): write a whole number.")
    return flush_of(options, "join(")


def flush_said(kind: str, flush: str, options: Mapping[str, Any]) -> Flush:
    """Return the flush that a query names; PlanError as `join_flush` raises it, and for an option that there is not."""
    for name in options:
        if name not in ("every", "delay"):
            hint = did_you_mean(name, ("every", "delay"))
            raise PlanError(f'join(flush="{flush}", {name}=...): there is no such option.\n  {hint}')
    return join_flush(kind, flush, options.get("every"), options.get("delay"))


def label(operator: WindowJoin) -> str:
    """Write a join as the query language does: the windows of its inputs, and what is equal."""
    join = operator.join
    kind = "" if join.kind == "inner" else f"{join.kind} "
    kind += "" if join.cardinality == "many to many" else f"{join.cardinality} "
    on = ", ".join(a if a == b else f"{a} = {b}" for a, b in operator.on)
    return f"{kind}join {_windows(operator)}" + (f" on {on}" if on else "")


def _windows(operator: WindowJoin) -> str:
    window, wattrs = operator.join.window, operator.wattrs
    match window:
        case Band():
            closed = ", CLOSED" if window.closed else ""
            one, other = (
                f"[RANGE {operator.amount(ticks, port)}, WA {wattrs[port]}{closed}]"
                for port, ticks in enumerate((window.left, window.right))
            )
            return f"{one} with {other}"
        case SameWindow():
            attributes = " and ".join(dict.fromkeys(wattrs))
            return f"[RANGE TUMBLING {operator.amount(window.size, 0)}, WA {attributes}]"
        case WidJoin():
            one, other = (window_text(w, s) for w, s in zip((window.left, window.right), operator.schemas, strict=True))
            return f"{one} with {other}"
        case _:
            return f"by {type(window).__name__} of {' and '.join(wattrs)}"


def _with(node: Node, wattr: str) -> Node:
    if wattr in (ROW_NUM, "row-num"):
        return numbered(node)
    return stamped(node) if wattr in (ARRIVAL, "arrival-ts") else node


def _field(schema: Schema, wattr: str, side: str) -> pa.Field:
    field = schema.field(wattr, where=f"join, {side} input")
    check_steps(field, f"join: the windowing attribute of the {side} input,")
    return field


def _ticks(amount: Amount, field: pa.Field, what: str, *, positive: bool) -> int:
    ticks = ticks_of(amount, field, what=what, rows=field.name == ROW_NUM)
    if ticks < positive:
        hint = "" if ticks < 0 else " With closed=True it may be 0: then equal times meet."
        raise PlanError(f"join: {what} must be more than nothing, not {amount}.{hint if 'range' in what else ''}")
    return ticks


def _check_purged(operator: WindowJoin, port: int, partner: Node, own: Node) -> None:
    """Refuse a join whose tuples of a port no promise of the other input, linear or of keys, could ever drop."""
    time = operator.wattrs[1 - port]
    keys = {pair[1 - port] for pair in operator.on}
    if any(promise <= {time, *keys} for promise in partner.schema.progress):
        return
    told = unpromised(partner, time).split("\n", 1)[1:]
    first = (
        f"this join would keep the tuples of its {SIDES[port]} input, {own.label}, for ever:"
        f' nothing promises "{time}" of its {SIDES[1 - port]} input.'
    )
    raise PlanError("\n".join((first, *told)))
