"""A disk in memory that can lose what a real one may lose: bytes and names that were not synced, and torn tails."""

from __future__ import annotations

import random
from pathlib import Path

import attrs

from oop_engine.sinks.errors import WriteFailed


class Crash(BaseException):
    """The machine stopped."""


@attrs.define(eq=False)
class _File:
    data: bytes = b""
    durable: bytes = b""


@attrs.define(eq=False)
class SimulatedDisk:
    """Files as they are, and as they would be after a crash; with `dies_at`, the operation of that number is the last.

    Names are made durable by a sync of their folder; those that are not are kept up to some place in the order in which
    they were made. Bytes are made durable by a sync of their file; behind these, some of the rest may be there.
    """

    dies_at: int | None = None
    seed: int = 0
    operations: int = attrs.field(init=False, default=0)
    _now: dict[Path, _File | None] = attrs.field(init=False, factory=dict)
    """Files by path; None for a folder."""
    _durable: dict[Path, _File | None] = attrs.field(init=False, factory=dict)
    _pending: list[tuple[frozenset[Path], Path | None, Path | None, _File | None]] = attrs.field(
        init=False, factory=list
    )
    """Changes of names that are not durable: the folders, the name that goes, the one that comes, and its file."""

    def _step(self) -> None:
        self.operations += 1
        if self.dies_at is not None and self.operations >= self.dies_at:
            raise Crash

    def crash(self) -> None:
        """Lose what is not durable."""
        luck = random.Random(f"{self.seed} crash {self.operations}")
        for _, gone, come, file in self._pending[: luck.randint(0, len(self._pending))]:
            self._apply(self._durable, gone, come, file)
        for file in {id(f): f for f in [*self._durable.values(), *self._now.values()] if f is not None}.values():
            file.durable = file.data = self._left(file, luck)
        self._now, self._pending = dict(self._durable), []
        self.dies_at = None

    @staticmethod
    def _left(file: _File, luck: random.Random) -> bytes:
        if file.data == file.durable or luck.random() < 0.3:
            return file.durable
        if file.data.startswith(file.durable):
            return file.data[: luck.randint(len(file.durable), len(file.data))]
        if file.durable.startswith(file.data):  # it was cut, which touches no byte of what is left
            return file.durable[: luck.randint(len(file.data), len(file.durable))]
        return file.data[: luck.randint(0, len(file.data))] if luck.random() < 0.5 else file.durable

    @staticmethod
    def _apply(names: dict[Path, _File | None], gone: Path | None, come: Path | None, file: _File | None) -> None:
        if gone is not None:
            names.pop(gone, None)
        if come is not None:
            names[come] = file

    def _change(self, gone: Path | None, come: Path | None, file: _File | None) -> None:
        self._apply(self._now, gone, come, file)
        folders = frozenset(path.parent for path in (gone, come) if path is not None)
        self._pending.append((folders, gone, come, file))

    def _file(self, path: Path) -> _File:
        found = self._now.get(path)
        assert found is not None, path
        return found

    def read(self, path: Path) -> bytes | None:
        found = self._now.get(path)
        return None if found is None else found.data

    def read_part(self, path: Path, at: int, size: int) -> bytes:
        return (self.read(path) or b"")[at : at + size]

    def size(self, path: Path) -> int | None:
        found = self._now.get(path)
        return None if found is None else len(found.data)

    def is_folder(self, path: Path) -> bool:
        return path in self._now and self._now[path] is None

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in self._now if path.parent == folder)

    def make(self, folder: Path) -> None:
        if folder not in self._now:
            self._step()
            self._change(None, folder, None)

    def write(self, path: Path, data: bytes) -> None:
        self._put(path, b"", data)

    def append(self, path: Path, data: bytes) -> None:
        self._put(path, self.read(path) or b"", data)

    def _put(self, path: Path, before: bytes, data: bytes) -> None:
        """Write a file, made if need be; where the disk dies with this operation, a part of the data is written."""
        if path not in self._now:
            self._step()
            self._change(None, path, _File())
        try:
            self._step()
        except Crash:
            self._file(path).data = before + data[: len(data) // 2]
            raise
        self._file(path).data = before + data

    def truncate(self, path: Path, length: int) -> None:
        self._step()
        self._file(path).data = self._file(path).data[:length]

    def sync(self, path: Path) -> None:
        self._step()
        self._file(path).durable = self._file(path).data

    def sync_folder(self, folder: Path) -> None:
        self._step()
        left = []
        for change in self._pending:
            if folder in change[0]:
                self._apply(self._durable, *change[1:])
            else:
                left.append(change)
        self._pending = left

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        self._change(old, new, self._file(old))

    def remove(self, path: Path) -> None:
        if path in self._now:
            self._step()
            self._change(path, None, None)


@attrs.define(eq=False)
class Full(SimulatedDisk):
    """A disk that refuses one operation, of whatever task, and has room again."""

    def _step(self) -> None:
        self.operations += 1
        if self.operations == self.dies_at:
            raise WriteFailed("no space left on device")


@attrs.define(eq=False)
class Failing(SimulatedDisk):
    """A disk that fails from its n-th operation of one kind on, so many times, within one folder."""

    kind: str = "sync"
    first: int = 1
    times: int = 1
    seen: int = 0
    failed: int = 0
    within: Path = Path("/")

    def _fail(self, kind: str, path: Path) -> None:
        if kind == self.kind and path.is_relative_to(self.within):
            self.seen += 1
            if self.first <= self.seen < self.first + self.times:
                self.failed += 1
                raise WriteFailed(f'"{path}": input/output error')

    def _put(self, path: Path, before: bytes, data: bytes) -> None:
        try:
            self._fail("write", path)
        except WriteFailed:
            super()._put(path, before, data[: len(data) // 3])
            raise
        super()._put(path, before, data)

    def sync(self, path: Path) -> None:
        self._fail("sync", path)
        super().sync(path)

    def sync_folder(self, folder: Path) -> None:
        self._fail("sync_folder", folder)
        super().sync_folder(folder)

    def rename(self, old: Path, new: Path) -> None:
        self._fail("rename", new)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._fail("remove", path)
        super().remove(path)


@attrs.define(eq=False)
class Forgetful(SimulatedDisk):
    """A disk whose files are never synced: the bug that killing a process cannot show."""

    def sync(self, path: Path) -> None:
        self._step()
