"""Results in Parquet or Arrow files in the folders of their partitions, each file whole before it has its name.

A file is written in `_stage`. What came between two checkpoints (or, where there are none, in the whole run) is
committed, then moved into the folders; `_manifest.json` lists the files.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from oop_engine.sinks.disk import Disk, RealDisk
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.files import claimed, no_folder
from oop_engine.sinks.kept import AGAIN, MANIFEST, STAGE, Kept, alone, number
from oop_engine.sinks.part import PartFile
from oop_engine.sinks.partitions import Partitions
from oop_engine.sinks.protocol import Deliver, Encoder
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

_FILE: Final = re.compile(r"part-(\d{8})-\d{3,}\.(?:parquet|arrow|arrows)")
_OPEN: Final = 64
"""Files that are open at a time, at most."""
_SECONDS: Final = 60.0
"""Seconds after which files of an endless run are completed."""


@attrs.frozen
class PartitionedSink:
    """Results as a folder of folders, by the attributes `by`, as "hour(window_start)"; see `Partitions`.

    The results of an endless run, which are to be kept (`keep`), are completed once a minute, and go behind those that
    an earlier run left there.
    """

    path: Path
    encoder: Callable[[], Encoder] = attrs.field(repr=False)
    suffix: str
    by: tuple[str, ...]
    keep: bool = attrs.field(default=False, kw_only=True)

    def files_of(self, schema: Schema, disk: Disk) -> Files:
        """Return the files for results of a schema; SinkError where they lack an attribute of `by`."""
        return Files(self.path, self.encoder, Partitions.of(self.by, schema), disk, self.suffix, self.by)

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write files, and move them into their folders at the end; where the run fails, unless they are to be kept."""
        if not self.path.absolute().parent.is_dir():
            raise SinkError(no_folder(self.path.absolute()))
        with claimed(self.path):
            files = self.files_of(schema, RealDisk())
            kept = files.behind() if self.keep else files.fresh()
            files.begin(kept)
            growing = _Growing(files, number(kept, "epoch"))
            try:
                yield growing if self.keep else files
            except BaseException:
                if self.keep:
                    growing.complete()
                else:
                    files.clear()
                raise
            growing.complete()


@attrs.define(eq=False)
class _Growing:
    """Complete files once a minute."""

    files: Files
    epoch: int
    held: bool = attrs.field(init=False, default=False)
    _since: float = attrs.field(init=False, factory=time.monotonic)

    def __call__(self, element: Element, /) -> None:
        self.files(element)
        self.held |= isinstance(element, Page) and len(element) > 0
        if self.held and not isinstance(element, Page) and time.monotonic() - self._since >= _SECONDS:
            self.complete()

    def complete(self) -> None:
        """Show all that was taken."""
        self.epoch += 1
        kept = self.files.cut(self.epoch, ended=False)
        self.files.sync(kept)
        self.files.publish(kept)
        self.held, self._since = False, time.monotonic()


