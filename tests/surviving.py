"""Runs a piece of Python in a process of its own that may not die: what it printed last tells where it did."""

from __future__ import annotations

import subprocess
import sys


def survive(code: str, *arguments: str, timeout: float = 300.0) -> str:
    """Run Python in a child and give its output; AssertionError, with the last line, where the child was killed."""
    child = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
    last = child.stdout.splitlines()[-1:] or ["nothing"]
    assert child.returncode == 0, f"it ended with {child.returncode} after {last[0]}\n{child.stderr[-3000:]}"
    return child.stdout
