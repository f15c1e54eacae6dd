"""Kernels are short enough to be read; a part of a long one is an `inlined_kernel`, which costs no call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import oop_engine
import operators

MOST = 150
"""Lines of code, without the signature and the docstring."""
DECORATORS = {"kernel", "making_kernel", "inlined_kernel"}


def kernels() -> Iterator[tuple[str, int]]:
    """Yield the name and the lines of code of each compiled function of ours."""
    for package in (operators, oop_engine):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and DECORATORS & {ast.unparse(d) for d in node.decorator_list}:
                    begin = node.body[ast.get_docstring(node) is not None].lineno
                    yield f"{path.relative_to(root.parent)}: {node.name}", (node.end_lineno or 0) - begin + 1


def test_no_kernel_is_too_long_to_be_read() -> None:
    found = dict(kernels())
    assert len(found) > 400
    assert {name: lines for name, lines in found.items() if lines > MOST} == {}
