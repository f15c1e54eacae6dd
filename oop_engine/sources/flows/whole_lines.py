"""Read a log up to its last whole line; the rest may still be in writing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import attrs

from oop_engine.sources.flows.undamaged import Undamaged
from oop_engine.sources.text import Piece, pieces


@attrs.define
class WholeLines:
    """The lines of a log in pieces; a last line that is not whole is left out, and `cut` tells where, at the end."""

    unpacked: Undamaged
    cut: str | None = attrs.field(init=False, default=None)

    def pieces(self, line: int = 1, at: int = 0) -> Iterator[Piece]:
        """Yield the whole lines; the source begins with this line, at this byte."""
        for piece in pieces(self.unpacked, quotes=False, line=line, at=at):
            whole = piece.data.rfind(b"\n") + 1
            rest = piece.data[whole:]
            if (whole or piece.line > 1) and not (self.unpacked.fault is None and _is_whole(rest)):
                self._tell("the last line is not whole")
                piece = Piece(piece.line, piece.data[:whole], piece.at)
            yield piece
        if self.unpacked.fault is not None:
            self._tell(self.unpacked.fault)

    def _tell(self, why: str) -> None:
        self.cut = f"truncated at byte {self.unpacked.count}: {self.unpacked.fault or why}"


def _is_whole(rest: bytes) -> bool:
    """Return whether the rest behind the last line end is a line: an object, a comment. A last field may be cut."""
    if not rest.strip() or rest.startswith(b"#"):
        return True
    try:
        return isinstance(json.loads(rest), dict)
    except ValueError:
        return False
