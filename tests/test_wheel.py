"""The wheel holds the three packages, what they need beside their modules, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import oop_engine
from operators.kernels.compile import compiler, disk_cache

ROOT = Path(__file__).parents[1]
PACKAGES = ("oop_engine", "operators", "punctuation")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    return built(tree(tmp_path_factory.mktemp("tree")))


def tree(copy: Path) -> Path:
    """Copy what a wheel is made of, so that nothing is left in the tree."""
    pytest.importorskip("hatchling")
    ignored = shutil.ignore_patterns("__pycache__")
    for package in (*PACKAGES, ".release"):
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    (copy / "tests").mkdir()
    (copy / "tests" / "test_nothing.py").write_text("")
    return copy


def built(copy: Path, **environment: str) -> zipfile.Path:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(copy / "dist")],
        cwd=copy,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    (path,) = (copy / "dist").glob("*.whl")
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
    static = ROOT / "oop_engine" / "page" / "static"
    assert {str(path.relative_to(ROOT)) for path in static.iterdir()} <= found
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


@pytest.mark.slow
@pytest.mark.skipif(compiler.interpreted(), reason="nothing is compiled")
def test_kernels_that_came_with_it_spare_the_first_query_of_a_machine_the_compiler(tmp_path: Path) -> None:
    """They are compiled for a class of processors, by a build that is told to; `warm` passes them over."""
    level = "x86-64-v3"
    if not any(level in words for words in levels()):
        pytest.skip(f"this processor is not of the class {level}")
    copy = tree(tmp_path / "tree")
    # Those of one query are enough here, and take seconds instead of minutes.
    with (copy / "oop_engine" / "warming.py").open("a") as file:
        file.write('\n\ndef runs():\n    return {"a first query": _first}\n')
    wheel = built(copy, HATCH_BUILD_HOOK_ENABLE_CUSTOM="true", OOP_LEVELS=level)
    assert wheel.root.filename is not None
    name = Path(wheel.root.filename).name
    assert f"-cp3{sys.version_info.minor}-none-" in name and not name.endswith("any.whl")
    assert (brought := sum(path.endswith(".kernel") for path in names(wheel))) > 30
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel.root.filename) as archive:
        archive.extractall(site)

    def query(where: Path, **environment: str) -> tuple[list[str], str]:
        text = "SELECT srcIP, count(*), sum(len) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP"
        command = [sys.executable, "-m", "oop_engine", "query", text, "-s", f"Main={ROOT}/demos/captures/web.pcap.gz"]
        environment = {**os.environ, "PYTHONPATH": str(where), **environment}
        done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines()), done.stderr

    cache = tmp_path / "cache"
    here, _ = query(ROOT)
    there, said = query(site, NUMBA_CACHE_DIR=str(cache))
    assert there == here
    assert "compiling" not in said
    assert not list(cache.rglob("*.kernel"))
    program = "from operators.kernels.compile import disk_cache; print(disk_cache.brings())"
    for own, brings in (("", "True"), ("1", "False")):
        environment = {**os.environ, "PYTHONPATH": str(site), disk_cache.OWN: own}
        command = [sys.executable, "-c", program]
        assert subprocess.check_output(command, cwd=site, env=environment, text=True) == f"{brings}\n"
    assert brought == len(list((site / "operators/kernels/brought").iterdir()))


def levels() -> tuple[str, ...]:
    from numba.core.registry import cpu_target

    return compiler.levels(cpu_target.target_context)
