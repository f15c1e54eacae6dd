"""Any split of tuples over pages and slots, combined in any order, gives what the naive functions give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import functions as fn
from operators.functions import AggregateFunction
from operators.page import Page
from operators.schema import IP_METADATA, IP_TYPE, Schema
from tests import naive_functions as naive

SLOTS = 5
EXAMPLES = 80
IPS = [bytes(10) + b"\xff\xff" + bytes(q) for q in ([0, 0, 0, 1], [127, 0, 0, 1], [128, 0, 0, 0])] + [
    b"\x7f" + bytes(15),
    b"\x80" + bytes(15),
    b"\xff" * 16,
]
WHOLE = st.integers(-3, 3) | st.sampled_from([-(1 << 53) - 1, (1 << 53) + 1, 1 << 40])
FLOAT = st.sampled_from([0.0, -0.0, 1.5, -2.0, 3.25, math.nan, math.inf, -math.inf])
TAME = st.sampled_from([0.0, -0.0, 1.5, -2.0, 3.25, 1e6])
TEXT = st.sampled_from(["", "a", "ab", "b", "ä", "a\x00"])
DOMAIN: dict[str, tuple[pa.Field, st.SearchStrategy[object]]] = {
    "int64": (pa.field("x", pa.int64()), WHOLE),
    "int64 edge": (pa.field("x", pa.int64()), st.sampled_from([-(1 << 63), -1, 0, (1 << 63) - 1])),
    "uint64": (pa.field("x", pa.uint64()), st.sampled_from([0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])),
    "small uint64": (pa.field("x", pa.uint64()), st.integers(0, 9)),
    "int8": (pa.field("x", pa.int8()), st.integers(-128, 127)),
    "uint32": (pa.field("x", pa.uint32()), st.sampled_from([0, 7, (1 << 32) - 1])),
    "bool": (pa.field("x", pa.bool_()), st.booleans()),
    "float64": (pa.field("x", pa.float64()), FLOAT),
    "tame float64": (pa.field("x", pa.float64()), TAME),
    "float32": (pa.field("x", pa.float32()), FLOAT),
    "timestamp": (pa.field("x", pa.timestamp("ns", "UTC")), st.integers(-5, 5)),
    "duration": (pa.field("x", pa.duration("us")), st.integers(-9, 9)),
    "date32": (pa.field("x", pa.date32()), st.integers(-5, 5)),
    "date64": (pa.field("x", pa.date64()), st.integers(-5, 5).map(lambda d: d * 86_400_000)),
    "time32": (pa.field("x", pa.time32("s")), st.integers(0, 5)),
    "ip": (pa.field("x", IP_TYPE, metadata=IP_METADATA), st.sampled_from(IPS)),
    "binary(3)": (pa.field("x", pa.binary(3)), st.sampled_from([b"aaa", b"aab", b"\xff\x00\x00"])),
    "string": (pa.field("x", pa.string()), TEXT),
    "large_string": (pa.field("x", pa.large_string()), TEXT),
    "string_view": (pa.field("x", pa.string_view()), TEXT),
    "dictionary": (pa.field("x", pa.dictionary(pa.int8(), pa.string())), TEXT),
    "binary": (pa.field("x", pa.binary()), st.sampled_from([b"", b"\x00", b"\xff", b"a"])),
    "decimal": (pa.field("x", pa.decimal128(5, 2)), st.sampled_from([Decimal("-1.50"), Decimal("0.25"), Decimal("9")])),
    "list": (pa.field("x", pa.list_(pa.int64())), st.lists(st.integers(0, 2), max_size=2)),
}
ADDING = ["int64", "int8", "uint32", "small uint64", "bool", "float64", "float32", "duration"]
ORDERED = [name for name in DOMAIN if name not in ("list",)]
COUNTABLE = [name for name in DOMAIN if name not in ("list",)]


@attrs.frozen
class Case:
    """A function, the domains of its arguments, and its naive twin."""

    function: AggregateFunction
    domains: tuple[str, ...]
    naive: naive.Naive
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(self.domains)})"


def cases() -> list[Case]:
    found = [
        Case(fn.count(), ("int64",), naive.naive_count_all),
        *(Case(fn.count("x"), (d,), naive.naive_count) for d in DOMAIN),
        *(Case(fn.sum("x"), (d,), naive.naive_sum) for d in ADDING),
        *(Case(fn.avg("x"), (d,), naive.naive_avg) for d in [*ADDING, "uint64", "int64 edge"] if d != "duration"),
        Case(fn.avg("x"), ("duration",), naive.naive_avg_ticks),
        *(Case(fn.min("x"), (d,), naive.naive_min) for d in ORDERED),
        *(Case(fn.max("x"), (d,), naive.naive_max) for d in ORDERED),
        *(Case(fn.first("x"), (d,), naive.naive_first) for d in DOMAIN),
        *(Case(fn.last("x"), (d,), naive.naive_last) for d in DOMAIN),
    ]
    for domain in ("int64", "float64", "tame float64", "bool", "small uint64"):
        for ddof in (0, 1):
            found.append(Case(fn.variance("x", ddof=ddof), (domain,), naive.naive_variance(ddof), exact=False))
            found.append(Case(fn.stddev("x", ddof=ddof), (domain,), naive.naive_stddev(ddof), exact=False))
    for value in ("int64 edge", "float64", "ip", "string", "dictionary", "list"):
        for by in ("int64 edge", "uint64", "float64", "timestamp", "ip", "string"):
            if value == "list":
                least, greatest = naive.naive_argmin_unordered, naive.naive_argmax_unordered
            else:
                least, greatest = naive.naive_argmin, naive.naive_argmax
            found.append(Case(fn.argmin("x", "y"), (value, by), least))
            found.append(Case(fn.argmax("x", "y"), (value, by), greatest))
    found += [Case(fn.count_distinct("x"), (d,), naive.naive_count_distinct) for d in COUNTABLE]
    found += [
        Case(fn.count_distinct("x", "y"), pair, naive.naive_count_distinct)
        for pair in (("int64", "string"), ("ip", "float64"), ("decimal", "ip"))
    ]
    return found


def same(case: Case, found: object, wanted: object) -> bool:
    if isinstance(found, float) and isinstance(wanted, float | int) and not isinstance(wanted, bool):
        if not case.exact:
            return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(found) and math.isnan(wanted))
        # By its text, for NaN is NaN and -0.0 is not 0.0.
        return repr(found) == repr(float(wanted))
    return found == wanted


def plain(array: pa.Array) -> list[object]:
    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.view(pa.int32()).to_pylist()
    return (array.view(pa.int64()) if pa.types.is_temporal(kind) else array).to_pylist()


CASES = {name: [case for case in cases() if case.function.name == name] for name in {c.function.name for c in cases()}}


@pytest.mark.parametrize("name", sorted(CASES))
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(data=st.data())
def test_pages_slots_and_combining_in_any_order_give_the_naive_answer(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES[name]))
    fields = [DOMAIN[d][0].with_name(n) for d, n in zip(case.domains, "xy", strict=False)]
    schema = Schema(pa.schema(fields))
    row = st.tuples(*(st.none() | DOMAIN[d][1] for d in case.domains))
    pair = st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1))
    step = (
        st.lists(st.tuples(st.integers(-1, SLOTS - 1), row), max_size=8)
        | st.lists(pair, min_size=1, max_size=4).map(lambda pairs: ("combine", pairs))
        | st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=2).map(lambda slots: ("free", slots))
        | st.sampled_from([("save",), ("reserve",)])
    )
    every = np.arange(SLOTS, dtype=np.int32)
    accumulator = case.function.accumulator(schema)
    accumulator.reserve(SLOTS)
    accumulator.init(every)
    held: list[list[tuple[int, naive.Row]]] = [[] for _ in range(SLOTS)]
    arrived = nulls = 0
    for taken in data.draw(st.lists(step, min_size=1, max_size=8)):
        match taken:
            case ("combine", pairs):
                for into, source in pairs:
                    held[into] = held[into] + held[source]
                accumulator.combine(*(np.array(side, np.int32) for side in zip(*pairs, strict=True)))
            case ("free", slots):
                for slot in slots:
                    held[slot] = []
                accumulator.free(np.array(slots, np.int32))
                accumulator.init(np.array(slots, np.int32))
            case ("save",):
                saved = accumulator.state()
                accumulator = case.function.accumulator(schema)
                accumulator.restore(saved)
            case ("reserve",):
                accumulator.reserve(SLOTS + 7)
            case rows:
                # The tuples are those of a slice, so that whoever reads a buffer from its beginning is found out.
                wide = [*rows[:1], *rows]
                columns = [pa.array([values[i] for _, values in wide], f.type) for i, f in enumerate(fields)]
                page = Page.of(schema, {f.name: c for f, c in zip(fields, columns, strict=True)})
                page = page.slice(len(wide) - len(rows), len(wide))
                columns = [page.column(f.name) for f in fields]
                kept = list(zip(*(plain(c) for c in columns), strict=True))
                for (slot, _), values in zip(rows, kept, strict=True):
                    if slot >= 0:
                        held[slot] = [*held[slot], (arrived, values)]
                        nulls += _skipped(case, values)
                    arrived += 1
                accumulator.update(np.array([slot for slot, _ in rows], np.int32), page)
    result = accumulator.finalize(every)
    assert result.equals(accumulator.finalize(every)) or result.type in (pa.float64(), pa.float32())
    assert result.type == case.function.output_field(schema, "result").type
    wanted = [case.naive([values for _, values in sorted(rows, key=lambda r: r[0])]) for rows in held]
    assert all(same(case, f, w) for f, w in zip(plain(result), wanted, strict=True)), (plain(result), wanted)
    assert accumulator.nulls == nulls
    assert accumulator.nbytes > 0
    _is_plain(accumulator.state())


def _skipped(case: Case, values: naive.Row) -> bool:
    if not case.function.arguments:
        return False
    if case.function.name in ("argmin", "argmax"):
        return values[1] is None
    return None in values


def _is_plain(state: Mapping[str, object]) -> None:
    for name, value in state.items():
        assert isinstance(value, np.ndarray | pa.RecordBatch | int | float | str | bytes | bool | None), name
