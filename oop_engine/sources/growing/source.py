"""A stream of files that grow, and of those that come: it ends when it is stopped, and goes on from a checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import ClassVar, Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.errors import CheckpointError
from oop_engine.sources.errors import SourceError
from oop_engine.sources.growing.listing import (
    HEAD,
    Found,
    Order,
    elsewhere,
    head_of,
    listed,
    looked_at,
    renamed,
    unpacked_head,
)
from oop_engine.sources.growing.tails import PACKED, PATIENCE, SETTLED, Seen, Tail
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Chunk, Snapshot
from oop_engine.sources.reading import Passing, Reading
from oop_engine.sources.tables import Settled
from operators.data.saved import UNFIT, part, prefixed
from operators.protocol import State, StateValue

PAUSE: Final = 0.2
"""Seconds between two looks, at least, where the one before found nothing."""
_SHARE: Final = 10
"""How many times as long as a look took the pause lasts, at least."""
_FIRST: Final = 10.0
"""Seconds for which the first file, or its first line, is waited for."""
_TOLD: Final = 5
_AT_ONCE: Final = -1.0
"""Since when a packed file is there that is a copy of one that was read."""
_COUNTS: Final = ("files", "renamed", "replaced", "removed", "copies", "missed", "unread", "damaged")
_HEADS: Final = 10_000
"""Files that are gone of which it is known how they began."""


@attrs.frozen
class Tails:
    """Make the readings of files, and say what there is to tell of all of them."""

    made: Callable[[Path], Tail]
    notes: Callable[[], list[str]]


Opening: TypeAlias = Callable[[Sequence[str], int], Tails]
"""Makes them, for columns and rows of a batch."""


def first_of(places: Sequence[Path], order: Order, usable: Callable[[Path], bool], example: str) -> Path:
    """Return the first file that shows what columns there are; waits ten seconds for it, then raises SourceError.

    Where there is none under a name, those show it that were renamed and have something behind the name.
    """
    until = time.monotonic() + _FIRST
    while True:
        for file in (*listed(places, order), *listed(renamed(places), order)):
            if file.size and usable(file.path):
                return file.path
        if time.monotonic() > until:
            names = ", ".join(f'"{place}"' for place in places)
            raise SourceError(
                f"{names}: no file has come in {_FIRST:.0f} s that shows what attributes there are.\n"
                f"  Start again when there is one{example}."
            )
        time.sleep(PAUSE)


@attrs.frozen(eq=False)
class Growing(Passing):
    """The tuples of files that grow, in the order in which they were written to each file, and files come.

    `places` are files, patterns and folders. New files are taken by name or, with `order` "time", by when they were
    written last. A file that was renamed is read on under its new name; one that was replaced or cut is read from its
    start. `tails` makes the readings of files. The reading ends when it is stopped.
    """

    places: tuple[Path, ...]
    schema: pa.Schema = attrs.field(repr=False)
    tails: Opening = attrs.field(repr=False)
    order: Order = "name"
    label: str = ""
    settled: Settled | None = attrs.field(default=None, repr=False)
    """What was found out about the columns of tables, for a run that goes on."""
    waits: ClassVar[bool] = True

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.label or ", ".join(place.name for place in self.places)

    @property
    def arrow(self) -> pa.Schema:
        return self.schema

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        return ()

    def open(self, columns: Sequence[str], batch_rows: int) -> GrowingReader:
        return GrowingReader(self, self.tails(columns, batch_rows))


@attrs.define(eq=False)
class _Entry:
    """A file that is followed."""

    file: Found
    head: tuple[int, str]
    tail: Tail
    changed: float
    """When it was seen to change last, by a clock that never goes back."""
    outside: bool = False
    """Whether its name is no longer one that is followed."""


@attrs.define(eq=False)
class GrowingReader(Reading):
    """One reading of files that grow. `stop` and `wake` are for other threads than that which reads."""

    source: Growing
    tails: Tails
    _entries: list[_Entry] = attrs.field(init=False, factory=list)
    _event: Event = attrs.field(init=False, factory=Event)
    _stopped: bool = attrs.field(init=False, default=False)
    _placing: Placing | None = attrs.field(init=False, default=None)
    _answered: int = attrs.field(init=False, default=0)
    _counts: dict[str, int] = attrs.field(init=False, factory=lambda: dict.fromkeys(_COUNTS, 0))
    _fresh: dict[tuple[int, int], tuple[Found, float]] = attrs.field(init=False, factory=dict)
    """Packed files that may be written still, and since when they are as they are."""
    _missed: set[tuple[int, int]] = attrs.field(init=False, factory=set)
    """Files that were renamed before they were seen."""
    _gone: dict[str, None] = attrs.field(init=False, factory=dict)
    """How files began that are gone."""
    _notes: list[str] = attrs.field(init=False, factory=list)

    def stop(self) -> None:
        self._stopped = True
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    def go_on(self, placing: Placing) -> None:
        self._placing = placing
        if placing.state is not None:
            try:
                self._restore(placing.state)
            except UNFIT as error:
                raise CheckpointError(
                    f"{self.source.name}: the files of the checkpoint cannot be taken up: {error!r}.\n"
                    "  The state is damaged, or another version wrote it: begin anew with another --checkpoint."
                ) from error

    def chunks(self) -> Iterator[Chunk]:
        while not self._stopped:
            began, moved = time.monotonic(), False
            for batch in self.new():
                moved = True
                yield batch
                yield from self._snapshot()
                if self._stopped:
                    break
            yield from self._snapshot()
            if not moved and not self._stopped:
                self._event.wait(max(PAUSE, _SHARE * (time.monotonic() - began)))
                self._event.clear()
        yield from self._snapshot(last=True)

    def new(self) -> Iterator[pa.RecordBatch]:
        """Look once what became of the files, and yield what is new in them."""
        self._look()
        for number, entry in enumerate(self._entries):
            yield from entry.tail.batches(self._seen(number, entry))

    def _seen(self, number: int, entry: _Entry) -> Seen:
        last = number == len(self._entries) - 1 and not entry.outside
        return Seen(entry.file.path, entry.file.size, time.monotonic() - entry.changed, last)

    def _look(self) -> None:
        """Find out what became of the files, and which are new."""
        now = time.monotonic()
        there = {file.key: file for file in listed(self.source.places, self.source.order)}
        kept: list[_Entry] = []
        for entry in self._entries:
            file = there.get(entry.file.key)
            if file is not None and _is_same(entry, file):
                del there[file.key]
            else:
                file = None
            if file is None and not entry.outside:
                self._look_for_missed(entry.file.modified, there)
            entry.outside = file is None
            if file is None:
                file = self._renamed(entry, now)
            if file is None:
                self._lost(entry, "removed")
            else:
                self._meet(entry, file, now)
                kept.append(entry)
        self._entries = kept
        for file in there.values():
            if file.path.suffix.lower() in PACKED and not self._is_whole(file, now):
                continue
            self._entries.append(_Entry(file, head_of(file.path, file.size), self.tails.made(file.path), now))
            self._counts["files"] += 1

    def _is_whole(self, file: Found, now: float) -> bool:
        """Return whether a packed file is to be read: nobody writes to it, and what is in it was not read before."""
        before, since = self._fresh.get(file.key, (None, now))
        if before is None or (before.size, before.modified) != (file.size, file.modified):
            self._fresh[file.key] = file, now
            return False
        if since != _AT_ONCE and now - since < SETTLED:
            return False
        known = {digest for length, digest in (entry.head for entry in self._entries) if length == HEAD}
        if (head := unpacked_head(file.path)) is None or head not in known | self._gone.keys():
            del self._fresh[file.key]
            return True
        if since != _AT_ONCE:
            self._counts["copies"] += 1
            self._fresh[file.key] = file, _AT_ONCE
        return False

    def _look_for_missed(self, since: int, there: Mapping[tuple[int, int], Found]) -> None:
        """Count files that came and were renamed between two looks, so that their names are none that are followed."""
        known = {entry.file.key for entry in self._entries} | there.keys() | self._missed
        missed = {file.key for file in listed(renamed(self.source.places), "name") if file.modified > since} - known
        self._counts["missed"] += len(missed)
        self._missed |= missed

    def _renamed(self, entry: _Entry, now: float) -> Found | None:
        """Return a file under a name that is not followed, for as long as somebody may write to it."""
        if now - entry.changed > PATIENCE and not entry.tail.unread(entry.file.size):
            return None
        file = looked_at(entry.file.path)
        if file is None or file.key != entry.file.key:
            file = elsewhere(entry.file.path, entry.file.key)
        return file if file is not None and _is_same(entry, file) else None

    def _meet(self, entry: _Entry, file: Found, now: float) -> None:
        """Take a file as it is now: renamed, grown, replaced or as it was."""
        if file.path != entry.file.path:
            self._counts["renamed"] += 1
        if file.size != entry.file.size or file.modified != entry.file.modified:
            entry.changed = now
            length, digest = entry.head
            if file.size < entry.file.size or head_of(file.path, length) != (length, digest):
                self._lost(entry, "replaced")
                entry.tail.anew()
                length = -1  # it begins anew, even where nothing is in it yet
            if length < file.size:
                entry.head = head_of(file.path, file.size)
        entry.file = file

    def _lost(self, entry: _Entry, how: str) -> None:
        self._gone[entry.head[1]] = None
        while len(self._gone) > _HEADS:
            del self._gone[next(iter(self._gone))]
        unread = entry.tail.unread(entry.file.size)
        self._notes += [f"{entry.file.path.name}: {note}" for note in entry.tail.notes(last=False)]
        self._counts["damaged"] += entry.tail.left_out()
        if how == "replaced" or not entry.outside or unread:
            self._counts[how] += 1
        self._counts["unread"] += unread

    def progress(self) -> tuple[int, int | None]:
        return sum(entry.file.size - entry.tail.unread(entry.file.size) for entry in self._entries), None

    def notes(self) -> list[str]:
        counts = self._counts
        told = [f"{counts['renamed']:,} times a file was renamed, and read on"] if counts["renamed"] else []
        if counts["replaced"]:
            told.append(f"{counts['replaced']:,} times a file was cut or replaced, and read from its start")
        if counts["removed"]:
            told.append(f"{counts['removed']:,} files were removed")
        if counts["copies"]:
            told.append(f"{counts['copies']:,} packed files are copies of files that were read, and were left out")
        if counts["missed"]:
            names = ", ".join(f'"{place}*"' for place in self.source.places)
            told.append(
                f"{counts['missed']:,} files were renamed before they were seen, and not read; follow {names} to read"
                " files under the names that they get"
            )
        if counts["unread"]:
            told.append(
                f"{counts['unread']:,} bytes were in files that were cut or removed before they were read to the end"
            )
        notes = list(self._notes)
        for entry in self._entries:
            last = entry is self._entries[-1]
            notes += [f"{entry.file.path.name}: {note}" for note in entry.tail.notes(last=last)]
        if damaged := counts["damaged"] + sum(entry.tail.left_out() for entry in self._entries):
            told.append(
                f"{damaged:,} lines and rests of files could not be read, and were left out; windows of their times may"
                " lack rows"
            )
        more = len(notes) - _TOLD
        return [*told, *self.tails.notes(), *notes[:_TOLD], *([f"{more:,} more notes on files"] if more > 0 else [])]

    def _snapshot(self, *, last: bool = False) -> Iterator[Snapshot]:
        """Answer who asked where the reading is."""
        placing = self._placing
        if placing is None or not (last or placing.asked > self._answered):
            return
        self._answered = placing.asked
        yield Snapshot(self._answered, self._state(), last=last)

    def _state(self) -> State:
        files: list[object] = []
        state: State = {}
        for number, entry in enumerate(self._entries):
            file = entry.file
            about = [str(file.path), file.device, file.inode, file.size, file.modified]
            files.append({"file": about, "head": entry.head, "position": entry.tail.position()})
            state |= prefixed(f"{number} ", entry.tail.state())
        return {
            "files": json.dumps(files),
            "counts": json.dumps(self._counts),
            "gone": json.dumps([*self._gone]),
            **state,
        }

    def _restore(self, state: Mapping[str, StateValue]) -> None:
        files, counts = json.loads(str(state["files"])), json.loads(str(state["counts"]))
        self._gone = dict.fromkeys(json.loads(str(state["gone"])))
        # Older checkpoints counted less.
        self._counts.update({name: int(counts.get(name, 0)) for name in self._counts})
        now = time.monotonic()
        for number, saved in enumerate(files):
            path, device, inode, size, modified = saved["file"]
            file = Found(Path(path), device, inode, size, modified)
            there = looked_at(file.path)
            other = there is not None and there.key != file.key and elsewhere(file.path, file.key) is None
            if there is not None and other and there.size >= size:
                # Another disk has other numbers; whoever restored a folder from a copy goes on, too.
                length, digest = saved["head"]
                if head_of(there.path, length) == (length, digest):
                    file = attrs.evolve(file, device=there.device, inode=there.inode)
            tail = self.tails.made(file.path)
            tail.restore(saved["position"], part(f"{number} ", state))
            length, digest = saved["head"]
            self._entries.append(_Entry(file, (int(length), str(digest)), tail, now))


def _is_same(entry: _Entry, file: Found) -> bool:
    """Return whether a file of the same number is the one that is followed: numbers of removed files are used again."""
    length, digest = entry.head
    return file.path == entry.file.path or (file.size >= length and head_of(file.path, length) == (length, digest))
