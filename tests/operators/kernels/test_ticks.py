"""The ends of int64 have one name each: no other module gives the numbers a name of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
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


@cache
def others() -> Mapping[str, Sequence[tuple[str, ast.expr]]]:
    """Return the names that each module but the homes gives to values."""
    paths = {str(path.relative_to(package.parent)): path for package in PACKAGES for path in package.rglob("*.py")}
    return {where: list(named(ast.parse(path.read_text()))) for where, path in paths.items() if where not in HOMES}


def test_each_end_of_time_is_defined_once() -> None:
    found: list[str] = []
    for where, values in others().items():
        for name, value in values:
            if name.lstrip("_") in NAMES and any(isinstance(part, ast.Constant) for part in ast.walk(value)):
                found.append(f"{where}: {name} = {ast.unparse(value)}")
    assert found == []


def number(value: ast.expr) -> int | None:
    """Return the whole number that is written, as `2**63 - 1` or `1 << 62` is; None for anything else."""
    if isinstance(value, ast.Constant):
        return value.value if type(value.value) is int else None
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        inner = number(value.operand)
        return None if inner is None else -inner
    if isinstance(value, ast.BinOp):
        left, right = number(value.left), number(value.right)
        operation = {ast.Pow: pow, ast.LShift: int.__lshift__, ast.Sub: int.__sub__}.get(type(value.op))
        return None if left is None or right is None or operation is None else operation(left, right)
    return None


def renamed(values: Iterable[tuple[str, ast.expr]]) -> list[str]:
    """Return the names that a module gives to an end of int64, written out."""
    return [name for name, value in values if number(value) in (ticks.BEFORE_ALL, ticks.FOREVER)]


def test_no_module_writes_the_ends_of_int64_out_to_name_them_again() -> None:
    assert {where: names for where, values in others().items() if (names := renamed(values))} == {}
    planted = ast.parse("MOST = (1 << 63) - 1\nLEAST: int = -(2**63)\nMANY = 1 << 62")
    assert renamed(named(planted)) == ["MOST", "LEAST"]


def test_what_kernels_see_is_what_operators_and_promises_mean() -> None:
    assert (ticks.BEFORE_ALL, ticks.FOREVER) == (punctuation.NO_TIME, punctuation.NEVER)
    assert (ticks.FOREVER, ticks.LIMIT) == (FOREVER, LIMIT)
    assert ticks.FAR + ticks.LIMIT + ticks.LIMIT - 1 <= ticks.FOREVER
