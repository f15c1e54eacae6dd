"""Print failures and choose the exit status: a wrong query or wrong data is one sentence, everything else a bug.

Status 0: done; 2: refused before anything ran, or a file that cannot be read; 3: an operator failed in the run;
1: a bug of ours; 130: stopped by the user; 141: nobody reads the results any more. A collection has no end of its own:
one that is stopped is done.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import click

from oop_engine.messages import say
from oop_engine.stopping import STOPPED, begin

REFUSED: Final = 2
FAILED: Final = 3
BUG: Final = 1
_BROKEN_PIPE: Final = 141
_IN_THE_RUN: Final = ("WriteFailed", "SourceEnded", "MemoryLimitError")
"""Errors that are only raised by what has begun; by name, since their classes load the engine."""


_WAY_OUT: Final = re.compile(r"\n  (?:Give .* a punctuator|Exporters promise both)(?:.|\n)*")
"""What errors say to write in Python where a promise is missing."""
_KEYWORD: Final = re.compile(
    r"""(?<!in Python )\b(?P<name>[a-z_]+)=(?:(?P<quote>["'])(?P<text>.*?)(?P=quote)|(?P<bare>True|\.\.\.|[\w.]+))"""
)
"""A parameter of Python in an error, as `anyone=True`."""
_CALL: Final = re.compile(r"^\w+\((?P<keywords>\w+=[^,()]+(?:, \w+=[^,()]+)*)\):")
"""The call of Python that an error begins with, as `rates(once=True, lateness=...):`."""
_PROMISE: Final = "On the command line: --every 1s where tuples are in order, else --slack 2s."


def on_terminal() -> bool:
    """Return whether standard output is a terminal; UsageError where it is closed: nobody would see anything."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # the shell's >&- closes it
        raise click.UsageError("standard output is closed, and what is shown would go there.")
    return sys.stdout.isatty()


@contextmanager
def reported(
    *, promise: str | None = None, stopped: Callable[[], int] = lambda: STOPPED, begins: bool = True
) -> Generator[None]:
    """Turn what is raised inside into text on stderr and an exit status.

    `promise` says what to write where a promise is missing, for a command that has no options to make one. `stopped`
    gives the status of a command that is stopped here. `begins=False` is for a command that calls `begin` itself, when
    there is something to clean up.
    """
    if begins:
        begin()
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        say("stopped.")
        raise click.exceptions.Exit(stopped()) from None
    except BrokenPipeError:
        # Whoever read the results has seen enough; nothing more may be written at shutdown either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(_BROKEN_PIPE) from None
    except Exception as error:
        raise click.exceptions.Exit(tell(error, promise)) from None


def tell(error: Exception, promise: str | None = None) -> int:
    """Write an error to stderr and give the exit status it deserves; `promise` as in `reported`."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    # The engine's notes say where a run was; one that names an operator says that it had begun.
    located = any(note.startswith("in operator") for note in notes) or type(error).__name__ in _IN_THE_RUN
    if isinstance(error, OSError) and not_printed(error):
        say(f"standard output cannot be written: {error.strerror}.", "error")
        return REFUSED
    if isinstance(error, _foreseen()):
        text = _on_the_command_line(error)
        missing = type(error).__name__ == "PlanError" and _WAY_OUT.search(text) is not None
        if missing and promise is not None:
            text = _WAY_OUT.sub("", text)
        more = [*notes, *([promise or _PROMISE] if missing else [])]
        say("\n".join([f"{type(error).__name__}: {text}", *(f"  {line}" for line in more)]), "error")
        return FAILED if located else REFUSED
    trace = "".join(traceback.format_exception(error)).rstrip()
    bug = "This is a bug in oop-engine or in an operator of your own: please report the lines above with the query."
    say(f"{trace}\n{bug}", "error")
    return FAILED if located else BUG


def not_printed(error: OSError) -> bool:
    """Return whether an error came from printing: it names no file, and was raised where click writes."""
    frames = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return error.filename is None and frames[-1:] == ["click.utils"]


def _on_the_command_line(error: Exception) -> str:
    """Return an error's text, with the options of the command line for what is written in Python otherwise."""
    text = str(error)
    if type(error).__name__ == "StreamViolation":
        text = text.replace('late="drop"', "--late drop").replace('late="divert"', "--late-to FILE")
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    options = {option.name: option for option in context.command.params if isinstance(option, click.Option)}

    def option(keyword: re.Match[str]) -> str:
        found = options.get(keyword["name"])
        if found is None:
            return keyword[0]
        named = next(name for name in found.opts if name.startswith("--"))
        value = "" if found.is_flag else keyword["text"] or keyword["bare"]
        return f"{named} {shlex.quote(value)}" if value and value != "..." else named

    calls = _CALL.sub(lambda call: " and ".join(call["keywords"].split(", ")) + ":", text)
    return _KEYWORD.sub(option, calls if _KEYWORD.sub(option, calls) != calls else text)


def _foreseen() -> tuple[type[Exception], ...]:
    """Name the errors that explain themselves; asked only when one was raised, since the class loads a part of ours."""
    # Start-up: commands that succeed, and help, say nothing of errors.
    from punctuation.errors import Error

    return (Error, ArithmeticError, OSError)  # arithmetic: expressions on the data, too large or divided by zero
