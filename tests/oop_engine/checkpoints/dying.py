"""A process that runs scenarios in children which are killed (SIGKILL) at the n-th operation on the disk, and again.

Each line that it reads is a task: [folder, scenario, every, kills, seed]. It prints a line for each run whose results
are others than those of an undisturbed run, and at last how many were killed. Children are forked from a process that
ran the scenario once, so that kernels are loaded.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs

from oop_engine.drive.limit import Limit
from oop_engine.sinks.disk import RealDisk
from tests.oop_engine.checkpoints.scenarios import FEW, LIMITS, SCENARIOS, answer, data, found, run


@attrs.define(eq=False)
class Deadly(RealDisk):
    """The disk of a process that dies before its n-th operation, or in the middle of it where it writes."""

    dies_at: int
    done: int = 0

    def _step(self) -> bool:
        self.done += 1
        return self.done == self.dies_at

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def make(self, folder: Path) -> None:
        if self._step():
            self._die()
        super().make(folder)

    def _put(self, path: Path, data: bytes, how: int) -> None:
        if self._step():
            super()._put(path, data[: len(data) // 2], how)
            self._die()
        super()._put(path, data, how)

    def truncate(self, path: Path, length: int) -> None:
        if self._step():
            self._die()
        super().truncate(path, length)

    def _sync(self, path: Path) -> None:
        if self._step():
            self._die()
        super()._sync(path)

    def rename(self, old: Path, new: Path) -> None:
        if self._step():
            self._die()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        if self._step():
            self._die()
        super().remove(path)


def child(work: Callable[[], object], *, after: float | None = None) -> int:
    """Do some work in a forked child, and kill it after some seconds; return how it ended, negative for a signal."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(f"child failed: {error!r}", flush=True)
        finally:
            os._exit(status)
    os.close(writing)
    if after is not None:
        select.select([reading], [], [], after)  # it ends early where the child has: nobody writes there
        os.kill(pid, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at(name: str, files: Path, place: Path, points: list[int], want: Path) -> int:
    """Kill runs of one job at these operations, each counted from the start of its run, then let it end."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    killed = 0
    for number, point in enumerate([*points, 0]):
        ended = child(lambda n=number, p=point: run(name, files, place, seed=n, disk=Deadly(p), every=0.02))
        assert ended in (0, -signal.SIGKILL), (name, points, ended)
        killed += ended != 0
        if not ended and point:
            break
    ended = child(lambda: _compare(name, place, want))
    if ended:
        print(f"{name} killed at {points}: the results differ", flush=True)
    return killed


def kill_in_time(name: str, files: Path, place: Path, kills: int, luck: random.Random, want: Path) -> int:
    """Kill runs with threads and the clock of the system at random times, until so many were killed."""
    make, target = SCENARIOS[name]
    killed = 0

    def whole() -> None:
        bytes_, policy = LIMITS.get(name, (0, None))
        # This process is a child of its own; no user may have as little.
        Limit.lanes = lambda self, operators: bytes_
        memory = None if policy is None else "1 MB"
        make(files).to(place / target).run(checkpoint=place / "job", every=0.02, memory=memory, memory_policy=policy)

    while killed < kills:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        ended: int | None = -signal.SIGKILL
        while ended:
            ended = child(whole, after=luck.uniform(0.005, 0.3))
            assert ended in (0, -signal.SIGKILL), (name, ended)
            killed += ended != 0
        if child(lambda: _compare(name, place, want)):
            print(f"{name} killed at random times: the results differ", flush=True)
    return killed


def _compare(name: str, place: Path, want: Path) -> None:
    expected = Counter(eval(want.read_text()))
    got = found(name, place, RealDisk())
    assert got == expected, (list((expected - got).items())[:3], list((got - expected).items())[:3])


def main(folder: Path, name: str, every: int, kills: int, seed: str) -> int:
    """Kill at each `every`-th operation once, then at random places so often that `kills` were killed in all.

    The seed decides which operation is the first. With 0 for `every`, kill at random times.
    """
    files, place, want = folder / "files", folder / "place", folder / "want"
    files.mkdir()
    data(files, FEW)
    want.write_text(repr(dict(answer(name, files))))
    place.mkdir()
    run(name, files, place, seed=0, every=0.02)
    luck = random.Random(seed)
    if not every:
        return kill_in_time(name, files, place, kills, luck, want)
    killed, point = 0, luck.randint(1, every)
    while kill_at(name, files, place, [point], want):
        killed += 1
        point += every
    while killed < kills:
        killed += kill_at(name, files, place, [luck.randint(1, max(2, point)) for _ in range(3)], want)
    return killed


if __name__ == "__main__":
    for line in sys.stdin:
        folder, name, every, kills, seed = json.loads(line)
        print(f"killed {main(Path(folder), name, every, kills, seed)}", flush=True)
