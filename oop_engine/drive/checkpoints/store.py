"""The folder of a job: checkpoints are written beside each other, and one small file says which one counts.

    job/CURRENT                      the commit: JSON with its SHA-256, renamed into its place
    job/ckpt/00000042/COMMIT         the same again, for the case that CURRENT is damaged
    job/ckpt/00000042/NAME.state     the state of each operator; COMMIT has its SHA-256
    job/ckpt/00000042/NAME.parts     what of it was on disk, part behind part; COMMIT has the SHA-256 of each
    job/savepoints/NAME/             a copy of a checkpoint, which stays until it is removed
    job/journal                      what came live since then, see `sources.journal`
    job/socket                       where the run is asked while it runs, see `drive.run_socket`

Order of a commit: the files of the checkpoint, each synced; COMMIT; their folder; CURRENT.new, synced; the rename,
which is the commit; the folder of the job. Nothing that no commit names stays. The last KEPT checkpoints do.

A checkpoint is taken up only if all its bytes are those that were committed. If one is damaged, the one before it is
taken, unless results that came after it were shown already: then the run is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from oop_engine.drive.run_socket import SOCKET
from oop_engine.errors import CheckpointError
from oop_engine.sinks.disk import Disk
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sinks.kept import OUTBOX
from operators.data.saved import Saved
from operators.errors import did_you_mean
from operators.protocol import Outside

VERSION: Final = 1
KEPT: Final = 3
CURRENT: Final = "CURRENT"
JOURNAL: Final = "journal"
_CHECKPOINTS: Final = "ckpt"
SAVEPOINTS: Final = "savepoints"
COMMIT: Final = "COMMIT"
_MAGIC: Final = "oop-engine job"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9]+")
_EPOCH: Final = re.compile(r"\d{8,12}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@attrs.frozen
class Checkpoint:
    """One consistent cut of a run: `body` is JSON, `states` those of each part by its name."""

    epoch: int
    body: Mapping[str, object]
    states: Mapping[str, Saved] = attrs.field(repr=False)

    def size(self, name: str) -> int:
        """Return the bytes of the state of a part, 0 where it has none."""
        return self.states[name].size if name in self.states else 0


@attrs.frozen(eq=False)
class Store:
    """Write and read the checkpoints of one job."""

    folder: Path
    disk: Disk = attrs.field(repr=False)

    def begin(self) -> None:
        """Make the folder of the job; CheckpointError where there is one with something else."""
        ours = (CURRENT, f"{CURRENT}.new", _CHECKPOINTS, JOURNAL, SAVEPOINTS, SOCKET, OUTBOX)
        foreign = [name for name in self.disk.names(self.folder) if name not in ours]
        if foreign or self.disk.size(self.folder) is not None:
            seen = f'has "{foreign[0]}"' if foreign else "is a file"
            raise CheckpointError(
                f'"{self.folder}" {seen}, and is no folder of a job.\n  Name a folder that is empty or not there.'
            )
        self.disk.make(self.folder)
        self.disk.make(self.folder / _CHECKPOINTS)
        self.disk.sync_folder(self.folder)
        self.disk.sync_folder(self.folder.parent)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint the one that counts; what it refers to must be durable.

        Where that fails, its number is never used again, as nobody knows what of it is durable. What was written of it
        makes room, unless it may be the one that counts already.
        """
        fresh = self.folder / f"{CURRENT}.new"
        try:
            record = self._write(self._place(checkpoint.epoch), checkpoint)
            # A file whose sync failed is not written again.
            self.disk.remove(fresh)
            self.disk.write(fresh, record)
            self.disk.sync(fresh)
        except WriteFailed as error:
            try:
                self._remove(checkpoint.epoch)
                self.disk.remove(fresh)
            except WriteFailed as other:
                error.add_note(f"what was written of it stays: {other}")
            raise
        self.disk.rename(fresh, self.folder / CURRENT)
        self.disk.sync_folder(self.folder)

    def tidy(self, epoch: int) -> None:
        """Remove checkpoints older than the last KEPT, and what was never committed."""
        there = sorted(self._epochs())
        kept = [found for found in there if found <= epoch][-KEPT:]
        for found in there:
            if found not in kept:
                self._remove(found)

    def read(self, overtaken: Callable[[Checkpoint], bool]) -> Checkpoint | None:
        """Return the checkpoint that counts, None for a new job.

        Where it is damaged, the newest whole one before it, unless results after that were shown (`overtaken`):
        CheckpointError then, and where there is none.
        """
        record = self.disk.read(self.folder / CURRENT)
        epochs = sorted(self._epochs(), reverse=True)
        if record is None and not any(epochs):
            # The first was never committed, and nothing was written before it.
            return None
        damage = f'"{self.folder / CURRENT}" is missing' if record is None else ""
        if record is not None:
            try:
                return self._whole(record, self.folder / CURRENT)
            except CheckpointError as error:
                damage = str(error)
        for epoch in epochs:
            commit = self.disk.read(self._place(epoch) / COMMIT)
            if commit is None:
                continue
            try:
                found = self._whole(commit, self._place(epoch) / COMMIT)
            except CheckpointError:
                continue
            if overtaken(found):
                raise CheckpointError(
                    f"{damage}.\n  The checkpoint before it, {epoch}, is whole, but results that came after it are"
                    f" among those that were shown: to go on from there would give them twice.\n  {_AGAIN}"
                )
            return found
        raise CheckpointError(f"{damage}, and no checkpoint before it is whole.\n  {_AGAIN}")

    def keep(self, name: str, checkpoint: Checkpoint) -> None:
        """Copy a checkpoint under a name; CheckpointError for one that cannot be, or is that of another savepoint."""
        place = self._savepoint(name)
        if self.disk.size(place / COMMIT) is not None and self._is_whole(place):
            raise CheckpointError(
                f'"{self.folder}" has a savepoint "{name}" already.\n  Name another, or remove "{place}".'
            )
        self.disk.make(place.parent)
        self.disk.sync_folder(self.folder)
        self._write(place, checkpoint)

    def savepoints(self) -> Iterator[tuple[str, Checkpoint]]:
        """Yield the savepoints by name; CheckpointError for one that is damaged."""
        for name in self.disk.names(self.folder / SAVEPOINTS):
            if self.disk.size(self.folder / SAVEPOINTS / name / COMMIT) is not None:
                yield name, self.savepoint(name)

    def savepoint(self, name: str) -> Checkpoint:
        """Return a savepoint; CheckpointError where there is none, or it is damaged."""
        place = self._savepoint(name)
        record = self.disk.read(place / COMMIT)
        if record is None:
            known = [n for n in self.disk.names(place.parent) if self.disk.size(place.parent / n / COMMIT) is not None]
            raise CheckpointError(f'"{self.folder}" has no savepoint "{name}". {did_you_mean(name, known)}')
        return self._whole(record, place / COMMIT, place)

    def _is_whole(self, place: Path) -> bool:
        """Return whether a savepoint was completed: a run that died may have left a part of one."""
        try:
            self._whole(self.disk.read(place / COMMIT) or b"", place / COMMIT, place)
        except CheckpointError:
            return False
        return True

    def _savepoint(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise CheckpointError(f'"{name}" is no name of a savepoint.\n  Write letters, digits, "-", "_" and ".".')
        return self.folder / SAVEPOINTS / name

    def _write(self, place: Path, checkpoint: Checkpoint) -> bytes:
        """Write the files of a checkpoint, and make them durable; return its record, which is the last of them."""
        self.disk.make(place)
        for name in self.disk.names(place):
            self.disk.remove(place / name)
        files: list[dict[str, object]] = []
        for number, (name, state) in enumerate(checkpoint.states.items()):
            stem = f"{number:03d}-{file_name(name)}"
            file, encoded = f"{stem}.state", state.encoded
            self.disk.write(place / file, encoded)
            self.disk.sync(place / file)
            entry: dict[str, object] = {"name": name, "file": file, "bytes": len(encoded), "sha256": _digest(encoded)}
            if state.outside:
                entry |= {"parts_file": f"{stem}.parts", "parts": self._put_parts(place / f"{stem}.parts", state)}
            files.append(entry)
        record = _sealed({"epoch": checkpoint.epoch, "files": files, "body": checkpoint.body})
        self.disk.write(place / COMMIT, record)
        self.disk.sync(place / COMMIT)
        self.disk.sync_folder(place)
        self.disk.sync_folder(place.parent)
        return record

    def _put_parts(self, path: Path, state: Saved) -> list[dict[str, object]]:
        """Write what of a state is outside of memory, part by part; return the record of each."""
        parts: list[dict[str, object]] = []
        for name, part in state.outside.items():
            self.disk.append(path, content := part.read())
            parts.append({"name": name, "bytes": len(content), "sha256": _digest(content)})
        self.disk.sync(path)
        return parts

    def _parts(self, path: Path, parts: Sequence[Mapping[str, object]]) -> dict[str, Outside]:
        """Return what `_put_parts` wrote, after it was read once; CheckpointError where a byte is another."""
        found: dict[str, Outside] = {}
        at = 0
        for part in parts:
            size = part["bytes"]
            assert isinstance(size, int)
            if _digest(self.disk.read_part(path, at, size)) != part["sha256"]:
                raise CheckpointError(_damaged(path))
            found[str(part["name"])] = Outside(size, partial(self.disk.read_part, path, at, size))
            at += size
        return found

    def _whole(self, record: bytes, where: Path, place: Path | None = None) -> Checkpoint:
        """Read a commit and all that it names; CheckpointError, which names the file, where a byte is another."""
        content = content_of(record, where)
        states: dict[str, Saved] = {}
        epoch, files, body = content.get("epoch"), content.get("files"), content.get("body")
        if not isinstance(epoch, int) or not isinstance(files, list) or not isinstance(body, dict):
            raise CheckpointError(f'"{where}" lacks what a checkpoint has')
        for entry in files:
            folder = place or self._place(epoch)
            path = folder / Path(str(entry["file"])).name
            state = self.disk.read(path)
            if state is None:
                raise CheckpointError(f'"{path}" is missing')
            if len(state) != entry["bytes"] or _digest(state) != entry["sha256"]:
                raise CheckpointError(_damaged(path))
            parts = self._parts(folder / Path(str(entry.get("parts_file", ""))).name, entry.get("parts", ()))
            states[str(entry["name"])] = Saved(state, parts)
        return Checkpoint(epoch, body, states)

    def _epochs(self) -> Iterator[int]:
        names = self.disk.names(self.folder / _CHECKPOINTS)
        return (int(name) for name in names if _EPOCH.fullmatch(name))

    def _place(self, epoch: int) -> Path:
        return self.folder / _CHECKPOINTS / f"{epoch:08d}"

    def _remove(self, epoch: int) -> None:
        place = self._place(epoch)
        # Without COMMIT the rest is no checkpoint.
        for name in sorted(self.disk.names(place), key=lambda name: name != COMMIT):
            self.disk.remove(place / name)
        self.disk.remove(place)


_AGAIN: Final = "Put back the folder of the job from a copy, or begin anew with another --checkpoint and other results."


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path) -> str:
    return f'"{path}" is damaged: it is not what was committed'


