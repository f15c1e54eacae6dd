"""The ends of int64 have one name each: no other module gives the numbers a name of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import oop_engine
import operators
import punctuation
from operators.kernels import ticks
from operators.window import FOREVER, LIMIT

PACKAGES = [Path(str(package.__file__)).parent for package in (operators, oop_engine, punctuation)]
HOMES = {"operators/kernels/ticks.py", "punctuation/schedule.py"}
NAMES = {"NEVER", "FOREVER", "FAR", "LIMIT", "NO_TIME", "BEFORE_ALL"}


def named(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module gives to values, and the expressions of these."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            yield from ((one.id, node.value) for one in node.targets if isinstance(one, ast.Name))


def test_each_end_of_time_is_defined_once() -> None:
    found: list[str] = []
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            where = str(path.relative_to(package.parent))
            for name, value in named(ast.parse(path.read_text())):
                own = any(isinstance(part, ast.Constant) for part in ast.walk(value))
                if where not in HOMES and name.lstrip("_") in NAMES and own:
                    found.append(f"{where}: {name} = {ast.unparse(value)}")
    assert found == []


def test_what_kernels_see_is_what_operators_and_promises_mean() -> None:
    assert (ticks.BEFORE_ALL, ticks.FOREVER) == (punctuation.NO_TIME, punctuation.NEVER)
    assert (ticks.FOREVER, ticks.LIMIT) == (FOREVER, LIMIT)
    assert ticks.FAR + ticks.LIMIT + ticks.LIMIT - 1 <= ticks.FOREVER
