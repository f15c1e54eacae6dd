"""Who may import whom, what is loaded when, and how modules may be called."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("oop_engine", "operators", "punctuation")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Give all there is in a module, at whatever depth."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> set[str]:
    """Give the modules that a file names in its imports, wherever they stand."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.add(node.module or "")
    return found


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], cwd=folder, capture_output=True, text=True, timeout=120
    )


def test_import_contracts_are_kept() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "line", "contract"),
    [
        ("punctuation/pace.py", "import operators.data.page", "oop_engine over operators over punctuation BROKEN"),
        ("punctuation/pace.py", "import pyarrow", "punctuation is pure algebra BROKEN"),
        ("operators/streams/meld.py", "import trio", "operators never wait BROKEN"),
        ("operators/kernels/ranked/rank.py", "import pyarrow", "kernels see arrays alone BROKEN"),
        ("oop_engine/plan/graph.py", "import trio", "only the runtime, sources and sinks know trio BROKEN"),
        ("oop_engine/plan/graph.py", "import pyspark", "nobody knows Spark but its own room BROKEN"),
        (
            "oop_engine/plan/graph.py",
            "import oop_engine.drive.runtime",
            "the folders of oop_engine, from the command line down BROKEN",
        ),
        (
            "oop_engine/rewrite/passes.py",
            "import oop_engine.language.parse",
            "plans and what rewrites and drives them know no query text BROKEN",
        ),
        ("operators/streams/meld.py", "import operators.join", "the folders of operators, from the laws down BROKEN"),
        (
            "operators/drive.py",
            "import operators.streams.meld",
            "what an operator is depends on no operator BROKEN",
        ),
    ],
)
def test_a_broken_contract_is_found(tmp_path: Path, path: str, line: str, contract: str) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with open(tmp_path / path, "a") as file:
        file.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert contract in done.stdout


def test_kernels_import_numpy_numba_and_their_decorators_alone() -> None:
    """One decorator compiles the engine's own loops, the other checks a user's functions as it compiles them."""
    kernels = [path for path in MODULES if path.is_relative_to(ROOT / "operators" / "kernels")]
    assert len(kernels) > 50
    for path in kernels:
        others = {name for name in imported(path) if name.partition(".")[0] not in sys.stdlib_module_names}
        others = {name for name in others if not f"{name}.".startswith("operators.kernels.")}
        assert others <= {"numba", "numpy", "numpy.typing"}, f"{path.name} imports {sorted(others)}"


FILES = {ROOT / "operators/kernels/compile/disk_cache.py"}
"""Where compiled kernels are kept on disk: numba would read and write them, with files of its own."""


def test_operators_and_punctuation_are_pure() -> None:
    """No async, clock, file, random number, log or environment below oop_engine; `testing` draws with hypothesis."""
    forbidden = {"asyncio", "logging", "os", "random", "time", "trio", "pickle"}
    for path in MODULES:
        if not path.is_relative_to(ROOT / "oop_engine") and path not in FILES:
            assert not imported(path) & forbidden, f"{path} imports {sorted(imported(path) & forbidden)}"
            names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
            assert not names & {"open", "print", "eval", "exec"}, (
                f"{path} uses {sorted(names & {'open', 'print', 'eval', 'exec'})}"
            )


SHIPPED = {ROOT / "oop_engine/spark/processor.py"}
"""Where work is sealed as Spark seals the functions it ships to its workers: it is never kept."""

TABLES = {ROOT / "oop_engine/language/parse.py"}
"""Where tables of the grammar, numbers and texts alone, are kept beside machine code that is trusted as much."""


def test_nothing_is_pickled_or_evaluated() -> None:
    for path in MODULES:
        assert not imported(path) & {"pickle", "cloudpickle", "shelve"}, path
        assert ("marshal" in imported(path)) == (path in TABLES), path
        names = {
            alias.name for node in nodes(path) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
        }
        assert any("pickle" in name.lower() for name in names) == (path in SHIPPED), path
        called = {
            node.func.id for node in nodes(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec"}, path


def test_no_module_bears_the_name_of_one_in_the_standard_library() -> None:
    named = [path for path in MODULES if path.stem in sys.stdlib_module_names and path.stem != "__main__"]
    folders = [
        f
        for package in PACKAGES
        for f in (ROOT / package).rglob("*")
        if f.is_dir() and f.name in sys.stdlib_module_names
    ]
    assert named + folders == []


def loaded(program: str) -> set[str]:
    """Run a program and give the slow packages that it loaded."""
    report = (
        "\nimport sys\nprint('loaded:', *sorted({m.partition('.')[0] for m in sys.modules}"
        " & {'numba', 'pyarrow', 'trio', 'pyspark', 'numpy', 'rich', 'lark', 'hypothesis', 'pandas'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_importing_the_package_loads_nothing_slow() -> None:
    assert loaded("import oop_engine") == set()


def test_asking_for_help_loads_nothing_slow() -> None:
    program = (
        "import sys; sys.argv = ['oop-engine', '--help']\n"
        "from oop_engine.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as status:\n    assert not status.code\n"
    )
    assert loaded(program) & {"numba", "pyarrow", "trio", "pyspark", "pandas", "hypothesis"} == set()


def test_a_query_loads_neither_spark_nor_hypothesis() -> None:
    program = (
        "import pyarrow as pa, oop_engine as oop\n"
        "stream = oop.rows([(1,)], pa.schema([('ts', pa.int64())]))\n"
        "stream.window(range=5, wattr='ts').aggregate(oop.count()).to_arrow()\n"
    )
    found = loaded(program)
    assert "numba" in found
    assert found & {"pyspark", "hypothesis"} == set()
