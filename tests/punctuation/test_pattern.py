"""A pattern is a set of values: membership, inclusion and intersection agree with sets of Python values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctuation import (
    ANY,
    AtMost,
    Below,
    Between,
    Equals,
    OneOf,
    Pattern,
    Range,
    Value,
    includes,
    intersect,
    one_of,
)

GRID: list[Value] = [n / 2 for n in range(-8, 17)]
"""Halves between and beyond the whole numbers that patterns are drawn with, so that open and closed ends differ."""
TEXTS: list[Value] = ["", "a", "ab", "b", "c"]


def ranges(ends: st.SearchStrategy[Value]) -> st.SearchStrategy[Pattern]:
    return st.builds(
        lambda low, high, low_open, high_open: Range(low, high, low_open=low_open, high_open=high_open),
        st.none() | ends,
        st.none() | ends,
        st.booleans(),
        st.booleans(),
    )


def patterns(ends: st.SearchStrategy[Value]) -> st.SearchStrategy[Pattern]:
    return (
        st.just(ANY)
        | st.builds(Equals, ends)
        | ranges(ends)
        | st.builds(Below, ends)
        | st.builds(Between, ends, ends)
        | st.builds(lambda values: OneOf(frozenset(values)), st.lists(ends, max_size=3))
    )


NUMBERS: st.SearchStrategy[Pattern] = patterns(st.integers(-3, 7))
WORDS: st.SearchStrategy[Pattern] = patterns(st.sampled_from(["a", "ab", "b"]))


def members(pattern: Pattern, domain: list[Value]) -> set[Value]:
    """Give the values of a domain that a pattern contains, from the definition."""
    match pattern:
        case Equals(value):
            return {v for v in domain if v == value}
        case OneOf(values):
            return {v for v in domain if v in values}
        case Range(low, high, low_open=low_open, high_open=high_open):
            found = set(domain)
            if low is not None:
                found -= {v for v in domain if v < low or (low_open and v == low)}  # type: ignore[operator]
            if high is not None:
                found -= {v for v in domain if v > high or (high_open and v == high)}  # type: ignore[operator]
            return found
        case _:
            return set(domain)


@given(NUMBERS)
def test_a_pattern_contains_its_members_one_by_one_and_by_column(pattern: Pattern) -> None:
    wanted = members(pattern, GRID)
    assert {v for v in GRID if pattern.contains(v)} == wanted
    column = np.array(GRID)
    assert set(column[pattern.mask(column)].tolist()) == wanted
    whole = np.array([v for v in GRID if v == int(v)]).astype(np.int64)
    assert set(whole[pattern.mask(whole)].tolist()) == {v for v in wanted if v == int(v)}


@given(WORDS)
def test_a_pattern_on_text_does_too(pattern: Pattern) -> None:
    wanted = members(pattern, TEXTS)
    assert {v for v in TEXTS if pattern.contains(v)} == wanted
    column = np.array(TEXTS, object)
    assert set(column[pattern.mask(column)].tolist()) == wanted


@given(NUMBERS, NUMBERS)
def test_includes_is_inclusion_of_sets(larger: Pattern, smaller: Pattern) -> None:
    inside = members(smaller, GRID) <= members(larger, GRID)
    if includes(larger, smaller):
        assert inside
    elif isinstance(smaller, Equals | OneOf):
        assert not inside
    elif isinstance(smaller, Range) and isinstance(larger, Range):
        assert not inside or not members(smaller, GRID)


def test_only_the_wildcard_includes_null() -> None:
    assert includes(ANY, Range(None, None)) and not includes(Range(None, None), ANY)


@given(st.integers(-3, 7), st.integers(-3, 7), st.booleans())
def test_linear_promises_include_each_other_exactly_as_their_bounds(a: int, b: int, closed: bool) -> None:
    larger = AtMost(a) if closed else Below(a)
    assert includes(larger, Below(b)) == (b <= a + closed)


@given(NUMBERS, NUMBERS)
def test_intersect_is_the_intersection_of_sets(a: Pattern, b: Pattern) -> None:
    common = intersect(a, b)
    both = members(a, GRID) & members(b, GRID)
    assert (members(common, GRID) if common is not None else set()) == both


def test_at_most_on_integers_is_below_the_next() -> None:
    assert AtMost(4) == Below(5)
    assert AtMost(4.0) == Range(None, 4.0)
    assert AtMost("a").contains("a") and not AtMost("a").contains("aa")


def test_one_constant_is_a_constant_and_several_are_a_list() -> None:
    assert one_of([3, 3]) == Equals(3)
    assert one_of([3, 4]) == OneOf(frozenset((3, 4)))


def test_addresses_with_trailing_zero_bytes_are_told_apart_by_column() -> None:
    addresses = [bytes(15) + b"\x01", b"\x01" + bytes(15), bytes(16)]
    column = np.array(addresses, "S16")
    for i, address in enumerate(addresses):
        for pattern in (Equals(address), OneOf(frozenset((address,)))):
            assert pattern.mask(column).tolist() == [j == i for j in range(3)]
    assert Below(addresses[1]).mask(column).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (ANY, "*"),
        (Equals(3), "= 3"),
        (Below(3), "< 3"),
        (AtMost(3.5), "<= 3.5"),
        (Range(3, None), ">= 3"),
        (Range(3, None, low_open=True), "> 3"),
        (Between(1, 4), "in [1, 4)"),
        (Range(None, None), "*"),
        (OneOf(frozenset((2, 1))), "in {1, 2}"),
        (OneOf(frozenset(range(5))), "in {0, 1, 2, ...}"),
    ],
)
def test_a_pattern_prints_as_in_the_papers(pattern: Pattern, text: str) -> None:
    assert str(pattern) == text
