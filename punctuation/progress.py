"""Progress is what has been promised so far: on one port (`Progress`), and by all ports of an operator (`Meet`).

This room knows no operator. Bounds only rise: a punctuation that promises nothing new changes nothing and is counted as
stale. Three shapes of promise are kept apart because they are kept differently:

* linear, `[ts < v]`: one bound an attribute, the low-watermark of thesis Eq. 4.1;
* group-wise, `[srcIP = k, ts < v]` (or a list of k): a bound a group, whose effective value is max(own, linear);
* any other conjunction: an antichain under implication.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from punctuation.pattern import ANY, Below, Equals, Mask, Pattern, Value, includes, one_of
from punctuation.punctuation import END, Punctuation, before, below, constants

Key: TypeAlias = tuple[Value, ...]
Shape: TypeAlias = tuple[tuple[str, ...], str | None]
"""The group attributes, and the progressing attribute (None when the groups are finished altogether)."""

CONJUNCTIONS = 1_000
"""Conjunctions tried at one promise, at most; where there are more to try, those of groups, then all, wait for END."""


@attrs.frozen
class GroupPromise:
    """A group-wise punctuation taken apart: which groups, and below which bound."""

    shape: Shape
    keys: tuple[Key, ...]
    bound: Value | None

    @classmethod
    def of(cls, punctuation: Punctuation) -> GroupPromise | None:
        """Read a punctuation as group-wise: constants on some attributes, at most one `< v` on another."""
        names: list[str] = []
        lists: list[list[Value]] = []
        progressing: str | None = None
        bound: Value | None = None
        for name, pattern in punctuation.patterns:
            listed = constants(pattern)
            if listed is not None:
                names.append(name)
                lists.append(list(listed))
            elif (v := below(pattern)) is not None and progressing is None:
                progressing, bound = name, v
            else:
                return None
        if not names:
            return None
        return cls((tuple(names), progressing), tuple(product(*lists)), bound)


def group_punctuation(shape: Shape, keys: Iterable[Key], bound: Value | None) -> Iterator[Punctuation]:
    """Make group-wise punctuations for groups that share a bound: one with a list when one attribute groups."""
    names, progressing = shape
    extra: dict[str, Pattern] = {} if progressing is None or bound is None else {progressing: Below(bound)}
    if len(names) == 1:
        values = [key[0] for key in keys]
        if values:
            yield Punctuation({names[0]: one_of(values), **extra})
        return
    for key in keys:
        yield Punctuation({**{name: Equals(value) for name, value in zip(names, key, strict=True)}, **extra})


@attrs.define
class Progress:
    """Keep what one stream has promised. Cost: linear promises O(1), group-wise O(groups ahead of the linear bound)."""

    ended: bool = attrs.field(default=False, init=False)
    stale: int = attrs.field(default=0, init=False)
    """Punctuations that promised nothing new."""
    linear: dict[str, Value] = attrs.field(factory=dict, init=False)
    grouped: dict[Shape, dict[Key, Value | None]] = attrs.field(factory=dict, init=False)
    general: list[Punctuation] = attrs.field(factory=list, init=False)

    def advance(self, punctuation: Punctuation) -> bool:
        """Take a promise; False, and counted as stale, when it was already implied."""
        if self.implies(punctuation):
            self.stale += 1
            return False
        if punctuation.is_end:
            self.ended = True
            self.linear.clear()
            self.grouped.clear()
            self.general.clear()
            return True
        if len(punctuation.patterns) == 1 and (v := below(punctuation.patterns[0][1])) is not None:
            name = punctuation.patterns[0][0]
            self.linear[name] = v
            if self.grouped:
                self._forget_groups_behind(name, v)
            if self.general:
                self.general = [q for q in self.general if not punctuation.implies(q)]
            return True
        promise = GroupPromise.of(punctuation)
        if promise is not None:
            bounds = self.grouped.setdefault(promise.shape, {})
            ended = self.grouped.get((promise.shape[0], None), {}) if promise.bound is not None else {}
            for key in promise.keys:
                if key in ended:
                    continue
                bounds[key] = _higher(bounds.get(key, promise.bound), promise.bound)
            if promise.bound is None:
                self._forget_bounds_of(promise)
            return True
        self.general = [q for q in self.general if not punctuation.implies(q)]
        self.general.append(punctuation)
        return True

    def rise(self, attribute: str, bound: Value, *, assumed: bool = False) -> Punctuation | None:
        """Take the linear promise `[attribute < bound]` and give it; None when it was already implied.

        As `advance`, without making a punctuation that promises nothing new.
        """
        known = self.linear.get(attribute)
        if known is not None and known >= bound:  # pyright: ignore[reportOperatorIssue]
            self.stale += 1
            return None
        promise = before(attribute, bound, assumed=assumed)
        if self.ended or self.grouped or self.general:
            return promise if self.advance(promise) else None
        self.linear[attribute] = bound
        return promise

    def implies(self, punctuation: Punctuation) -> bool:
        """Return whether what was promised already contains this punctuation."""
        if self.ended:
            return True
        for name, pattern in punctuation.patterns:
            if name in self.linear and includes(Below(self.linear[name]), pattern):
                return True
        if self.general and any(q.implies(punctuation) for q in self.general):
            return True
        return bool(self.grouped) and any(
            _covers(shape, bounds, self.grouped.get((shape[0], None), {}), punctuation)
            for shape, bounds in self.grouped.items()
        )

    def bound(self, attribute: str) -> Value | None:
        """Return the low-watermark of an attribute, None when nothing was promised on it."""
        return self.linear.get(attribute)

    def effective(self, shape: Shape, key: Key) -> Value | None:
        """Return a group's bound: the higher of its own and the linear one (thesis 8.2, group-wise Meld)."""
        own = self.grouped.get(shape, {}).get(key)
        wildcard = self.linear.get(shape[1]) if shape[1] is not None else None
        if own is None:
            return wildcard
        return own if wildcard is None else max(own, wildcard)

    def over(self, names: tuple[str, ...], key: Key) -> bool:
        """Return whether a group has no tuples any more: a promise ended it, or it lies behind a linear one."""
        if key in self.grouped.get((names, None), {}):
            return True
        pairs = zip(names, key, strict=True)
        return any(n in self.linear and includes(Below(self.linear[n]), Equals(value)) for n, value in pairs)

    def promises(self) -> Iterator[Punctuation]:
        """Yield the promises in force, none implied by another of its own shape."""
        if self.ended:
            yield END
        for name, bound in self.linear.items():
            yield before(name, bound)
        for shape, bounds in self.grouped.items():
            by_bound: dict[Value | None, list[Key]] = {}
            for key, bound in bounds.items():
                by_bound.setdefault(bound, []).append(key)
            for bound, keys in by_bound.items():
                yield from group_punctuation(shape, keys, bound)
        yield from self.general

    def mask(self, columns: Mapping[str, npt.NDArray[np.generic]], length: int) -> Mask:
        """Return for each of `length` tuples whether it breaks a promise in force (a violation)."""
        broken = np.zeros(length, np.bool_)
        for promise in self.promises():
            broken |= promise.mask(columns, length)
        return broken

    def _forget_bounds_of(self, ended: GroupPromise) -> None:
        names, _ = ended.shape
        for shape in [s for s in self.grouped if s[0] == names and s[1] is not None]:
            for key in ended.keys:
                self.grouped[shape].pop(key, None)
            if not self.grouped[shape]:
                del self.grouped[shape]

    def _forget_groups_behind(self, name: str, bound: Value) -> None:
        for shape in [s for s in self.grouped if s[1] == name]:
            kept = {k: v for k, v in self.grouped[shape].items() if v is None or v > bound}  # pyright: ignore[reportOperatorIssue]
            if kept:
                self.grouped[shape] = kept
            else:
                del self.grouped[shape]


