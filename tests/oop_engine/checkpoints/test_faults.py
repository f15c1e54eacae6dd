"""A disk that is full, fails or can only be read ends the run with a message; the last checkpoint stays whole.

What is damaged of a checkpoint, whichever byte it is, is found out.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.savepoint import taken
from oop_engine.drive.checkpoints.store import Checkpoint, Store
from oop_engine.errors import CheckpointError
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from tests.examples import by_turns, mostly_slow
from tests.oop_engine.checkpoints.scenarios import FEW, answer, data, found, run
from tests.oop_engine.checkpoints.simulated_disk import Crash, Failing, SimulatedDisk

PLACE = Path("/simulated")
ROOT = Path(__file__).parents[3]
OWN = ("unshare", "--user", "--map-root-user", "--mount")
"""Runs a command with disks of its own."""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    data(folder, FEW)
    return folder


@pytest.mark.parametrize("kind", mostly_slow(["sync", "write", "sync_folder", "rename", "remove"], every=3))
@pytest.mark.parametrize("name", mostly_slow(["sliding", "sessions", "logged"], but=["sessions"]))
def test_an_error_of_the_disk_ends_the_run_and_the_next_is_exact(name: str, kind: str, few: Path) -> None:
    """Also where the machine stops after that: what a sync that failed left is not durable, nor taken for it."""
    expected, failed = answer(name, few), 0
    for first in range(1, 40, 3):
        disk = Failing(seed=first, kind=kind, first=first)
        try:
            run(name, few, PLACE, seed=1, disk=disk, every=0.02)
        except WriteFailed as error:
            assert str(PLACE) in str(error)
            failed += 1
            if first % 2:
                disk.crash()
            run(name, few, PLACE, seed=2, disk=disk, every=0.02)
        assert found(name, PLACE, disk) == expected, (kind, first)
    assert failed > 1


FIRST = {"write": 16, "sync": 17, "sync_folder": 7, "rename": 2, "remove": 6}
"""An operation of each kind behind those of the first checkpoint."""


def _running_on(name: str, kind: str, first: int, few: Path, luck: random.Random, dies_at: int | None) -> bool:
    """Run on a disk that fails within the job, and dies later on; return whether no second run was needed."""
    disk = Failing(seed=first, kind=kind, first=first, times=luck.randint(1, 2), within=PLACE / "job")
    disk.dies_at, through = dies_at, False
    try:
        run(name, few, PLACE, seed=1, disk=disk, every=0.01, failures=4)
        through = disk.failed > 0
    except (Crash, WriteFailed):  # neither the first checkpoint may fail, nor the last
        if luck.random() < 0.7:
            disk.crash()
        disk.dies_at, disk.times = None, 0
        run(name, few, PLACE, seed=2, disk=disk, every=0.01, failures=4)
    assert found(name, PLACE, disk) == answer(name, few), (kind, first)
    return through


@pytest.mark.parametrize("kind", mostly_slow(FIRST, every=5))
def test_a_run_goes_on_though_checkpoints_fail_and_is_exact_where_it_dies(kind: str, few: Path) -> None:
    luck, through = random.Random(kind), 0
    for name in ("sliding", "sessions", "logged"):
        through += _running_on(name, kind, FIRST[kind], few, luck, None)
        _running_on(name, kind, FIRST[kind] + 1, few, luck, luck.randint(80, 200))
    assert through > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("name", ["sliding", "sessions", "logged", "joined", "melded"])
def test_whenever_a_checkpoint_fails_and_the_run_dies_it_is_exact(name: str, kind: str, few: Path) -> None:
    luck = random.Random(f"{name} {kind}")
    for first in by_turns(range(2, 60, 2), 3):
        _running_on(name, kind, first, few, luck, luck.choice([None, luck.randint(40, 300)]))


@attrs.define(eq=False)
class Small(SimulatedDisk):
    """A disk with room for so many bytes, of which the last ones are written in part."""

    room: int = 1 << 40

    def _put(self, path: Path, before: bytes, data: bytes) -> None:
        used = sum(self.size(other) or 0 for other in [*self._now] if other != path)
        left = self.room - used - len(before)
        if len(data) > left:
            super()._put(path, before, data[: max(0, left)])
            raise WriteFailed(f'"{path}": no space left on device')
        super()._put(path, before, data)


@pytest.mark.parametrize("name", mostly_slow(["sliding", "joined", "logged"], but=["logged"]))
def test_a_small_disk_ends_the_run_at_a_whole_checkpoint(name: str, files: Path) -> None:
    expected, whole = answer(name, files), SimulatedDisk(seed=1)
    run(name, files, PLACE, seed=1, disk=whole, every=0.02)
    most = sum(whole.size(path) or 0 for path in [*whole._now])  # pyright: ignore[reportPrivateUsage]
    full = 0
    for part in range(1, 12):
        disk = Small(seed=part, room=most * part // 12)
        try:
            run(name, files, PLACE, seed=1, disk=disk, every=0.02)
        except WriteFailed:
            full += 1
            with suppress(CheckpointError):  # it was full before the first
                assert last_of(PLACE / "job", disk).epoch >= 0
            disk.room = 1 << 40
            run(name, files, PLACE, seed=2, disk=disk, every=0.02)
        assert found(name, PLACE, disk) == expected, part
    assert full > 4


def _allowed() -> bool:
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


@pytest.mark.slow
@pytest.mark.skipif(not _allowed(), reason="no disks of one's own")
def test_real_disks_that_are_full_or_read_only(tmp_path: Path) -> None:
    module = "tests.oop_engine.checkpoints.full_disk"
    done = subprocess.run(
        [*OWN, sys.executable, "-W", "ignore", "-m", module, str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, timeout=600, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines.count("exact") == 17, done.stdout + done.stderr[-3000:]
    (spilled,) = [line for line in lines if line.startswith("spilling")]
    assert f'cannot be written to "{tmp_path}/place": No space left on device.' in spilled
    assert "name a folder with more of it with TMPDIR" in spilled
    ended = [line for line in lines if line not in ("exact", spilled)]
    assert sum("No space left on device" in line for line in ended) >= 4
    assert sum("Read-only file system" in line for line in ended) == 3
    for line in ended:
        assert re.search(rf'"{tmp_path}/place/.+": (No space left on device|Read-only file system)\.', line), line
        assert "run the same again to go on from there" in line


def damages(content: bytes, luck: random.Random) -> Iterator[bytes]:
    """Yield a file with a bit of each region flipped, cut there, with bytes put in, and emptied."""
    for place in {0, len(content) - 1, *(luck.randrange(len(content)) for _ in range(25))}:
        yield content[:place] + bytes([content[place] ^ 1 << luck.randrange(8)]) + content[place + 1 :]
        yield content[:place]
        yield content[:place] + b"\0" + content[place:]
        yield content[:place] + bytes(min(64, len(content) - place)) + content[place + 64 :]
    yield b""


@pytest.fixture(scope="module")
def job(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a job that was stopped after some checkpoints, with a savepoint."""

    class Stopping(RealDisk):
        commits = 0

        def rename(self, old: Path, new: Path) -> None:
            self.commits += new.name == "CURRENT"
            if self.commits == 4:
                raise Crash
            super().rename(old, new)

    place = tmp_path_factory.mktemp("job")
    with pytest.raises(Crash):
        run("sessions", files, place, seed=1, every=0.02, disk=Stopping())
    taken(place / "job", "kept", RealDisk())
    return place / "job"


