"""Text and Python state how many partners a tuple of a join has; what breaks the statement is told."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.language import parse, unparse

SCHEMA = oop.Schema.of(ts="int64", k="int64", n="int64")
LEFT = [(1, 7, 1), (2, 8, 2), (3, 7, 3), (4, 5, 4)]
RIGHT = [(2, 7, 10), (9, 7, 20), (3, 8, 30)]
JOIN = "SELECT A.n, B.n AS m FROM A [RANGE {size}, WA ts] {kind} JOIN B [RANGE {size}, WA ts] ON A.k = B.k"


def asked(text: str) -> oop.Stream:
    return oop.query(text, A=oop.rows(LEFT, SCHEMA), B=oop.rows(RIGHT, SCHEMA))


def pairs(stream: oop.Stream) -> list[tuple[object, object]]:
    return sorted(tuple(row.values()) for row in stream.to_arrow().to_pylist())  # type: ignore[misc]


@pytest.mark.parametrize(
    "kind", ["MANY TO ONE", "left outer many  to one", "One To One", "many to many", "RIGHT one to many"]
)
def test_a_true_statement_changes_no_pair(kind: str) -> None:
    text = JOIN.format(size=3, kind=kind)
    plain = " ".join(word for word in kind.upper().split() if word in ("LEFT", "RIGHT"))
    if "ONE TO" not in kind.upper():
        assert pairs(asked(text)) == pairs(asked(JOIN.format(size=3, kind=plain)))
        assert asked(text).run().statistics.notes == ()
    assert parse(unparse(parse(text))) == parse(text)
    stated = " ".join(kind.lower().split()[-3:])
    assert (f"{stated} join" in asked(text).explain()) == (stated != "many to many")


def test_a_false_statement_is_told() -> None:
    outcome = asked(JOIN.format(size=9, kind="MANY TO ONE")).run()
    (note,) = outcome.statistics.notes
    assert "1 tuple had a key that a near tuple of the same input had, too" in note
    assert outcome.statistics.total("not_unique") == 1


def test_what_takes_tuples_back_is_settled_before() -> None:
    left = oop.rows(LEFT, SCHEMA).window(range=2).aggregate(oop.count(), by="k", early=1, refine="retract")
    right = oop.rows(RIGHT, SCHEMA).window(range=2).aggregate(m=oop.max("n"), by="k")
    joined = left.join(right, "k", range=3, wattr="window_end", cardinality="many to one")
    plain = left.join(right, "k", range=3, wattr="window_end")
    assert "sign" not in joined.schema.names or joined.explain().count("settle") > plain.explain().count("settle")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JOIN.format(size=3, kind="SEMI MANY TO ONE"), "with its first partner anyway"),
        (
            JOIN.format(size=3, kind="MANY TO ONE") + " JOIN B AS C [RANGE 3, WA ts] ON A.k = C.k",
            "MANY TO ONE JOIN joins two inputs",
        ),
        (
            JOIN.format(size=3, kind="") + " LEFT ONE TO ONE JOIN B AS C [RANGE 3, WA ts] ON A.k = C.k",
            "LEFT ONE TO ONE JOIN joins two inputs",
        ),
        (JOIN.format(size=3, kind="ONE TO ONE") + ", B AS C [RANGE 3, WA ts]", "ONE TO ONE JOIN joins two inputs"),
    ],
)
def test_a_statement_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(oop.LanguageError) as caught:
        asked(text)
    assert message in str(caught.value)


def test_an_unknown_cardinality_is_refused_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(oop.PlanError, match='Did you mean "many to one"'):
        asked("SELECT * FROM A").join(asked("SELECT * FROM B"), "k", range=3, cardinality="many to oen")  # type: ignore[arg-type]