@attrs.define
class Meet:
    """Keep the progress of n ports and say what all of them have promised, each promise once.

    Cost: a linear promise O(ports + groups ahead); nothing is emitted that was already implied (thesis Fig 8-2 with
    the duplicates suppressed, for n inputs; an ended port promises everything).
    """

    ports: int
    _progress: list[Progress] = attrs.field(init=False)
    _emitted: Progress = attrs.field(factory=Progress, init=False)

    def __attrs_post_init__(self) -> None:
        self._progress = [Progress() for _ in range(self.ports)]

    def port(self, port: int) -> Progress:
        """Return the progress of one port."""
        return self._progress[port]

    @property
    def emitted(self) -> Progress:
        """Return what has been promised downstream."""
        return self._emitted

    def advance(self, port: int, punctuation: Punctuation) -> list[Punctuation]:
        """Take a promise on one port and give the promises that have become true of all ports, new ones only."""
        if not self._progress[port].advance(punctuation):
            return []
        live = [p for p in self._progress if not p.ended]
        if not live:
            return self._new([END])
        new: list[Punctuation] = []
        for name in self._linear_attributes(live):
            bound = min(p.linear[name] for p in live)
            new += self._new([before(name, bound, assumed=punctuation.assumed)])
        new += self._groups(live)
        if _crossing(live):
            new += self._conjunctions(live)
        return new

    def _linear_attributes(self, live: list[Progress]) -> list[str]:
        return [name for name in live[0].linear if all(name in p.linear for p in live)]

    def _groups(self, live: list[Progress]) -> list[Punctuation]:
        new: list[Punctuation] = []
        shapes = {shape for p in live for shape in p.grouped}
        # A group that is over on one port is as far on all as the promises of the others are.
        ended = {names for names, progressing in shapes if progressing is None}
        shapes |= {(names, name) for names in ended for p in live for name in p.linear if name not in names}
        for shape in sorted(shapes, key=repr):
            names, progressing = shape
            keys = {key for p in live for s in {shape, (names, None)} for key in p.grouped.get(s, {})}
            by_bound: dict[Value | None, list[Key]] = {}
            for key in keys:
                behind = [p for p in live if not p.over(names, key)]
                if not behind:
                    by_bound.setdefault(None, []).append(key)
                elif progressing is not None:
                    bounds = [p.effective(shape, key) for p in behind]
                    if all(b is not None for b in bounds):
                        by_bound.setdefault(min(bounds), []).append(key)  # pyright: ignore[reportArgumentType]
            for bound, found in by_bound.items():
                told = shape if bound is not None else (names, None)
                fresh = [k for k in found if not self._promised(told, k, bound)]
                new += self._new(group_punctuation(told, fresh, bound))
        return new

    def _promised(self, shape: Shape, key: Key, bound: Value | None) -> bool:
        emitted = self._emitted
        if bound is None:
            return key in emitted.grouped.get(shape, {})
        known = emitted.effective(shape, key)
        return known is not None and known >= bound  # pyright: ignore[reportOperatorIssue]

    def _conjunctions(self, live: list[Progress]) -> list[Punctuation]:
        """Meet every promise of a port with every one of the others; without groups where that is too many."""
        held = [list(p.promises()) for p in live]
        if sum(map(len, held)) > CONJUNCTIONS:
            held = [[q for q in promises if GroupPromise.of(q) is None] for promises in held]
        candidates: list[Punctuation] = [END]
        for promises in held:
            if len(candidates) * len(promises) > CONJUNCTIONS:
                return []
            tried = [m for c in candidates for q in promises if (m := c.meet(q)) is not None]
            candidates = _widest([m for m in tried if not self._emitted.implies(m)])
        return self._new(candidates)

    def _new(self, candidates: Iterable[Punctuation]) -> list[Punctuation]:
        return [p for p in candidates if not self._emitted.implies(p) and self._emitted.advance(p)]


