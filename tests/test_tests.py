"""What holds of the tests themselves: each can fail, each ends, and one that fails by chance can be seen again."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import mostly_slow

ROOT = Path(__file__).parents[1]
ASSERTING = {"raises", "warns", "fail", "check_operator", "find"}
"""What asserts, of pytest, of hypothesis, and of our own kit, besides `assert` and functions called `assert_...`."""


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Give what a function does itself, not what functions within it do when they are called."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from inside(child)


def called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def asserts(node: ast.AST) -> bool:
    name = called(node)
    return isinstance(node, ast.Assert) or name in ASSERTING or name.startswith("assert_")


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def toothless(sources: Mapping[str, str]) -> list[str]:
    """Name the tests with no assertion, neither in them nor in what they call of their module or import from others."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    biting = {name: {f.name for f in functions(tree) if any(map(asserts, ast.walk(f)))} for name, tree in trees.items()}

    def known(name: str) -> set[str]:
        """Give the names by which a module can call what asserts; who imports a class has its methods."""
        found = set(biting[name])
        for node in ast.walk(trees[name]):
            if isinstance(node, ast.ImportFrom) and node.module in biting:
                classes = {c.name for c in trees[node.module].body if isinstance(c, ast.ClassDef)}
                for alias in node.names:
                    if alias.name in biting[node.module]:
                        found.add(alias.asname or alias.name)
                    elif alias.name in classes:
                        found |= biting[node.module]
        return found

    grown = True
    while grown:
        grown = False
        for name, tree in trees.items():
            there = known(name)
            more = {f.name for f in functions(tree) if any(called(node) in there for node in ast.walk(f))}
            grown |= not more <= biting[name]
            biting[name] |= more
    return [
        f"{name}: {f.name}"
        for name, tree in trees.items()
        for f in functions(tree)
        if f.name.startswith("test_") and f.name not in biting[name]
    ]


def early(sources: Mapping[str, str]) -> list[str]:
    """Name the tests that return where they have asserted nothing yet: such an example is no example (`assume`).

    One that returns after an error that it expects has asserted that no other was raised.
    """

    def searched(block: list[ast.stmt]) -> Iterator[ast.Return]:
        for statement in block:
            if isinstance(statement, ast.Return):
                yield statement
            if any(map(asserts, (statement, *inside(statement)))):
                return
            if isinstance(statement, ast.If | ast.For | ast.While | ast.With):
                yield from searched(statement.body)
                yield from searched(getattr(statement, "orelse", []))

    return [
        f"{name}: {f.name}, line {found.lineno}"
        for name, text in sources.items()
        for f in functions(ast.parse(text))
        if f.name.startswith("test_")
        for found in searched(f.body)
    ]


def written() -> dict[str, str]:
    """Give the modules of the tests, by the names by which they import each other."""
    paths = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "benchmarks"]
    return {".".join(path.with_suffix("").parts): (ROOT / path).read_text(encoding="utf-8") for path in paths}


@pytest.mark.slow
def test_every_test_has_an_assertion() -> None:
    assert toothless(written()) == []


@pytest.mark.slow
def test_no_test_returns_before_it_has_asserted_something() -> None:
    assert early(written()) == []


def test_each_test_that_is_too_long_for_a_unit_test_is_there() -> None:
    listed = (ROOT / "tests" / "longer.txt").read_text(encoding="utf-8").splitlines()
    assert listed == sorted(set(listed))
    for test in listed:
        path, name = re.split(r"::|\[", test)[:2]
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), test


HELPERS = """
class Case:
    def check(self): assert self
def right(x): assert x
def read(x): return x
"""
TESTS = """
from tests.helpers import read, {imported}
def through(x): right(x)
def test_it(x):
    {body}
"""


@pytest.mark.parametrize(
    ("imported", "body", "found"),
    [
        ("right", "right(x)", False),
        ("right", "through(x)", False),
        ("right", "read(x)", True),
        ("right", "x.check()", True),
        ("Case", "Case().check()", False),
        ("right as true", "true(x)", False),
        ("right", "with pytest.raises(ValueError): read(x)", False),
        ("right", "np.testing.assert_array_equal(x, x)", False),
    ],
)
def test_a_test_without_an_assertion_is_found(imported: str, body: str, found: bool) -> None:
    sources = {"tests.helpers": HELPERS, "tests.test_some": TESTS.format(imported=imported, body=body)}
    assert toothless(sources) == ["tests.test_some: test_it"] * found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if x: return\n    assert x", True),
        ("for y in x:\n        if y: return\n    assert x", True),
        ("if x:\n        assert x\n        return\n    assert not x", False),
        ("def inner(): return\n    assert x", False),
        ("try: read(x)\n    except ValueError: return\n    assert x", False),
    ],
)
def test_a_return_before_an_assertion_is_found(body: str, found: bool) -> None:
    assert early({"some": TESTS.format(imported="right", body=body)}) == ["some: test_it, line 5"] * found or found
    assert bool(early({"some": TESTS.format(imported="right", body=body)})) == found


def test_every_property_is_tried_on_random_examples_and_says_how_to_see_a_failure_again() -> None:
    for name, least in (("default", 50), ("ci", 50), ("nightly", 1000)):
        profile = settings.get_profile(name)
        assert (profile.derandomize, profile.print_blob, profile.max_examples) == (False, True, least)


def pytest_of(folder: Path, *arguments: str, status: int = 1, **environment: str) -> str:
    """Run the tests in a folder with the settings of ours, and give what is said on standard output and error."""
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-o", "pythonpath=", *arguments, str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("threading.Event().wait()", "in test_ending"),  # the stacks of all threads
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed while running"),
    ],
    ids=["hangs", "is killed"],
)
@pytest.mark.parametrize("tier", mostly_slow(["not slow", "slow"], but=["not slow"]))
def test_a_test_that_ends_its_process_is_named_and_the_others_go_on(
    tier: str, body: str, said: str, tmp_path: Path
) -> None:
    mark = "pytest.mark.slow" if tier == "slow" else "[]"
    text = f"import os, pytest, signal, threading\n\npytestmark = {mark}\n\ndef test_ending():\n    {body}\n"
    others = "".join(f"\ndef test_other_{i}(): assert True\n" for i in range(5))
    (tmp_path / "test_some.py").write_text(text + others)
    found = pytest_of(tmp_path, "-n", "2", "-m", tier, "-o", "faulthandler_timeout=2")
    assert said in found
    assert "FAILED test_some.py::test_ending" in found
    assert "1 failed, 5 passed" in found


@pytest.mark.parametrize("processes", ["0", "1"])
def test_garbage_is_collected_in_each_process_once_tests_run(processes: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import gc\n\ndef pytest_unconfigure(config):\n"
        "    if not hasattr(config, 'workerinput'):\n"
        "        print('garbage is collected:', gc.isenabled())\n"
    )
    (tmp_path / "test_some.py").write_text("import gc\n\ndef test_collecting(): assert gc.isenabled()\n")
    found = pytest_of(tmp_path, "-n", processes, "-s", "-p", "tests.conftest", status=0, PYTHONPATH=str(ROOT))
    assert "1 passed" in found
    assert "garbage is collected: True" in found