@attrs.define(eq=False)
class Files:
    """The files of a job; see `oop_engine.sinks.committed.Committed`."""

    path: Path
    encoder: Callable[[], Encoder] = attrs.field(repr=False)
    partitions: Partitions
    disk: Disk = attrs.field(repr=False)
    suffix: str
    by: Sequence[str]
    _open: dict[str, PartFile] = attrs.field(init=False, factory=dict)
    """Files by their folders, the one that was written last behind the others."""
    _closed: list[PartFile] = attrs.field(init=False, factory=list)
    _before: list[list[object]] = attrs.field(init=False, factory=list)
    """What a checkpoint had that was not committed."""
    _epoch: int = attrs.field(init=False, default=1)
    _total: int = attrs.field(init=False, default=0)

    @property
    def place(self) -> str:
        return os.path.abspath(self.path)

    @property
    def _stage(self) -> Path:
        return self.path / STAGE

    def fresh(self) -> Kept:
        alone(self.path, self.disk, STAGE)
        return {"path": self.place, "epoch": 0, "rows": 0, "by": list(self.by), "files": []}

    def behind(self) -> Kept:
        """Return what a run keeps that goes on behind results of such a run before it; SinkError where others are."""
        listed = self.disk.read(self.path / MANIFEST)
        if listed is None:
            return self.fresh()
        found = json.loads(listed)
        if found.get("by") != list(self.by):
            raise SinkError(
                f'"{self.path}" has results that are partitioned by {found.get("by")}, and these are by'
                f" {list(self.by)}.\n  Name another folder."
            )
        parts = (_FILE.fullmatch(Path(part).name) for part in found["parts"])
        last = max((int(match[1]) for match in parts if match is not None), default=0)
        return {"path": self.place, "epoch": last, "rows": 0, "by": list(self.by), "files": []}

    def begin(self, kept: Kept) -> None:
        if kept.get("by") != list(self.by):
            raise SinkError(f"the results of this job are partitioned by {kept.get('by')}; name these again.")
        for folder in (self.path, self._stage):
            self.disk.make(folder)
        self.disk.sync_folder(self.path)
        self.disk.sync_folder(self.path.parent)
        self.publish(kept)
        self._total, self._epoch = number(kept, "rows"), number(kept, "epoch") + 1
        self.clear()

    def clear(self) -> None:
        """Remove what was written and not committed."""
        for name in self.disk.names(self._stage):
            self.disk.remove(self._stage / name)

    def overtaken(self, kept: Kept) -> bool:
        return any(int(found[1]) > number(kept, "epoch") for found in map(_FILE.fullmatch, self._names("")) if found)

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page) and len(element):
            for folder, page in self.partitions.split(element):
                self._file(folder).write(page)

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        for folder in list(self._open):
            self._close(folder)
        files = [*self._before, *([file.folder, file.path.name, file.rows] for file in self._closed)]
        self._total += sum(file.rows for file in self._closed)
        self._closed, self._before, self._epoch = [], [], epoch + 1
        return {"path": self.place, "epoch": epoch, "rows": self._total, "by": list(self.by), "files": files}

    def take_back(self, kept: Kept) -> None:
        files = kept.get("files")
        self._before = [list(file) for file in files] if isinstance(files, list) else []

    def sync(self, kept: Kept) -> None:
        files = _files(kept)
        for _, name in files:
            self.disk.sync(self._stage / name)
        if files:
            self.disk.sync_folder(self._stage)

    def publish(self, kept: Kept) -> None:
        files = _files(kept)
        for folder in {folder for folder, _ in files}:
            above = self.path
            for name in folder.split("/"):
                self.disk.make(above / name)
                self.disk.sync_folder(above)
                above /= name
        for folder, name in files:
            staged, there = self._stage / name, self.path / folder / name
            if self.disk.size(staged) is not None:
                self.disk.rename(staged, there)
            elif self.disk.size(there) is None:
                raise SinkError(f'"{there}" was committed, and is missing.\n  {AGAIN}')
        for folder in {folder for folder, _ in files}:
            self.disk.sync_folder(self.path / folder)
        if files:
            self._list([f"{folder}/{name}" for folder, name in files])

    def close(self) -> None:
        return None

    def _file(self, folder: str) -> PartFile:
        """Return the file of a folder, which is begun if need be; of many that are open, the one left longest ends."""
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) >= _OPEN:
                self._close(next(iter(self._open)))
            name = f"part-{self._epoch:08d}-{len(self._open) + len(self._closed):03d}{self.suffix}"
            file = PartFile(self._stage / name, self.encoder(), self.disk, folder)
            file.begin(self.partitions.schema)
        self._open[folder] = file
        return file

    def _close(self, folder: str) -> None:
        file = self._open.pop(folder)
        file.close()
        self._closed.append(file)

    def _names(self, folder: str) -> Iterator[str]:
        """Yield the names of files in the folders of partitions."""
        for name in self.disk.names(self.path / folder):
            if "=" in name:
                yield from self._names(f"{folder}/{name}".strip("/"))
            else:
                yield name

    def _list(self, more: list[str]) -> None:
        """Write which files there are, for readers who want a list."""
        parts: list[str] = []
        if (listed := self.disk.read(self.path / MANIFEST)) is not None:
            with suppress(ValueError, KeyError):
                parts = json.loads(listed)["parts"]
        unfinished = self._stage / MANIFEST
        body = {"version": 1, "by": list(self.by), "parts": sorted({*parts, *more})}
        self.disk.write(unfinished, json.dumps(body, indent=1).encode())
        self.disk.sync(unfinished)
        self.disk.rename(unfinished, self.path / MANIFEST)
        self.disk.sync_folder(self.path)


def _files(kept: Kept) -> list[tuple[str, str]]:
    """Return the folders and names of files that were cut."""
    files = kept.get("files")
    return [(str(folder), str(name)) for folder, name, _ in files] if isinstance(files, list) else []
