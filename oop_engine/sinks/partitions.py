"""Say in which folder of a partitioned data set a result belongs, as Hive names folders: date=2026-11-21/hour=10.

DuckDB, Polars, Spark and Arrow read such folders with their names as columns, and open only those that a query needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sinks.errors import SinkError
from operators.data.page import Page
from operators.data.readable import text_of
from operators.data.schema import Schema
from operators.errors import did_you_mean

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value that a folder of nulls has by Hive's convention."""
_CALL: Final = re.compile(r"(\w+)\s*\(\s*(.+?)\s*\)")
_SECONDS: Final = {"day": 86_400, "hour": 3600}
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SAFE: Final = " -_.~+@,;()!"
"""What stands in a name of a folder as it is, beside letters and digits."""


@attrs.frozen
class Level:
    """One attribute that results are partitioned by: as it is, or a time by the `seconds` of a day or hour, in UTC."""

    attribute: str
    seconds: int = 0

    @classmethod
    def of(cls, text: str) -> Level:
        """Read "hour(ts)", "day(ts)" or the name of an attribute; SinkError for another function.

        >>> Level.of("hour(ts)")
        Level(attribute='ts', seconds=3600)
        """
        match = _CALL.fullmatch(text.strip())
        if match is None:
            return cls(text.strip())
        seconds = _SECONDS.get(match[1].lower())
        if seconds is None:
            raise SinkError(f'partition by "{text.strip()}": write hour({match[2]}), day({match[2]}) or {match[2]}.')
        return cls(match[2], seconds)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its folders, from the top."""
        return ("date", "hour")[: 1 + (self.seconds == 3600)] if self.seconds else (self.attribute,)

    def folders(self, page: Page) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return a number for each row, and the folders of these numbers."""
        place = page.schema.arrow.get_field_index(self.attribute)
        column = page.batch.column(place)
        if not self.seconds:
            coded = text_of(column, page.schema.arrow.field(place)).dictionary_encode(null_encoding="encode")
            values = [NULL if value is None else quote(value, safe=_SAFE) for value in coded.dictionary.to_pylist()]
            return coded.indices.to_numpy().astype(np.int64), [f"{self.attribute}={value}" for value in values]
        length = self.seconds * _UNITS[column.type.unit]
        # A null is counted as the first moment of time, and told apart below.
        ticks = pc.fill_null(column.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
        found, codes = np.unique(ticks // length, return_inverse=True)
        least = np.iinfo(np.int64).min // length
        return codes, [self._time(None if moment == least else moment * self.seconds) for moment in found.tolist()]

    def _time(self, seconds: int | None) -> str:
        if seconds is None:
            return "/".join(f"{name}={NULL}" for name in self.names)
        day, _, clock = str(np.datetime64(seconds, "s")).partition("T")
        return f"date={day}" if len(self.names) == 1 else f"date={day}/hour={clock[:2]}"


@attrs.frozen
class Partitions:
    """The attributes that results are partitioned by, and the schema of the files: without those that folders name."""

    levels: tuple[Level, ...]
    schema: Schema

    @classmethod
    def of(cls, by: Sequence[str], schema: Schema) -> Partitions:
        """Check that results have the attributes; SinkError for one that is missing, no time, or would be there twice.

        >>> from operators.data.schema import Schema
        >>> Partitions.of(["host"], Schema.of(ts="int64", host="string")).schema.names
        ['ts']
        """
        levels = tuple(map(Level.of, by))
        names = [name for level in levels for name in level.names]
        for level in levels:
            if level.attribute not in schema:
                raise SinkError(
                    f'partition by "{level.attribute}": the results have no such attribute.'
                    f" {did_you_mean(level.attribute, schema.names)}"
                )
            kind = schema.arrow.field(level.attribute).type
            if level.seconds and not pa.types.is_timestamp(kind):
                raise SinkError(
                    f'partition by {level.names[-1]} of "{level.attribute}": that is {kind}, and no point in time.'
                    " Windows have window_start and window_end."
                )
        own = {level.attribute for level in levels if not level.seconds}
        kept = [name for name in schema.names if name not in own]
        twice = [name for name in names if names.count(name) > 1 or name in kept]
        if twice:
            raise SinkError(
                f'the folders of the partitions are named "{twice[0]}", and so is another of them or an attribute of'
                " the results.\n  Rename it in the query (AS), or partition by another attribute."
            )
        if not kept:
            raise SinkError("the results have no attribute beside those of the partitions; partition by fewer.")
        return cls(levels, Schema(pa.schema([schema.arrow.field(name) for name in kept])))

    def split(self, page: Page) -> Iterator[tuple[str, Page]]:
        """Yield the folders of a page and what belongs there, in the order that it came."""
        codes, folders = self.levels[0].folders(page)
        for level in self.levels[1:]:
            more, inner = level.folders(page)
            found, codes = np.unique(codes * len(inner) + more, return_inverse=True)
            folders = [f"{folders[code // len(inner)]}/{inner[code % len(inner)]}" for code in found.tolist()]
        own = Page(self.schema, page.batch.select(self.schema.names))
        if not folders:
            return
        if len(folders) == 1:
            yield folders[0], own
            return
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(folders)))
        for folder, begin, end in zip(folders, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            if end > begin:
                yield folder, Page(self.schema, own.batch.take(pa.array(order[begin:end])))
