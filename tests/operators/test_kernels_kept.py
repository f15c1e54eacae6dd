"""Compiled kernels are found again exactly as long as nothing has changed that was compiled into them."""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest

from operators.kernels.compile import compiler
from operators.kernels.compile import disk_cache as kept
from operators.kernels.compile.fingerprint import fingerprint
from operators.kernels.data.address import write_addresses
from operators.kernels.data.byte_order import u16_be

ROOT = Path(__file__).parents[2]
DECORATED = re.compile(r"^@(making_|inlined_)?kernel$", re.MULTILINE)

pytestmark = pytest.mark.skipif(compiler.interpreted(), reason="nothing is compiled")


def modules() -> Iterator[ModuleType]:
    """Give every module of ours that has kernels, wherever it stands."""
    for package in ("operators", "oop_engine", "punctuation"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if DECORATED.search(path.read_text()):
                yield importlib.import_module(str(path.relative_to(ROOT).with_suffix("")).replace("/", "."))


KERNELS = {id(k): k for m in modules() for k in vars(m).values() if isinstance(getattr(k, "_cache", None), kept.Kept)}


def function(kernel: object) -> FunctionType:
    found = compiler.python_of(kernel)
    assert found is not None
    return found


def test_every_kernel_is_kept() -> None:
    assert len(KERNELS) > 400
    decorated = sum(
        len(DECORATED.findall(path.read_text()))
        for package in ("operators", "oop_engine", "punctuation")
        for path in (ROOT / package).rglob("*.py")
    )
    # A factory makes many kernels of one text, inside a function.
    written = [k for k in KERNELS.values() if "<locals>" not in function(k).__qualname__]
    assert len(written) == decorated
    assert [function(k).__qualname__ for k in KERNELS.values() if fingerprint(k) is None] == []


def test_a_kernel_that_moves_is_not_looked_for_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(write_addresses)
    monkeypatch.setattr(function(u16_be), "__module__", "operators.kernels.byte_order")
    assert fingerprint(write_addresses) != before
    monkeypatch.undo()
    assert fingerprint(write_addresses) == before


def read(kernel: object) -> Iterator[tuple[dict[str, object], str]]:
    """Give where each number that a kernel reads is bound, in its own module or in one that it names."""
    code, there = function(kernel).__code__, function(kernel).__globals__
    for name in code.co_names:
        value = there.get(name)
        if isinstance(value, int | float | np.generic):
            yield there, name
        elif isinstance(value, ModuleType) and value.__name__.startswith(("operators.", "oop_engine.")):
            of = vars(value)
            yield from ((of, other) for other in code.co_names if isinstance(of.get(other), int | float | np.generic))


def test_a_fingerprint_changes_with_each_number_that_a_kernel_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    for kernel in KERNELS.values():
        before = fingerprint(kernel)
        for bound, name in read(kernel):
            with monkeypatch.context() as change:
                value = bound[name]
                change.setitem(bound, name, type(value)(value ^ 1 if isinstance(value, int | np.integer) else 0.5))
                assert fingerprint(kernel) != before, (function(kernel).__qualname__, name)
            tried += 1
        assert fingerprint(kernel) == before
    assert tried > 800


def test_a_fingerprint_changes_with_the_kernels_that_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    for kernel in KERNELS.values():
        before, there = fingerprint(kernel), function(kernel).__globals__
        for name in function(kernel).__code__.co_names:
            called = there.get(name)
            if id(called) in KERNELS and called is not kernel:
                with monkeypatch.context() as change:
                    own = function(called)
                    change.setattr(own, "__code__", own.__code__.replace(co_consts=(*own.__code__.co_consts, 77)))
                    assert fingerprint(kernel) != before, (function(kernel).__qualname__, name)
                tried += 1
    assert tried > 200


def test_a_kernel_that_makes_arrays_is_compiled_as_such_whoever_calls_it() -> None:
    making = [k for k in KERNELS.values() if "'_nrt', True" in compiler.options_of(k)]
    assert len(making) > 10
    assert all("_nrt" in compiler.options_of(k) for k in KERNELS.values())


def test_a_kernel_that_reads_what_is_not_known_is_not_kept() -> None:
    anything = object()

    def reading(i: int) -> bool:
        return anything is None and i > 0

    assert fingerprint(compiler.jitted(reading, counted=False)) is None


def test_a_fingerprint_is_the_same_however_often_it_is_taken() -> None:
    first = [fingerprint(k) for k in KERNELS.values()]
    assert [fingerprint(k) for k in KERNELS.values()] == first


def touch(folder: Path, name: str, age: float) -> Path:
    path = folder / name
    path.touch()
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_what_no_run_has_used_for_a_month_and_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    day = 86_400
    old = touch(tmp_path, "a.b-1-1.kernel", 31 * day)
    used = touch(tmp_path, "a.b-2-1.kernel", 29 * day)
    left = touch(tmp_path, "123.part", 2 * day)
    written = touch(tmp_path, "456.part", 1)
    others = touch(tmp_path, "notes.txt", 400 * day)
    kept._clean(tmp_path)
    assert [path.exists() for path in (old, used, left, written, others)] == [False, True, False, True, True]


def test_a_kernel_that_is_changed_again_and_again_has_a_bounded_number_of_files(tmp_path: Path) -> None:
    for k in range(kept.VERSIONS + 5):
        touch(tmp_path, f"a.b-{k}-1.kernel", 1000 - k)
    other = touch(tmp_path, "a.bc-1-1.kernel", 5000)
    kept._limit(tmp_path, "a.b")
    assert other.exists()
    left = sorted(int(path.name.split("-")[1]) for path in tmp_path.glob("a.b-*"))
    assert left == list(range(5, kept.VERSIONS + 5))
