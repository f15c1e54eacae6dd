"""OA-Join by example: what it joins, what it stores and drops when, what it refuses."""

from __future__ import annotations

import doctest

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.expression import Column
from operators.join import Band, OAJoin, OPIBJoin, OPOBJoin, SameWindow, oa
from operators.join.cardinality import Cardinality
from operators.join.shape import Kind
from operators.protocol import Element
from operators.testing import Script, streams
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive_join import band, naive_join
from tests.operators.join.joining import LEFT, ON, RIGHT, TIMES

TS = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts", ("k", "ts")])


def test_nan_equals_nan_zero_has_no_sign_and_null_equals_nothing() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.float64())
    left = Page.of(schema, {"ts": [1, 2, 3], "k": [float("nan"), -0.0, None]})
    right = Page.of(schema, {"ts": [4, 5, 6], "k": [float("nan"), 0.0, None]})
    join = OAJoin(Band("ts", "ts", left=9, right=9), [("k", "k")], attributes=["ts", "right_ts"])
    join.output_schema(schema, schema)
    assert rows(drive(join, [(0, left), (1, right)])) == [{"ts": 1, "right_ts": 4}, {"ts": 2, "right_ts": 5}]


def test_dictionaries_are_looked_up_and_come_out_as_they_came() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = Schema.of(ts=pa.int64(), k=kind)
    left = Page.of(schema, {"ts": [1, 2], "k": pa.array(["a", "b"]).dictionary_encode().cast(kind)})
    right = Page.of(schema, {"ts": [1, 2, 3], "k": pa.array(["b", "c", None]).dictionary_encode().cast(kind)})
    join = OAJoin(Band("ts", "ts", left=9, right=9), [("k", "k")], kind="full")
    output = join.output_schema(schema, schema)
    found = rows(drive(join, [(0, left), (1, right), (0, END), (1, END)]))
    assert output.field("right_k").type == kind
    assert sorted((str(r["k"]), str(r["right_k"])) for r in found) == [
        ("None", "None"),
        ("None", "c"),
        ("a", "None"),
        ("b", "b"),
    ]


@share(0.75)
@given(script=streams(TS, group=("k",), tuples=8))
def test_a_stream_joins_itself(script: Script) -> None:
    join = OAJoin(Band("ts", "ts", left=2, right=3), [("k", "k")])
    join.output_schema(TS, TS)
    both = [(port, element) for _, element in script for port in (0, 1)]
    found = rows(drive(join, both))
    (table,) = script.tables()
    names = {"ts": "right_ts", "k": "right_k"}
    columns = (TS.names, TS.names)
    wanted = naive_join(
        table, table, meets=band(2, 3), times=("ts", "ts"), on=[("k", "k")], names=names, columns=columns
    )
    assert sorted(map(str, found)) == sorted(map(str, wanted))


@share(0.75)
@given(
    script=streams(TS, ports=2, group=("k",), tuples=8),
    attributes=st.lists(st.sampled_from(["ts", "k", "right_ts", "right_k"]), min_size=1, unique=True),
    kind=st.sampled_from(["inner", "left", "right", "full"]),
    patience=st.sampled_from([0, 8]),
    cardinality=st.sampled_from(["many to many", "many to one"]),
)
def test_fewer_attributes_come_of_the_same_pairs(
    script: Script, attributes: list[str], kind: Kind, patience: int, cardinality: Cardinality
) -> None:
    def found(names: list[str]) -> list[str]:
        window = Band("ts", "ts", left=2, right=3)
        join = OAJoin(
            window,
            [("k", "k")],
            attributes=names,
            kind=kind,
            patience=patience,
            cardinality=cardinality,
            page_rows=3,
        )
        join.output_schema(TS, TS)
        return sorted(str([row[name] for name in attributes]) for row in rows(drive(join, script)))

    assert found(attributes) == found([])


