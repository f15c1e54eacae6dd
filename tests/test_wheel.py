"""The wheel holds the three packages, what they need beside their modules, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import oop_engine

ROOT = Path(__file__).parents[1]
PACKAGES = ("oop_engine", "operators", "punctuation")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Build the wheel from a copy of the tree, so that nothing is left in it."""
    pytest.importorskip("hatchling")
    copy = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    (copy / "tests").mkdir()
    (copy / "tests" / "test_nothing.py").write_text("")
    built = copy / "dist"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        cwd=copy,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (path,) = built.glob("*.whl")
    return zipfile.Path(path)


def names(wheel: zipfile.Path) -> list[str]:
    return wheel.root.namelist()


def test_the_top_level_is_the_three_packages(wheel: zipfile.Path) -> None:
    top = {name.partition("/")[0] for name in names(wheel)}
    (info,) = (name for name in top if name.endswith(".dist-info"))
    assert top == {*PACKAGES, info}
    assert info.startswith("oop_engine-")


def test_every_module_is_in_it(wheel: zipfile.Path) -> None:
    modules = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert {name for name in names(wheel) if name.endswith(".py")} == modules


def test_the_grammar_the_types_and_the_pages_of_theory_are_in_it(wheel: zipfile.Path) -> None:
    found = set(names(wheel))
    assert {"oop_engine/language/grammar.lark", "operators/README.md", "punctuation/README.md"} <= found
    assert {f"{package}/py.typed" for package in PACKAGES} <= found
    assert not [name for name in found if name.endswith((".pyc", ".nbi", ".nbc", ".kernel", ".stub"))]


def test_it_says_what_it_needs_and_starts_the_command(wheel: zipfile.Path) -> None:
    (info,) = (path for path in wheel.iterdir() if path.name.endswith(".dist-info"))
    metadata = (info / "METADATA").read_text()
    assert "Name: oop-engine" in metadata
    assert f"\nVersion: {oop_engine.__version__}\n" in metadata
    for needed in ("attrs", "lark", "numba", "numpy", "pyarrow", "sortedcontainers", "trio"):
        assert re.search(rf"^Requires-Dist: {needed}[<>].*>=|^Requires-Dist: {needed}>=", metadata, re.M), needed
    assert "oop-engine = oop_engine.__main__:main" in (info / "entry_points.txt").read_text()
    assert (info / "licenses" / "LICENSE").exists()


@pytest.mark.slow
def test_it_works_where_nothing_else_of_ours_is(wheel: zipfile.Path, tmp_path: Path) -> None:
    assert wheel.root.filename is not None
    with zipfile.ZipFile(wheel.root.filename) as archive:
        archive.extractall(tmp_path)
    program = (
        "import pyarrow as pa, oop_engine as oop\n"
        "s = oop.rows([(1,), (7,)], pa.schema([('ts', pa.int64())]))\n"
        "counts = oop.query('SELECT count(*) [RANGE 5, SLIDE 5, WA ts] FROM Main', {'Main': s}).to_arrow()\n"
        "print(counts['count'].to_pylist())\n"
        "print(oop.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["[1, 1]", str(tmp_path / "oop_engine" / "__init__.py")], done.stderr
