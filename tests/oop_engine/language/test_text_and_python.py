"""What Python says the text says, too: both sides of each row of docs/text-and-python.md give the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.language import parse, unparse
from tests.queries.small import small_streams, written

PAGE = Path(__file__).parents[3] / "docs" / "text-and-python.md"
STREAMS = small_streams()
IN_PYTHON = "## In Python only"


def rows() -> Iterator[tuple[str, str]]:
    """Yield the two sides of each row."""
    for line in PAGE.read_text(encoding="utf-8").partition(IN_PYTHON)[0].splitlines():
        if found := re.fullmatch(r"\| `(.+)` \| `(.+)` \|", line):
            yield found[1], found[2]


@pytest.mark.parametrize(("python", "text"), list(rows()))
def test_both_sides_give_the_same(python: str, text: str) -> None:
    one = eval(python, {"oop": oop, "t": STREAMS["T"], "u": STREAMS["U"]})
    other = oop.query(text, STREAMS)
    assert one.schema.names == other.schema.names
    assert written(one.to_arrow()) == written(other.to_arrow())
    assert parse(unparse(parse(text))) == parse(text)


def test_the_page_has_every_method_of_a_stream_and_every_window() -> None:
    page = PAGE.read_text(encoding="utf-8")
    methods = {name for name, value in vars(Stream).items() if callable(value) and not name.startswith("_")}
    returned = {name: getattr(getattr(oop, name), "__annotations__", {}).get("return") for name in oop.__all__}
    windows = {f"oop.{name}" for name, kind in returned.items() if kind == "WindowOf"}
    assert {name for name in methods if not re.search(rf"\b{name}\b", page)} == set()
    assert {name for name in windows if name not in page} == set()
    assert len(list(rows())) > 35
