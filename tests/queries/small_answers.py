"""The golden queries over small streams, and what each gives."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.queries import small_joins, small_totals, small_values, small_windows

CASES = (
    *small_values.VALUES,
    *small_values.KEPT,
    *small_totals.TOTALS,
    *small_windows.WINDOWS,
    *small_joins.JOINS,
)
ANSWERS = Path(__file__).with_name("answers.txt")
"""Each query, and behind it its rows, indented by four spaces and sorted."""


@functools.cache
def answers() -> dict[str, list[str]]:
    """Return the rows of each query."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in ANSWERS.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            rows.append(line[4:])
        else:
            found[line] = rows = []
    return found
