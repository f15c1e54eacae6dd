"""Demos run as a reader would run them, and print their own explanation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import mostly_slow

ROOT = Path(__file__).resolve().parents[1]
DEMOS = sorted((ROOT / "demos").glob("*.py"))
ON_SPARK = ("captures_to_tables",)
SHORT = ("q2_1_groups", "quantiles", "windows_together")
"""Those that the default run shows; the others are among the longer tests."""


@pytest.mark.parametrize("demo", mostly_slow([demo.stem for demo in DEMOS], but=SHORT))
def test_a_demo_runs_and_explains_itself(demo: str) -> None:
    if demo in ON_SPARK:
        pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
    path = ROOT / "demos" / f"{demo}.py"
    done = subprocess.run([sys.executable, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) > 5


@pytest.mark.parametrize("demo", DEMOS, ids=lambda path: path.stem)
def test_a_demo_is_short(demo: Path) -> None:
    assert len(demo.read_text().splitlines()) <= 40


def test_partitions_and_groups_give_different_answers() -> None:
    demo = ROOT / "demos" / "q5_2_against_q5_3.py"
    done = subprocess.run([sys.executable, str(demo)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    partitioned, grouped = done.stdout.split("Q5-3, each")
    assert "b: rows 2 to 5: longest 500" in partitioned
    assert "b: rows 2 to 5: longest 700" in grouped
