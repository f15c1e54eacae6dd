"""A user's functions are tried, compiled and run; what does not hold or cannot be compiled is told with its values."""

from __future__ import annotations

import math
import re
import statistics
import time

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import AggregateOverflow, SchemaError
from operators.functions import Accumulator, AggregateFailure, AggregateFunction, Subtractable, user_aggregate
from operators.functions.ordered import ordered
from operators.functions.trial import SIZES, sized
from operators.functions.user import UserAggregate
from operators.kernels.functions.lifted import switched_off
from tests.examples import mostly_slow, share

SCHEMA = Schema.of(x=pa.int64(), f=pa.float64(), t=pa.timestamp("s"), s=pa.string(), u=pa.uint64())


def a_sum(**changed: object) -> UserAggregate:
    given: dict[str, object] = {
        "lift": lambda x: x,
        "combine": lambda a, b: a + b,
        "arguments": "x",
        "identity": 0,
        "output": pa.int64(),
    }
    return user_aggregate("mine", **{**given, **changed})  # type: ignore[arg-type]


def fed(function: AggregateFunction, values: list[object], slots: list[int], column: str = "x") -> Accumulator:
    accumulator = function.accumulator(SCHEMA)
    accumulator.reserve(4)
    accumulator.init(np.arange(4, dtype=np.int32))
    empty = pa.nulls(len(values))
    columns = {f.name: pa.array(values, f.type) if f.name == column else empty.cast(f.type) for f in SCHEMA.arrow}
    accumulator.update(np.array(slots, np.int32), Page.of(SCHEMA, columns))
    return accumulator


EVERY = np.arange(4, dtype=np.int32)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"combine": lambda a, b: a - b},
            r"identity does not hold: with a = 1, combine\(identity, a\) is -1 and a is",
        ),
        ({"identity": 1}, r"identity does not hold: with a = 1, combine\(identity, a\) is 2 and a is 1"),
        (
            {"combine": lambda a, b: a + b + (a * b > 6)},
            r"associativity does not hold: with a = -?\d+, b = -?\d+, c = -?\d+, .*a sum and a count",
        ),
        (
            {"combine": lambda a, b: a if a != 0 else b},
            r"commutativity does not hold: with a = 1, b = -1, .* is 1 and combine\(b, a\) is -1.\n  Declare com",
        ),
        (
            {"invert": lambda a, b: a},
            r"invertibility does not hold: with a = 0, b = 1, invert\(combine\(a, b\), b\) is 1 and a is 0.\n  Leave",
        ),
        ({"lift": lambda x: x / 0}, r"lift\(0\) raises ZeroDivisionError: division by zero"),
        ({"lift": lambda x: (x, 1)}, r"lift\(0\) gives \(0, 1\); states are numbers"),
        ({"lift": lambda x: "a"}, r"lift\(0\) gives 'a'; states are numbers"),
        (
            {"identity": (0, 0), "lower": lambda s: s[0]},
            r"lift\(0\) gives 0; a state is a tuple of 2, as identity is",
        ),
        ({"lower": lambda s: s / 2}, r"lower\(0\) gives 0.0, and output is int64.\n  Declare output=pa.float64"),
        ({"arguments": ()}, r"arguments=\(\) names no attribute"),
        ({"identity": "a"}, r"identity='a' is no state"),
        ({"identity": (0, 0)}, r"a state of 2 fields needs a lower"),
        ({"output": pa.string()}, r"output=string is no type of a result"),
        ({"output": None}, r"output=None is no type of a result.\n  Write pa.int64\(\), pa.float64"),
        ({"arguments": "s"}, r'mine\(s\): "s" has type string; numbers, truth values or times are needed'),
        ({"arguments": "u"}, r'"u" has type uint64; half of its values have no int64'),
        ({"arguments": "y"}, r'mine\(y\): the input has no attribute "y"'),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_what_does_not_hold_is_told_with_the_values_that_show_it(changed: dict[str, object], told: str) -> None:
    with pytest.raises(SchemaError, match=f"(?s){told}") as caught:
        a_sum(**changed).output_field(SCHEMA, "n")
    assert "mine" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"lift": lambda x: int(statistics.fmean([x, x]))},
            r'"mine": lift cannot be compiled: statistics\.fmean is not',
        ),
        ({"combine": lambda a, b: eval("a + b")}, r"combine cannot be compiled: eval\(\) is not supported"),
        ({"lower": lambda s: eval("s")}, r"lower cannot be compiled: eval\(\) is not supported"),
        ({"invert": lambda a, b: eval("a - b")}, r"invert cannot be compiled: eval\(\) is not supported"),
    ],
    ids=["lift", "combine", "lower", "invert"],
)
def test_what_cannot_be_compiled_is_named_and_runs_interpreted(changed: dict[str, object], told: str) -> None:
    if not switched_off():
        with pytest.raises(SchemaError, match=f"(?s){told}") as caught:
            a_sum(**changed).accumulator(SCHEMA)
        assert "pass interpreted=True, which takes some microseconds a tuple" in str(caught.value)
    found = fed(a_sum(**changed, interpreted=True), [1, 2, 3, 4], [0, 0, 1, -1]).finalize(EVERY[:3])
    assert found.to_pylist() == [3, 3, None]


