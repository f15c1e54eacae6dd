"""Report what fails inside Spark in the engine's own words, not as forty lines of a Java stack trace."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from punctuation.errors import Error

INSTALL: Final = "pip install 'oop-engine[spark]'"
#: Errors of ours explain themselves; of these Spark hands on only the text of a traceback.
_OURS: Final = (
    "DecodeError|SourceError|SinkError|PlanError|SchemaError|StreamError|StreamViolation|TableError|LanguageError"
    "|AggregateOverflow|OperatorBug|SparkError"
)
_TOLD: Final = re.compile(
    rf"^(?:[\w.]*\.)?(?P<kind>{_OURS}): (?P<text>.*?)(?=^\s*at |^Traceback |^\t|^=== |^\s*\n|\Z)", re.M | re.S
)
#: The last lines of a traceback: the first that is not indented is the error, of whatever name, as Arrow's are.
_PYTHON: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+"
    r"(?P<kind>[A-Za-z_][\w.<>]*)(?:: (?P<text>.*?))?\n?(?=^\s*at |^Traceback |^\t|^=== |^\s*\n|\Z)",
    re.M | re.S,
)
_CLASS: Final = re.compile(r"^\[(?P<name>[A-Z_.]+)\] (?P<text>.*)$", re.M)

_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}")


class SparkError(Error, RuntimeError):
    """Report that Spark, or what it needs, is missing or could not do what was asked, and what mends it."""


@contextmanager
def errors() -> Generator[None, None, None]:
    """Raise what fails inside this context as a SparkError of a few lines, in the engine's words where the engine
    failed.

    >>> spark = oop.spark.session(cores=2)
    >>> try:
    ...     with oop.spark.errors():
    ...         spark.read.format("oop.pcap").load("no.pcap").count()
    ... except oop.spark.SparkError as error:
    ...     print(str(error).splitlines()[0])
    SourceError: there is no file "no.pcap".
    """
    # Optional: pyspark.
    from pyspark.errors import PySparkException

    try:
        # Optional: pyspark.
        from py4j.protocol import Py4JError
    except ImportError:  # a session over Spark Connect alone
        Py4JError = PySparkException
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkError(unwrapped(error)) from None


def unwrapped(error: BaseException) -> str:
    """Return what an error of Spark says in a few lines: of our own errors, however deep, the whole text."""
    text = _STATE.sub("", _text(error))
    found = [*_TOLD.finditer(text)]
    if found:
        last = found[-1]
        return f"{last['kind']}: {_dedented(last['text'])}"
    python = [*_PYTHON.finditer(text)]
    if python:
        last = python[-1]
        return f"{last['kind']}: {_dedented(last['text'] or '')}".removesuffix(": ")
    classed = _CLASS.search(text)
    if classed:
        return f"{classed['text'].strip()} [{classed['name']}]"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return "\n".join(lines[:3]) or type(error).__name__


def _text(error: BaseException) -> str:
    """Return all that is known of an error: its message, and that of the Java exception behind it."""
    parts = [str(error)]
    cause = error.__cause__
    while cause is not None and len(parts) < 8:
        parts.append(str(cause))
        cause = cause.__cause__
    return "\n".join(parts)


def _dedented(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
