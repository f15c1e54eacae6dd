"""Any split of tuples over pages and slots, combined in any order, gives what the naive functions give."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from tests.examples import mostly_slow, share
from tests.operators.functions.cases import DOMAIN, Case, cases, plain, same, skipped

SLOTS = 5
EVERY = cases()

CASES = {name: [case for case in EVERY if case.function.name == name] for name in {c.function.name for c in EVERY}}


@pytest.mark.parametrize(
    "name", mostly_slow(sorted(CASES), but=CASES.keys() - {"users_spread", "users_slow_dot", "users_dot"})
)
@share(1)
@given(data=st.data())
def test_pages_slots_and_combining_in_any_order_give_the_naive_answer(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES[name]))
    fields = [DOMAIN[d][0].with_name(n) for d, n in zip(case.domains, "xy", strict=False)]
    schema = Schema(pa.schema(fields))
    row = st.tuples(*(st.sampled_from([None, *DOMAIN[d][1]]) for d in case.domains))
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
    held: list[list[tuple[int, tuple[object, ...]]]] = [[] for _ in range(SLOTS)]
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
                        nulls += skipped(case, values)
                    arrived += 1
                accumulator.update(np.array([slot for slot, _ in rows], np.int32), page)
    result = accumulator.finalize(every)
    # By their text, for NaN is not NaN.
    assert repr(plain(result)) == repr(plain(accumulator.finalize(every)))
    assert result.type == case.function.output_field(schema, "result").type
    wanted = [case.naive([values for _, values in sorted(rows, key=lambda r: r[0])]) for rows in held]
    assert all(same(case, f, w) for f, w in zip(plain(result), wanted, strict=True)), (plain(result), wanted)
    assert accumulator.nulls == nulls
    assert accumulator.nbytes > 0
    _is_plain(accumulator.state())


def _is_plain(state: Mapping[str, object]) -> None:
    for name, value in state.items():
        assert isinstance(value, np.ndarray | pa.RecordBatch | int | float | str | bytes | bool | None), name


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_larger_pages_of_every_type_give_the_naive_answer(case: Case) -> None:
    fields = [DOMAIN[d][0].with_name(n) for d, n in zip(case.domains, "xy", strict=False)]
    schema = Schema(pa.schema(fields))
    random = np.random.default_rng(7)
    every = np.arange(8, dtype=np.int32)
    accumulator = case.function.accumulator(schema)
    accumulator.reserve(8)
    accumulator.init(every)
    held: list[list[tuple[object, ...]]] = [[] for _ in every]
    for size in (3, 1, 40, 12):
        columns: dict[str, pa.Array] = {}
        for field, domain in zip(fields, case.domains, strict=True):
            values = [None, *DOMAIN[domain][1]]
            columns[field.name] = pa.array([values[i] for i in random.integers(0, len(values), size)], field.type)
        page = Page.of(schema, columns).slice(1, size)
        slots = random.integers(-1, 8, size - 1).astype(np.int32)
        rows = list(zip(*(plain(page.column(f.name)) for f in fields), strict=True))
        for slot, row in zip(slots, rows, strict=True):
            if slot >= 0:
                held[slot].append(row)
        accumulator.update(slots, page)
    found, wanted = plain(accumulator.finalize(every)), [case.naive(rows) for rows in held]
    assert all(same(case, f, w) for f, w in zip(found, wanted, strict=True)), (found, wanted)
    # Arrival differs from the order of slots here, so first and last are left to the law above.
    if not case.function.arrival_order and "list" not in case.domains:
        accumulator.combine(every[1:], every[:-1])
        both = [case.naive([row for rows in held[: slot + 1] for row in rows]) for slot in every]
        found = plain(accumulator.finalize(every))
        assert all(same(case, f, w) for f, w in zip(found, both, strict=True)), (found, both)