def test_functions_are_compiled_once_for_each_type_of_argument() -> None:
    function = a_sum(arguments="x")
    one, two = function.accumulator(SCHEMA), function.accumulator(SCHEMA)
    assert one.verbs is two.verbs  # type: ignore[attr-defined]
    assert function.over("x").accumulator(SCHEMA).verbs is one.verbs  # type: ignore[attr-defined]
    assert function.over("t").accumulator(SCHEMA).verbs is not one.verbs  # type: ignore[attr-defined]
    assert (function.over("t").arguments, function.over("x") == function) == (("t",), True)


def test_a_state_that_grows_a_fraction_has_a_floating_field() -> None:
    half = a_sum(lift=lambda x: x, combine=lambda a, b: a + b, lower=lambda s: s, output=pa.float64())
    assert fed(half.over("f"), [0.5, 0.25], [0, 0], "f").finalize(EVERY[:1]).to_pylist() == [0.75]


def test_only_whole_states_can_be_taken_away() -> None:
    invertible = a_sum(invert=lambda a, b: a - b, output=pa.float64())
    assert isinstance(invertible.accumulator(SCHEMA), Subtractable)
    assert not isinstance(invertible.over("f").accumulator(SCHEMA), Subtractable)
    assert not isinstance(a_sum().accumulator(SCHEMA), Subtractable)
    assert (invertible.invertible, a_sum().invertible) == (True, False)


def test_a_function_that_raises_names_the_tuple() -> None:
    inverse = a_sum(lift=lambda x: 1 // x)
    with pytest.raises(AggregateFailure, match=r'aggregate "mine": lift\(0\) raises ZeroDivisionError: .*by zero'):
        fed(inverse, [4, 0, 3], [0, 1, 2])
    fed(inverse, [4, 0, 3], [0, -1, 2])
    lower = a_sum(lower=lambda s: 6 // (s - 20))
    accumulator = fed(lower, [20], [1])
    assert accumulator.finalize(EVERY[:1]).to_pylist() == [None]
    with pytest.raises(AggregateFailure, match=r"lower\(20\) raises ZeroDivisionError"):
        accumulator.finalize(EVERY)
    combine = a_sum(combine=lambda a, b: a + b + 0 * (1 // (a - 7777)))
    with pytest.raises(AggregateFailure, match=r"combine\(7777, 1\) raises ZeroDivisionError"):
        fed(combine, [7777, 1], [0, 0])
    accumulator = fed(combine, [7777, 1], [0, 1])
    with pytest.raises(AggregateFailure, match=r"combine\(7777, 1\) raises ZeroDivisionError"):
        accumulator.combine(EVERY[:1], EVERY[1:2])


def test_a_result_may_be_a_time_and_null() -> None:
    latest = user_aggregate(
        "latest", lambda t: t, max, lambda t: None if t == 13 else t,
        arguments="t", identity=-(2**63), output=pa.timestamp("s"),
    )  # fmt: skip
    found = fed(latest, [5, 7, 13, None], [0, 0, 1, 2], "t")
    assert found.finalize(EVERY[:3]).cast(pa.int64()).to_pylist() == [7, None, None]
    assert found.nulls == 1


@share(2.5)
@given(data=st.data())
def test_what_does_not_commute_is_combined_as_told(data: st.DataObject) -> None:
    steps = data.draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(-5, 5)).map(lambda row: ("add", *row))
            | st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: ("combine", *pair)),
            max_size=12,
        )
    )
    accumulator = LAST.accumulator(SCHEMA)
    accumulator.reserve(4)
    accumulator.init(EVERY)
    held: list[int | None] = [None] * 4
    for kind, one, two in steps:
        if kind == "add":
            columns = {f.name: pa.array([two if f.name == "x" else None], f.type) for f in SCHEMA.arrow}
            accumulator.update(np.array([one], np.int32), Page.of(SCHEMA, columns))
            held[one] = two
        else:
            accumulator.combine(np.array([one], np.int32), np.array([two], np.int32))
            held[one] = held[one] if held[two] is None else held[two]
        saved = accumulator.state()
        accumulator = LAST.accumulator(SCHEMA)
        accumulator.restore(saved)
    assert accumulator.finalize(EVERY).to_pylist() == held


