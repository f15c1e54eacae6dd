"""A text that names a place is a path of this machine, a file: URI, which is one too, or a URI of another place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

#: Two letters at least, so that a drive of Windows is none; a Path has lost one of the two slashes.
_URI: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<slashes>/+)(?P<rest>.*)", re.S)
_HERE: Final = ("", "localhost")


def remote(text: str | Path) -> str | None:
    """Return the place elsewhere that a URI names, such as s3a://bucket; None where the text names one here."""
    found = _URI.fullmatch(str(text))
    if found is None:
        return None
    host = found["rest"].partition("/")[0] if len(found["slashes"]) < 3 else ""
    if found["scheme"].lower() == "file" and (len(found["slashes"]) != 2 or host in _HERE):
        return None
    return f"{found['scheme']}://{host}"


def here(text: str | Path) -> Path:
    """Return a path, or file: URI, as a path; a leading ~ is the home folder."""
    found = _URI.fullmatch(str(text))
    if found is None or found["scheme"].lower() != "file":
        return Path(text).expanduser()
    rest = unquote(found["rest"])
    return Path("/", rest.partition("/")[2] if len(found["slashes"]) == 2 else rest)
