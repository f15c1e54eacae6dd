"""A limit bounds what the operators of a run hold in memory: the rest goes to files, or the run ends with a message."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, Literal, TypedDict, cast, get_args
from weakref import WeakSet

import attrs

from oop_engine.drive.growth import held
from oop_engine.errors import MemoryLimitError, PlanError
from oop_engine.report.bounds import Bound, amount
from operators.protocol import GoesOn, Measured, Operator, Outside, RefusesGroups

MEMORY: Final = "OOP_MEMORY"
"""The environment variable that limits the memory of a run, where its caller does not."""
Policy = Literal["spill", "shed", "error"]
POLICIES: Final[tuple[str, ...]] = get_args(Policy)
LEAST: Final = 1_000_000
"""Bytes that a run may hold at least."""
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", re.IGNORECASE)
_UNITS: Final = " kmgt"
_REMEDY: Final = (
    "Raise the limit, take a shorter window or fewer attributes to group by, or promise earlier (slack, every)."
)


class LimitOptions(TypedDict, total=False):
    """Say how much a run may hold in memory; `Output.run` describes each option."""

    memory: str | int | None
    memory_policy: Policy | None


def bytes_of(size: str | int) -> int:
    """Return how many bytes a size is; PlanError for what is none, or below 1 MB.

    >>> bytes_of("2 GB"), bytes_of("512MiB"), bytes_of(3_000_000)
    (2000000000, 536870912, 3000000)
    """
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    number = 0
    if found is not None:
        base = 1024 if found.group(3) else 1000
        number = int(float(found.group(1)) * base ** _UNITS.index(found.group(2).lower() or " "))
    elif isinstance(size, int) and not isinstance(size, bool):
        number = size
    if number < LEAST:
        raise PlanError(f'memory="{size}": write how much the state of a run may take, at least 1 MB, e.g. "2 GB".')
    return number


@attrs.frozen
class Limit:
    """Hold how many bytes operators may hold between them, and what becomes of more; for one run."""

    memory: int
    policy: Policy = "spill"
    admissions: dict[int, tuple[RefusesGroups, ...]] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    """By number of an output, the operators of the run before it that refuse groups."""

    def lanes(self, operators: int) -> int:
        """Return how many bytes each of so many operators may hold that spill or refuse groups."""
        return max(1, self.memory // max(1, operators))

    def check(self, labels: Sequence[str], operators: Sequence[Operator]) -> None:
        """Raise MemoryLimitError if operators hold more than the limit, but those that spill or refuse groups."""
        sizes: list[tuple[int, str, Mapping[str, int]]] = []
        for label, operator in zip(labels, operators, strict=True):
            if isinstance(operator, Measured) and not isinstance(operator, GoesOn | RefusesGroups):
                details = operator.statistics()
                sizes.append((details.get("state_bytes", 0), label, details))
        total = sum(size for size, _, _ in sizes)
        if total <= self.memory:
            return
        size, label, details = max(sizes, key=lambda found: found[0])
        why = _NO_PART[self.policy]
        raise MemoryLimitError(
            f"the state of this run takes {amount(total)}, and memory={amount(self.memory)} is its limit.\n"
            f"  {held(label, details, size)}{why}.\n"
            f"  {_REMEDY[:-1]}{_OR_SPILL if self.policy == 'error' else '.'}"
        )


_NO_PART: Final[dict[Policy, str]] = {
    "spill": ", and it has no part that could go to disk (see explain)",
    "shed": ", and it has no groups that could be refused (see explain)",
    "error": "",
}
_OR_SPILL: Final = '; memory_policy="spill" (--memory-policy spill) puts what is more on disk.'


def limit_of(memory: str | int | None = None, memory_policy: str | None = None) -> Limit | None:
    """Return the limit of a run: what is asked for, or what OOP_MEMORY says, or None for no limit.

    PlanError for what is no size, and no policy.
    """
    asked = os.environ.get(MEMORY, "").strip() or None if memory is None else memory
    if memory_policy is not None and memory_policy not in POLICIES:
        raise PlanError(f'memory_policy="{memory_policy}": write one of {", ".join(POLICIES)}.')
    if asked is None:
        if memory_policy is not None:
            raise PlanError(f'memory_policy="{memory_policy}" is for a run with a limit; add memory="2 GB".')
        return None
    return Limit(bytes_of(asked), cast(Policy, memory_policy or "spill"))


def bound_of(memory: bool | str | int = False, memory_policy: str | None = None) -> Bound | None:
    """Return the bound that a plan is explained for: of a size, or, for True, of any; None for none.

    PlanError as `limit_of` raises it.
    """
    if memory is False and memory_policy is None:
        return None
    limit = limit_of(LEAST if isinstance(memory, bool) else memory, memory_policy)
    assert limit is not None
    return Bound(limit.policy, None if isinstance(memory, bool) else limit.memory)


def seed() -> int:
    """Return a number that says how keys are divided, which nobody who sends data can know."""
    return secrets.randbits(62)


@attrs.define(eq=False)
class _File:
    """A file without a name. It is gone once nobody has it or a piece of it."""

    file: BinaryIO
    _sizes: list[int] = attrs.field(init=False, factory=list)
    _turn: Lock = attrs.field(init=False, factory=Lock)
    """Pieces are read by the thread that writes a checkpoint, too."""

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()

    def add(self, piece: bytes) -> None:
        with self._turn:
            self.file.seek(sum(self._sizes))
            view = memoryview(piece)
            while len(view):
                view = view[self.file.write(view) :]
        self._sizes.append(len(piece))

    def pieces(self) -> Sequence[Outside]:
        begins = accumulate(self._sizes, initial=0)
        return [Outside(size, partial(self._read, at, size)) for at, size in zip(begins, self._sizes, strict=False)]

    def _read(self, at: int, size: int) -> bytes:
        parts: list[bytes] = []
        with self._turn:
            self.file.seek(at)
            while size:  # the system gives at most 2 GB at once
                if not (part := self.file.read(size)):
                    raise EOFError(f"a file of what exceeds the memory limit ends {size:,} bytes early")
                parts.append(part)
                size -= len(part)
        return b"".join(parts)


@attrs.define(eq=False)
class FileShelf:
    """Put pieces into files without names, which are gone when nobody has them, or this process is, however it ends.

    They are in the folder for temporary files (TMPDIR). MemoryLimitError where one cannot be written.
    """

    _files: dict[str, _File] = attrs.field(init=False, factory=dict)
    _open: WeakSet[_File] = attrs.field(init=False, factory=WeakSet)
    """Those files, and the ones that were removed and of which somebody has a piece."""
    _begun: int = attrs.field(init=False, default=0)

    def begin(self) -> str:
        """Return a name under which nothing is here."""
        self._begun += 1
        return str(self._begun)

    def add(self, name: str, piece: bytes) -> None:
        """Put a piece behind those that are here under a name."""
        try:
            file = self._files.get(name)
            if file is None:
                made = cast(BinaryIO, tempfile.TemporaryFile(buffering=0, prefix="oop-engine-"))  # noqa: SIM115
                file = self._files[name] = _File(made)
                self._open.add(file)
            file.add(piece)
        except OSError as error:
            raise MemoryLimitError(
                f'what exceeds the memory limit cannot be written to "{_folder()}": {error.strerror or error}.\n'
                "  Make room there, name a folder with more of it with TMPDIR, or raise the limit."
            ) from error

    def pieces(self, name: str) -> Sequence[Outside]:
        """Return the pieces under a name, in their order."""
        return self._files[name].pieces()

    def remove(self, name: str) -> None:
        """Forget a name and its pieces."""
        del self._files[name]

    def close(self) -> None:
        """Remove all that is here, whoever has a piece of it."""
        for file in tuple(self._open):
            file.close()
        self._files.clear()


def _folder() -> Path:
    return Path(tempfile.gettempdir())
