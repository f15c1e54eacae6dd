"""Runs that are killed (SIGKILL) at operations on a real disk give, when they are run again, the answer of one run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import examples
from tests.examples import mostly_slow
from tests.oop_engine.checkpoints.scenarios import OPERATORS, QUERIES

ROOT = Path(__file__).parents[3]
Killer = Callable[..., int]


@pytest.fixture(scope="module")
def killed(request: pytest.FixtureRequest) -> Iterator[Killer]:
    """Kill runs of a scenario and return how many were; AssertionError where one ended in other results.

    Random places follow from the seed that pytest prints, another each week and each night; --hypothesis-seed gives it
    again. One process forks the runs of all tests, so that the engine is imported once.
    """
    seed = request.config.getoption("--hypothesis-seed")
    command = [sys.executable, "-W", "ignore", "-m", "tests.oop_engine.checkpoints.dying"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdin is not None and process.stdout is not None

    def kill(folder: Path, name: str, *, every: int, kills: int) -> int:
        process.stdin.write(json.dumps([str(folder), name, every, kills, f"{seed} {name}"]) + "\n")
        process.stdin.flush()
        wrong = []
        while not (line := process.stdout.readline()).startswith("killed "):
            wrong.append(line)
            assert line, "".join(wrong)
        assert not wrong, "".join(wrong)
        return int(line.removeprefix("killed "))

    yield kill
    process.stdin.close()
    process.stdout.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize("name", mostly_slow(QUERIES, but=["logged"]))
def test_killed_at_some_operations_the_answer_is_that_of_one_run(name: str, killed: Killer, tmp_path: Path) -> None:
    assert killed(tmp_path, name, every=40, kills=5) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sliding", "joined", "captured", "early results"])
def test_killed_at_random_times_the_answer_is_that_of_one_run(name: str, killed: Killer, tmp_path: Path) -> None:
    assert killed(tmp_path, name, every=0, kills=10) >= 10


def test_killed_at_any_time_the_answer_is_that_of_one_run(killed: Killer, tmp_path: Path) -> None:
    assert killed(tmp_path, "melded", every=0, kills=6) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_killed_at_every_few_operations_the_answer_is_that_of_one_run(
    name: str, killed: Killer, tmp_path: Path
) -> None:
    kills = examples.chosen.kills
    assert killed(tmp_path, name, every=examples.chosen.every, kills=kills) >= kills


@pytest.mark.slow
def test_every_kind_of_operator_is_killed_and_gives_the_answer_of_one_run(killed: Killer, tmp_path: Path) -> None:
    names, kills = list(OPERATORS), examples.chosen.kills // 4
    for number in examples.by_turns(range(len(names)), 8):
        (folder := tmp_path / str(number)).mkdir()
        assert killed(folder, names[number], every=3 * examples.chosen.every, kills=kills) >= kills


@pytest.mark.slow
def test_followers_of_growing_files_that_are_killed_give_the_naive_answer_over_all_lines(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.oop_engine.checkpoints.dying_follower",
        str(tmp_path),
        "3",
        "5",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    assert done.stdout == "killed 3\n", done.stdout + done.stderr[-3000:]
