"""Tables that are replaced now and then: whole versions, each of which holds from a stated time on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import attrs
import pyarrow as pa

from oop_engine.api.promising import from_source
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.plan.ticks import Amount, ticks_of
from oop_engine.sources.versions import TIME, Reloaded, first_version, read_versions, with_since
from operators.data.schema import Schema, is_ip
from operators.errors import did_you_mean

_OPTIONS: Final = ("keep", "every", "lasting")
_EXAMPLE: Final = '"reloaded:hosts.csv?keep=hosts", where the folder hosts will have each version'


def versions(
    *places: str | Path, key: str | Iterable[str] = (), types: Mapping[str, str | pa.DataType] | None = None
) -> pa.Table:
    """Read the versions of a table as one table, whose column `since` says from when each row holds.

    - `places`: files, patterns, or a folder of files. The name of each says from when it holds, in UTC:
      `hosts.2026-11-27.csv`, `hosts-20261127T120000Z.parquet`. It holds until the next one does.
    - `key`: the column that tells rows apart, or several; by default the first one.
    - `types`: the types of columns, as `oop.table` takes them.

    A key that a version no longer has gets a row of nulls. `Stream.lookup(table, on, valid_from="since")` gives each
    tuple the row of its own time, whatever the order of arrival, and holds nothing back. In query text the table is
    `LOOKUP "versions:hosts/*.csv" AS h ON srcIP = h.ip VALID FROM h.since`.

    SourceError for a file without a time in its name, SchemaError for a column that is no longer there, and for a key
    that a version has twice.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "ports.2026-11-27.csv").write_text("port,name\\n7,uplink\\n8,spare\\n")
    >>> _ = (folder / "ports.2026-11-28.csv").write_text("port,name\\n7,backup\\n")
    >>> oop.versions(folder).select(["port", "name"]).to_pylist()[2:]
    [{'port': 7, 'name': 'backup'}, {'port': 8, 'name': None}]
    """
    if not places:
        raise PlanError('versions needs files, e.g. oop.versions("hosts/*.csv", key="ip").')
    return read_versions(places, _keys(key), types)


def reloaded(
    path: str | Path,
    *,
    keep: str | Path,
    key: str | Iterable[str] = (),
    every: Amount = "1 s",
    lasting: Amount | None = None,
    types: Mapping[str, str | pa.DataType] | None = None,
    name: str = "",
) -> Stream:
    """Read a table again whenever its file is replaced, as a stream for `Stream.lookup`, while a run goes on.

    - `path`: a file as `oop.table` reads it. Write a new one beside it and rename it: a file is taken when it has
      stayed as it is for a second. A file of lines whose last line has no end is not complete, and is not taken.
    - `keep`: a folder. Each version is kept there before it counts, as a file whose name says from when it holds: the
      moment at which it was taken. A run that begins anew, or goes on from a checkpoint, takes the kept ones first,
      with the same times; `oop.versions(keep)` gives them to a run over recorded data.
    - `key`: the column that tells rows apart, or several; by default the first one.
    - `every`: how often to look for another file.
    - `lasting`: how long to look; without it until the run is stopped.
    - `types`: the types of columns, such as {"ip": "ip"}, since keys have to be of the attribute's type.
    - `name`: how plans and messages call the stream, by default as the file.

    The stream promises its time by the clock, so an idle file delays nothing. Look it up by `valid_from="since"`, and
    with `wait=True` where windows follow. A version that cannot be read is left out: the one before it holds on, and
    the notes of the run say so. In query text this is
    `LOOKUP "reloaded:hosts.csv?keep=hosts" AS h ON srcIP = h.ip WAIT`, where ON says the key.

    SourceError where there is neither file nor kept version, SchemaError for keys that are not in it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "ports.csv").write_text("port,name\\n7,uplink\\n")
    >>> oop.reloaded(folder / "ports.csv", key="port", keep=folder / "ports").schema.names
    ['since', 'port', 'name']
    """
    source = Reloaded(
        Path(path).expanduser(), _keys(key), Path(keep).expanduser(),
        every=ticks_of(every, pa.field("every", TIME), what="every"), types=types, label=name,
        lasting=None if lasting is None else ticks_of(lasting, pa.field("lasting", TIME), what="lasting"),
    )  # fmt: skip
    return from_source(source)


@attrs.frozen
class Replaced:
    """A file that is replaced while a run goes on, as a query names it: PATH?keep=FOLDER&every=1s."""

    text: str
    path: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> Replaced:
        """Read what stands behind "reloaded:"; PlanError for other options, and without `keep`."""
        path, _, said = text.partition("?")
        options = dict(parse_qsl(said, keep_blank_values=True))
        wrong = next((name for name in options if name not in _OPTIONS), None)
        if wrong is not None or not path or not options.get("keep"):
            seen = "it names no folder for the versions of the file, keep=FOLDER." if path else "it names no file."
            seen = seen if wrong is None else f'"{wrong}" is no option. {did_you_mean(wrong, _OPTIONS)}'
            raise PlanError(f'"reloaded:{text}": {seen}\n  Write {_EXAMPLE}.')
        return cls(text, path, options)

    def columns(self) -> pa.RecordBatch:
        """Return its columns, without rows."""
        first = first_version(Path(self.path).expanduser(), Path(self.options["keep"]).expanduser(), None)
        return pa.RecordBatch.from_pylist([], schema=with_since(first.schema))

    def types(self, pairs: Iterable[tuple[str, str]], schema: Schema) -> dict[str, str | pa.DataType]:
        """Return the types that keys have to have, of the attributes of a schema that they are equal to."""
        found: dict[str, str | pa.DataType] = {}
        there = self.columns().schema
        for own, column in pairs:
            field = schema.field(own, where="lookup")
            if is_ip(field) or field.type != there.field(column).type:
                found[column] = "ip" if is_ip(field) else field.type
        return found

    def stream(self, key: Iterable[str], types: Mapping[str, str | pa.DataType]) -> Stream:
        """Return the stream of its rows."""
        return reloaded(self.path, key=key, types=types, **self.options)  # pyright: ignore[reportArgumentType]


def _keys(key: str | Iterable[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)
