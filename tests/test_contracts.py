"""Who may import whom, what is loaded when, and how modules may be called."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

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
        ("oop_engine/plan/graph.py", "import trio", "only the runtime, the page, sources and sinks know trio BROKEN"),
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


REASONS = ("Start-up", "Optional", "Circle")
"""Why an import may stand in a function: it costs a start, it may not be installed, or it closes a circle of two."""


Import: TypeAlias = ast.Import | ast.ImportFrom


@functools.cache
def inner_imports(text: str) -> tuple[tuple[Import, bool], ...]:
    """Return the imports of a module that run, each with whether it stands in a function."""

    def within(node: ast.AST, inside: bool) -> Iterator[tuple[Import, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                continue  # no import stands in one
            elif isinstance(child, Import):
                yield child, inside
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from within(ast.Module(child.orelse, []), inside)
            else:
                yield from within(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    return tuple(within(ast.parse(text), False))


def reasons(text: str) -> list[tuple[Import, str]]:
    """Return the imports inside functions, each with the reason that a comment above its block gives, or nothing."""
    lines, found = text.splitlines(), list[tuple[Import, str]]()
    before, reason = 0, ""
    for node, inside in inner_imports(text):
        if inside:
            said = re.match(rf"# ({'|'.join(REASONS)}): .{{5,}}\.$", lines[node.lineno - 2].strip())
            if said or "".join(lines[before : node.lineno - 1]).strip():
                reason = said[1] if said else ""
            before = node.end_lineno or 0
            found.append((node, reason))
    return found


def without_reason(text: str) -> list[int]:
    """Return the lines of imports inside functions that do not say why they are there."""
    return [node.lineno for node, reason in reasons(text) if not reason]


def test_an_import_inside_a_function_says_why() -> None:
    for path in MODULES:
        found = without_reason(path.read_text())
        assert not found, (
            f"{path}, line {found[0]}: import at the top, or write above it # {', '.join(REASONS)}: and why"
        )


@pytest.mark.parametrize(
    ("above", "right"),
    [
        ("", False),
        ("# Start-up", False),
        ("# Start-up: why.", False),
        ("# Start-up: few plans join.", True),
        ("# Optional: pyspark.", True),
        ("# because: few plans join.", False),
        ("# Start-up: few plans join.\n    import re\n    from os import sep", True),
        ("# Start-up: few plans join.\n    import re\n    sep = re.compile('a')", False),
    ],
)
def test_an_import_without_a_reason_is_found(above: str, right: bool) -> None:
    text = f"import os\n\ndef f():\n    {above}\n    import json\n    return json\n"
    assert without_reason(text) == ([] if right else [text[: text.index("import json")].count("\n") + 1])


Sources = dict[str, str]
"""The text of each module."""


def ours() -> Sources:
    named = {path: path.relative_to(ROOT).with_suffix("").parts for path in MODULES}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): path.read_text() for path, p in named.items()}


def homes(tree: ast.Module) -> dict[str, str]:
    """Return where a package that loads its names when they are used has them: as it tells type checkers."""
    return {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def targets(node: Import, lazy: Mapping[str, Mapping[str, str]], known: Container[str]) -> set[str]:
    """Return the modules that an import loads; of a package that loads its names when they are used, their homes."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    module = node.module or ""
    parts = {alias.name: f"{module}.{alias.name}" for alias in node.names}
    return {lazy.get(module, {}).get(part, full if full in known else module) for part, full in parts.items()}


def lazy_packages(sources: Sources) -> dict[str, dict[str, str]]:
    return {name: homes(ast.parse(text)) for name, text in sources.items() if re.search(r"\b(lazily|loader)\(", text)}