def _key(checkpoint: Checkpoint | None) -> object:
    return None if checkpoint is None else (checkpoint.epoch, checkpoint.body, dict(checkpoint.states))


def _everywhere(job: Path) -> list[str]:
    return sorted(str(path.relative_to(job)) for path in job.rglob("*") if path.is_file())


def test_whatever_byte_of_a_job_is_damaged_nothing_else_is_taken_up(job: Path) -> None:
    """Of each file: what is read is a checkpoint as it was written, the last if it is whole, or it is refused.

    The machine stopped before the last rename, so there is a whole checkpoint after the one in CURRENT.
    """
    luck, store = random.Random(5), Store(job, RealDisk())
    last = last_of(job, store.disk)
    committed: list[object] = []
    for commit in sorted(job.glob("ckpt/*/COMMIT")):
        with suppress(CheckpointError):
            committed.append(_key(store._whole(commit.read_bytes(), commit)))  # pyright: ignore[reportPrivateUsage]
    assert _key(last) in committed and len(committed) >= 3
    read: dict[str, Callable[[], Checkpoint | None]] = {
        "job": lambda: store.read(lambda found: False),
        "job, with results shown": lambda: store.read(lambda found: True),
        "savepoint": lambda: store.savepoint("kept"),
    }
    files = _everywhere(job)
    assert len(files) > 10
    refused = 0
    for name in files:
        path = job / name
        whole = path.read_bytes()
        for damaged in damages(whole, luck) if whole else [b"x"]:
            if damaged == whole:
                continue
            path.write_bytes(damaged)
            for what, reading in read.items():
                try:
                    found = reading()
                except CheckpointError as error:
                    refused += 1
                    assert str(job) in str(error), (name, what)
                    continue
                assert _key(found) in committed, (name, what)
                current = f"ckpt/{last.epoch:08d}"
                if what == "job" and not name.startswith(current) and name != "CURRENT":
                    assert _key(found) == _key(last), name
        path.write_bytes(whole)
    assert refused > 100
    assert _key(last_of(job, store.disk)) == _key(last)


def test_two_damaged_files_are_no_better_than_one(job: Path) -> None:
    luck, store = random.Random(6), Store(job, RealDisk())
    last = last_of(job, store.disk).epoch
    files = [name for name in _everywhere(job) if name == "CURRENT" or name.startswith(f"ckpt/{last:08d}")]
    for _ in range(60):
        names = luck.sample(files, 2)
        contents = [(job / name).read_bytes() for name in names]
        for name, content in zip(names, contents, strict=True):
            (job / name).write_bytes(luck.choice([*damages(content, luck)]) if content else b"x")
        try:
            found_ = store.read(lambda found: False)
            assert found_ is not None and found_.epoch in (last - 1, last, last + 1)
        except CheckpointError as error:
            assert str(job) in str(error)
        for name, content in zip(names, contents, strict=True):
            (job / name).write_bytes(content)
