"""What a notebook shows of values is a plain table, and no text of the data is markup."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import oop_engine as oop
from operators.data.markup import html_table

HOSTILE = '<script>alert("1")</script>&amp;\x1b[31m'
SCHEMA = oop.Schema.of(ts="int64", host="string")


class Cells(HTMLParser):
    """Collect the cells of a table, and the elements that there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names, self.cells = set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert attrs == []
        self.names.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def shown(value: object) -> list[str]:
    text = getattr(value, "_repr_html_")()  # noqa: B009
    found = Cells(text)
    assert found.names <= {"table", "caption", "thead", "tbody", "tr", "th", "td"} and "\x1b" not in text
    return found.cells


def stream(rows: int = 2) -> oop.Stream:
    return oop.rows([(at, HOSTILE if at else None) for at in range(rows)], SCHEMA, name=HOSTILE)


def test_an_outcome_shows_its_rows_with_text_as_text() -> None:
    assert shown(stream().run()) == ["ts", "host", "0", "", "1", '<script>alert("1")</script>&amp;\\x1b[31m']


def test_of_many_rows_the_first_are_shown() -> None:
    outcome = stream(1000).run()
    assert len(shown(outcome)) == 2 * 21
    assert "the first 20 of 1,000 rows" in outcome._repr_html_()


def test_a_page_a_run_and_statistics_show_tables() -> None:
    with stream().window(range=10).aggregate(oop.count(), by="host").start() as running:
        page = next(running)
        assert shown(page)[: len(page.schema.names)] == list(page.schema.names)
        cells = shown(running)
    assert cells[:3] == ["operator", "tuples in", "tuples out"]
    assert cells[7:9] == ['<script>alert("1")</script>&amp;\\x1b[31m', "2"]
    assert shown(running.statistics) == shown(running)


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (1234567, "1,234,567"), (True, "True"), ("<", "&lt;"), (1.5, "1.5")]
)
def test_a_cell_is_text(value: object, text: str) -> None:
    (cell,) = re.findall("<td>(.*)</td>", html_table(["a"], [[value]]))
    assert cell == text
