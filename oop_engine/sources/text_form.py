"""The form of a file of lines, where it is neither comma-separated UTF-8 with ISO times nor flat JSON."""

from __future__ import annotations

import codecs
import re
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.errors import PlanError
from oop_engine.sources.capture.compression import PackedDamage, Pieces

_FRACTION: Final = "%f"
_FRACTIONS: Final = r"^(.*:\d{2})[.,](\d{1,9})(.*)$"
_DIGITS: Final = r"^.*:\d{2}[.,](?P<digits>\d{1,9})"
"""The fraction stands behind the seconds, and these behind a colon."""
_WORDS: Final = {"tab": "\t", "\\t": "\t", "semicolon": ";", "pipe": "|", "space": " "}


@attrs.frozen
class TextForm:
    """Say how lines are written.

    `delimiter` stands between the cells of CSV, `decimal` in its numbers. `encoding` is one that Python knows.
    `time_format` is a format of strptime, with %f for a fraction of a second. `flatten` makes a column of each value in
    the objects of NDJSON: {"a": {"b": 1}} has the column a.b. None is what files of the format have: "," or a tab, ".",
    UTF-8, ISO 8601. Raises PlanError for what cannot be one.
    """

    delimiter: str | None = attrs.field(default=None, converter=lambda word: _WORDS.get(word, word))
    decimal: str | None = None
    encoding: str | None = None
    time_format: str | None = None
    flatten: bool = False

    def __attrs_post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise PlanError(
                f"delimiter={self.delimiter!r}: one character stands between cells, and it is no quote and no line end;"
                ' write ";", "|" or "tab".'
            )
        if self.decimal not in (None, ".", ","):
            raise PlanError(f"decimal={self.decimal!r}: numbers have a point or a comma; write '.' or ','.")
        if self.decimal == "," and self.delimiter in (None, ","):
            raise PlanError(
                'decimal=",": where numbers have a comma, cells need another delimiter; add delimiter=";"'
                ' (--delimiter ";").'
            )
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.time_format is not None:
            check_format(self.time_format)

    @property
    def recodes(self) -> bool:
        """Return whether bytes are other than UTF-8."""
        return self.encoding is not None and codecs.lookup(self.encoding).name not in ("utf-8", "ascii")

    def utf8(self, source: Pieces) -> Pieces:
        """Return the bytes of a source as UTF-8."""
        return Recoded(source, str(self.encoding)) if self.recodes else source


def is_format(word: object) -> bool:
    """Return whether a word for a type is a format of times."""
    return isinstance(word, str) and "%" in word


def check_format(format: str) -> None:
    """Check a format of times; PlanError for one that reads no date or is not read here.

    >>> check_format("%d.%m.%Y %H:%M:%S.%f")
    """
    text = format.replace("%%", "")
    unread = sorted(set(re.findall("%.?", text)) - {f"%{c}" for c in "YymdHIMSpbBhzTDFRfaAejnt"})
    if unread:
        raise PlanError(f'time_format="{format}": {unread[0]} is not read here; {_EXAMPLES}')
    if _FRACTION in text and not re.search(r":%S[.,]%f|%T[.,]%f|%M:%S[.,]%f", text):
        raise PlanError(f'time_format="{format}": %f stands behind seconds, as in %H:%M:%S.%f; {_EXAMPLES}')
    if not {"%Y", "%y", "%F", "%D"} & set(re.findall("%.", text)):
        raise PlanError(f'time_format="{format}": a time has a year (%Y or %y); {_EXAMPLES}')


_EXAMPLES: Final = (
    "write, e.g., %m/%d/%Y %I:%M:%S %p for 05/02/2013 08:20:45 PM, or %d.%m.%Y %H:%M:%S.%f for 02.05.2013 20:20:45.5."
)


def parse_times(text: pa.Array, format: str) -> pa.Array:
    """Read text as times in UTC, shape (n,), by a format of strptime; ValueError with the first value that is none.

    What has no zone is UTC. The fraction, %f, has one to nine digits and may be missing.

    >>> parse_times(pa.array(["05/02/2013 08:20:45.25 PM"]), "%m/%d/%Y %I:%M:%S.%f %p")[0].as_py().isoformat()
    '2013-05-02T20:20:45.250000+00:00'
    """
    found = times_or_null(text, format)
    wrong = pc.and_(pc.is_null(found), pc.is_valid(text))
    if pc.any(wrong).as_py():
        raise ValueError(f'"{text[pc.index(wrong, True).as_py()]}" is no time as {format}')
    return found


def times_or_null(text: pa.Array, format: str) -> pa.Array:
    """Read text as times in UTC; null where it is none."""
    whole = text
    fraction: pa.Array | None = None
    if _FRACTION in format:
        digits = pc.struct_field(pc.extract_regex(text, _DIGITS), ["digits"])
        fraction = pc.utf8_rpad(pc.coalesce(digits, "0"), 9, "0").cast(pa.int64())
        whole = pc.replace_substring_regex(text, _FRACTIONS, r"\1\3")
        format = format.replace(".%f", "").replace(",%f", "")
    found = pc.strptime(whole, format=format, unit="ns", error_is_null=True)
    ticks = found.cast(pa.int64()) if fraction is None else pc.add(found.cast(pa.int64()), fraction)
    return ticks.cast(pa.timestamp("ns", "UTC"))


@attrs.define
class Recoded:
    """The bytes of a source in another encoding as UTF-8."""

    source: Pieces
    encoding: str
    _decoder: codecs.IncrementalDecoder = attrs.field(init=False)
    _ended: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self.encoding)()

    @property
    def taken(self) -> int:
        return self.source.taken

    def ready(self) -> bool:
        return self._ended or self.source.ready()

    def read(self, most: int) -> bytes:
        while not self._ended:
            piece = self.source.read(most)
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
            except UnicodeError as error:
                place = error.start if isinstance(error, UnicodeDecodeError) else 0
                why = error.reason if isinstance(error, UnicodeDecodeError) else error
                raise PackedDamage(
                    f"a byte near {self.source.taken - len(piece) + place:,} is no {self.encoding} ({why}).\n"
                    "  Give the encoding that the file has, e.g. utf-8, latin-1 or utf-16."
                ) from error
            if text:
                return text.encode()
        return b""


def _check_encoding(name: str) -> None:
    try:
        b"a".decode(name)
    except LookupError as error:
        raise PlanError(
            f'encoding="{name}": {error}; write one that Python knows: utf-8, latin-1, cp1252, utf-16.'
        ) from error
    except UnicodeError:
        return  # an encoding of two bytes or more a character