def _crossing(live: list[Progress]) -> bool:
    """Return whether ports may have promised on different attributes, so that only a conjunction is true of all."""
    common = set[str].intersection(*(set(p.linear) for p in live))
    shapes = {shape for p in live for shape in p.grouped}
    return (
        len(common) > 1
        or any(p.general or len(p.linear) > len(common) for p in live)
        or len({names for names, _ in shapes}) > 1
        or any(progressing is not None and progressing not in common for _, progressing in shapes)
    )


def _widest(promises: list[Punctuation]) -> list[Punctuation]:
    """Return the promises that no other of them implies."""
    widest: list[Punctuation] = []
    for promise in promises:
        if not any(w.implies(promise) for w in widest):
            widest = [w for w in widest if not promise.implies(w)] + [promise]
    return widest


def _higher(a: Value | None, b: Value | None) -> Value | None:
    return None if a is None or b is None else max(a, b)


def _covers(
    shape: Shape, bounds: Mapping[Key, Value | None], ended: Mapping[Key, Value | None], punctuation: Punctuation
) -> bool:
    """Return whether the bounds of groups contain a punctuation: it lists groups, each of them that far or ended."""
    names, progressing = shape
    lists: list[frozenset[Value]] = []
    for name in names:
        listed = constants(punctuation.pattern(name))
        if listed is None:
            return False
        lists.append(listed)
    pattern = ANY if progressing is None else punctuation.pattern(progressing)
    for key in product(*lists):
        if key in ended:
            continue
        if key not in bounds:
            return False
        bound = bounds[key]
        if bound is not None and not includes(Below(bound), pattern):
            return False
    return True
