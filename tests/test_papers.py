"""What the page of the papers names is there: tests, modules, names of Python, strategies and figures."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import oop_engine as oop
from oop_engine.figures.catalogue import chosen
from oop_engine.plan.strategies import STRATEGIES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SHOWN = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE))
MODULES = set(re.findall(r"`((?:operators|oop_engine|punctuation)/[\w/.]*)`", PAGE))
OBJECTS = {"oop": oop, "stream": oop.Stream, "running": oop.Running}


@cache
def found_in(module: str) -> frozenset[str]:
    """Return the names of the tests that a module has, none if there is no such module."""
    path = ROOT / module
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def has(name: str) -> bool:
    """Return whether a dotted name, such as oop.Trigger.at, is there."""
    first, *rest = name.split(".")
    found: object = OBJECTS[first]
    for part in rest:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_every_test_that_the_page_names_is_there() -> None:
    assert len(SHOWN) > 100
    assert [f"{module}::{name}" for module, name in sorted(SHOWN) if name not in found_in(module)] == []


def test_one_command_runs_those_that_the_page_names_and_no_others() -> None:
    modules = ["tests/punctuation/test_pattern.py", "tests/punctuation/test_progress.py"]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", "-m", "papers", *modules]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {line.partition("[")[0] for line in told.splitlines() if "::" in line}
    assert found == {f"{module}::{name}" for module, name in SHOWN if module in modules} and found


def test_every_test_of_the_page_is_in_a_row_with_a_module() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if "| module |" not in line]
    assert len(rows) > 100
    assert [row for row in rows if not any(f"`{name}`" in row for name in MODULES) or "`tests/" not in row] == []


def test_every_module_that_the_page_names_is_there() -> None:
    assert len(MODULES) > 50
    assert [name for name in sorted(MODULES) if not (ROOT / name).exists()] == []


def test_every_name_of_python_that_the_page_names_is_there() -> None:
    names = set(re.findall(r"(?<![\w/])((?:oop|stream|running)(?:\.\w+)+)", PAGE))
    assert len(names) > 50
    assert [name for name in sorted(names) if not has(name)] == []


def test_every_strategy_and_figure_that_the_page_names_is_there() -> None:
    strategies = set(re.findall(r'strategy="(\w+)"', PAGE))
    assert strategies and strategies <= STRATEGIES.keys()
    figures = set(re.findall(r"`oop-engine figures ([\w.-]+)`", PAGE))
    assert figures and chosen(sorted(figures))