LAST = user_aggregate(
    "latest_to_come", lambda x: (x, True), lambda a, b: b if b[1] else a, lambda s: s[0],
    arguments="x", identity=(0, False), output=pa.int64(), commutative=False,
)  # fmt: skip


def test_an_order_that_matters_is_that_of_the_windowing_attribute() -> None:
    assert ordered(LAST)
    assert not LAST.arrival_order
    assert not ordered(a_sum())
    assert not a_sum().arrival_order


def test_math_is_compiled_and_agrees_with_the_function_of_the_engine() -> None:
    mean = user_aggregate(
        "geometric",
        lambda f: (math.log(f), 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda s: math.exp(s[0] / s[1]),
        arguments="f",
        identity=(0.0, 0),
        output=pa.float64(),
    )
    values: list[object] = [1.5, 2.5, 0.25, 9.0]
    found = fed(mean, values, [0, 0, 0, 1], "f").finalize(EVERY[:2]).to_pylist()
    wanted = fed(fn.geometric_mean("f"), values, [0, 0, 0, 1], "f").finalize(EVERY[:2]).to_pylist()
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize(
    ("kind", "fits", "beyond"),
    [
        (pa.int8(), 127, 128),
        *(
            pytest.param(*limits, marks=pytest.mark.slow)
            for limits in (
                (pa.int16(), -(2**15), -(2**15) - 1),
                (pa.int32(), 2**31 - 1, 2**31),
                (pa.uint8(), 255, 256),
                (pa.uint32(), 0, -1),
            )
        ),
        (pa.date32(), 2**31 - 1, 2**31),
    ],
)
def test_a_result_that_does_not_fit_its_type_is_told(
    kind: pa.DataType, fits: int, beyond: int, interpreted: bool
) -> None:
    function = a_sum(output=kind, interpreted=interpreted)
    accumulator = fed(function, [fits, beyond - 1, 1, 5], [0, 1, 1, 2])
    found = accumulator.finalize(np.array([0, 2], np.int32))
    assert (found.view(pa.int32()) if kind == pa.date32() else found).to_pylist() == [fits, 5]
    with pytest.raises(
        AggregateOverflow, match=rf"mine\(x\): the result {beyond} does not fit {re.escape(str(kind))}"
    ) as told:
        accumulator.finalize(EVERY)
    assert told.value.slot == 1


LEAVING: dict[str, tuple[dict[str, object], list[object]]] = {
    "add": ({}, [2**62, 2**62]),
    "subtract": ({"lift": lambda x: 0 - x, "combine": lambda a, b: a + b}, [2**62, 2**62, 1]),
    "multiply": ({"combine": lambda a, b: a * b, "identity": 1}, [2**32, 2**31]),
    "negate": ({"lift": lambda x: -x}, [-(2**63)]),
    "power": ({"lift": lambda x: x**2}, [2**32]),
    "shift": ({"lift": lambda x: x << 1}, [2**62]),
    "both fields": (
        {"lift": lambda x: (x, 1), "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]), "lower": lambda s: s[0],
         "identity": (0, 0)}, [2**62, 2**62],
    ),
}  # fmt: skip


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("how", mostly_slow(LEAVING, but=("add", "both fields")))
def test_a_whole_number_that_leaves_64_bits_is_told_of_its_group_alone(how: str, interpreted: bool) -> None:
    changed, values = LEAVING[how]
    accumulator = fed(a_sum(**changed, interpreted=interpreted), [*values, 2, 3, 5], [*[1] * len(values), 1, 2, 2])
    with pytest.raises(AggregateOverflow, match=r"mine\(x\): a whole number in its state does not fit 64 bits") as told:
        accumulator.finalize(EVERY)
    assert told.value.slot == 1
    saved = accumulator.state()
    accumulator = a_sum(**changed, interpreted=interpreted).accumulator(SCHEMA)
    accumulator.restore(saved)
    assert accumulator.finalize(np.array([0, 2], np.int32)).to_pylist()[0] is None
    accumulator.combine(np.array([0, 3], np.int32), np.array([1, 2], np.int32))
    for slot in (0, 1):
        with pytest.raises(AggregateOverflow):
            accumulator.finalize(np.array([slot], np.int32))
    assert accumulator.finalize(np.array([3], np.int32)) == accumulator.finalize(np.array([2], np.int32))
    accumulator.init(EVERY)
    assert accumulator.finalize(EVERY).null_count == 4


@pytest.mark.parametrize("interpreted", [False, True])
def test_states_that_leave_64_bits_when_combined_are_told_and_the_rest_go_on(interpreted: bool) -> None:
    accumulator = fed(a_sum(interpreted=interpreted), [2**62, 2**62, 1, 2], [0, 1, 2, 3])
    accumulator.combine(np.array([0, 2, 0], np.int32), np.array([1, 3, 3], np.int32))
    assert accumulator.finalize(np.array([1, 2, 3], np.int32)).to_pylist() == [2**62, 3, 2]
    with pytest.raises(AggregateOverflow):
        accumulator.finalize(np.zeros(1, np.int32))


@pytest.mark.parametrize("interpreted", [False, True])
def test_a_result_beyond_64_bits_is_told_and_an_error_of_lower_stays_one(interpreted: bool) -> None:
    large = fed(a_sum(lower=lambda s: s * 2**40, interpreted=interpreted), [1, 2**40], [0, 1])
    with pytest.raises(AggregateOverflow, match="a whole number in lower does not fit 64 bits") as told:
        large.finalize(EVERY)
    assert told.value.slot == 1
    assert large.finalize(np.zeros(1, np.int32)).to_pylist() == [2**40]
    wrong = a_sum(lower=lambda s: math.exp(s), arguments="x", output=pa.float64(), interpreted=True)
    with pytest.raises(AggregateFailure, match="OverflowError"):
        fed(wrong, [10**6], [0]).finalize(EVERY)


def test_a_floating_state_goes_as_far_as_floating_numbers_do() -> None:
    floating = a_sum(lift=lambda x: float(x), identity=0.0, output=pa.float64())
    assert fed(floating, [2**62] * 4, [0] * 4).finalize(np.zeros(1, np.int32)).to_pylist() == [2.0**64]


@pytest.mark.skipif(switched_off(), reason="nothing is compiled")
def test_what_does_not_fit_when_it_is_tried_is_told_before_a_stream_runs() -> None:
    with pytest.raises(SchemaError, match="does not fit 64 bits"):
        a_sum(lift=lambda x: x**7).output_field(SCHEMA, "mine")


@share(4)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4))
def test_the_compiled_sum_is_that_of_python_or_told(values: list[int]) -> None:
    accumulator = fed(COMPILED, list(values), [0] * len(values))
    sums = [sum(values[: i + 1]) for i in range(len(values))]
    if all(-(2**63) <= total < 2**63 for total in sums):
        assert accumulator.finalize(np.zeros(1, np.int32)).to_pylist() == [sums[-1]]
    else:
        with pytest.raises(AggregateOverflow):
            accumulator.finalize(np.zeros(1, np.int32))


