"""Runs that are killed (SIGKILL) at operations on a real disk give, when they are run again, the answer of one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.oop_engine.checkpoints.scenarios import QUERIES

ROOT = Path(__file__).parents[3]


def killed(folder: Path, name: str, *, every: int, kills: int) -> int:
    """Kill runs of a scenario and return how many were; AssertionError where one ended in other results."""
    module = "tests.oop_engine.checkpoints.dying"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, str(folder), name, str(every), str(kills), "1"],
        capture_output=True, text=True, cwd=ROOT, timeout=800, check=False,
    )  # fmt: skip
    *wrong, last = done.stdout.splitlines() or [""]
    assert not wrong and done.returncode == 0 and last.startswith("killed "), done.stdout + done.stderr[-3000:]
    return int(last.removeprefix("killed "))


@pytest.mark.parametrize("name", QUERIES)
def test_killed_at_some_operations_the_answer_is_that_of_one_run(name: str, tmp_path: Path) -> None:
    assert killed(tmp_path, name, every=40, kills=5) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sliding", "joined", "captured", "early results"])
def test_killed_at_random_times_the_answer_is_that_of_one_run(name: str, tmp_path: Path) -> None:
    assert killed(tmp_path, name, every=0, kills=25) >= 25


def test_killed_at_any_time_the_answer_is_that_of_one_run(tmp_path: Path) -> None:
    assert killed(tmp_path, "melded", every=0, kills=6) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_killed_at_every_operation_the_answer_is_that_of_one_run(name: str, tmp_path: Path) -> None:
    assert killed(tmp_path, name, every=1, kills=60) >= 60
