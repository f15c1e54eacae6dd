"""Files of MaxMind's format (.mmdb) are tables of networks: autonomous systems, countries, cities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from oop_engine.sources.errors import SourceError, TableError

NETWORK = "network"
_LANGUAGE = "en"
_SCALARS = (str, int, float, bool)


def read_mmdb(path: str | Path) -> pa.Table:
    """Return the networks of a file as text, in the column "network", and what it knows of each.

    Objects inside a record become columns such as country_iso_code, names those in English; lists are left out.
    SourceError for a file that is not there, TableError for a damaged one, ImportError without the extra `mmdb`.
    """
    try:
        # Optional: maxminddb.
        import maxminddb
    except ImportError as error:
        raise ImportError(
            f"\"{path}\" needs maxminddb, which is not installed.\n  Run pip install 'oop-engine[mmdb]'."
        ) from error
    if not Path(path).is_file():
        raise SourceError(f'there is no file "{path}".')
    columns: dict[str, list[object]] = {NETWORK: []}
    try:
        with maxminddb.open_database(path) as database:
            for number, (network, record) in enumerate(database):
                columns[NETWORK].append(str(network))
                for name, value in _flat(record, ""):
                    # A column that comes late has null in all rows before.
                    values = columns.setdefault(name, [])
                    values += [None] * (number - len(values))
                    values.append(value)
    except (maxminddb.InvalidDatabaseError, ValueError) as error:
        raise TableError(f'"{path}": {error}\n  Download the file again.') from error
    rows = len(columns[NETWORK])
    return pa.table({name: pa.array([*values, *[None] * (rows - len(values))]) for name, values in columns.items()})


def _flat(record: object, name: str) -> Iterator[tuple[str, object]]:
    """Yield the columns of a record."""
    if isinstance(record, _SCALARS):
        yield name or "value", record
    elif isinstance(record, Mapping):
        for key, value in record.items():
            if not name.endswith("names") or key == _LANGUAGE:
                yield from _flat(value, f"{name}_{key}" if name else str(key))
