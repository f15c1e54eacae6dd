"""The key w asks a run in its terminal what it waits for, and the terminal is afterwards as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine.cli.key import Asked, listening, pressed
from oop_engine.drive.synchronous import Run
from oop_engine.stopping import leave

pty = pytest.importorskip("pty", reason="this system has no such terminals")
termios = pytest.importorskip("termios", reason="this system has no such terminals")
WAIT = 10.0


@pytest.fixture
def terminal() -> Generator[tuple[int, int], None, None]:
    """Give both ends of a terminal: who types, and the program."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def modes(end: int) -> int:
    return int(termios.tcgetattr(end)[3])


def test_the_key_w_asks_and_no_other_does(terminal: tuple[int, int]) -> None:
    typing, program = terminal
    before, asked = termios.tcgetattr(program), threading.Semaphore(0)
    with pressed(lambda: asked.release(), program):
        assert not modes(program) & (termios.ICANON | termios.ECHO)
        assert modes(program) & termios.ISIG  # Ctrl-C still is one
        os.write(typing, b"xq w")
        assert asked.acquire(timeout=WAIT)
    assert termios.tcgetattr(program) == before and not asked.acquire(blocking=False)


def test_a_run_that_fails_puts_the_terminal_back(terminal: tuple[int, int]) -> None:
    _, program = terminal
    before = termios.tcgetattr(program)
    with pytest.raises(LookupError), pressed(lambda: None, program):
        raise LookupError
    assert termios.tcgetattr(program) == before


def test_a_process_that_ends_at_once_puts_the_terminal_back(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, program = terminal
    before = termios.tcgetattr(program)
    seen = list[object]()
    monkeypatch.setattr(os, "_exit", lambda status: seen.append((status, termios.tcgetattr(program))))
    with pressed(lambda: None, program):
        leave(130)
    assert seen == [(130, before)]


def test_what_was_asked_is_answered_once_between_two_pages() -> None:
    stream = oop.rows(iter([(1,), (12,), (25,)]), oop.Schema.of(ts="int64"), name="r", punctuate=oop.slack(20))
    run = Run(stream.window(range=10).aggregate(oop.count()).start(page_rows=1).plan)
    told = list[str]()
    asked = Asked(told.append)
    asked.watch(run.circuit)
    assert told == []
    asked.ask()
    asked.watch(run.circuit)
    asked.watch(run.circuit)
    assert len(told) == 1 and told[0].endswith("the run has not begun.")


def test_a_signal_asks_and_is_let_go_of() -> None:
    before, asked = signal.getsignal(signal.SIGUSR1), threading.Event()
    with listening(asked.set, keys=False):
        signal.raise_signal(signal.SIGUSR1)
        assert asked.wait(WAIT)
    assert signal.getsignal(signal.SIGUSR1) == before


PROGRAM = """
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.executable, [sys.executable, "-m", "oop_engine", *sys.argv[1:]])
shown = b""
asked = stopped = False
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        break
    if not more:
        break
    shown += more
    if b"records/s" in shown and not asked:
        asked = True
        os.write(terminal, b"w")
    if b"open window" in shown and not stopped:
        stopped = True
        os.write(terminal, b"\\x03")
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_collection_answers_the_key_in_its_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "collect", "--netflow", "127.0.0.1:0", "--to", str(tmp_path / "out.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout
    assert "by exporter: no tuple is in an open window" in done.stdout
