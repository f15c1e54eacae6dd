"""The page of faults has all of them, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "faults.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)


def test_all_faults_have_a_row() -> None:
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)] == list(range(1, 35))


def test_a_row_names_a_test_or_says_what_is_missing() -> None:
    rows = [line for line in TEXT.splitlines() if re.match(r"\| \d+ \|", line)]
    assert not [row for row in rows if "::" not in row and "*Missing*" not in row]


def test_each_test_that_is_named_exists() -> None:
    assert len(NAMED) > 60
    for path, name in NAMED:
        text = (ROOT / path).read_text()
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{path}::{name}"


def test_other_files_that_are_named_exist() -> None:
    paths = set(re.findall(r"(tests/[\w/]+\.py|\.ci/\w+)", TEXT))
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]
