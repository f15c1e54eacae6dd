"""Send the engine to workers, as a zip of its three packages, unless it is installed there.

A zip and not a wheel: neither keeps compiled kernels, and Spark unpacks a zip for Python by itself. An engine that is
installed on the workers keeps its kernels compiled, so a cluster that runs this often should have `oop-engine` in its
image; it is used if it is the same as here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oop_engine.spark.errors import INSTALL, SparkError
from oop_engine.spark.wrappers import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES: Final = ("oop_engine", "operators", "punctuation")
_OURS: Final = Path(__file__).resolve().parents[2]


def ship(spark: SparkSession, *, always: bool = False) -> None:
    """Send the engine to the workers of a session, where they do not have it as it is here."""
    if not always and workers_have_it(spark):
        return
    if is_connect(spark):
        spark.addArtifacts(str(packed()), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(packed()))


def is_local(spark: SparkSession) -> bool:
    """Return whether the workers are processes of this machine."""
    return _in_process(spark) or (is_connect(spark) and "SPARK_LOCAL_REMOTE" in os.environ)


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, with Spark in another process."""
    return not hasattr(spark, "_jsparkSession")


def _in_process(spark: SparkSession) -> bool:
    return not is_connect(spark) and str(spark.sparkContext.master).partition("[")[0] == "local"


def workers_have_it(spark: SparkSession) -> bool:
    """Return whether workers find this very engine, or the same elsewhere.

    On this machine a new interpreter is asked, as workers are; elsewhere a job of one task asks them.
    """
    if not _in_process(spark):
        return _told(spark) == digest()
    context: Any = spark.sparkContext
    path = context._jvm.System.getenv("PYTHONPATH") or ""
    asked = subprocess.run(
        [context.pythonExec, "-c", "import importlib.util as u; print(u.find_spec('oop_engine').origin)"],
        capture_output=True, text=True, cwd="/", check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    return asked.returncode == 0 and Path(asked.stdout.strip()).resolve().parents[1] == _OURS


def _told(spark: SparkSession) -> str:
    """Ask a worker for the digest of its engine, by a job of one task; empty when it has none, or an older one.

    SparkError where workers lack what the engine needs, which no zip can bring.
    """

    def answer(batches: Iterable[object]) -> Iterator[object]:
        # Optional: pyarrow, which workers on other machines may lack.
        import pyarrow

        try:
            import_module("numba")
        except ImportError:
            yield pyarrow.RecordBatch.from_pydict({"told": ["no numba"]})
            return
        try:
            told = str(import_module("oop_engine.spark.shipping").digest())
        except (ImportError, AttributeError):
            told = ""
        yield pyarrow.RecordBatch.from_pydict({"told": [told]})

    # Optional: pyspark.
    from pyspark.errors import PySparkException

    try:
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(answer, "told string").collect()
        told = str(row.told)
    except PySparkException as error:
        if "No module named" not in str(error):
            raise
        told = "no pyarrow"
    if told.startswith("no "):
        raise SparkError(
            f"the Python that the workers run has {told}; they need what the engine needs, and get the engine itself.\n"
            f"  {INSTALL}\n"
            "  in it, or start Spark with another: PYSPARK_PYTHON in its environment, or spark.pyspark.python."
        )
    return told


def digest() -> str:
    """Return a digest of the engine's files as they are here; another for every other engine."""
    found = hashlib.sha256()
    for path in _files():
        found.update(f"{path.relative_to(_OURS)} {path.stat().st_size} ".encode() + path.read_bytes())
    return found.hexdigest()


def _files() -> list[Path]:
    return sorted(
        path
        for package in _PACKAGES
        for path in (_OURS / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def packed() -> Path:
    """Return the zip of the engine, made anew for every state of its files."""
    files = _files()
    newest = max(path.stat().st_mtime_ns for path in files)
    target = cache_folder() / f"oop_engine-{newest:x}-{len(files)}.zip"
    if not target.exists():
        unfinished = target.with_suffix(f".{os.getpid()}.part")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as file:
            # A folder without __init__.py is a package in a zip only if it is an entry of its own.
            for folder in sorted({parent for path in files for parent in path.relative_to(_OURS).parents} - {Path()}):
                file.writestr(f"{folder.as_posix()}/", b"")
            for path in files:
                file.write(path, path.relative_to(_OURS))
        os.replace(unfinished, target)
    return target