@pytest.mark.parametrize(
    ("kind", "some", "other"),
    [
        (pa.int32(), [-1, -1, 7], [-1, 7, 7]),
        (pa.string(), ["", "", "ü"], ["", "ü", "ü"]),
        (pa.timestamp("us"), [0, 0, 1], [0, 1, 1]),
        (pa.bool_(), [False, False, True], [False, True, True]),
        (pa.float64(), [-0.0, -0.0, 1.0], [0.0, 1.0, 1.0]),
    ],
)
def test_a_left_key_alone_is_that_of_the_left_tuple(kind: pa.DataType, some: list[object], other: list[object]) -> None:
    schema = Schema.of(ts=pa.int64(), k=kind)
    pages = [Page.of(schema, {"ts": [1, 2, 3], "k": pa.array(keys, kind)}) for keys in (some, other)]
    wanted = [str(pages[0].column("k")[i]) for i in (0, 1, 2, 2)]
    for ports in ((0, 1), (1, 0)):
        join = OAJoin(Band("ts", "ts", left=9, right=9), [("k", "k")], attributes=["k"])
        join.output_schema(schema, schema)
        found = drive(join, [(port, pages[port]) for port in ports])
        keys = [str(key) for page in found if isinstance(page, Page) for key in page.column("k")]
        assert sorted(keys) == sorted(wanted)


@given(script=streams(TS, ports=3, group=("k",), tuples=6))
def test_joins_in_a_row_join_three_streams(script: Script) -> None:
    first = OAJoin(Band("ts", "ts", left=3, right=2), [("k", "k")], prefix="b_")
    middle = first.output_schema(TS, TS)
    second = OAJoin(Band("b_ts", "ts", left=2, right=2), [("k", "k")], prefix="c_")
    second.output_schema(middle, TS)
    found: list[Element] = []
    for port, element in script:
        if port < 2:
            for out in drive(first, [(port, element)]):
                found += drive(second, [(0, out)])
        else:
            found += drive(second, [(1, element)])
    a, b, c = script.tables()
    on, columns, names = [("k", "k")], (TS.names, TS.names), {"ts": "b_ts", "k": "b_k"}
    two = naive_join(a, b, meets=band(3, 2), times=("ts", "ts"), on=on, names=names, columns=columns)
    wanted = naive_join(
        two,
        c,
        meets=band(2, 2),
        times=("b_ts", "ts"),
        on=on,
        names={"ts": "c_ts", "k": "c_k"},
        columns=(middle.names, TS.names),
    )
    assert sorted(map(str, rows(found))) == sorted(map(str, wanted))
    assert len(first) == len(second) == 0 and found[-1] == END


@pytest.mark.parametrize("patience", [0, 3])
@pytest.mark.parametrize("kind", ["inner", "full", "semi", "anti"])
def test_many_tuples_of_skewed_keys_in_small_pages_join_as_all_pairs_say(kind: str, patience: int) -> None:
    rng = np.random.default_rng(11)
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), x=pa.int64(), progress=["ts"])
    n, page = 1000, 32
    columns: list[tuple[np.ndarray, np.ndarray]] = []
    script: list[tuple[int, Element]] = []
    for _ in range(2):
        ts = np.arange(n) // 2 - np.where(rng.random(n) < 0.3, rng.integers(0, 60, n), 0)
        columns.append((ts, np.minimum(rng.zipf(1.4, n), 40)))
    for start in range(0, n, page):
        for port, (ts, k) in enumerate(columns):
            part = slice(start, start + page)
            script.append((port, Page.of(schema, {"ts": ts[part], "k": k[part], "x": np.arange(n)[part]})))
            if start + page < n and rng.random() < 0.7:
                script.append((port, before("ts", int(ts[start + page :].min()))))
    join = OAJoin(
        Band("ts", "ts", left=25, right=40),
        [("k", "k")],
        residual=Column("x") % 3 != Column("right_x") % 3,
        kind=kind,  # type: ignore[arg-type]
        patience=patience,
        page_rows=100,
        attributes=["x"] if kind in ("semi", "anti") else ["x", "right_x"],
    )
    join.output_schema(schema, schema)
    found = [tuple(row.values()) for row in rows(drive(join, [*script, (0, END), (1, END)]))]
    (left, a), (right, b) = columns
    apart = right[None, :] - left[:, None]
    meets = (apart > -40) & (apart < 25) & (a[:, None] == b[None, :])
    meets &= np.arange(n)[:, None] % 3 != np.arange(n)[None, :] % 3
    pairs: list[tuple[object, ...]] = [tuple(pair) for pair in np.argwhere(meets).tolist()]
    alone = [np.flatnonzero(~meets.any(axis=1 - port)).tolist() for port in (0, 1)]
    wanted = {
        "inner": pairs,
        "full": pairs + [(i, None) for i in alone[0]] + [(None, j) for j in alone[1]],
        "semi": [(i,) for i in np.flatnonzero(meets.any(axis=1)).tolist()],
        "anti": [(i,) for i in alone[0]],
    }[kind]
    assert sorted(map(str, found)) == sorted(map(str, wanted)) and len(join) == 0


