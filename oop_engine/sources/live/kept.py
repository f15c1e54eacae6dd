"""Keep the knowledge of a collection in a file, which is replaced as a whole before a promise based on it leaves.

That is what was promised, what is known of exporters, and what they taught the decoder, templates first of all.

So a collector that is killed at any moment and started anew with the same file says again what was promised, and takes
nothing back; what may be in the file without having been said holds back nobody but late records.

Where who reads says how far results were given (see `unreleased`), only so much counts as promised: what the file tells
was given is where it lasts. A collector that was killed in between gives windows again that it had given already, and
marks them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from oop_engine.lock import CannotLock, Claim, Taken
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.unreleased import Unreleased
from operators.data.saved import UNFIT, decode_state, encode_state, part, prefixed
from operators.protocol import State

_PROGRESS: Final = "progress."
_DECODER: Final = "decoder."
_UNRELEASED: Final = "unreleased."
OFTEN: Final = 10 * 10**9
"""Nanoseconds after which who was heard is written, if nothing was promised in the meantime."""
SOON: Final = OFTEN // 50
"""Nanoseconds after which what an exporter newly teaches is: data are read by no template that was another's before."""


@attrs.define(eq=False)
class Kept:
    """The file of a collection's state. Cost: O(exporters) and a sync of the file each time it is written."""

    path: Path
    _written: int = attrs.field(init=False, default=0)
    _heard: int = attrs.field(init=False, default=0)
    _learnt: int = attrs.field(init=False, default=0)
    _changes: int = attrs.field(init=False, default=0)
    _claim: Claim | None = attrs.field(init=False, default=None)

    def lock(self) -> None:
        """Keep others from using the file; SourceError where one does, or where it is no such file."""
        # A file of something else gets no lock beside it.
        self._read()
        try:
            self._claim = Claim.of(self.path)
        except Taken as taken:
            raise SourceError(
                f'state="{self.path}" is kept by another collector, {taken.who}.\n'
                "  End that one first, or name another file: each collector keeps its own."
            ) from None
        except CannotLock as error:
            raise SourceError(f'state="{self.path}": {error}') from None

    def unlock(self) -> None:
        """Let others use the file."""
        if self._claim is not None:
            self._claim.release()

    def take_up(self, progress: ExporterProgress, decoder: FlowDecoder, unreleased: Unreleased | None = None) -> bool:
        """Return what is in the file to those who need it; False if there is none, SourceError for other files."""
        with self._foreign():
            state = self._read()
            if state is not None:
                progress.restore(part(_PROGRESS, state))
                decoder.restore(part(_DECODER, state))
                if unreleased is not None:
                    unreleased.restore(part(_UNRELEASED, state))
        return state is not None

    def _read(self) -> State | None:
        with self._foreign():
            try:
                return decode_state(self.path.read_bytes())
            except FileNotFoundError:
                if not self.path.parent.is_dir():
                    raise SourceError(f'state="{self.path}": there is no folder "{self.path.parent}"') from None
                return None

    @contextmanager
    def _foreign(self) -> Generator[None]:
        try:
            yield
        except SourceError:
            raise
        except (OSError, *UNFIT) as error:
            raise SourceError(
                f'state="{self.path}" is not what a collector left: {error}.\n'
                "  Name another file, or remove this one: exporters then settle anew, and no promise is remembered."
            ) from None

    def write(
        self, progress: ExporterProgress, decoder: FlowDecoder, now: int, unreleased: Unreleased | None = None
    ) -> None:
        """Replace the file by what is known now; of promises only those whose results were given, where that is known.

        Templates and sequence numbers are of one moment, so that after a restart data are read as they were before it,
        and what is said to be lost is what was sent since.
        """
        self._written, self._heard, self._learnt = now, progress.latest, decoder.learnt
        given = None if unreleased is None else unreleased.given
        known = {**prefixed(_PROGRESS, progress.state(given)), **prefixed(_DECODER, decoder.state())}
        if unreleased is not None:
            self._changes = unreleased.changes
            known |= prefixed(_UNRELEASED, unreleased.state())
        try:
            replace(self.path, encode_state(known))
        except OSError as error:
            raise SourceError(f'state="{self.path}" cannot be written: {error.strerror}') from error

    def write_sometimes(
        self, progress: ExporterProgress, decoder: FlowDecoder, now: int, unreleased: Unreleased | None = None
    ) -> None:
        """Replace the file if something was learnt or given since, or if it is old and something was heard."""
        old = abs(now - self._written)
        news = decoder.learnt != self._learnt or (unreleased is not None and unreleased.changes != self._changes)
        if (old >= SOON and news) or (old >= OFTEN and progress.latest != self._heard):
            self.write(progress, decoder, now, unreleased)


def replace(path: Path, content: bytes) -> None:
    """Write a file that is seen as it was or as it will be, whenever this process or the machine stops."""
    # The name cannot be foreseen, and O_EXCL takes no file or link that is there already.
    beside = path.parent / f".{path.name}.{secrets.token_hex(6)}.part"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    if os.name != "posix":  # nowhere else can a folder be opened and synced
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
