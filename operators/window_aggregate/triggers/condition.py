"""A condition says when an open window fires; conditions compose, and hold nothing of a window themselves.

What a window of a group has seen is in columns, a row for each (`Seen`). A condition is asked one question of many rows
at once: how many more tuples does each of them lack until it holds? So a page is worked off in rounds, one for each
firing of one window, and never tuple by tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.errors import SchemaError
from operators.functions.columns import frozen
from operators.kernels.ticks import FOREVER
from operators.kernels.windows import layout
from operators.signals import Clock, Event, Signal
from operators.window_aggregate.triggers.promised import At, Every, Heard, Lull, Promised

MOST: Final = 62
"""So many different signals, promises among them, and so many steps (`Then`), a condition has at most: a bit each."""


@attrs.frozen
class Rows:
    """Hold once so many tuples have come."""

    rows: int

    def __str__(self) -> str:
        return f"after {self.rows:,} row{'s' if self.rows > 1 else ''}"


@attrs.frozen
class AnyOf:
    """Hold as soon as one of several does."""

    of: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(map(_bracketed, self.of))


@attrs.frozen
class AllOf:
    """Hold once all of several do."""

    of: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(map(_bracketed, self.of))


@attrs.frozen
class Then:
    """Hold with the first one until the window has fired for it, and from then on with the second."""

    first: Condition
    second: Condition

    def __str__(self) -> str:
        return f"first {_bracketed(self.first)}, then {_bracketed(self.second)}"


@attrs.frozen
class Until:
    """Hold with one until another has held once, which counts from the first tuple of the window; then never more."""

    repeated: Condition
    stop: Condition

    def __str__(self) -> str:
        return f"{_bracketed(self.repeated)} until {_bracketed(self.stop)}"


Leaf: TypeAlias = Rows | Signal | Heard
Condition: TypeAlias = Leaf | AnyOf | AllOf | Then | Until


def _bracketed(condition: Condition) -> str:
    return f"({condition})" if isinstance(condition, AnyOf | AllOf | Then | Until) else str(condition)


def leaves(condition: Condition) -> Iterator[Leaf]:
    """Yield the conditions that others are made of, from left to right.

    >>> [str(leaf) for leaf in leaves(AnyOf((Rows(2), Event("flush"))))]
    ['after 2 rows', "on 'flush'"]
    """
    match condition:
        case AnyOf(of) | AllOf(of):
            for one in of:
                yield from leaves(one)
        case Then(one, other) | Until(one, other):
            yield from leaves(one)
            yield from leaves(other)
        case leaf:
            yield leaf


def replaced(condition: Condition, by: Callable[[Leaf], Leaf]) -> Condition:
    """Return a condition with other ones in the places of those that it is made of.

    >>> str(replaced(AnyOf((Rows(2), Event("flush"))), lambda leaf: Rows(3)))
    'after 3 rows or after 3 rows'
    """
    match condition:
        case AnyOf(of):
            return AnyOf(tuple(replaced(one, by) for one in of))
        case AllOf(of):
            return AllOf(tuple(replaced(one, by) for one in of))
        case Then(one, other):
            return Then(replaced(one, by), replaced(other, by))
        case Until(one, other):
            return Until(replaced(one, by), replaced(other, by))
        case leaf:
            return by(leaf)


@attrs.frozen(eq=False)
class Seen:
    """Hold what some windows of groups have seen, a row each; signals and steps are bits."""

    rows: Int64s
    """Tuples since the last firing."""
    all_rows: Int64s
    signals: Int64s
    """Signals since the last firing."""
    all_signals: Int64s
    steps: Int64s
    """The steps (`Then`) whose first condition is behind."""

    def some(self, which: Bools) -> Seen:
        """Return what the windows at these places have seen."""
        rows = (self.rows, self.all_rows, self.signals, self.all_signals, self.steps)
        return Seen(*(column[which] for column in rows))


class Node(Protocol):
    """A condition with a bit for each of its signals and steps."""

    def lacking(self, seen: Seen, whole: bool = False, least: Int64s | None = None) -> Int64s:
        """Return how many more tuples each row lacks, 0 where it holds, FOREVER where tuples alone are not enough.

        `whole`: count from the first tuple of the window, not from its last firing. `least`: the number is so high
        at least, shape (n,), since an `Until` may hold for a while only.
        """
        ...

    def stepped(self, seen: Seen, fired: Bools) -> Int64s:
        """Return the steps that are behind once these rows have fired."""
        ...


@attrs.frozen
class Compiled:
    """A condition, made ready to be asked of many windows.

    >>> compiled = Compiled.of(AnyOf((Rows(3), Event("flush"))))
    >>> one, none = np.array([1]), np.array([0])
    >>> compiled.node.lacking(Seen(one, one, none, none, none)).tolist()
    [2]
    >>> flushed = np.array([compiled.bit(Event("flush"))])
    >>> compiled.node.lacking(Seen(one, one, flushed, flushed, none)).tolist()
    [0]
    """

    node: Node
    signals: tuple[Signal, ...]
    """Those that come from outside."""
    heard: tuple[Signal | Heard, ...]
    """All that is heard, of promises too: the bit of each is its place."""
    repeats: bool
    """Whether a window that has fired is as it was at its first tuple."""
    fresh: int
    """How many tuples a window lacks that has none."""
    nodes: Int64s
    """The condition as compiled code reads it, shape (4, n)."""

    @classmethod
    def of(cls, condition: Condition) -> Compiled:
        """Compile a condition; SchemaError where it has too many signals or steps, or more than these in a stop."""
        heard = tuple(dict.fromkeys(leaf for leaf in leaves(condition) if not isinstance(leaf, Rows)))
        steps = iter(range(MOST + 1))
        node = _node(condition, heard, steps)
        if len(heard) > MOST or next(steps, None) is None:
            raise SchemaError(f"a trigger has at most {MOST} different signals, and as many steps (then).")
        outside = tuple(one for one in heard if isinstance(one, Event | Clock))
        fresh = int(node.lacking(Seen(*np.zeros((5, 1), np.int64)))[0])
        nodes: list[tuple[int, int, int, int]] = []
        _list_nodes(condition, heard, iter(range(MOST + 1)), nodes, whole=False)
        return cls(node, outside, heard, _plain(condition), fresh, frozen(np.array(nodes, np.int64).T))

    def bit(self, signal: Signal | Heard) -> int:
        """Return the bit of a signal; 0 for one that it does not hear."""
        return 1 << self.heard.index(signal) if signal in self.heard else 0

    @property
    def hears_promises(self) -> bool:
        """Return whether it may hold for what the stream promises."""
        return len(self.signals) < len(self.heard)

    @property
    def moments(self) -> tuple[Every | At, ...]:
        """Return the ticks of windows at which it may hold, as promises of all tuples reach them."""
        return tuple(one for one in self.heard if isinstance(one, Every | At))

    @property
    def lulls(self) -> tuple[Lull, ...]:
        """Return the lulls of sessions after which it may hold."""
        return tuple(one for one in self.heard if isinstance(one, Lull))

    @property
    def promised(self) -> tuple[Promised, ...]:
        """Return the promises at which it may hold."""
        return tuple(one for one in self.heard if isinstance(one, Promised))


def _node(condition: Condition, signals: tuple[Signal | Heard, ...], steps: Iterator[int]) -> Node:
    match condition:
        case Rows(rows):
            return _Rows(rows)
        case AnyOf(of):
            return _Several(tuple(_node(one, signals, steps) for one in of), all=False)
        case AllOf(of):
            return _Several(tuple(_node(one, signals, steps) for one in of), all=True)
        case Then(first, second):
            bit = 1 << next(steps, 0)
            return _Then(_node(first, signals, steps), _node(second, signals, steps), bit)
        case Until(repeated, stop):
            if not _plain(stop):
                raise SchemaError(
                    f"until: {stop} is no trigger that can stop another: it has steps of its own.\n"
                    "  Write one that counts tuples, hears signals, or is any or all of such."
                )
            return _Until(_node(repeated, signals, steps), _node(stop, signals, steps))
        case signal:
            return _Signal(1 << signals.index(signal) if signals.index(signal) < MOST else 0)


def _list_nodes(
    condition: Condition,
    heard: tuple[Signal | Heard, ...],
    steps: Iterator[int],
    nodes: list[tuple[int, int, int, int]],
    *,
    whole: bool,
) -> int:
    """Append the nodes of a condition, and return the place of the last one; steps have bits as in `_node`.

    `whole`: count from the first tuple of the window, not from its last firing.
    """
    kind, operand, parts = layout.AFTER, 0, list[int]()
    match condition:
        case Rows(rows):
            kind, operand = layout.AFTER_ALL if whole else layout.AFTER, rows
        case AnyOf(of) | AllOf(of):
            kind = layout.EITHER if isinstance(condition, AnyOf) else layout.BOTH
            first, *others = (_list_nodes(one, heard, steps, nodes, whole=whole) for one in of)
            for second in others[:-1]:
                nodes.append((kind, 0, first, second))
                first = len(nodes) - 1
            if not others:
                return first
            parts = [first, others[-1]]
        case Then(one, other):
            kind, operand = layout.STEP, 1 << next(steps, 0)
            parts = [_list_nodes(part, heard, steps, nodes, whole=whole) for part in (one, other)]
        case Until(one, other):
            kind = layout.STOPPED
            parts = [
                _list_nodes(part, heard, steps, nodes, whole=stops) for part, stops in ((one, whole), (other, True))
            ]
        case signal:
            kind, operand = layout.EVER_HEARD if whole else layout.HEARD, 1 << heard.index(signal)
    first, second = parts or (0, 0)
    nodes.append((kind, operand, first, second))
    return len(nodes) - 1


def _plain(condition: Condition) -> bool:
    """Return whether a condition has no steps."""
    match condition:
        case AnyOf(of) | AllOf(of):
            return all(map(_plain, of))
        case _:
            return not isinstance(condition, Then | Until)


@attrs.frozen
class _Rows:
    rows: int

    def lacking(self, seen: Seen, whole: bool = False, least: Int64s | None = None) -> Int64s:
        return np.maximum(self.rows - (seen.all_rows if whole else seen.rows), 0 if least is None else least)

    def stepped(self, seen: Seen, fired: Bools) -> Int64s:
        return seen.steps


@attrs.frozen
class _Signal:
    bit: int

    def lacking(self, seen: Seen, whole: bool = False, least: Int64s | None = None) -> Int64s:
        heard = (seen.all_signals if whole else seen.signals) & self.bit
        return np.where(heard, 0 if least is None else least, FOREVER)

    def stepped(self, seen: Seen, fired: Bools) -> Int64s:
        return seen.steps


@attrs.frozen
class _Several:
    nodes: tuple[Node, ...]
    all: bool

    def lacking(self, seen: Seen, whole: bool = False, least: Int64s | None = None) -> Int64s:
        found: Int64s
        if not self.all:
            found = np.minimum.reduce([node.lacking(seen, whole, least) for node in self.nodes])
            return found
        # Those that hold at last may come when another one holds no more: then all are asked again from there on.
        found = np.maximum.reduce([node.lacking(seen, whole, least) for node in self.nodes])
        while least is None or (found > least).any():
            least = found
            found = np.maximum.reduce([node.lacking(seen, whole, least) for node in self.nodes])
        return found

    def stepped(self, seen: Seen, fired: Bools) -> Int64s:
        found: Int64s = np.bitwise_or.reduce([node.stepped(seen, fired) for node in self.nodes])
        return found


@attrs.frozen
class _Then:
    first: Node
    second: Node
    bit: int

    def lacking(self, seen: Seen, whole: bool = False, least: Int64s | None = None) -> Int64s:
        first, second = (node.lacking(seen, whole, least) for node in (self.first, self.second))
        return np.where(seen.steps & self.bit, second, first)

    def stepped(self, seen: Seen, fired: Bools) -> Int64s:
        behind = (seen.steps & self.bit) != 0
        over = fired & ~behind & (self.first.lacking(seen) == 0)
        inner = self.first.stepped(seen, fired & ~behind) | self.second.stepped(seen, fired & behind)
        return np.where(over, inner | self.bit, inner)


@attrs.frozen
class _Until:
    repeated: Node
    stop: Node

    def lacking(self, seen: Seen, whole: bool = False, least: Int64s | None = None) -> Int64s:
        lacking, left = self.repeated.lacking(seen, whole, least), self.stop.lacking(seen, True)
        return np.where(lacking < left, lacking, FOREVER)

    def stepped(self, seen: Seen, fired: Bools) -> Int64s:
        return self.repeated.stepped(seen, fired)