def test_a_tuple_whose_partners_have_all_come_is_joined_and_not_stored() -> None:
    """Thesis 8.3.2 in minutes: S0 five minutes late, S1 in time, RANGE 2 on both; no late S0 tuple is ever stored."""
    join = OAJoin(Band("ts", "ts", left=2, right=2), [("k", "k")])
    join.output_schema(TS, TS)
    most = 0
    for now in range(5, 40):
        drive(join, [(1, Page.of(TS, {"ts": [now], "k": [0]})), (1, before("ts", now))])
        drive(join, [(0, Page.of(TS, {"ts": [now - 5], "k": [0]})), (0, before("ts", now - 5))])
        most = max(most, join.statistics()["state_right"])
        assert join.statistics()["state_left"] == 0
    assert join.statistics()["not_stored"] == 35
    # Row 46: S1 tuples are kept 5 + 2 minutes, not 5; one fewer tick, for the band is open.
    assert most == 5 + 2 - 1 + 1


def test_state_goes_exactly_at_the_boundary() -> None:
    for closed, last in ((False, 12), (True, 13)):
        join = OAJoin(Band("ts", "ts", left=3, right=3, closed=closed), [("k", "k")])
        join.output_schema(TS, TS)
        drive(join, [(0, Page.of(TS, {"ts": [10], "k": [0]})), (1, before("ts", last))])
        assert len(join) == 1
        drive(join, [(1, before("ts", last + 1))])
        assert len(join) == 0 and join.statistics()["purged"] == 1


def test_a_promise_of_one_key_drops_the_tuples_of_that_key_alone() -> None:
    join = OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")], kind="left")
    join.output_schema(TS, TS)
    page = Page.of(TS, {"ts": [10, 10], "k": [1, 2]})
    emitted = drive(join, [(0, page), (1, Punctuation({"k": Equals(2), "ts": Below(20)}))])
    assert rows(emitted) == [{"ts": 10, "k": 2, "right_ts": None, "right_k": None}] and len(join) == 1
    # What comes later of this key is settled too, and is not stored.
    emitted = drive(join, [(0, Page.of(TS, {"ts": [16], "k": [2]}))])
    assert rows(emitted) == [{"ts": 16, "k": 2, "right_ts": None, "right_k": None}] and len(join) == 1


def test_promises_of_single_keys_are_promises_of_the_result() -> None:
    join = OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")])
    join.output_schema(TS, TS)
    script = [
        (0, before("ts", 0)),
        (1, before("ts", 0)),
        (0, Page.of(TS, {"ts": [8, 8], "k": [1, 2]})),
        (0, Punctuation({"k": Equals(1), "ts": Below(10)})),
        (1, Punctuation({"k": Equals(1), "ts": Below(20)})),
    ]
    said = [str(e) for e in drive(join, script) if isinstance(e, Punctuation)]
    assert said[2:] == [
        "[k = 1, ts < 8]",
        "[right_k = 1, ts < 8]",
        "[k = 1, ts < 10]",
        "[right_k = 1, ts < 10]",
        "[k = 1, right_ts < 20]",
        "[right_k = 1, right_ts < 20]",
    ]


def test_a_promise_on_another_attribute_waits_for_the_stored_tuples_it_speaks_of() -> None:
    join = OAJoin(Band("s", "t", left=3, right=3), ON)
    join.output_schema(LEFT, RIGHT)
    page = Page.of(LEFT, {"s": [5], "k": ["a"], "x": [1]})
    promise = Punctuation({"x": Equals(1)})
    assert "[x = 1]" not in [str(e) for e in drive(join, [(0, page), (0, promise), (1, before("t", 7))])]
    assert [str(e) for e in drive(join, [(1, before("t", 8))])] == ["[t < 8]", "[x = 1]"]
    assert "[x = 2]" in [str(e) for e in drive(join, [(0, Punctuation({"x": Equals(2)}))])]


