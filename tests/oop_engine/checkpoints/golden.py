"""Checkpoints of each version of the engine, kept as data, so that later versions prove that they go on from them.

`python -m tests.oop_engine.checkpoints.golden` writes those of the engine that runs it, in an archive of its version:
a release does that once, and the archive stays as long as versions read it. 0.3.0.dev has what came after 0.2.0.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import oop_engine as oop
from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.store import Checkpoint, Store
from oop_engine.sinks.disk import RealDisk
from tests.oop_engine.checkpoints.scenarios import SCENARIOS, data, run
from tests.oop_engine.checkpoints.simulated_disk import Crash, SimulatedDisk

FOLDER: Final = Path(__file__).with_name("golden")
FILES: Final = "files"
PLACE: Final = Path("/simulated")


def write(archive: Path) -> None:
    """Write an archive with the files that the scenarios read, and a checkpoint of each from half-way."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, FILES)
        files.mkdir()
        data(files)
        for name in SCENARIOS:
            disk = SimulatedDisk(seed=1, dies_at=60)
            try:
                run(name, files, PLACE, seed=1, disk=disk, every=0.02)
            except Crash:
                disk.crash()
            found = last_of(PLACE / "job", disk)
            if not found.body["ended"]:
                store = Store(Path(folder, name), RealDisk())
                store.begin()
                store.commit(_moved(found, files, Path(FILES)))
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(folder, ".", filter=_plain)


def checkpoints(archive: Path, folder: Path) -> dict[str, Path]:
    """Unpack an archive; return the folders of its jobs by scenario, which are those of the files in `folder` now."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # Python 3.11 has it since 3.11.4
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)
    found = {path.name: path for path in sorted(folder.iterdir()) if path.name != FILES}
    for job in found.values():
        store = Store(job, RealDisk())
        store.commit(_moved(last_of(job, store.disk), Path(FILES), folder / FILES))
    return found


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _moved(checkpoint: Checkpoint, old: Path, new: Path) -> Checkpoint:
    """Return a checkpoint of a job whose files were moved from a folder to another."""
    body: Any = json.loads(json.dumps(checkpoint.body))
    for node in body["query"].values():
        for file in node["identity"].get("files", []) if isinstance(node, Mapping) and "identity" in node else []:
            path = new / Path(file["path"]).name
            assert Path(file["path"]).parent.name == old.name
            file["path"] = os.path.realpath(path) if path.is_file() else str(path)
            file["modified"] = path.stat().st_mtime_ns if path.is_file() else 0
    return Checkpoint(checkpoint.epoch, body, checkpoint.states)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{oop.__version__}.tar.gz"
    if target.exists() and "--again" not in sys.argv:
        raise SystemExit(f"{target} is there already, and stays as it is")
    with tempfile.TemporaryDirectory() as made:
        write(Path(made, "golden"))
        shutil.copyfile(Path(made, "golden"), target)
