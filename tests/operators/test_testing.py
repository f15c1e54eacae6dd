"""The conformance kit draws true streams, tells them in other ways without changing them, and asks its oracles."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from operators import testing
from operators.data.page import Page, Row
from operators.data.schema import Schema, ip_field
from operators.errors import OperatorBug
from operators.expression import Column
from operators.rows.distinct import Distinct
from operators.rows.filter import Filter
from operators.streams.meld import Meld
from operators.testing import LAWS, Script, check_operator, streams
from operators.testing.variants import fewer, in_turn, interleaved, last_first, more, one_by_one, reordered, repaged
from punctuation import END, Punctuation, before

SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("ms", "UTC")),
            pa.field("end", pa.int64()),
            pa.field("k", pa.string()),
            pa.field("f", pa.float64()),
            pa.field("b", pa.bool_()),
            ip_field("srcIP"),
        ]
    ),
    progress=["ts", "end"],
)
SMALL = Schema.of(ts=pa.int64(), k=pa.int8(), progress=["ts"])
SCRIPTS = streams(SCHEMA, wattr=("ts", "end"), group=("k", "srcIP"), ports=2, nulls=("ts", "k", "srcIP"))
QUIET = settings(
    max_examples=2000,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def promises(script: Script) -> list[Punctuation]:
    return [element for _, element in script if isinstance(element, Punctuation)]


def pages(script: Script) -> list[Page]:
    return [element for _, element in script if isinstance(element, Page)]


def bags(script: Script) -> list[Counter[str]]:
    """Give the tuples of each port as a multiset."""
    return [Counter(map(str, table)) for table in script.tables()]


@settings(deadline=None, max_examples=50)
@given(SCRIPTS)
def test_streams_are_grammatical_and_end(script: Script) -> None:
    assert script.violation() is None
    for port in range(2):
        own = [element for at, element in script if at == port]
        assert own[-1] == END and own.count(END) == 1


@settings(deadline=None, max_examples=30)
@given(SCRIPTS, st.integers(0, 3))
def test_every_variant_is_grammatical_with_the_same_tuples_on_each_port(script: Script, seed: int) -> None:
    def rotated(n: int) -> Iterable[int]:
        return [(i + seed) % n for i in range(n)]

    variants = [
        repaged(script, 1),
        repaged(script, 2),
        repaged(script, None),
        reordered(script, lambda n: range(n - 1, -1, -1)),
        reordered(script, rotated),
        interleaved(script, one_by_one),
        interleaved(script, last_first),
        interleaved(script, in_turn),
        fewer(script, lambda i: False),
        fewer(script, lambda i: i % 2 == 0),
        more(script),
    ]
    for variant in variants:
        assert variant.violation() is None
        assert bags(variant) == bags(script)
        assert [p for p in promises(variant) if p.is_end] == [END, END]


def test_repaging_cuts_as_told_and_keeps_the_order() -> None:
    page = Page.of(SMALL, {"ts": [3, 1, 2], "k": [0, 0, 0]})
    script = Script.of(SMALL, [page, page.slice(0, 0), page, before("ts", 1), END])
    assert [len(p) for p in pages(repaged(script, 1))] == [1] * 6
    assert [len(p) for p in pages(repaged(script, None))] == [6]
    assert repaged(script, 4).tables() == script.tables()


def test_more_promises_are_as_tight_as_can_be() -> None:
    page = Page.of(SMALL, {"ts": [3, 1, 2], "k": [0, 0, 0]})
    script = more(Script.of(SMALL, [page.slice(0, 1), page.slice(1, 3), END]))
    assert [str(p) for p in promises(script)] == ["[ts < 1]", "[END]"]


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("a null where the stream progresses", lambda s: any(r["ts"] is None for t in s.tables() for r in t)),
        ("disorder", lambda s: any(a["end"] > b["end"] for t in s.tables() for a, b in pairwise(t))),
        ("a gap", lambda s: any(abs(a["end"] - b["end"]) > 8 for t in s.tables() for a, b in pairwise(t))),
        ("an empty page", lambda s: any(len(p) == 0 for p in pages(s))),
        ("a group-wise promise", lambda s: any(set(p.attributes) == {"k", "srcIP", "ts"} for p in promises(s))),
        ("a finished group", lambda s: any(set(p.attributes) == {"k", "srcIP"} for p in promises(s))),
        ("a general promise", lambda s: any({"b", "f"} & set(p.attributes) for p in promises(s))),
        ("a promise on the second attribute", lambda s: any(p.bound("end") is not None for p in promises(s))),
        ("a repeated promise", lambda s: any(s.steps.count(step) > 1 for step in s.steps if step[1] is not END)),
        ("a lull", lambda s: any(isinstance(a[1], Punctuation) and isinstance(b[1], Punctuation) and a[0] == b[0]
                                 for a, b in pairwise(s.steps))),
    ],
)  # fmt: skip
def test_streams_show(what: str, shown: object) -> None:
    assert callable(shown)
    find(SCRIPTS, shown, settings=QUIET)


def test_an_ungrammatical_script_is_refused_naming_the_tuple() -> None:
    page = Page.of(SMALL, {"ts": [3], "k": [0]})
    with pytest.raises(ValueError, match=r"not grammatical: port 0: \{'ts': 3, 'k': 0\} after \[ts < 4\]"):
        Script.of(SMALL, [before("ts", 4), page])
    with pytest.raises(ValueError, match="not grammatical"):
        check_operator(Distinct, Script((SMALL,), ((0, before("ts", 4)), (0, page), (0, END))))
    with pytest.raises(ValueError, match="the operator has 2 inputs, the script 1 ports"):
        check_operator(lambda: Meld(2), Script.of(SMALL, [page, END]))


def test_a_failure_names_the_law_and_shows_the_script() -> None:
    script = Script.of(SMALL, [Page.of(SMALL, {"ts": [3], "k": [7]}), END])
    with pytest.raises(OperatorBug) as caught:
        check_operator(lambda: Filter(Column("k") > 7), script, naive=lambda table: table)
    text = str(caught.value)
    assert text.startswith("law 10 is broken: the result differs from that of the naive answer.")
    assert "missing: (k=7, ts=3)" in text and LAWS[10] in text and "0 <- page of 1" in text and "0 <- [END]" in text


def test_the_oracles_are_asked_after_each_call() -> None:
    script = Script.of(SMALL, [Page.of(SMALL, {"ts": [3], "k": [7]}), before("ts", 5), END])

    def one_row(tables: object, progress: object) -> list[Row]:
        return [{"ts": 9, "k": 9}]

    with pytest.raises(OperatorBug, match=r"law 1 is broken: settled but not emitted: \(k=9, ts=9\)"):
        check_operator(Distinct, script, settled=one_row)
    with pytest.raises(OperatorBug, match=r"law 3 is broken: \[ts < 99\] should have been promised by now"):
        check_operator(Distinct, script, promised=lambda tables, progress: [before("ts", 99)])
    with pytest.raises(OperatorBug, match=r"law 2 is broken: 1 tuples or groups are held, 0 can still matter"):
        check_operator(Distinct, script, kept=lambda tables, progress: 0)
    check_operator(Distinct, script, laws={10}, settled=one_row)


def test_an_error_in_the_operator_comes_through_with_the_script_as_a_note() -> None:
    script = Script.of(SMALL, [Page.of(SMALL, {"ts": [3], "k": [7]}), END])
    with pytest.raises(OverflowError) as caught:
        check_operator(lambda: Filter(Column("ts") * 2**62 > 1), script)
    assert any("0 <- page of 1" in note for note in caught.value.__notes__)


def test_the_examples_in_the_readme_run() -> None:
    readme = Path(testing.__file__).parents[1] / "README.md"
    result = doctest.testfile(str(readme), module_relative=False)
    assert result.attempted and not result.failed
