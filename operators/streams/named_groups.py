"""A promise names groups by constants, which are looked up; what it says otherwise is asked of every live group."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from operators.data.distinct import distinct
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Page
from operators.data.schema import Schema
from operators.data.steps import from_ticks, held_as_ticks
from operators.kernels.ticks import LIMIT
from punctuation import Below, GroupPromise, Pattern, Punctuation, Value, below, whole


def within(bound: Value | None) -> int | None:
    """Return a bound as a whole number not far out of the range of values that count; None when it bounds nothing.

    Values out of range are in no window, so bounds further out promise nothing more.
    """
    number = whole(bound)
    return None if number is None else max(-2 * LIMIT, min(number, 2 * LIMIT))


@attrs.frozen
class GroupBound:
    """A group-wise promise: which groups or partitions, and below which bound they are over; None: altogether."""

    groups: Punctuation
    bound: int | None
    assumed: bool = False

    def follows(self, attribute: str, bound: int | None) -> Punctuation:
        """Return what follows of the results: those of these groups have no lesser attribute; None: there are none."""
        patterns: dict[str, Pattern] = dict(self.groups.patterns)
        if bound is not None:
            patterns[attribute] = Below(bound)
        return Punctuation(patterns, assumed=self.assumed)


def group_bound(punctuation: Punctuation, by: Sequence[str], attribute: str) -> GroupBound | None:
    """Read a promise on groups by these attributes, up to a bound of `attribute`; None where it settles nothing.

    Groups may be named by constants, by lists, and by ranges of some of their attributes.

    >>> from punctuation import Between
    >>> found = group_bound(Punctuation({"k": Between(5, 7), "ts": Below(9)}), ["k"], "ts")
    >>> found and (str(found.groups), found.bound)
    ('[k in [5, 7)]', 9)
    """
    patterns: dict[str, Pattern] = dict(punctuation.patterns)
    bound = None
    if attribute in patterns and (attribute not in by or below(patterns[attribute]) is not None):
        bound = within(below(patterns.pop(attribute)))
        if bound is None:
            return None
    if not patterns or not set(patterns) <= set(by):
        return None
    return GroupBound(Punctuation(patterns), bound, punctuation.assumed)


def matched(index: KeyIndex, promise: Punctuation) -> Ids:
    """Return the live keys that match a promise on some of their attributes, each once.

    Cost: O(constants) when the promise gives constants for every attribute of the keys, otherwise O(live keys).
    """
    names = [field.name for field in index.fields]
    groups = GroupPromise.of(promise)
    if groups is not None and groups.shape[1] is None and set(groups.shape[0]) == set(names):
        places = [groups.shape[0].index(name) for name in names]
        columns = [
            constants([key[place] for key in groups.keys], field.type)
            for place, field in zip(places, index.fields, strict=True)
        ]
        if all(column is not None for column in columns):
            found = index.find(columns)
            return distinct(found[found >= 0])
    live = index.live()
    schema = Schema(pa.schema(list(index.fields)))
    keys = Page(schema, pa.RecordBatch.from_arrays(index.keys(live), schema=schema.arrow))
    return live[keys.matching(promise)]


def constants(values: Sequence[Value], kind: pa.DataType) -> pa.Array | None:
    """Make a column of the constants of a pattern, times and decimals from ticks; None when one is not of the type."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if held_as_ticks(kind):
        plain, python = pa.int64(), int
    elif pa.types.is_integer(kind):
        plain, python = kind, int
    elif text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        plain, python = kind, str if text else bytes
    else:
        return None
    if not all(isinstance(value, python) for value in values):
        return None
    try:
        found = pa.array(values, plain)
        return from_ticks(found, kind) if held_as_ticks(kind) else found
    except (pa.ArrowInvalid, OverflowError):
        return None
