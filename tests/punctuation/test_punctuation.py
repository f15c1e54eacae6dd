"""A punctuation is a conjunction of patterns; matching, implication, meet and projection agree with sets of tuples."""

from __future__ import annotations

import doctest
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctuation import (
    ANY,
    END,
    AtMost,
    Below,
    Between,
    Equals,
    OneOf,
    Punctuation,
    Range,
    Value,
    before,
    below,
    constants,
    punctuation,
)
from punctuation.plain import from_plain, to_plain

ATTRIBUTES = ("ts", "a", "b")
ROWS: list[dict[str, Value | None]] = [
    dict(zip(ATTRIBUTES, values, strict=True)) for values in product((None, 0, 1, 2, 3), repeat=3)
]
PATTERNS = st.sampled_from(
    [ANY, Equals(1), Equals(2), Below(2), Below(3), AtMost(2), Between(1, 3), OneOf(frozenset((0, 2))), Range(2, None)]
)
PUNCTUATIONS = st.builds(Punctuation, st.dictionaries(st.sampled_from(ATTRIBUTES), PATTERNS, max_size=3))


def matched(promise: Punctuation) -> set[int]:
    """Give the numbers of the rows that match."""
    return {i for i, row in enumerate(ROWS) if promise.matches(row)}


@given(PUNCTUATIONS)
def test_a_tuple_matches_when_every_pattern_holds_and_null_matches_only_the_wildcard(promise: Punctuation) -> None:
    for row in ROWS:
        holds = all((v := row[name]) is not None and pattern.contains(v) for name, pattern in promise.patterns)
        assert promise.matches(row) == holds


@given(PUNCTUATIONS)
def test_matching_by_column_agrees_with_matching_one_by_one(promise: Punctuation) -> None:
    full = [row for row in ROWS if None not in row.values()]
    columns = {name: np.array([row[name] for row in full]) for name in ATTRIBUTES}
    assert promise.mask(columns, len(full)).tolist() == [promise.matches(row) for row in full]


@given(PUNCTUATIONS, PUNCTUATIONS)
def test_implies_never_claims_too_much(p: Punctuation, q: Punctuation) -> None:
    if p.implies(q):
        assert matched(q) <= matched(p)
    assert p.implies(p) and END.implies(p)


@given(PUNCTUATIONS, PUNCTUATIONS)
def test_meet_is_what_both_promise(p: Punctuation, q: Punctuation) -> None:
    both = p.meet(q)
    assert (matched(both) if both is not None else set()) == matched(p) & matched(q)
    assert p.meet(END) == p


@given(PUNCTUATIONS, st.sets(st.sampled_from(ATTRIBUTES)))
def test_a_projection_keeps_the_promise_or_drops_it(promise: Punctuation, kept: set[str]) -> None:
    projected = promise.onto({name: f"new {name}" for name in kept})
    if set(promise.attributes) <= kept:
        assert projected is not None and projected.attributes == tuple(f"new {name}" for name in promise.attributes)
    else:
        assert projected is None


@given(PUNCTUATIONS)
def test_a_punctuation_survives_saving_as_json(promise: Punctuation) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(promise)))) == promise


def test_bytes_survive_saving_and_damage_is_refused() -> None:
    promise = Punctuation({"ip": OneOf(frozenset((bytes(16), b"\xff" * 16))), "ts": Below(3)})
    assert from_plain(json.loads(json.dumps(to_plain(promise)))) == promise
    for wrong in (3, [["ts"]], [[1, "equals", 2]], [["ts", "around", 2]]):
        with pytest.raises(ValueError, match="saved"):
            from_plain(wrong)  # type: ignore[arg-type]


def test_end_matches_everything_and_names_nothing() -> None:
    assert END.is_end and matched(END) == set(range(len(ROWS))) and END.attributes == ()
    assert Punctuation({"ts": ANY}) == END
    assert str(END) == "[END]"


def test_only_a_linear_promise_has_a_bound() -> None:
    assert before("ts", 4).bound("ts") == 4 and before("ts", 4).bound("a") is None
    assert Punctuation({"ts": Range(None, 4)}).bound("ts") == 5
    assert Punctuation({"ts": Below(4), "a": Equals(1)}).bound("ts") is None
    assert Punctuation({"ts": Equals(4)}).bound("ts") is None
    assert below(Range(None, 4.0)) is None and constants(Equals(2)) == {2} and constants(Below(2)) is None


def test_the_order_in_which_patterns_are_named_makes_no_difference() -> None:
    one, other = Punctuation({"a": Equals(1), "ts": Below(2)}), Punctuation({"ts": Below(2), "a": Equals(1)})
    assert one == other and hash(one) == hash(other) and str(one) == "[a = 1, ts < 2]"


def test_what_a_timer_concluded_says_so_and_is_the_same_promise() -> None:
    assumed = before("ts", 4, assumed=True)
    assert assumed == before("ts", 4) and assumed.assumed
    both = assumed.meet(before("ts", 9))
    kept = assumed.onto({"ts": "start"})
    assert both is not None and both.assumed and kept is not None and kept.assumed


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(punctuation)
    assert result.attempted and not result.failed


def test_the_examples_in_the_readme_run() -> None:
    readme = Path(punctuation.__file__).parent / "README.md"
    result = doctest.testfile(str(readme), module_relative=False)
    assert result.attempted and not result.failed
