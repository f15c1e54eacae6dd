"""A run answers other processes of its user over a Unix socket; `run_socket` is who asks, and says where it lies.

A thread waits at the socket, so a run that hangs in an operator is answered for, too. The answer itself is read between
two pages of the run.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.questions import Questions
from oop_engine.drive.run_socket import (
    AVAILABLE,
    PATIENCE,
    SOCKET,
    Answer,
    alive,
    as_line,
    own_folder,
    read_line,
    short,
)
from oop_engine.messages import say

if TYPE_CHECKING:
    from oop_engine.drive.view import Viewer

VERSION: Final = 1
_LONGEST: Final = 4096
"""Bytes of a line that is asked."""


Question: TypeAlias = Callable[[Circuit | None], Callable[[], object]]
"""Reads a run between two pages, and returns what makes the answer of that, while the run goes on."""


def _waits(circuit: Circuit | None) -> Callable[[], object]:
    # Start-up: few runs are asked.
    from oop_engine.drive.why import why

    found = () if circuit is None else why(circuit)
    return lambda: [wait.to_json() for wait in found]


@attrs.define(eq=False)
class _Looks:
    """Look at a run as often as one is asked for."""

    _viewer: Viewer | None = attrs.field(init=False, default=None)

    def __call__(self, circuit: Circuit | None) -> Callable[[], object]:
        # Start-up: as in `_waits`.
        from oop_engine.drive.view import Viewer

        if circuit is None:
            return lambda: None
        if self._viewer is None or self._viewer.circuit is not circuit:
            self._viewer = Viewer(circuit)
        return self._viewer.look().plain


QUESTIONS: Final[Mapping[str, Callable[[], Question]]] = {"why": lambda: _waits, "view": _Looks}
"""What can be asked of a run, each question made anew for it."""


@contextmanager
def answered(
    questions: Questions, job: Path | None = None, *, told: Callable[[str], None] = say
) -> Generator[None, None, None]:
    """Let other processes ask a run until it has ended; where that cannot be, it is `told`, and the run goes on."""
    with ExitStack() as stack:
        stack.callback(questions.close)
        if AVAILABLE:
            try:
                stack.enter_context(_listening(questions, job))
            except OSError as error:
                told(f"note: oop-engine why cannot ask this run, which goes on: {error.strerror or error}.")
        yield


@contextmanager
def _listening(questions: Questions, job: Path | None) -> Generator[None, None, None]:
    with ExitStack() as stack:
        listener = _in_job(job) if job is not None else None
        if listener is None:
            listener = _by_number(own_folder(make=True))
        else:
            # Who knows the number only finds the run, too; without it, the folder of the job is enough.
            with suppress(OSError):
                stack.enter_context(_linked(listener.path))
        stack.enter_context(listener)
        threading.Thread(target=listener.serve, args=(questions, job), name="questions", daemon=True).start()
        yield


def _in_job(job: Path) -> _Listener | None:
    """Bind the socket of a job, which no other run has; None on a disk that takes no sockets."""
    path = job.absolute() / SOCKET
    try:
        # The run that left it was killed: this one has the lock of the job.
        path.unlink(missing_ok=True)
        return _Listener.bound(path)
    except OSError:
        return None


def _by_number(folder: Path) -> _Listener:
    """Bind a socket that is named after this process; a second run in it gets a second one."""
    for path in _numbered(folder):
        if alive(path):
            continue
        path.unlink(missing_ok=True)
        return _Listener.bound(path)
    raise OSError(f'"{folder}" has too many sockets of this process')


@contextmanager
def _linked(target: Path) -> Generator[None, None, None]:
    """Have a link to a socket among those that are named after a process."""
    for path in _numbered(own_folder(make=True)):
        if not alive(path):
            path.unlink(missing_ok=True)
            path.symlink_to(target)
            break
    else:
        raise OSError("too many sockets of this process")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _numbered(folder: Path) -> Iterator[Path]:
    yield folder / f"{os.getpid()}.sock"
    yield from (folder / f"{os.getpid()}.{number}.sock" for number in range(2, 100))


@attrs.define(eq=False)
class _Listener:
    """A socket that answers one client after another."""

    path: Path
    _socket: socket.socket
    _wake: tuple[socket.socket, socket.socket] = attrs.field(init=False, factory=socket.socketpair)

    @classmethod
    def bound(cls, path: Path) -> _Listener:
        made = socket.socket(socket.AF_UNIX)
        try:
            # On Linux the socket is made with this mode; elsewhere it gets it afterwards, and its folder keeps others
            # out, or the number of the user that each client has.
            with suppress(OSError):
                os.fchmod(made.fileno(), 0o600)
            with short(path) as name:
                made.bind(name)
            os.chmod(path, 0o600)
            made.listen(8)
            made.setblocking(False)
            return cls(path, made)
        except BaseException:
            made.close()
            raise

    def __enter__(self) -> _Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
        self._wake[1].close()  # the thread sees it, and closes the others

    def serve(self, questions: Questions, job: Path | None) -> None:
        """Answer until the run ends; a client that goes away or says nothing concerns nobody else."""
        known = {name: make() for name, make in QUESTIONS.items()}
        with self._socket, self._wake[0], selectors.DefaultSelector() as ready:
            for waiting in (self._socket, self._wake[0]):
                ready.register(waiting, selectors.EVENT_READ)
            while all(key.fileobj is self._socket for key, _ in ready.select()):
                with suppress(OSError):
                    client, _ = self._socket.accept()
                    with client:
                        client.settimeout(PATIENCE)
                        if _same_user(client):
                            client.sendall(as_line(_answer(read_line(client, _LONGEST), known, questions, job)))


def _answer(asked: bytes, known: Mapping[str, Question], questions: Questions, job: Path | None) -> Answer:
    """Return what a line that was asked is answered with."""
    head: Answer = {"version": VERSION, "pid": os.getpid(), "job": None if job is None else str(job.absolute())}
    try:
        given = json.loads(asked)
    except ValueError:
        given = None
    name = cast("dict[str, object]", given).get("ask") if isinstance(given, dict) else None
    question = known.get(name) if isinstance(name, str) else None
    if question is None:
        others = " or ".join(f'{{"ask": "{other}"}}' for other in known)
        return {**head, "error": f"this run answers {others}, and was asked {asked[:80].decode(errors='replace')}"}
    try:
        return {**head, str(name): questions.ask(question, PATIENCE)()}
    except TimeoutError:
        work = None if questions.circuit is None else questions.circuit.at_work()
        where = "" if work is None else f": it is {work[1]}"
        return {**head, "error": f"the run came to the end of no page in {PATIENCE:.0f} s{where}"}
    except Exception as error:  # whoever asked is told, and the run goes on
        return {**head, "error": f"this is a bug in oop-engine, please report it: {type(error).__name__}: {error}"}


def _same_user(client: socket.socket) -> bool:
    """Return whether a client is of this user, or of root; where the system does not tell, the mode of the file did."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user in (os.geteuid(), 0)
