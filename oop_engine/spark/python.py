"""Start Spark's Python processes on this machine in a third of the time, with pyspark as it is installed.

Spark puts its own zip of pyspark in front of what they import. Python keeps no bytecode of a zip, so each process
compiles all of it again, 0.7 to 1 s, and a query starts a dozen processes. The Python that is installed has the same
pyspark, compiled.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from oop_engine.spark.wrappers import written

_WRAPPER: Final = """#!/bin/sh
kept=
IFS=:
set -f
for place in $PYTHONPATH; do
  case "$place" in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept="$kept${{kept:+:}}$place" ;;
  esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""
_ZIPPED: Final = ("pyspark", "py4j")


def worker_python() -> str:
    """Return what to run as this Python in processes that Spark starts on this machine."""
    if os.name != "posix" or not all(map(_is_installed, _ZIPPED)):
        return sys.executable
    script = written("python", _WRAPPER.format(python=shlex.quote(sys.executable)), "bin/python") / "bin" / "python"
    # Homes may be mounted so that nothing in them is run.
    return str(script) if os.access(script, os.X_OK) else sys.executable


def _is_installed(name: str) -> bool:
    """Return whether a package is where this Python finds it without being told where."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return False
    told = {Path(place).resolve() for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place}
    return spec.origin.endswith(".py") and Path(spec.origin).resolve().parents[1] not in told
