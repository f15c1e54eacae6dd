"""Scripts of a few lines that start other programs a little differently, in a folder of the user's own."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path


def written(kind: str, text: str, place: str) -> Path:
    """Return a folder with an executable script of this text at `place` in it; written once, whole."""
    folder = cache_folder() / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    script = folder / place
    if not (script.is_file() and script.read_text() == text and os.access(script, os.X_OK)):
        script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=script.parent)
        with open(handle, "w") as file:
            file.write(text)
        os.chmod(unfinished, 0o700)
        os.replace(unfinished, script)
    return folder


def cache_folder() -> Path:
    """Return a folder of the user's own for what can be made again; one for this process where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "oop-engine"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        user = getattr(os, "getuid", None)
        if (user is None or folder.stat().st_uid == user()) and os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    private = Path(tempfile.mkdtemp(prefix="oop-engine-"))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return private
