"""A process of a level: how it is begun, and how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs

from oop_engine.processes.errors import ProcessError
from oop_engine.processes.frames import Full
from oop_engine.processes.ring import Ring
from operators.kernels.compile.disk_cache import prepare

SAID: Final = 4
"""The exit status of a process that failed and has said why."""


def check_processes() -> None:
    """Raise ProcessError where memory cannot be handed on to another process."""
    if os.name != "posix":
        raise ProcessError(
            f"levels hand memory on to other processes, which they cannot here ({sys.platform}).\n"
            '  Write layout="thread", without low=.'
        )


@attrs.define(eq=False)
class LevelProcess:
    """Hold a process that runs one level, and the ring that it writes into."""

    name: str
    """What it is, as "the high level" or "low level 2"."""
    output: Ring
    instead: str
    """What a user may write so that there is no such process."""
    _process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, name: str, level: Mapping[str, object], inputs: Sequence[Ring], output: Ring, full: Full, instead: str
    ) -> LevelProcess:
        """Begin a process that is the level that was written down; it reads `inputs` and writes `output`.

        - `full`: what it does when there is no room in its output.
        """
        prepare()
        rings = (output, *inputs)
        numbers = [str(number) for ring in rings for number in (ring.descriptor, ring.capacity)]
        process = subprocess.Popen(
            [sys.executable, "-m", "oop_engine.processes.child", *numbers],
            pass_fds=[ring.descriptor for ring in rings],
            stdin=subprocess.PIPE,
        )
        assert process.stdin is not None
        # One that is gone already is found by whoever waits for what it writes.
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps({"name": name, "level": level, "full": full}).encode())
        return cls(name, output, instead, process)

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Return the status with which it ended, None as long as it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End it. One whose streams have ended does nothing any more but leave, which takes longer."""
        self._process.kill()
        self._process.wait()


def check_alive(processes: Sequence[LevelProcess], codes: Iterable[int | None]) -> None:
    """Raise ProcessError when one of the processes is gone that still had something to give.

    - `codes`: how they had ended before what there is of them was taken. What one said that failed comes as a frame, of
      all but the last one perhaps through others.
    """
    for process, code in zip(processes, codes, strict=True):
        if not code or (code == SAID and process is not processes[-1]):
            continue
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
        raise ProcessError(
            f"the process of {process.name} (pid {process.pid}) {how} before the stream did.\n"
            "  Its results so far were given; the partial aggregates it held are lost. Run it again, or write "
            f"{process.instead}."
        )
