"""A run answers other processes of its user, and one that does not run is answered for by its last checkpoint."""

from __future__ import annotations

import itertools
import json
import os
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.drive import answers, run_socket
from oop_engine.drive.answers import answered
from oop_engine.drive.questions import Questions
from oop_engine.drive.run_socket import SOCKET, as_line, ask, own_folder, running
from oop_engine.drive.why import Wait

SCHEMA = oop.Schema.of(ts="int64", host="string")
_HUNDRED = oop.tumbling(100)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder for sockets, of a user whom nobody else is."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run" / "oop-engine"


@attrs.define
class Link:
    """An endless link that can be read on from anywhere."""

    at: int = 0

    def seek(self, position: int) -> None:
        self.at = position

    def __iter__(self) -> Link:
        return self

    def __next__(self) -> tuple[int, str]:
        self.at += 1
        return self.at, "a"


@contextmanager
def started(job: str = "job", window: oop.WindowOf = _HUNDRED) -> Generator[oop.Started, None, None]:
    """Start a run that is at full speed until it is left, and wait until it can be asked."""
    stream = oop.rows(Link(), SCHEMA, name="link 1", punctuate=oop.slack(10**12))
    with stream.window(window).aggregate(oop.count(), by="host").to("out.csv").start(checkpoint=job) as run:
        while run.why(10)[0].cause != "slack":
            assert not run.ended
        yield run


def called(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["why", *arguments])


def test_a_run_at_full_speed_answers_by_its_job_and_by_its_number(folder: Path) -> None:
    with started() as run:
        (wait,) = oop.why("job")
        (same,) = oop.why(os.getpid())
        (own,) = oop.why(run)
        assert running() == [str(os.getpid())]
        for found in (wait, same, own):
            assert (found.cause, found.holder, found.needs) == ("slack", "link 1", "[ts < 100]")
            assert found.window is not None and found.window["host"] == "a"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path("job", SOCKET).stat().st_mode) == 0o600
        shown = called("--json")
        (data,) = json.loads(shown.stdout)
        assert data["holder"] == "link 1" and data["text"] == str(Wait.from_json(data))
        assert "tuples may be" in called("job").stdout
    assert not Path("job", SOCKET).exists() and running() == []
    assert called().exit_code == 2


def test_a_job_that_does_not_run_is_answered_for_by_its_checkpoint() -> None:
    with started() as run:
        run.stop()
    (wait,) = oop.why("job")
    assert wait.cause == "not running" and wait.window == {"window_start": "0", "window_end": "100"}
    assert "does not run" in str(wait) and "start it again" in str(wait)
    shown = called("job")
    assert shown.exit_code == 0 and shown.stdout == f"{wait}\n"


def test_a_window_from_the_begin_of_the_stream_is_told_of_a_job_that_does_not_run() -> None:
    with started(window=oop.sliding("ALL", 100)) as run:
        run.stop()
    (wait,) = oop.why("job")
    assert wait.window == {"window_start": "begin of stream", "window_end": "100"}


def test_the_socket_of_a_killed_run_is_told_and_taken_over() -> None:
    with started() as run:
        run.stop()
    # What a kill leaves: a socket where nobody listens.
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(Path("job", SOCKET)))
    with pytest.raises(oop.NotRunning, match="was killed"):
        ask("job", "why")
    assert "was killed" in str(oop.why("job")[0])
    with started():
        assert oop.why("job")[0].cause == "slack"


def test_a_link_to_a_killed_run_is_removed_when_runs_are_counted(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "4711.sock").symlink_to("gone")
    assert running() == [] and list(folder.iterdir()) == []


def test_a_job_deep_in_folders_is_asked_all_the_same(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a" * 60] * 3)
    deep.mkdir(parents=True)
    with started(str(deep / "job")):
        assert oop.why(deep / "job")[0].cause == "slack"
        assert oop.why(os.getpid())[0].cause == "slack"


def test_two_runs_of_one_process_have_a_number_each() -> None:
    one, two = Questions(), Questions()
    with answered(one), answered(two):
        assert running() == [f"{os.getpid()}.2", str(os.getpid())]
        shown = called()
        assert shown.exit_code == 2 and "2 runs can be asked" in shown.stderr
    assert running() == []


def test_who_may_be_read_by_others_is_not_served_and_the_run_goes_on(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    told = list[str]()
    with answered(Questions(), told=told.append):
        assert len(told) == 1 and "mode 0700" in told[0]
    with pytest.raises(oop.NotRunning, match="mode 0700"):
        ask(os.getpid(), "why")


def test_a_run_that_comes_to_no_page_says_what_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PATIENCE", 0.05)
    with answered(Questions()), pytest.raises(oop.NotRunning, match="came to the end of no page"):
        ask(os.getpid(), "why")


def raising(*_: object) -> Callable[[], object]:
    raise LookupError("planted")


def test_an_answer_that_fails_is_told_to_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "QUESTIONS", {"why": lambda: raising})
    questions = Questions()
    with answered(questions):
        questions.close()
        with pytest.raises(oop.NotRunning, match="LookupError: planted"):
            ask(os.getpid(), "why")


@pytest.mark.parametrize("asked", [b"", b"why\n", b"[1]\n", b'{"ask": ["why"]}\n', b'{"ask": "state"}\n', b"x" * 5000])
def test_what_is_no_question_is_answered_with_those_that_are(monkeypatch: pytest.MonkeyPatch, asked: bytes) -> None:
    questions = Questions()
    with answered(questions):
        questions.close()
        with monkeypatch.context() as patched:
            patched.setattr(answers, "PATIENCE", 0.05)
            patched.setattr(run_socket, "as_line", lambda _: asked)
            with pytest.raises(oop.NotRunning, match=r'answers \{"ask": "why"\}|ended before|cannot be asked'):
                ask(os.getpid(), "why")
        assert ask(os.getpid(), "why")["why"] == []


@pytest.mark.parametrize(
    ("target", "said"), [("nowhere", "no such folder"), (".", "does not run"), ("4711", "4711"), (4711, "4711")]
)
def test_where_nothing_runs_an_error_says_so(target: str | int, said: str) -> None:
    with pytest.raises(oop.NotRunning, match=said):
        oop.why(target)
    assert called(str(target)).exit_code == 2


def test_an_outcome_has_ended_and_tells_its_late_tuples() -> None:
    rows = [(1, "a"), (50, "a"), (2, "a")]
    outcome = oop.rows(iter(rows), SCHEMA, punctuate=oop.ordered()).window(range=10).aggregate(oop.count()).run()
    (wait,) = oop.why(outcome)
    assert wait.cause == "ended" and "1 late tuple" in str(wait)


def test_a_wait_is_the_same_after_json() -> None:
    stream = oop.rows(iter([(1, "a"), (12, "b"), (25, "a")]), SCHEMA, name="r", punctuate=oop.slack(20))
    with stream.window(range=10).aggregate(oop.count(), by="host").start(page_rows=1) as run:
        for _ in itertools.islice(run, 1):
            (wait,) = oop.why(run)
            again = Wait.from_json(json.loads(as_line(wait.to_json())))
            assert again == wait and str(again) == wait.to_json()["text"]
            assert own_folder(make=True).name == "oop-engine"
            return
    pytest.fail("no window was released")
