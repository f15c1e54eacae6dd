"""Collectors that are killed (SIGKILL) lose nothing that checkpoint or journal has, and count what they do lose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.examples import by_turns, mostly_slow

ROOT = Path(__file__).parents[3]
WAYS = [(journal, how) for journal in ("journal", "none") for how in ("datagrams", "streams")]


def killed(folder: Path, journal: str, kills: int, seed: int, how: str) -> str:
    """Kill collectors and return what was printed last."""
    module = "tests.oop_engine.checkpoints.dying_collector"
    # Collectors are children of their own; what hangs prints where, and ends with them.
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-m", module, str(folder), journal, str(kills),
         str(seed), how],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    ) as master:  # fmt: skip
        try:
            printed, errors = master.communicate(timeout=400)
        except subprocess.TimeoutExpired:
            os.killpg(master.pid, signal.SIGABRT)
            printed, errors = master.communicate()
    with suppress(ProcessLookupError):
        os.killpg(master.pid, signal.SIGKILL)
    assert master.returncode == 0, printed + errors[-6000:]
    return printed.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "how"), mostly_slow(WAYS, but=[("journal", "streams")]))
def test_killed_collectors_give_the_naive_answer_over_what_came(journal: str, how: str, tmp_path: Path) -> None:
    assert killed(tmp_path, journal, 4, 7, how) == "killed 4"


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "how"), WAYS)
def test_collectors_that_are_killed_again_and_again_give_it_too(journal: str, how: str, tmp_path: Path) -> None:
    for seed in by_turns(range(3), 3):
        (folder := tmp_path / str(seed)).mkdir()
        assert killed(folder, journal, 20, seed, how) == "killed 20"
