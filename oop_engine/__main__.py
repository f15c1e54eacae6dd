"""`oop-engine` and `python -m oop_engine` start here."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from oop_engine.stopping import STOPPED, obey_signals

LOADED = 500_000
"""Objects made before garbage is first looked for; a start makes fewer."""
COLLECTED = 50_000
"""Objects made between two looks after that, which leave out what was there at the first: code, which stays."""


def main() -> None:
    """Run the command line; the exit status says how it went, see `oop_engine.cli.errors`."""
    obey_signals()
    ends: list[int] = []
    # What is registered first is called last, when threads have ended and all is written.
    if _is_first():
        atexit.register(_leave_done, ends)
    try:
        _run()
    except SystemExit as end:
        if end.code == STOPPED:
            _leave(STOPPED)
        if end.code is None or isinstance(end.code, int):
            ends.append(end.code or 0)
        raise


def _run() -> None:
    def loaded(phase: str, _: object) -> None:
        if phase == "stop":
            gc.callbacks.remove(loaded)
            gc.freeze()
            gc.set_threshold(COLLECTED)

    gc.set_threshold(LOADED)
    gc.callbacks.append(loaded)
    if sys.argv[1:2] != ["pipeline"]:
        sys.meta_path.insert(0, _WithoutPandas())
    # Start-up: signals are obeyed, and pandas is hidden, before anything of ours is loaded.
    from oop_engine.cli import commands

    try:
        commands(prog_name="oop-engine")
    except OSError as error:
        # Start-up: commands that succeed say nothing of errors.
        from oop_engine.cli.errors import not_printed, tell

        if not not_printed(error):
            raise
        sys.exit(tell(error))


class _WithoutPandas:
    """Hide pandas from a process that needs none of it: Arrow loads it where it is installed, a sixth of a start.

    Spark does need it. In a program of the user's own this would change what Arrow makes of times, so it stays here.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("commands run without pandas", name=name)


def _is_first() -> bool:
    """Return whether nothing is registered for the exit; what is, as what measures coverage, would not be called."""
    registered = getattr(atexit, "_ncallbacks", None)
    return registered is not None and registered() == 0


def _leave_done(ends: list[int]) -> None:
    """End with the status of a command that is done, unless an exception that nobody caught came after it."""
    if ends and getattr(sys, "last_value", None) is None:
        _leave(ends[0])


def _leave(status: int) -> None:
    """End at once, without a regular exit.

    That would need the lock of standard input, for which a reader's thread may still wait. It also takes a tenth of
    a start to unload what was loaded.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]  # the shell's >&- closes one
            try:
                stream.flush()
            except OSError:
                status = status or 1
    os._exit(status)


if __name__ == "__main__":
    main()