def file_name(name: str) -> str:
    """Return the name of a part as one of a file; two parts may have the same."""
    return _UNFIT.sub("-", name).strip("-")[:60] or "part"


def _sealed(content: Mapping[str, object]) -> bytes:
    # Indenting all of it would take five times as long, as Python itself would write it.
    text = "{\n " + ",\n ".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in content.items()) + "\n}"
    return f"{_MAGIC} {VERSION}\nsha256 {_digest(text.encode())}\n{text}\n".encode()


def content_of(record: bytes, where: Path) -> dict[str, object]:
    """Return the content of a commit; CheckpointError for one that is damaged, or of another version."""
    head, _, rest = record.partition(b"\n")
    seal, _, text = rest.partition(b"\n")
    word, _, version = head.rpartition(b" ")
    if word != _MAGIC.encode() or not version.isdigit():
        raise CheckpointError(f'"{where}" is damaged: it begins with {record[:20]!r}')
    whole = text.endswith(b"\n") and seal == f"sha256 {_digest(text[:-1])}".encode()
    if not whole:
        raise CheckpointError(f'"{where}" is damaged or cut: its checksum does not fit')
    if version != str(VERSION).encode():
        raise CheckpointError(
            f'"{where}" has format version {version.decode()}; this engine reads version {VERSION}.\n'
            "  Go on with the engine that wrote it, or begin anew with another --checkpoint."
        )
    return json.loads(text)