COMPILED = a_sum()


def saturating(most: int) -> UserAggregate:
    """What is right of a sum that stops at a largest state, and wrong of its inverse."""
    return a_sum(
        lift=lambda x: x if x > 0 else 0,
        combine=lambda a, b: a + b if a + b < most else most,
        invert=lambda a, b: a - b,
        interpreted=True,
    )


@pytest.mark.parametrize("most", [20_000, 2**16, 3 * 2**20, 2**31, 2**32, 2**37, 2**40])
def test_an_inverse_that_fails_for_large_values_alone_is_told(most: int) -> None:
    with pytest.raises(SchemaError, match=r"invertibility does not hold: with a = \d+, b = \d+, .*\n  Leave invert"):
        saturating(most).output_field(SCHEMA, "n")
    attrs.evolve(saturating(most), invert=None).output_field(SCHEMA, "n")


def test_a_floating_state_that_is_rounded_for_large_values_is_told() -> None:
    rounded = a_sum(
        lift=lambda x: float(x), combine=lambda a, b: a + b if a + b < 1e7 else float(round(a + b, -6)),
        identity=0.0, output=pa.float64(), interpreted=True,
    )  # fmt: skip
    with pytest.raises(SchemaError, match=r"associativity does not hold: with a = .*, b = .*, c = "):
        rounded.over("f").output_field(SCHEMA, "n")


