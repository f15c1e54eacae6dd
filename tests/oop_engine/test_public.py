"""The public names: all are there, stay what they are whatever is imported, and say what they do."""

from __future__ import annotations

import ast
import copy
import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

import oop_engine as oop

ROOT = Path(__file__).parents[2]


def submodules() -> list[str]:
    found: list[str] = []
    for name in ("punctuation", "operators", "oop_engine"):
        package = import_module(name)
        found += [
            m.name for m in pkgutil.walk_packages(package.__path__, f"{name}.") if not m.name.endswith("__main__")
        ]
    return found


def test_every_public_name_is_there_and_documented() -> None:
    assert sorted(oop.__all__) == sorted(set(oop.__all__))
    for name in oop.__all__:
        value = getattr(oop, name)
        assert not isinstance(value, ModuleType), f"{name} is a module"
        assert (inspect.getdoc(value) or "").strip(), f"{name} has no docstring"
    assert set(oop.__all__) <= set(dir(oop))


@pytest.mark.parametrize("package", [oop, oop.spark], ids=lambda package: package.__name__)
def test_names_of_the_lazy_list_and_of_the_typed_list_are_the_public_names(package: ModuleType) -> None:
    lazy = {name: place for place, names in package._PLACES.items() for name in names.split()}
    assert sorted(lazy) == sorted(package.__all__)
    tree = ast.parse(Path(str(package.__file__)).read_text())
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed == lazy
    assert set(lazy) <= set(dir(package))


def test_importing_any_module_hides_no_public_name() -> None:
    """A submodule named as a function of the package would take its place when it is imported."""
    program = (
        "import sys, oop_engine as oop\n"
        "from importlib import import_module\n"
        f"for name in {submodules()!r}:\n"
        "    import_module(name)\n"
        "from types import ModuleType\n"
        "print([n for p in (oop, oop.spark) for n in p.__all__ if isinstance(getattr(p, n), ModuleType)])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_an_unknown_name_is_said_to_be_none() -> None:
    with pytest.raises(AttributeError, match="module 'oop_engine' has no attribute 'meldd'"):
        _ = oop.meldd  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("slakc", ". Did you mean 'slack'?"), ("xyz", ""), ("__sum__", ""), ("Streams", ". Did you mean 'Stream'?")],
)
def test_an_unknown_name_is_corrected_when_one_is_near(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(oop, name)
    assert str(caught.value) == f"module 'oop_engine' has no attribute {name!r}{hint}"


def test_a_package_of_the_users_own_that_hides_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text("mine = 1\n")
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\nimport oop_engine as oop\noop.count\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: a module of your own named 'operators' (")
    assert last.endswith(
        "hides the package 'operators' that oop-engine brings; rename yours or run from another folder."
    )


def test_every_module_opens_with_one_sentence() -> None:
    for name in ["punctuation", "operators", "oop_engine", *submodules()]:
        first = (import_module(name).__doc__ or "").strip().splitlines()
        assert first, f"{name} has no docstring"
        assert first[0].rstrip().endswith((".", "?", ":")) or len(first) > 1, f"{name}: {first[0]}"


@pytest.mark.parametrize("package", [oop, oop.spark], ids=lambda package: package.__name__)
def test_functions_that_spark_ships_may_refer_to_the_package(package: ModuleType) -> None:
    """A function of a notebook or a script goes to Spark's workers with the modules it refers to, by name."""
    function = eval("lambda: package", {"package": package})
    assert cloudpickle.loads(cloudpickle.dumps(function))() is package
    assert copy.deepcopy({"package": package})["package"] is package


CAUGHT_WITHIN = {
    "CannotLock", "Enough", "NotTraceable", "Orphaned", "PackedDamage", "Refused", "Taken", "Unknown", "Wrapped",
}  # fmt: skip
"""Raised for ourselves: nobody else sees them."""


def test_whatever_is_raised_is_an_error_of_ours_that_can_be_named() -> None:
    classes = {
        cls
        for name in submodules()
        for _, cls in inspect.getmembers(import_module(name), inspect.isclass)
        if issubclass(cls, Exception) and cls.__module__.partition(".")[0] in ("punctuation", "operators", "oop_engine")
    }
    public = {cls for cls in classes if issubclass(cls, oop.Error)}
    assert {cls.__name__ for cls in classes - public} == CAUGHT_WITHIN
    named = {getattr(oop, name) for name in oop.__all__} | {oop.spark.SparkError}
    assert {cls.__name__ for cls in public if named.isdisjoint(set(cls.__mro__) - {oop.Error})} == {"Error"}
    assert issubclass(oop.DecodeError, oop.StreamError)
    assert issubclass(oop.TableError, oop.StreamError)
