"""Read compressed data up to where it is cut or damaged, and keep what was wrong there for the notes."""

from __future__ import annotations

import attrs

from oop_engine.sources.capture.compression import PackedDamage, Pieces


@attrs.define
class Undamaged:
    """The unpacked bytes of a source before any damage to the packed ones, and how many they were."""

    _pieces: Pieces
    count: int = 0
    fault: str | None = None

    @property
    def taken(self) -> int:
        return self._pieces.taken

    def ready(self) -> bool:
        return self.fault is not None or self._pieces.ready()

    def read(self, most: int) -> bytes:
        if self.fault is not None:
            return b""
        try:
            piece = self._pieces.read(most)
        except PackedDamage as error:
            self.fault = str(error)
            return b""
        self.count += len(piece)
        return piece
