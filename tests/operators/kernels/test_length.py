"""Kernels are short enough to be read, and take few arguments.

A part of a long one is an `inlined_kernel`, which costs no call. Tables that belong together are one argument, a tuple
whose places the `layout` of the family names.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import oop_engine
import operators

MOST = 150
"""Lines of code, without the signature and the docstring."""
ARGUMENTS = 12
"""What a call can be read with: two or three columns that come, memory, windows, what is listed, and some numbers.

It is no matter of speed. A call from Python costs 0.035 us for each array by itself, and 0.05 us for one in a tuple: 36
arrays 0.87 us, in three tuples 1.48. Most of that is won back where Python has the tuple already.
"""
MORE = {
    # Once for each promise of a thin stream, where a tuple of its six lists costs 0.1 us more, of some 12.
    "operators/kernels/functions/sums.py: run_whole": 13,
}
DECORATORS = {"kernel", "making_kernel", "inlined_kernel"}


@cache
def kernels() -> dict[str, ast.FunctionDef]:
    """Return each compiled function of ours, by its name."""
    found: dict[str, ast.FunctionDef] = {}
    for package in (operators, oop_engine):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            if not any(f"@{name}" in (text := path.read_text()) for name in DECORATORS):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and DECORATORS & {ast.unparse(d) for d in node.decorator_list}:
                    found[f"{path.relative_to(root.parent)}: {node.name}"] = node
    return found


def length(node: ast.FunctionDef) -> int:
    """Return the lines of code of a function."""
    return (node.end_lineno or 0) - node.body[ast.get_docstring(node) is not None].lineno + 1


def arguments(node: ast.FunctionDef) -> int:
    """Return how many arguments a function takes."""
    return len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)


def test_no_kernel_is_too_long_to_be_read() -> None:
    found = {name: length(node) for name, node in kernels().items()}
    assert len(found) > 400
    assert {name: lines for name, lines in found.items() if lines > MOST} == {}


def test_no_kernel_takes_more_arguments_than_can_be_read() -> None:
    """One that is measured to need more is in `MORE`, with what was measured."""
    found = {name: arguments(node) for name, node in kernels().items()}
    assert {name: number for name, number in found.items() if number > ARGUMENTS} == MORE
    (planted,) = ast.parse("def many(a, b, /, c, *, d): ...").body
    assert isinstance(planted, ast.FunctionDef) and arguments(planted) == 4