def test_a_lull_of_one_input_holds_back_neither_state_nor_results_of_the_other() -> None:
    """The left input falls silent for an hour; a timer promises for it. In seconds."""
    join = OAJoin(Band("ts", "ts", left=2, right=2), [("k", "k")], kind="right")
    join.output_schema(TS, TS)
    unmatched = most = 0
    for now in range(3600):
        emitted = drive(join, [(1, Page.of(TS, {"ts": [now], "k": [now % 3]})), (1, before("ts", now + 1))])
        emitted += drive(join, [(0, before("ts", now, assumed=True))])
        unmatched += len(rows(emitted))
        most = max(most, len(join))
    assert unmatched == 3600 - len(join) and most <= 4


def test_many_pairs_stream_out_in_pages_of_bounded_size() -> None:
    join = OAJoin(Band("ts", "ts", left=10**6, right=10**6), page_rows=1000)
    join.output_schema(TS, TS)
    page = Page.of(TS, {"ts": np.arange(300), "k": np.zeros(300, np.int64)})
    sizes: list[int] = []
    drive(join, [(0, page)])
    join.process(page, lambda e: sizes.append(len(e)) if isinstance(e, Page) else None, 1)
    assert sum(sizes) == 300 * 300 and max(sizes) == 1000 and join.statistics()["results"] == 90_000


def test_results_leave_before_the_promise_that_speaks_of_them() -> None:
    join = OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")], kind="left", attributes=["ts"])
    join.output_schema(TS, TS)
    page = Page.of(TS, {"ts": [10], "k": [0]})
    emitted = drive(join, [(0, page), (0, before("ts", 30)), (1, before("ts", 40))])
    shown = [e.rows() if isinstance(e, Page) else str(e) for e in emitted]
    assert shown == ["[ts < 10]", [{"ts": 10}], "[ts < 30]"]


def test_times_out_of_range_join_nothing_and_are_counted() -> None:
    join = OAJoin(Band("ts", "ts", left=3, right=3), kind="left", attributes=["ts"])
    join.output_schema(TS, TS)
    page = Page.of(TS, {"ts": [2**62, -(2**62), 2**61, 0], "k": [0] * 4})
    assert rows(drive(join, [(0, page), (1, page)])) == [{"ts": 0}]
    assert (join.statistics()["without_value"], join.statistics()["unjoinable"]) == (6, 0)


@pytest.mark.parametrize("kind", ["left", "right", "full", "anti"])
def test_a_tuple_whose_partners_cannot_be_told_is_not_given_as_one_without(kind: Kind) -> None:
    join = OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")], kind=kind)
    join.output_schema(TS, TS)
    page = Page.of(TS, {"ts": [2**62, 5, None], "k": [1, 2, 3]})
    found = rows(drive(join, [(0, page), (1, page)]))
    # What has no time has no partner: key 3 is given, key 1 is not.
    keys = sorted((row["k"] or 0, row.get("right_k") or 0) for row in found)
    assert keys == {"left": [(2, 2), (3, 0)], "right": [(0, 3), (2, 2)], "full": [(0, 3), (2, 2), (3, 0)]}.get(
        kind, [(3, 0)]
    )
    assert join.statistics()["without_value"] == 4


def test_what_waits_for_its_turn_is_counted_too() -> None:
    for ordered in (OPIBJoin, OPOBJoin):
        join = ordered(OAJoin(Band("ts", "ts", left=3, right=3)))
        join.output_schema(TS, TS)
        page = Page.of(TS, {"ts": [2**62, 5, None], "k": [1, 2, 3]})
        assert len(rows(drive(join, [(0, page), (1, page), (0, END), (1, END)]))) == 1
        assert join.statistics()["without_value"] == 4


def test_bounds_beyond_all_times_settle_everything() -> None:
    for window in (Band("ts", "ts", left=3, right=3), SameWindow("ts", "ts", size=7)):
        join = OAJoin(window, kind="left", attributes=["ts"])
        join.output_schema(TS, TS)
        page = Page.of(TS, {"ts": [2**61 - 1], "k": [0]})
        found = drive(join, [(0, page), (1, before("ts", 2**63 - 1)), (0, before("ts", -(2**63)))])
        assert rows(found) == [{"ts": 2**61 - 1}] and len(join) == 0


