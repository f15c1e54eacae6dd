"""Check the options of a reader once, when a DataFrame is made of it, and report misspelt ones there."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from oop_engine.sources.errors import SourceError
from operators.errors import did_you_mean

#: Options that Spark itself adds.
_SPARKS: Final = ("path", "paths", "__is_streaming__")
#: What Spark's catalog adds to the options of a table that is made.
_CATALOGS: Final = ("owner", "provider")
_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
#: Digits behind the seconds of a time, not of its zone's offset.
_FRACTION: Final = re.compile(r"(?:(?<=[^\d+-]\d\d:\d\d:\d\d)|(?<=[^\d+-]\d{6}))[.,](\d+)")
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.I)


@attrs.frozen
class Options:
    """The options of one reader or writer, by names in which case does not matter."""

    format: str
    given: Mapping[str, str]
    known: tuple[str, ...]

    @classmethod
    def of(cls, format: str, given: Mapping[str, str], known: Iterable[str]) -> Options:
        """Take options; SourceError for one that the format does not have, and for those of a table."""
        options = cls(format, {key.lower(): value for key, value in given.items()}, tuple(known))
        if all(name in options.given for name in _CATALOGS):
            # Spark 4.3.0 reads a table without any of the options that it was made with, the path among them.
            raise SourceError(
                f"{format} can be no table: Spark keeps its path and options, and gives none of them when it is read.\n"
                f"  Write {options._view()}"
            )
        names = {name.lower() for name in (*options.known, *_SPARKS)}
        for key in given:
            if key.lower() not in names:
                raise SourceError(
                    f'{format} has no option "{key}".\n'
                    f"  options: {', '.join(options.known)}\n"
                    f"  {did_you_mean(key, options.known)}"
                )
        return options

    def _view(self) -> str:
        """Return SQL that works."""
        path = self.given.get("path", "captures/*.pcap")
        return f"CREATE TEMPORARY VIEW name USING {self.format} OPTIONS (path '{path}')."

    def text(self, name: str) -> str | None:
        """Return an option as it stands; None when it is not given."""
        value = self.given.get(name.lower())
        return None if value is None or not value.strip() else value.strip()

    def names(self, name: str) -> tuple[str, ...] | None:
        """Read names between commas."""
        value = self.text(name)
        return None if value is None else tuple(part.strip() for part in value.split(",") if part.strip())

    def flag(self, name: str) -> bool:
        """Read true or false; false when it is not given."""
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise SourceError(f'{self.format}: {name}="{value}" is neither true nor false.')
        return value == "true"

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        """Read a whole number, as it stands or with k, m or g behind it (of 1024)."""
        value = self.text(name)
        if value is None:
            return default
        found = _SIZE.fullmatch(value)
        number = int(found[1]) * _SIZES[found[2].lower()] if found else -1
        if number < least:
            raise SourceError(
                f'{self.format}: {name}="{value}" is no whole number from {least} on, such as 1000 or 64m.'
            )
        return number

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Read one of several words, the first when it is not given."""
        value = self.text(name) or choices[0]
        if value not in choices:
            raise SourceError(f'{self.format}: {name}="{value}" is none of {", ".join(choices)}.')
        return value

    def time(self, name: str) -> int | None:
        """Read a time as ns since 1970: ISO 8601, in UTC where it names no other zone, or seconds since 1970."""
        value = self.text(name)
        if value is None:
            return None
        if re.fullmatch(r"-?\d+(\.\d{1,9})?", value):
            whole, _, part = value.lstrip("-").partition(".")
            ns = int(whole) * 1_000_000_000 + int(part.ljust(9, "0") or 0)
            return -ns if value.startswith("-") else ns
        # A datetime has microseconds, and fromisoformat drops the digits behind them.
        part = _FRACTION.search(value)
        whole = value if part is None else value[: part.start()] + value[part.end() :]
        digits = "" if part is None else part[1]
        try:
            moment = dt.datetime.fromisoformat(whole)
        except ValueError:
            moment = None
        if moment is None or len(digits) > 9:
            raise SourceError(
                f'{self.format}: {name}="{value}" is no time, or finer than nanoseconds.\n'
                "  Write it as 2024-05-01T12:00:00Z, 2024-05-01 12:00:00.5, 2024-05-01, or in seconds since 1970."
            )
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        us = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
        return us * 1_000 + int(digits.ljust(9, "0"))

    def paths(self) -> tuple[str, ...]:
        """Return the paths that load() was called with; SourceError when there are none."""
        several = self.text("paths")
        paths = tuple(json.loads(several)) if several else ()
        single = self.text("path")
        if single is not None:
            paths = (*paths, single)
        if not paths:
            raise SourceError(
                f'{self.format} needs a path: spark.read.format("{self.format}").load("captures/*.pcap").\n'
                f"  In SQL {self._view()} A table does not keep it."
            )
        return paths