def edges(sources: Sources, *, inside: bool) -> dict[str, set[str]]:
    """Return the modules that each one imports; with `inside`, in functions as well."""
    lazy = lazy_packages(sources)
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, text in sources.items():
        for node, within in inner_imports(text):
            if inside or not within:
                found[name] |= (targets(node, lazy, sources.keys()) & sources.keys()) - {name}
    return found


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return what is reached from a module, itself only by a circle."""
    seen, todo = set[str](), [start]
    while todo:
        for other in graph[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen


def circles(sources: Sources) -> list[set[str]]:
    """Return the modules that import one another, in functions too, in groups."""
    graph = edges(sources, inside=True)
    whole = {name: reached(graph, name) for name in graph}
    rings = {frozenset(o for o in whole[name] if name in whole[o]) for name in graph if name in whole[name]}
    return [set(ring) for ring in rings]


def test_no_circle_has_more_than_two_files() -> None:
    assert [sorted(circle) for circle in circles(ours()) if len(circle) > 2] == []


def test_a_circle_of_three_files_is_found() -> None:
    sources = ours()
    assert "from oop_engine.plan.graph import" in sources["oop_engine.api.stream"]
    sources["oop_engine.plan.graph"] += "\n\ndef late() -> None:\n    from oop_engine.api import windowed\n"
    (planted,) = (circle for circle in circles(sources) if "oop_engine.plan.graph" in circle)
    assert {"oop_engine.api.stream", "oop_engine.api.windowed", "oop_engine.plan.graph"} <= planted


def with_packages(modules: set[str]) -> set[str]:
    """Return modules with the packages that they are in, which are imported with them."""
    return {".".join(name.split(".")[:n]) for name in modules for n in range(1, name.count(".") + 2)}


def test_an_import_for_the_sake_of_a_start_spares_something() -> None:
    """What stands at the top of a module loads nothing that one of its functions imports for a quick start."""
    sources = ours()
    lazy, graph = lazy_packages(sources), edges(sources, inside=False)
    graph = {name: with_packages(others | {name}) & graph.keys() - {name} for name, others in graph.items()}
    for name, text in sources.items():
        loaded = reached(graph, name)
        for node, reason in reasons(text):
            idle = targets(node, lazy, sources.keys()) & loaded
            assert reason != "Start-up" or not idle, f"{name}, line {node.lineno}: {sorted(idle)} are loaded anyway"


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


@functools.cache
def operator_classes() -> dict[str, str]:
    """Give the classes that have what the protocol of operators asks for, each with its module."""
    found: dict[str, tuple[str, ast.ClassDef]] = {}
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found |= {node.name: (module, node) for node in nodes(path) if isinstance(node, ast.ClassDef)}

    def methods(name: str) -> set[str]:
        if name not in found:
            return set()
        node = found[name][1]
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        named = [base.id for base in bases if isinstance(base, ast.Name)]
        own = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        return own.union({"Protocol"} & set(named), *(methods(base) for base in named if base != name))

    return {
        name: module
        for name, (module, _) in found.items()
        if {"process", "punctuate"} <= methods(name) and "Protocol" not in methods(name)
    }


def ladders(source: str) -> list[str]:
    """Give the uses of operator classes in a module's text by which it could tell one from another.

    A class may be called, be a type in an annotation or a cast, and have its class methods called; whatever else is
    done with it decides by class: `isinstance`, `match`, a tuple or a mapping of classes, `type(it) is`, its name.
    """
    known = operator_classes()
    if known.keys().isdisjoint(re.findall(r"\w+", source)):
        return []
    tree = ast.parse(source)
    called: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                home = known.get(alias.name, "")
                if f"{home}.".startswith(f"{node.module}."):
                    called[alias.asname or alias.name] = alias.name
    allowed: set[int] = set()
    for node in ast.walk(tree):
        types: list[ast.AST | None] = []
        match node:
            case ast.Call(func=ast.Name(id="cast"), args=[kind, *_]):
                types = [kind]
            case ast.Call(func=ast.Attribute(value=ast.Name()) as method):
                types = [method.value]
            case ast.Call(func=ast.Name() as made):
                types = [made]
            case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
                types = [node.value]
            case ast.AnnAssign() | ast.arg():
                types = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                types = [node.returns]
            case ast.ClassDef():
                types = [*node.bases]
            case _:
                pass
        allowed |= {id(name) for kind in types if kind is not None for name in ast.walk(kind)}
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in called and id(node) not in allowed:
            found.append(f"line {node.lineno}: {called[node.id]}")
        elif isinstance(node, ast.Compare | ast.MatchValue) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "is_of"
        ):
            texts = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
            found += [f"line {node.lineno}: {name}" for name in sorted(texts & known.keys())]
    return found


def test_nothing_in_oop_engine_decides_by_the_class_of_an_operator() -> None:
    """What a plan asks of an operator is a fact that any operator can state: `operators/plan_facts.py`."""
    assert {"Filter", "SlicingAggregate", "HighAggregate", "WindowJoin", "Input"} <= operator_classes().keys()
    assert not {"SlidingWindow", "Page", "Operator", "SourceNode", "Shell"} & operator_classes().keys()
    for path in MODULES:
        if path.is_relative_to(ROOT / "oop_engine"):
            assert not (there := ladders(path.read_text())), f"{path.relative_to(ROOT)}: {', '.join(there)}"


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("if isinstance(operator, Filter):\n    pass", "Filter"),
        ("if isinstance(operator, Filter | Meld):\n    pass", "Meld"),
        ("match operator:\n    case Filter(predicate=p):\n        pass", "Filter"),
        ("PASSABLE = (Filter, Meld)", "Meld"),
        ("RULES = {Filter: 1}.get(type(operator))", "Filter"),
        ("plain = type(operator) is Meld", "Meld"),
        ("plain = issubclass(type(operator), Sliced)", "SlicingAggregate"),
        ('plain = type(operator).__name__ == "Filter"', "Filter"),
        ('plain = type(operator).__name__ in ("Filter", "Meld")', "Meld"),
        ('plain = is_of(operator, "operators.rows.spread", "Spread")', "Spread"),
    ],
)
def test_a_planted_ladder_is_found(planted: str, name: str) -> None:
    imports = (
        "from operators.rows.filter import Filter\nfrom operators.streams.meld import Meld\n"
        "from operators.window_aggregate.stores.slices import SlicingAggregate as Sliced\n"
    )
    usual = "def made(filter_: Filter) -> Meld:\n    return Meld(2)\n"
    real = (ROOT / "oop_engine/rewrite/sharing.py").read_text()
    assert ladders(imports + usual) == ladders(real) == []
    for source in (imports + usual, f"{real}\n{imports}"):
        assert any(found.endswith(f": {name}") for found in ladders(f"{source}\n{planted}\n"))


def written_by_hand(path: str, source: str) -> set[tuple[str, str]]:
    """Give the classes of a module, no protocols, that write what they save, or how they take it up, themselves."""
    found: set[tuple[str, str]] = set()
    if not re.search(r"\bdef (state|restore)\b", source):
        return found
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.ClassDef) and not any(ast.unparse(base).startswith("Protocol") for base in one.bases):
            methods = {method.name: method.args for method in one.body if isinstance(method, ast.FunctionDef)}
            saves = "state" in methods and len(methods["state"].args) == 1 and methods["state"].vararg is None
            if saves or "restore" in methods:
                found.add((path, one.name))
    return found


def test_only_what_the_conventions_name_saves_itself_by_hand() -> None:
    named = re.findall(r"^\* `(operators/\S+)` `(\w+)`: \w.*\.$", (ROOT / "docs/conventions.md").read_text(), re.M)
    assert len(named) == 10
    machinery = ROOT / "operators" / "data" / "memory.py"
    found: set[tuple[str, str]] = set()
    for path in MODULES:
        if path.is_relative_to(ROOT / "operators") and path != machinery:
            found |= written_by_hand(path.relative_to(ROOT).as_posix(), path.read_text())
    assert found == set(named), "declare the memory of these; see docs/conventions.md, Memory"


def test_a_memory_that_is_saved_by_hand_is_found() -> None:
    planted = "class A(B):\n def state(self): ...\nclass P(Protocol):\n def restore(self, state): ...\n"
    other = "class C:\n def state(self, part, *values): ...\nclass D:\n class E:\n  def restore(self, state): ...\n"
    assert written_by_hand("m.py", planted + other) == {("m.py", "A"), ("m.py", "E")}


def test_a_module_is_named_after_the_noun_in_it() -> None:
    empty = {"utils", "helpers", "common", "base", "misc", "manager"}
    assert [str(path.relative_to(ROOT)) for path in MODULES if path.stem in empty] == []


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
