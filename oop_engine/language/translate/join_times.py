"""ON may say how far apart two times are: a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '2' SECOND.

That makes the windows of both inputs. What they do not say exactly is asked of each pair besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from oop_engine.language import syntax as s
from oop_engine.plan.durations import Unit, format_duration, parse_duration
from oop_engine.query_errors import LanguageError
from oop_engine.span import Span

Meant = Callable[[s.Name], tuple[int, str] | None]
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@attrs.frozen
class Bound:
    """One bound: the right time is at least, or at most, the left time and so much more.

    `ns` counts nanoseconds, or units of attributes that are numbers.
    """

    names: tuple[s.Name, s.Name]
    upper: bool
    ns: int
    closed: bool
    condition: s.Expr
    unit: Unit


def timed(join: s.Join, conditions: Iterable[s.Expr], meant: Meant) -> tuple[s.Join, list[s.Expr]]:
    """Return a join of two inputs with the windows that its conditions make, and the conditions that are left.

    - `join`: a join without any window.
    - `conditions`: all must hold.
    - `meant`: returns the number of an input, and its attribute.
    """
    asked = list(conditions)
    bounds = [bound for condition in asked for bound in _bounds(condition, meant)]
    for first in bounds:
        units: list[Unit] = [bound.unit for bound in bounds if bound.ns]
        unit: Unit = units[0] if units else "ns"
        alike = [bound for bound in bounds if bound.names == first.names and (bound.unit == unit or not bound.ns)]
        below = [bound for bound in alike if not bound.upper]
        above = [bound for bound in alike if bound.upper]
        if not below or not above:
            continue
        low, high = max(below, key=lambda bound: bound.ns), min(above, key=lambda bound: bound.ns)
        closed = low.closed or high.closed or not (low.ns < 0 < high.ns)
        lengths = max(high.ns, 0), max(-low.ns, 0)
        windows = [
            s.WindowClause(range=_duration(ns, unit, side.condition.span), wattr=name, closed=closed, span=name.span)
            for ns, name, side in zip(lengths, first.names, (high, low), strict=True)
        ]
        items = tuple(attrs.evolve(item, window=w) for item, w in zip(join.items, windows, strict=True))
        exact = low.closed == high.closed == closed and low.ns <= 0 <= high.ns
        said = [low.condition, high.condition] if exact and len(alike) == 2 else []
        return attrs.evolve(join, items=items), [condition for condition in asked if condition not in said]
    return join, asked


def _duration(ns: int, unit: Unit, span: Span) -> s.Duration:
    plain = unit == "plain" or ns == 0
    return attrs.evolve(
        s.Duration(ns, "plain", str(ns)) if plain else s.Duration(ns, "ns", format_duration(ns)), span=span
    )


def _bounds(condition: s.Expr, meant: Meant) -> Iterator[Bound]:
    """Yield the bounds that a condition sets to how far the times of two inputs are apart."""
    match condition:
        case s.Between(negated=False):
            pairs = [(">=", condition.low), ("<=", condition.high)]
            found = [_bound(op, condition.x, side, condition, meant) for op, side in pairs]
        case s.Binary(op="<" | "<=" | ">" | ">=" as op):
            found = [_bound(op, condition.l, condition.r, condition, meant)]
        case _:
            return
    if None not in found:
        yield from (bound for bound in found if bound is not None)


def _bound(op: str, left: s.Expr, right: s.Expr, condition: s.Expr, meant: Meant) -> Bound | None:
    """Read `left op right` as a bound of the second input's time by that of the first."""
    one, other = _moved(left), _moved(right)
    if one is None or other is None:
        return None
    numbers = [None if found is None else found[0] for found in (meant(one[0]), meant(other[0]))]
    ns, unit = other[1] - one[1], one[2] if one[1] else other[2]
    if one[1] and other[1] and one[2] != other[2]:
        return None
    if numbers == [0, 1]:
        # l op r + ns says r flipped(op) l - ns.
        return Bound((one[0], other[0]), _FLIPPED[op] in ("<", "<="), -ns, "=" in op, condition, unit)
    if numbers == [1, 0]:
        return Bound((other[0], one[0]), op in ("<", "<="), ns, "=" in op, condition, unit)
    return None


def _moved(node: s.Expr) -> tuple[s.Name, int, Unit] | None:
    """Return an attribute, how much is added to it, and in which unit; None for anything else."""
    match node:
        case s.Name():
            return node, 0, "ns"
        case s.Binary(op="+" | "-" as op, l=s.Name() as name, r=s.Literal(value=int(number))):
            return name, number if op == "+" else -number, "plain"
        case s.Binary(op="+" | "-" as op, l=s.Name() as name, r=s.Literal(value=str(amount))):
            pass
        case s.Binary(op="+" as op, l=s.Literal(value=str(amount)), r=s.Name() as name):
            pass
        case _:
            return None
    try:
        duration = parse_duration(amount, signed=True)
    except LanguageError:
        return None
    if duration.unit != "ns":
        return None
    return name, duration.value if op == "+" else -duration.value, "ns"
