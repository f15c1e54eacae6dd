"""Another process of the same user asks a run over a Unix socket: one line of JSON asked, one line answered.

    asked      {"ask": "why"}
    answered   {"version": 1, "pid": 4711, "why": [...]}, or {"version": 1, "pid": 4711, "error": "..."}

The socket of a run with a checkpoint lies in the folder of its job. Any other lies in a folder of the user, under the
number of the process: `$XDG_RUNTIME_DIR/oop-engine`, or a private one in the folder for temporary files. Here is who
asks, which loads nothing of the engine; `answers` is who answers.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias, cast

from oop_engine.errors import NotRunning

SOCKET: Final = "socket"
"""The name of the socket in the folder of a job."""
PATIENCE: Final = 5.0
"""Seconds in which a run must come to the end of a page, and a client must have written its line."""
AVAILABLE: Final = hasattr(socket, "AF_UNIX") and hasattr(os, "geteuid")
"""Whether the system has such sockets, and numbers of users."""
_WAIT: Final = 2 * PATIENCE + 5.0
"""Seconds that a client waits; another may be before it."""
_NAME: Final = 100
"""Bytes of a path that every system takes for a socket."""
_NUMBER: Final = re.compile(r"\d{1,10}(?:\.\d{1,3})?")

Answer: TypeAlias = Mapping[str, object]


def ask(target: str | Path | int, question: str) -> Answer:
    """Return what a run answers; a `target` is the folder of its job, or the number of its process.

    NotRunning where no run is there, or it does not answer.
    """
    path, what = _socket_of(target)
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_WAIT)
        try:
            with short(path) as name:
                asking.connect(name)
            asking.sendall(as_line({"ask": question}))
            line = read_line(asking, None)
        except FileNotFoundError:
            there = "does not run" if path.parent.is_dir() else "is not there: there is no such folder"
            raise NotRunning(f"{what} {there}.") from None
        except ConnectionRefusedError:
            raise NotRunning(f"{what} was killed: its socket is left, and no process listens there.") from None
        except TimeoutError:
            raise NotRunning(
                f"{what} gave no answer in {_WAIT:.0f} s; it may be stopped (Ctrl-Z).", answers=True
            ) from None
        except PermissionError:
            raise NotRunning(f"{what} is of another user; ask as that user.", answers=True) from None
        except OSError as error:
            raise NotRunning(f"{what} cannot be asked: {error.strerror or error}.") from None
    try:
        answer = cast("dict[str, object]", json.loads(line))
    except ValueError:
        raise NotRunning(f"{what} ended before it answered.") from None
    if "error" in answer:
        raise NotRunning(f"{what} has no answer: {answer['error']}.", answers=True)
    if question not in answer:
        raise NotRunning(f"{what} gave no answer that this version of the engine reads.", answers=True)
    return answer


def running() -> list[str]:
    """Return the numbers of the runs of this user that can be asked; of a killed one, the socket is removed."""
    if not AVAILABLE:
        return []
    try:
        places = sorted(own_folder().glob("*.sock"))
    except OSError:
        return []
    found = list[str]()
    for place in places:
        if alive(place):
            found.append(place.name.removesuffix(".sock"))
        else:
            place.unlink(missing_ok=True)
    return found


def _socket_of(target: str | Path | int) -> tuple[Path, str]:
    """Return where a run is asked, and what to call it."""
    text = str(target)
    if not AVAILABLE:
        raise NotRunning("this system has no Unix sockets, so no run can be asked.")
    if isinstance(target, int) or (_NUMBER.fullmatch(text) and not Path(text).is_dir()):
        try:
            return own_folder() / f"{text}.sock", f"the run {text}"
        except FileNotFoundError:
            raise NotRunning(f"no run of this user can be asked, nor {text}.") from None
        except OSError as error:
            raise NotRunning(f"{error}.") from None
    return Path(target).expanduser().absolute() / SOCKET, f'the job in "{text}"'


def alive(path: Path) -> bool:
    """Return whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as trying:
        trying.settimeout(PATIENCE)
        try:
            with short(path) as name:
                trying.connect(name)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
    return True


@contextmanager
def short(path: Path) -> Generator[str, None, None]:
    """Yield a name of a path that is short enough for a socket, on Linux by way of its folder, which is opened."""
    if len(os.fsencode(path)) <= _NAME or not sys.platform.startswith("linux"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def own_folder(*, make: bool = False) -> Path:
    """Return the folder for sockets of this user, which nobody else can read or write; OSError for any other."""
    there = os.environ.get("XDG_RUNTIME_DIR")
    if there and Path(there).is_dir():
        folder = Path(there) / "oop-engine"
    else:
        folder = Path(tempfile.gettempdir()) / f"oop-engine-{os.geteuid()}"
    if make:
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f'"{folder}" must be a folder of this user alone (mode 0700); remove it')
    return folder


def read_line(side: socket.socket, most: int | None) -> bytes:
    """Read up to the end of a line, or as far as there is."""
    read = bytearray()
    while not read.endswith(b"\n") and (most is None or len(read) < most):
        more = side.recv(65536 if most is None else most - len(read))
        if not more:
            break
        read += more
    return bytes(read)


def as_line(content: Answer) -> bytes:
    return json.dumps(content, allow_nan=False).encode() + b"\n"
