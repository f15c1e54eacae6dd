"""Compile kernels while a wheel is built, so that the first query of a machine waits for no compiler.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true python -m hatchling build -t wheel

The wheel is then of one version of Python and one platform. Its kernels are used with the numba and the minor version
of NumPy that it was built with; with others, and on older processors, kernels compile at their first use, as from the
wheel without this hook. OOP_LEVELS names the classes of processors, x86-64-v3 if it is not set, with commas between.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INTO = "operators/kernels/brought"
_WARM = """
from oop_engine.warming import warm
warmed = warm(progress=True)
assert not warmed.failed, warmed.failed
"""


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """Bring compiled kernels with the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for each class of processors, and say what the wheel is then of."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._made = tempfile.TemporaryDirectory()
        usual = "x86-64-v3" if platform.machine().lower() in ("x86_64", "amd64") else ""
        for level in filter(None, (os.environ.get("OOP_LEVELS") or usual).split(",")):
            subprocess.run(
                [sys.executable, "-c", _WARM],
                cwd=self.root,
                env={
                    **os.environ,
                    "NUMBA_CPU_NAME": level,
                    "NUMBA_CPU_FEATURES": "",
                    "NUMBA_CACHE_DIR": self._made.name,
                    "PYTHONPATH": self.root,
                },
                check=True,
            )
        for path in Path(self._made.name).rglob("*.kernel"):
            build_data["force_include"][str(path)] = f"{INTO}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{sys.implementation.cache_tag.replace('cpython-', 'cp')}-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if hasattr(self, "_made"):
            self._made.cleanup()


def _platform() -> str:
    """Return the platform as wheels name it: machine code calls Python and numba, and no library of the system."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"manylinux_2_17_{name.removeprefix('linux_')}" if name.startswith("linux_") else name
