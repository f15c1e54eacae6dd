"""Kernels are compiled once and kept on disk; the first run says so, since it is some seconds slower than others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

NOTICE: Final = "compiling kernels, once: the first run takes some seconds longer, later ones start at once."
_ALWAYS: Final = ("window", "slices")
"""The kernels of every window aggregate: when these are there, a run has compiled before."""


def compiled(kernels: Sequence[str] = _ALWAYS) -> bool:
    """Tell whether an earlier run left these kernels on disk, not older than their source; loads no compiler."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return True
    folder = _kernels()
    if folder is None:
        return True
    return all(_cached(folder / f"{name}.py") for name in kernels)


def _kernels() -> Path | None:
    spec = find_spec("operators.kernels")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _cached(source: Path) -> bool:
    newest = max((index.stat().st_mtime for index in _indices(source)), default=None)
    return newest is not None and source.exists() and newest >= source.stat().st_mtime


def _indices(source: Path) -> Iterator[Path]:
    pattern = f"{source.stem}.*.nbi"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield from Path(chosen).rglob(pattern)
        return
    yield from (source.parent / "__pycache__").glob(pattern)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    if home.is_dir():
        yield from home.rglob(pattern)
