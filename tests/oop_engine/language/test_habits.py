"""Who writes a query as another language has it is told how this one says it: habits.txt has texts and their hints."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language import LanguageError
from operators.data.schema import ip_field

LINES = Path(__file__).with_name("habits.txt").read_text(encoding="utf-8").splitlines()
HABITS = dict(zip(LINES[::2], (line.strip() for line in LINES[1::2]), strict=True))
COLUMNS = {
    "ts": pa.array([1], pa.timestamp("s")),
    "end_ts": pa.array([1], pa.timestamp("s")),
    "bytes": pa.array([1]),
    "k": pa.array(["a"]),
    "srcPort": pa.array([1]),
    "flags": pa.array([1], pa.uint8()),
    "proto": pa.array([1], pa.uint8()),
    "seq": pa.array([1]),
}


@pytest.fixture(scope="module")
def flows() -> oop.Stream:
    """Return a stream with the attributes that the habits name."""
    fields = [pa.field(name, column.type) for name, column in COLUMNS.items()]
    address = ip_field("srcIP")
    arrays = [*COLUMNS.values(), pa.array([b"\0" * 16], address.type)]
    return oop.arrow(pa.Table.from_arrays(arrays, schema=pa.schema([*fields, address])))


def test_there_are_a_hundred_of_them() -> None:
    assert len(HABITS) >= 100
    assert all(HABITS.values())


@pytest.mark.parametrize("text", HABITS)
def test_a_habit_gets_its_hint(text: str, flows: oop.Stream) -> None:
    with pytest.raises(LanguageError) as caught:
        oop.query(text, M=flows)
    assert HABITS[text] in caught.value.hint
