"""Promises on attributes become promises on what is computed from them, wherever that is certain, and no further.

An attribute that is kept under one or several names keeps its promises under each. An attribute computed by a rising
function f, such as ts // 10, turns `[ts < v]` into `[f < f(v)]`: a later tuple has ts >= v, so f(ts) >= f(v).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

import attrs
import numpy as np

from operators.data.page import Page
from operators.expression.bound import Bound, Carry
from operators.expression.tree import Column, Expression
from operators.protocol import Emit, Promises
from punctuation import Below, Pattern, Punctuation, Range

_MOST = 1 << 62


@attrs.frozen(eq=False)
class Images:
    """The places of an input's attributes in an output."""

    kept: Mapping[str, tuple[str, ...]]
    """Old name to the names under which the very values go on."""
    rising: Mapping[str, tuple[tuple[str, Carry], ...]]
    """Old name to the names of rising functions of it, each with how a bound moves."""

    @classmethod
    def of(cls, columns: Mapping[str, Expression], bound: Mapping[str, Bound]) -> Images:
        """Read new names and their expressions; before there is a schema (`bound` empty) only kept names are known."""
        kept: dict[str, tuple[str, ...]] = {}
        rising: dict[str, tuple[tuple[str, Carry], ...]] = {}
        for name, expression in columns.items():
            of = bound[name].field.name if name in bound else ""
            if isinstance(expression, Column):
                old = of or expression.name
                kept[old] = (*kept.get(old, ()), name)
            elif name in bound and (attribute := bound[name].attribute) and (carry := bound[name].carry):
                rising[attribute] = (*rising.get(attribute, ()), (name, carry))
        return cls(kept, rising)

    def promises(self, punctuation: Punctuation) -> Iterator[Punctuation]:
        """Yield the promises that follow from one on the input, none when it would take an attribute that is gone."""
        choices = [list(self._patterns(name, pattern)) for name, pattern in punctuation.patterns]
        for choice in product(*choices):
            patterns = dict(choice)
            if len(patterns) == len(choice):
                yield Punctuation(patterns, assumed=punctuation.assumed)

    def hand_on(self, page: Page, promises: Promises, emit: Emit) -> None:
        """Emit an output page with what follows from the promises in its input."""
        following = self._following(promises)
        if following is not None:
            following.hand_on(page, emit)
            return
        for element in promises.one_by_one(page):
            for out in (element,) if isinstance(element, Page) else self.promises(element):
                emit(out)

    def _following(self, promises: Promises) -> Promises | None:
        """Return the promises that follow, if they are on one attribute; None if on several, or on none."""
        kept, rising = self.kept.get(promises.attribute, ()), self.rising.get(promises.attribute, ())
        if len(kept) + len(rising) != 1:
            return None
        if kept:
            return attrs.evolve(promises, attribute=kept[0])
        ((name, carry),) = rising
        bounds = [carry(bound) for bound in promises.bounds.tolist()]
        if not all(type(bound) is int and abs(bound) < _MOST for bound in bounds):
            return None
        # Some bounds may say the same of what is computed.
        moved = np.array(bounds, np.int64)
        new = moved > np.append(moved[:1] - 1, moved[:-1])
        return Promises(name, promises.positions[new], moved[new], promises.assumed)

    def progress(self, promised: Iterable[frozenset[str]]) -> frozenset[frozenset[str]]:
        """Return what the output will be punctuated on; of a group-wise promise only kept attributes are certain."""
        found: set[frozenset[str]] = set()
        for promise in promised:
            choices = [list(self.kept.get(name, ())) for name in sorted(promise)]
            if len(promise) == 1:
                (name,) = promise
                choices[0] += [new for new, _ in self.rising.get(name, ())]
            found |= {frozenset(choice) for choice in product(*choices)}
        return frozenset(found)

    def _patterns(self, name: str, pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
        for new in self.kept.get(name, ()):
            yield new, pattern
        if isinstance(pattern, Range) and pattern.low is None and pattern.high is not None:
            for new, carry in self.rising.get(name, ()):
                bound = carry(pattern.high)
                if bound is not None:
                    yield new, Below(bound)