def welford(a: tuple[int, float, float], b: tuple[int, float, float]) -> tuple[int, float, float]:
    if a[0] + b[0] == 0:
        return a
    n, apart = a[0] + b[0], b[1] - a[1]
    return n, a[1] + apart * b[0] / n, a[2] + b[2] + apart * apart * a[0] * b[0] / n


LAWFUL = {
    "sum": a_sum(invert=lambda a, b: a - b),
    "sum of squares": a_sum(lift=lambda x: float(x) * x, identity=0.0, output=pa.float64()),
    "largest": a_sum(combine=lambda a, b: a if a > b else b, identity=-(2**63)),
    "least": a_sum(lift=lambda x: float(x), combine=min, identity=math.inf, output=pa.float64()),
    "parity": a_sum(combine=lambda a, b: a ^ b, invert=lambda a, b: a ^ b),
    "divisor": a_sum(lift=lambda x: abs(x), combine=math.gcd),
    "remainder": a_sum(combine=lambda a, b: (a + b) % 97, lift=lambda x: x % 97, invert=lambda a, b: (a - b) % 97),
    "variance": a_sum(
        lift=lambda x: (1, float(x), 0.0), combine=welford, identity=(0, 0.0, 0.0), output=pa.float64(),
        lower=lambda s: s[2] / s[0],
    ),
    "logarithms": a_sum(lift=lambda x: math.log(abs(x) + 1), identity=0.0, output=pa.float64()),
    "directions": a_sum(
        lift=lambda x: (math.sin(x), math.cos(x)), identity=(0.0, 0.0), output=pa.float64(),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]), lower=lambda s: math.atan2(s[0], s[1]),
    ),
    "only small ones": a_sum(lift=lambda x: [0, 1, 2, 3, 4][x]),
    "as often as it says": a_sum(lift=lambda x: len([i for i in range(x)])),
    "a power": a_sum(lift=lambda x: float(2**x), identity=0.0, output=pa.float64()),
}  # fmt: skip


WHOLE = ("parity", "divisor", "remainder", "only small ones", "as often as it says")
"""Those that hold for whole numbers alone."""


@pytest.mark.parametrize(
    ("name", "column"), [(n, c) for n in LAWFUL for c in ("x", "f", "t") if not (c == "f" and n in WHOLE)]
)
def test_what_holds_for_all_values_is_taken_and_soon(name: str, column: str) -> None:
    function = attrs.evolve(LAWFUL[name].over(column), interpreted=True, output=pa.float64())
    began = time.process_time()
    function.output_field(SCHEMA, "n")
    assert time.process_time() - began < 1


def test_values_that_are_tried_fit_their_type() -> None:
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.float64()):
        for power in SIZES:
            tried = sized(kind, power, 0)
            assert pa.array(tried, kind).to_pylist() == list(tried)
            assert max(map(abs, tried)) > 2 ** min(power, kind.bit_width - 1) - 2
    assert {*sized(pa.bool_(), 40, 0)} == {True, False}


@pytest.mark.parametrize("interpreted", [False, True])
def test_a_function_that_never_gives_a_result_gives_nulls(interpreted: bool) -> None:
    never = fed(a_sum(lower=lambda s: None, interpreted=interpreted), [1, 2, 3, 4], [0, 0, 1, -1])
    assert never.finalize(EVERY[:3]).to_pylist() == [None, None, None]
