"""Messages of a run go to stderr: as lines for people, or for programs as an object a line."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["info", "warning", "error"]
_log = "text"


def log_as(form: str) -> None:
    """Have all that is told from now on written as "text", or as "json": an object a line."""
    global _log
    _log = form


def logs_json() -> bool:
    """Return whether what is told is for programs."""
    return _log == "json"


def say(text: str, level: Level | None = None) -> None:
    """Write lines to stderr, control characters as escapes; where the terminal is gone, there is nobody to tell.

    For programs it is one line, an object with the time, the level (of a note, "warning"), and the message.
    """
    if logs_json():
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        noted = text.startswith("note: ")
        event = {
            "time": now,
            "level": level or ("warning" if noted else "info"),
            "message": text.removeprefix("note: "),
        }
        text = json.dumps(event)
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        with suppress(OSError):
            sys.stderr.write(f"{printable(text)}\n")
            sys.stderr.flush()


def printable(text: str) -> str:
    """Escape what could move the cursor, recolour or reorder a terminal; line ends stay."""
    # Start-up: commands that succeed, and help, say nothing of errors.
    from operators.data.printable import printable

    return printable(text, lines=True)
