"""The process that began this one may be gone, and then nobody reads what this one has to say."""

from __future__ import annotations

import os

from oop_engine.processes.frames import Watch


class Orphaned(Exception):
    """The process that began this one is gone, so nobody reads what it has to say."""


def parent_watch() -> Watch:
    """Return what raises Orphaned once the process that began this one is gone.

    >>> parent_watch()()
    """
    parent = os.getppid()

    def watch() -> None:
        if os.getppid() != parent:
            raise Orphaned

    return watch
