"""The unit of docs/service.md is one that systemd takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "service.md"
COMMAND = "/opt/oop-engine/bin/oop-engine"


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    (unit,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert f"ExecStart={COMMAND} collect" in unit
    file = tmp_path / "talkers.service"
    # The command has to be there.
    file.write_text(unit.replace(COMMAND, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_options_of_the_unit_are_those_of_the_command() -> None:
    (start,) = re.findall(rf"ExecStart={COMMAND} (.*)", PAGE.read_text(encoding="utf-8"))
    reference = (PAGE.parent / "reference" / "commands.md").read_text(encoding="utf-8")
    options = re.findall(r"--[a-z-]+", start)
    assert len(options) > 4 and all(option in reference for option in options)
