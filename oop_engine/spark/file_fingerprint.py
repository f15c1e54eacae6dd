"""Recognise a file that was read by its first bytes: a new file under its name is not read on in its place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from oop_engine.sources.errors import SourceError

if TYPE_CHECKING:
    from oop_engine.spark.journal import Journal, Writer

_BEGINNING: Final = 1 << 10
"""Bytes by which a file is known: more than file headers have, so that what tells captures apart is among them."""


@attrs.frozen
class Beginning:
    """The fingerprint of the first bytes of a file."""

    size: int
    digest: str

    @classmethod
    def of(cls, path: Path, size: int) -> Beginning:
        """Take as many bytes as a file is known by, of the first `size`; fewer where it has fewer."""
        with path.open("rb") as file:
            data = file.read(min(size, _BEGINNING))
        return cls(len(data), hashlib.blake2b(data, digest_size=16).hexdigest())

    def may_grow(self, read: int) -> bool:
        """Return whether it would be of more bytes when so many are read."""
        return self.size < min(read, _BEGINNING)


@attrs.define
class Fingerprints:
    """The files of a folder that the journal knows."""

    root: Path
    journal: Journal
    _seen: dict[str, tuple[int, int, int]] = attrs.field(factory=dict, init=False)
    """Size, time and inode of files when they were last found to be those that were read."""

    def check(self, number: int, read: int, *, whole: bool) -> None:
        """Raise SourceError when the file of an entry is not the one that was read, so many bytes or as a whole.

        FileNotFoundError when there is none.
        """
        entry = self.journal.entries[number]
        path = self.root / entry.name
        about = path.stat()
        if whole:
            was = entry.high if entry.whole else self.journal.sizes.get(entry.name)
            if was is not None and about.st_size != was:
                raise SourceError(
                    f"{path} had {was} bytes when it was read, and now has {about.st_size}.\n"
                    "  Move files in when they are whole, or let them rest before they are read: settleSeconds=60."
                )
        elif about.st_size < read:
            raise SourceError(f"{path} is shorter than what was read of it; give every capture a name of its own.")
        beginning = self.journal.beginnings.get(entry.name)
        seen = (about.st_size, about.st_mtime_ns, about.st_ino)
        if beginning is None or seen == self._seen.get(entry.name):
            return
        if Beginning.of(path, beginning.size) != beginning:
            raise SourceError(
                f"{path} begins otherwise than when it was read: another file has its name.\n"
                "  Give every capture a name of its own: under another name this one is read as a new one."
            )
        self._seen[entry.name] = seen

    def learn(self, writer: Writer, number: int, read: int) -> None:
        """Have the journal know the file of an entry by the bytes that were read."""
        name = self.journal.entries[number].name
        known = self.journal.beginnings.get(name)
        if known is None or known.may_grow(read):
            writer.know(number, Beginning.of(self.root / name, read))
