"""Kernels compiled ahead: every run of `warm` runs, and says what it could not do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine import warming
from operators.kernels.compile import disk_cache

ROOT = Path(__file__).parents[2]
SHORT = ("rows", "early results", "flows")


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(n, marks=pytest.mark.slow) for n in warming.runs())])
def test_a_run_yields_results(name: str, tmp_path: Path) -> None:
    for stream in warming.runs()[name](tmp_path):
        assert stream.run().table.num_rows


def _programs(monkeypatch: pytest.MonkeyPatch, folder: Path, **programs: str) -> list[list[str]]:
    """Let `warm` start programs of ours; return what ran at the same time, at each start."""
    beside = list[list[str]]()
    running = dict[str, subprocess.Popen[str]]()

    def start(name: str) -> subprocess.Popen[str]:
        beside.append([other for other, process in running.items() if process.poll() is None])
        command = [sys.executable, "-c", programs[name]]
        running[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return running[name]

    monkeypatch.setattr(warming, "_start", start)
    monkeypatch.setattr(warming, "runs", lambda: programs)
    monkeypatch.setattr(disk_cache, "lasting", lambda: folder)
    return beside


def test_the_first_run_is_alone_and_others_are_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = _programs(monkeypatch, tmp_path, one="pass", two="pass", three="pass")
    told = list[tuple[int, int]]()
    warmed = oop.warm(progress=lambda done, whole: told.append((done, whole)), processes=2)
    assert beside[:2] == [[], []]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert warmed == oop.Warmed(tmp_path, 0, 0)


def test_a_run_that_fails_is_named_with_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _programs(monkeypatch, tmp_path, one="print('no'); raise SystemExit('disk full')", two="raise SystemExit(7)")
    assert oop.warm(progress=False).failed == {"one": "disk full", "two": "exit status 7"}


def test_kernels_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _programs(monkeypatch, tmp_path, one=f"open({str(tmp_path / 'a.kernel')!r}, 'w')")
    warmed = oop.warm(progress=False)
    assert (warmed.before, warmed.after) == (0, 1)
    assert warming.sentence(warmed, 3.2).startswith("1 kernel compiled in 3 s; 1 are in")


def test_the_bar_is_drawn_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _programs(monkeypatch, tmp_path, one="pass", two="pass")
    oop.warm(progress=True, processes=1)
    assert capsys.readouterr().err.endswith(f"\rcompiling kernels [{'#' * 30}] 2 of 2 runs\n")


def test_where_nothing_is_kept_nothing_is_compiled() -> None:
    command = [sys.executable, "-m", "oop_engine", "warm"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 2
    assert "kernels cannot be kept" in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.slow
def test_a_query_after_its_run_compiles_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    program = "from oop_engine.warming import run; run('a first query')"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=environment)
    folder = tmp_path / disk_cache.FOLDER
    before = disk_cache.count(folder)
    query = "SELECT srcIP, count(*), sum(len) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP"
    command = [sys.executable, "-m", "oop_engine", "query", query, "-s", f"Main={ROOT}/demos/captures/web.pcap.gz"]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)
    assert 30 < before == disk_cache.count(folder)