def test_what_does_not_fit_is_refused_in_words() -> None:
    window = Band("ts", "ts", left=3, right=3)
    text = Schema.of(ts=pa.string(), k=pa.int64())
    with pytest.raises(SchemaError, match='attribute "ts" of the left input has type string'):
        OAJoin(window).output_schema(text, TS)
    with pytest.raises(SchemaError, match=r"int64, .* is timestamp"):
        OAJoin(window).output_schema(TS, Schema.of(ts=pa.timestamp("s")))
    with pytest.raises(SchemaError, match='"k" of the left input is int64, "k" of the right input is string'):
        OAJoin(window, [("k", "k")]).output_schema(TS, Schema.of(ts=pa.int64(), k=pa.string()))
    with pytest.raises(SchemaError, match='join, right input: the input has no attribute "kk"'):
        OAJoin(window, [("k", "kk")]).output_schema(TS, TS)
    with pytest.raises(SchemaError, match='would be named "ts"'):
        OAJoin(window, prefix="").output_schema(TS, TS)
    with pytest.raises(SchemaError, match="a predicate gives a truth value"):
        OAJoin(window, residual=Column("k") + 1).output_schema(TS, TS)
    with pytest.raises(SchemaError, match='the result has no attribute "right_t"'):
        OAJoin(window, attributes=["right_t"]).output_schema(TS, TS)
    with pytest.raises(SchemaError, match='no "later" of both times'):
        OAJoin(window, kind="semi", greatest="later").output_schema(TS, TS)
    with pytest.raises(SchemaError, match='already has an attribute "ts"'):
        OAJoin(window, least="ts").output_schema(TS, TS)
    with pytest.raises(SchemaError, match="RANGE of the left input must be at least one tick"):
        Band("ts", "ts", left=0, right=3)
    with pytest.raises(TypeError, match="a join needs a join window, not 5"):
        OAJoin(5)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="takes two inputs"):
        OAJoin(window).output_schema(TS)
    with pytest.raises(SchemaError, match="Call output_schema"):
        OAJoin(window).process(Page.of(TS, {"ts": [1], "k": [1]}), lambda e: None)


def test_it_is_known_beforehand_what_is_looked_at() -> None:
    join = OAJoin(Band("s", "t", left=3, right=3), ON, residual=Column("x") < Column("y"))
    join.output_schema(LEFT, RIGHT)
    assert join.needs(["right_k"]) == ({"s", "k", "x"}, {"t", "k", "y"})
    bare = OAJoin(Band("s", "t", left=3, right=3))
    bare.output_schema(LEFT, RIGHT)
    assert bare.needs(["s", "y"]) == ({"s"}, {"t", "y"})


def test_a_saved_join_goes_on_without_being_told_the_schemas_again() -> None:
    def fresh() -> OAJoin:
        return OAJoin(Band("s", "t", left=3, right=3), ON, kind="left", attributes=["s", "t"])

    join = fresh()
    join.output_schema(LEFT, RIGHT)
    drive(join, [(0, Page.of(LEFT, {"s": [1, 2], "k": ["a", "b"], "x": [0, 0]})), (0, before("s", 2))])
    again = fresh()
    again.restore(decode_state(encode_state(join.state())))
    assert again.statistics()["state_left"] == 2
    found = drive(again, [(1, Page.of(RIGHT, {"t": [3], "k": ["b"], "y": [0]})), (1, END), (0, END)])
    assert rows(found) == [{"s": 2, "t": 3}, {"s": 1, "t": None}]


def test_it_is_known_beforehand_what_will_be_promised() -> None:
    window = Band("s", "t", left=3, right=3)
    single, pair = {frozenset({"s"}), frozenset({"t"})}, frozenset({"s", "t"})
    groups = {frozenset({k, time}) for k in ("k", "right_k") for time in TIMES}
    assert OAJoin(window, ON).output_schema(LEFT, RIGHT).progress == single | groups | {pair}
    assert OAJoin(window, ON, promises="joint").output_schema(LEFT, RIGHT).progress == {pair}
    assert OAJoin(window, ON, kind="semi").output_schema(LEFT, RIGHT).progress == {
        frozenset({"s"}),
        frozenset({"k", "s"}),
    }
    silent = RIGHT.with_progress([])
    # Nothing ever settles what the left tuples wait for; what the right ones wait for, the left input does.
    assert OAJoin(window, ON).output_schema(LEFT, silent).progress == set()
    assert OAJoin(window, ON).output_schema(LEFT, RIGHT.with_progress([("k", "t")])).progress == groups
    both = OAJoin(window, ON, least="first", greatest="last").output_schema(LEFT, RIGHT)
    assert {frozenset({"first"}), frozenset({"last"})} <= both.progress


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(oa)
    assert result.attempted and not result.failed
