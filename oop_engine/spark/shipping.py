"""Workers get the engine as a zip of its three packages, where it is not installed for them already.

A zip and not a wheel: neither keeps compiled kernels, and Spark unpacks a zip for Python by itself. What is installed
on the workers keeps its kernels compiled, so a cluster that runs this often should have `oop-engine` in its image.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oop_engine.spark.java import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES: Final = ("oop_engine", "operators", "punctuation")
_OURS: Final = Path(__file__).resolve().parents[2]


def ship(spark: SparkSession, *, always: bool = False) -> None:
    """Send the engine to the workers of a session, where they do not have it."""
    if is_local(spark) and not always and workers_have_it():
        return
    if _is_connect(spark):
        spark.addArtifacts(str(packed()), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(packed()))


def is_local(spark: SparkSession) -> bool:
    """Tell whether the workers are processes of this machine."""
    return not _is_connect(spark) and str(spark.sparkContext.master).startswith("local")


def _is_connect(spark: SparkSession) -> bool:
    return not hasattr(spark, "_jsparkSession")


def workers_have_it() -> bool:
    """Ask a new interpreter, as workers are, whether it finds this very engine."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    asked = subprocess.run(
        [python, "-c", "import importlib.util as u; print(u.find_spec('oop_engine').origin)"],
        capture_output=True, text=True, cwd="/", check=False,
    )  # fmt: skip
    return asked.returncode == 0 and Path(asked.stdout.strip()).resolve().parents[1] == _OURS


def packed() -> Path:
    """Give the zip of the engine, made anew for every state of its files."""
    files = sorted(
        path
        for package in _PACKAGES
        for path in (_OURS / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    newest = max(path.stat().st_mtime_ns for path in files)
    target = cache_folder() / f"oop_engine-{newest:x}-{len(files)}.zip"
    if not target.exists():
        unfinished = target.with_suffix(f".{os.getpid()}.part")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as file:
            for path in files:
                file.write(path, path.relative_to(_OURS))
        os.replace(unfinished, target)
    return target
