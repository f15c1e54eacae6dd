"""Groups and combinations of what rises in a bounded source leave as it rises, and are the same as if all were held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.outcome import Outcome
from oop_engine.drive.turns import TURN

N = 60_000
RANDOM = np.random.default_rng(5)
SEQ = np.arange(N) * 10 + RANDOM.integers(0, 2_000, N)
TABLE = pa.table(
    {
        "seq": SEQ,
        "ts": pa.array(SEQ * 1_000_000, pa.timestamp("ns", "UTC")),
        "port": RANDOM.integers(0, 3, N),
        "hash": RANDOM.integers(0, 2**40, N),
    }
)
QUERIES: dict[str, Callable[[Stream], Stream]] = {
    "distinct integer": lambda s: s.distinct("seq"),
    "distinct integers": lambda s: s.distinct("port", "seq"),
    "groups of an integer": lambda s: s.aggregate(oop.count(), by="seq"),
    "groups of an integer and another": lambda s: s.aggregate(oop.count(), by=("port", "seq")),
    "groups of a derived integer": lambda s: s.derive(tens="seq // 10").aggregate(oop.count(), by=("tens", "port")),
    "groups of a derived time": lambda s: s.derive(ms="ts // '1 ms'").aggregate(oop.count(), by=("ms", "port")),
    "distinct quotients": lambda s: s.project(q="seq / 10").distinct(),
}
FORMATS: dict[str, Callable[[Path], Stream]] = {
    "memory": lambda folder: oop.arrow(TABLE),
    "parquet": lambda folder: oop.table(folder / "t.parquet"),
}


def rows(outcome: Outcome) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in outcome.table.to_pylist())


def held(query: Callable[[Stream], Stream]) -> Outcome:
    """Run a query over an iterator, which promises nothing, so that everything is held to the end."""
    return query(oop.arrow(iter(TABLE.to_batches()), schema=TABLE.schema)).run()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("tables")
    pq.write_table(TABLE, found / "t.parquet")
    return found


@pytest.mark.parametrize("given", FORMATS)
@pytest.mark.parametrize("name", QUERIES)
def test_groups_of_what_rises_leave_as_it_rises(folder: Path, name: str, given: str) -> None:
    found, all_held = QUERIES[name](FORMATS[given](folder)).run(), held(QUERIES[name])
    assert rows(found) == rows(all_held)
    assert all_held.statistics.peak_state > 40_000
    # Those of a turn leave with its promise.
    assert found.statistics.peak_state < TURN + 1_000


def test_groups_of_what_does_not_rise_are_held_and_it_is_not_read_ahead() -> None:
    read: list[str] = []

    class Watched(type(oop.arrow(TABLE).node.source)):  # type: ignore[misc]
        def values(self, column: str):  # type: ignore[no-untyped-def]
            for values in super().values(column):
                read.append(column)
                yield values

    source = Watched("watched", tuple(TABLE.to_batches(4096)))
    found = oop.from_source(source).aggregate(oop.count(), by=("hash", "port")).run()
    assert found.statistics.peak_state == found.table.num_rows
    assert Counter(read) == {"hash": 8, "port": 8}


def test_a_plan_says_that_such_a_promise_depends_on_the_values() -> None:
    shown = oop.arrow(TABLE).distinct("seq").explain()
    assert "seq, exactly, whenever it rises, if it is seen to rise" in " ".join(shown.split())
