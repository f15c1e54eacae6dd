"""A process that runs scenarios on small disks of its own (tmpfs): they are full, or only read, and then have room.

    unshare --user --map-root-user --mount python -m tests.oop_engine.checkpoints.full_disk FOLDER

Prints one line for each fault that ended a run, with its message, and "exact" once the next run had the right results.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from oop_engine.errors import MemoryLimitError
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from tests.oop_engine.checkpoints.scenarios import answer, data, found, run

NAMES = ("sliding", "sessions", "logged")
ROOMS = (16, 40, 72, 120)
"""KiB."""


def main(folder: Path) -> None:
    """Run each scenario on a disk of each size, give it room, and run it again."""
    files, place = folder / "files", folder / "place"
    files.mkdir()
    place.mkdir()
    data(files)
    for name in NAMES:
        expected = answer(name, files)
        for room in (*ROOMS, None):
            mount("-t", "tmpfs", "-o", f"size={room or 4096}k", "tmpfs", place)
            try:
                one(name, files, place, room, expected)
            finally:
                subprocess.run(["umount", str(place)], check=True)
    spilling(files, place, folder / "spilling")
    running_on(files, folder / "running")


def spilling(files: Path, place: Path, results: Path) -> None:
    """Run what puts parts on a small disk, with results and job elsewhere, give it room, and run it again."""
    name = "parts on disk"
    results.mkdir()
    mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", place)
    tempfile.tempdir = str(place)
    try:
        try:
            run(name, files, results, seed=1, every=0.02)
        except MemoryLimitError as error:
            print(f"spilling, 16: {error}".replace("\n", " "))
        mount("-o", "remount,rw,size=4096k", place)
        run(name, files, results, seed=2, every=0.02)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    tempfile.tempdir = None
    assert found(name, results, RealDisk()) == answer(name, files)
    print("exact")


def running_on(files: Path, results: Path) -> None:
    """Run with a job on a small disk, which gets room after two checkpoints failed, and results elsewhere."""

    class Relieved(RealDisk):
        failed = 0

        def write(self, path: Path, data: bytes) -> None:
            try:
                super().write(path, data)
            except WriteFailed:
                self.failed += 1
                if self.failed == 2:
                    mount("-o", "remount,rw,size=4096k", results / "job")
                raise

    (results / "job").mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=24k", "tmpfs", results / "job")
    disk = Relieved()
    try:
        run("sliding", files, results, seed=1, every=0.01, disk=disk, failures=5)
    finally:
        subprocess.run(["umount", str(results / "job")], check=True)
    assert disk.failed == 2, disk.failed
    assert found("sliding", results, RealDisk()) == answer("sliding", files)
    print("exact")


def one(name: str, files: Path, place: Path, room: int | None, expected: object) -> None:
    if room is None:
        stop(name, files, place)
        mount("-o", "remount,ro", place)
    try:
        run(name, files, place, seed=1, every=0.02)
    except WriteFailed as error:
        print(f"{name}, {room}: {error}".replace("\n", " "))
    mount("-o", "remount,rw,size=4096k", place)
    run(name, files, place, seed=2, every=0.02)
    assert found(name, place, RealDisk()) == expected, (name, room)
    print("exact")


def stop(name: str, files: Path, place: Path) -> None:
    """Run a scenario until it is stopped at its third commit."""

    class Stopping(RealDisk):
        commits = 0

        def rename(self, old: Path, new: Path) -> None:
            self.commits += new.name == "CURRENT"
            if self.commits == 3:
                raise KeyboardInterrupt
            super().rename(old, new)

    try:
        run(name, files, place, seed=1, every=0.02, disk=Stopping())
    except KeyboardInterrupt:
        return
    raise AssertionError("it ended before")


def mount(*options: object) -> None:
    subprocess.run(["mount", *map(str, options)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
