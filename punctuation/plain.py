"""Punctuations as plain values (lists, strings, numbers), so that progress can be saved without pickling anything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

from punctuation.pattern import Equals, OneOf, Pattern, Range, Value
from punctuation.progress import Progress
from punctuation.punctuation import Punctuation

Plain: TypeAlias = bool | int | float | str | list["Plain"] | None


def to_plain(punctuation: Punctuation) -> Plain:
    """Return a punctuation as nested lists of JSON values; bytes are tagged and written in hexadecimal."""
    return [[name, *_pattern(pattern)] for name, pattern in punctuation.patterns]


def from_plain(plain: Plain) -> Punctuation:
    """Read what `to_plain` gave; ValueError when it is not of that form."""
    if not isinstance(plain, list):
        raise ValueError(f"a saved punctuation is a list, not {plain!r}")
    patterns: dict[str, Pattern] = {}
    for item in plain:
        if not isinstance(item, list) or len(item) < 2 or not isinstance(item[0], str):
            raise ValueError(f"a saved pattern is [attribute, kind, ...], not {item!r}")
        patterns[item[0]] = _read(item[1:])
    return Punctuation(patterns)


def save_progress(progress: Progress) -> Plain:
    """Return the promises in force and the number of stale ones."""
    return [progress.stale, [to_plain(p) for p in progress.promises()]]


def load_progress(plain: Plain) -> Progress:
    """Read what `save_progress` gave."""
    if not (isinstance(plain, list) and len(plain) == 2 and isinstance(plain[1], list)):
        raise ValueError(f"saved progress is [stale, promises], not {plain!r}")
    progress = Progress()
    for promise in plain[1]:
        progress.advance(from_plain(promise))
    progress.stale = int(plain[0])  # pyright: ignore[reportArgumentType]
    return progress


def dump_progress(progress: Progress) -> str:
    """Return `save_progress` as JSON text."""
    return json.dumps(save_progress(progress))


def read_progress(text: str) -> Progress:
    """Read what `dump_progress` gave; ValueError when it is not that."""
    return load_progress(json.loads(text))


def _value(value: Value | None) -> Plain:
    return ["bytes", value.hex()] if isinstance(value, bytes) else value


def _read_value(plain: Plain) -> Value:
    if isinstance(plain, list):
        return bytes.fromhex(str(plain[1]))
    if plain is None:
        raise ValueError("a saved constant is missing")
    return plain


def _pattern(pattern: Pattern) -> Iterable[Plain]:
    if isinstance(pattern, Equals):
        return ["equals", _value(pattern.value)]
    if isinstance(pattern, OneOf):
        return ["one of", [_value(v) for v in pattern.values]]
    if isinstance(pattern, Range):
        return ["range", _value(pattern.low), _value(pattern.high), pattern.low_open, pattern.high_open]
    raise ValueError(f"a pattern of kind {type(pattern).__name__} cannot be saved")


def _read(plain: list[Plain]) -> Pattern:
    kind, *rest = plain
    if kind == "equals":
        return Equals(_read_value(rest[0]))
    if kind == "one of" and isinstance(rest[0], list):
        return OneOf(frozenset(_read_value(v) for v in rest[0]))
    if kind == "range":
        low, high = (None if v is None else _read_value(v) for v in rest[:2])
        return Range(low, high, low_open=bool(rest[2]), high_open=bool(rest[3]))
    raise ValueError(f"unknown kind of saved pattern {kind!r}")
