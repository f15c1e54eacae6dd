"""Turn a table or a stream as users give it, and the attributes that are looked up in it, into an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.api.exporter_names import ExporterNames
from oop_engine.api.join import On, pairs_of
from oop_engine.errors import PlanError
from oop_engine.plan.ticks import Amount, ticks_of
from oop_engine.sources.addresses import parse_addresses
from oop_engine.sources.exported import ExportsArray, ExportsStream
from oop_engine.sources.said_format import short_name
from oop_engine.sources.tables import Table
from operators.data.lookup_table import LookupTable
from operators.data.schema import Schema, is_ip, type_name
from operators.errors import SchemaError, did_you_mean
from operators.expression.names import PORTS, PROTOCOLS
from operators.join.as_of import AsOfLookup
from operators.rows.lookup import Lookup

Given: TypeAlias = "str | Path | pa.Table | pa.RecordBatch | ExportsStream | ExportsArray"
Reference: TypeAlias = "Given | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]"
"""A table as users give it: a path, Arrow data or a frame, columns by name, or rows."""
Columns: TypeAlias = "Sequence[str] | Mapping[str, str]"
"""Columns of a table by their names, or by the names that they get."""
_FORMS: Final = (
    'Write a path such as "hosts.csv", {"ip": [...], "name": [...]}, a list of dictionaries, or Arrow data or a frame.'
)


def protocols() -> pa.Table:
    """Return the names of IP protocols that people use, for lookups: `proto` and `name`.

    In query text, a table that is not given otherwise and called protocols is this one.

    >>> oop.protocols().slice(0, 2).to_pylist()
    [{'proto': 1, 'name': 'icmp'}, {'proto': 2, 'name': 'igmp'}]
    """
    names = {number: name for name, number in reversed(PROTOCOLS.items())}
    return _named("proto", names)


def ports() -> pa.Table:
    """Return the names of well-known ports, for lookups: `port` and `name`.

    In query text, a table that is not given otherwise and called ports is this one.

    >>> packets = oop.read("demos/captures/web.pcap.gz")
    >>> named = packets.lookup(oop.ports(), ("destPort", "port"), columns={"service": "name"})
    >>> named.aggregate(oop.count(), by="service").filter("service = 'dns'").to_arrow().to_pylist()
    [{'service': 'dns', 'count': 69}]
    """
    return _named("port", {number: name for name, number in PORTS.items()})


def _named(column: str, names: Mapping[int, str]) -> pa.Table:
    """Return the table of names by number."""
    numbers = sorted(names)
    return pa.table({column: numbers, "name": [names[number] for number in numbers]})


VERSIONS: Final = "versions:"
"""What a path begins with that names the versions of a table."""
RELOADED: Final = "reloaded:"
"""What a path begins with that names a file which is replaced while a run goes on."""
READY: Final[Mapping[str, Callable[[], pa.Table]]] = {"protocols": protocols, "ports": ports}
"""The tables that need no file."""


def table_name(given: object) -> str:
    """Name a table after its file, or as exporters have it."""
    if isinstance(given, ExporterNames):
        return given.kind
    if isinstance(given, str) and given.startswith(RELOADED):
        given = given.removeprefix(RELOADED).partition("?")[0]
    return short_name(given) if isinstance(given, (str, Path)) else "table"


def table_of(given: Reference, name: str, types: Mapping[str, str | pa.DataType] | None = None) -> pa.RecordBatch:
    """Read a whole table; PlanError for what is none, TableError for a file that cannot be read."""
    if isinstance(given, str) and given.startswith(VERSIONS):
        # Start-up: few tables have versions.
        from oop_engine.sources.versions import read_versions

        return _whole(read_versions([given.removeprefix(VERSIONS)], (), types))
    if isinstance(given, str) and given.startswith(RELOADED):
        raise PlanError(
            f'lookup in {name}: "{given}" is for query text; in Python write oop.reloaded(...), which is a stream.\n'
            '  lookup(oop.reloaded("hosts.csv", key="ip", keep="hosts"), ..., valid_from="since", wait=True)'
        )
    if isinstance(given, (str, Path)) and str(given).endswith(".mmdb"):
        # Optional: maxminddb.
        from oop_engine.sources.mmdb import read_mmdb

        return _whole(read_mmdb(given))
    if isinstance(given, (str, Path)):
        file = Table(given, types=types)
        return _whole(pa.Table.from_batches(list(file.batches()), file.schema))
    if types:
        raise PlanError(f"lookup in {name}: types are for files; give columns of the right types instead.")
    if isinstance(given, pa.RecordBatch):
        return _whole(pa.Table.from_batches([given]))
    if isinstance(given, Mapping):
        return _whole(_of_columns(given, name))
    if isinstance(given, (pa.Table, ExportsStream, ExportsArray)):
        return _whole(pa.table(given))
    if isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given):
        return _whole(pa.Table.from_pylist(list(given)))
    raise PlanError(f"lookup in {name}: {type(given).__name__} is no table.\n  {_FORMS}")


def _of_columns(given: Mapping[str, Sequence[Any]], name: str) -> pa.Table:
    for column, values in given.items():
        # Callers without a type checker give {6: "tcp"} here.
        if not isinstance(column, str) or isinstance(values, str) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(
                f"lookup in {name}: {column!r}: {values!r} is no column of a table.\n"
                '  Write names and lists, e.g. {"proto": [6, 17], "name": ["tcp", "udp"]}.'
            )
    try:
        return pa.table({column: pa.array(values) for column, values in given.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise PlanError(f"lookup in {name}: {error}.\n  {_FORMS}") from error


def _whole(table: pa.Table) -> pa.RecordBatch:
    """Return a table in one piece, texts as other columns have them."""
    others = (pa.string_view(), pa.large_string())
    fields = [field.with_type(pa.string()) if field.type in others else field for field in table.schema]
    table = table.cast(pa.schema(fields)).combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def lookup_of(
    schema: Schema,
    given: pa.RecordBatch,
    name: str,
    on: On,
    *,
    columns: Columns | None = None,
    prefix: str | None = None,
    required: bool = False,
    valid_from: str | None = None,
    at: str = "ts",
) -> Lookup:
    """Make the operator that looks attributes of a schema up in a table.

    SchemaError for names and types that do not fit, and for a table that has two rows for one key.
    """
    where = f"lookup in {name}"
    pairs = pairs_of(on, where="lookup")
    if not pairs:
        raise PlanError(f'{where}: say what is looked up, e.g. on=("srcIP", "ip").')
    attributes = tuple(schema.resolve(own, where=where) for own, _ in pairs)
    keys = [_column(given, key, where) for _, key in pairs]
    if len(set(keys)) < len(keys):
        raise PlanError(f"{where}: on={on!r} names a column of the table twice; keep one.")
    networks = False
    for attribute, key in zip(attributes, keys, strict=True):
        given, is_network = _fitting(given, key, schema.field(attribute), where)
        networks |= is_network
    if networks and len(keys) > 1:
        raise PlanError(
            f"{where}: a column of networks is looked up by itself, and on={on!r} names {len(keys)} columns.\n"
            "  Look the others up by a lookup of their own, or make one table for each of their values."
        )
    when: str | None = None
    if valid_from is not None:
        if networks:
            raise PlanError(
                f'{where}: valid_from="{valid_from}" is for tables of equal keys, and "{keys[0]}" has networks.\n'
                "  Leave valid_from out, with the networks of one time."
            )
        valid_from, when = _column(given, valid_from, where), schema.resolve(at, where=where)
        given = _timed(given, valid_from, schema.field(when), where)
    table = LookupTable.of(name, given, keys, networks=networks, valid_from=valid_from)
    brought = _brought(schema, given, columns, prefix, name, {*keys, valid_from})
    if not brought and not required:
        raise PlanError(
            f"{where}: this adds nothing, as the table has only what is looked up.\n"
            "  Name columns to add, or write required=True to drop the tuples that find no row."
        )
    return Lookup(table, attributes, brought, required=required, at=when)


def as_of(
    schema: Schema,
    table: Schema,
    name: str,
    on: On,
    *,
    columns: Columns | None = None,
    prefix: str | None = None,
    required: bool = False,
    valid_from: str | None = None,
    at: str = "ts",
    wait: bool = False,
    revise: Amount | None = None,
    first_holds: bool = False,
) -> AsOfLookup:
    """Make the operator that looks attributes of a schema up in a stream of rows; SchemaError where they do not fit."""
    where = f"lookup in {name}"
    pairs = pairs_of(on, where="lookup")
    if not pairs:
        raise PlanError(f'{where}: say what is looked up, e.g. on=("srcIP", "ip").')
    if wait and revise is not None:
        raise PlanError(f"{where}: a tuple that waits is never given anew; leave out wait=True or revise={revise!r}.")
    when = schema.resolve(at, where=where)
    keys = tuple(table.resolve(key, where=where) for _, key in pairs)
    since = table.resolve("ts" if valid_from is None else valid_from, where=where)
    rows = pa.RecordBatch.from_pylist([], schema=table.arrow)
    brought = _brought(schema, rows, columns, prefix, name, {*keys, since})
    ticks = None if revise is None else ticks_of(revise, schema.field(when), what="revise")
    own = tuple(schema.resolve(own, where=where) for own, _ in pairs)
    return AsOfLookup(
        name, own, keys, when, since, brought, required=required, wait=wait, revise=ticks,
        first_holds=first_holds,
    )  # fmt: skip


def label(operator: Lookup | AsOfLookup) -> str:
    """Write a lookup as the query language does."""
    pairs = zip(operator.on, operator.keys, strict=True)
    on = " and ".join(own if own == key else f"{own} = {key}" for own, key in pairs)
    return f"lookup {operator.name} on {on}"


def _column(table: pa.RecordBatch, name: str, where: str) -> str:
    if name in table.schema.names:
        return name
    names = table.schema.names
    raise SchemaError(
        f'{where}: the table has no column "{name}".\n  table: {", ".join(names)}\n  {did_you_mean(name, names)}'
    )


def _brought(
    schema: Schema,
    table: pa.RecordBatch,
    columns: Columns | None,
    prefix: str | None,
    name: str,
    keys: set[str | None],
) -> dict[str, str]:
    """Return the columns of the table by the names that they get."""
    where = f"lookup in {name}"
    if isinstance(columns, Mapping):
        if prefix is not None:
            raise PlanError(f"{where}: columns names what is brought; leave out prefix={prefix!r}.")
        return {new: _column(table, old, where) for new, old in columns.items()}
    if isinstance(columns, str):
        raise PlanError(f'{where}: columns="{columns}" is one text; write columns=["{columns}"].')
    if columns is None:
        chosen = [column for column in table.schema.names if column not in keys]
    else:
        chosen = [_column(table, column, where) for column in columns]
    if prefix is not None:
        return {f"{prefix}{column}": column for column in chosen}
    return {f"{name}_{column}" if column in schema else column: column for column in chosen}


def _fitting(table: pa.RecordBatch, key: str, field: pa.Field, where: str) -> tuple[pa.RecordBatch, bool]:
    """Return the table with a key as the attribute has it, and whether the key has networks."""
    column, own = table.column(key), table.schema.field(key)
    text = pa.types.is_string(own.type) or pa.types.is_large_string(own.type)
    if is_ip(field) and text:
        texts = column.cast(pa.string())
        if pc.any(pc.match_substring(texts, "/")).as_py():
            return _with(table, own.with_type(pa.string()), texts), True
        try:
            return _with(table, field.with_name(key), parse_addresses(texts)), False
        except ValueError as error:
            raise SchemaError(f"{where}, {key}: {error}") from error
    widened = pa.types.is_floating(field.type) and pa.types.is_integer(own.type)
    times = pa.types.is_temporal(field.type) and pa.types.is_temporal(own.type)
    if widened or times or pa.types.is_null(own.type):
        return _cast(table, own, field.type, where), False
    return table, False


def _timed(table: pa.RecordBatch, name: str, field: pa.Field, where: str) -> pa.RecordBatch:
    """Return the table with its times in the unit of the attribute that they are compared with."""
    own = table.schema.field(name)
    if pa.types.is_integer(field.type) != pa.types.is_integer(own.type) or not (
        pa.types.is_integer(own.type) or pa.types.is_temporal(own.type)
    ):
        raise SchemaError(
            f'{where}: "{field.name}" is of type {type_name(field)}, and {name} of {type_name(own)}.\n'
            "  Both are to be times, or whole numbers."
        )
    return table if pa.types.is_integer(own.type) else _cast(table, own, field.type, where)


def _cast(table: pa.RecordBatch, own: pa.Field, kind: pa.DataType, where: str) -> pa.RecordBatch:
    column = table.column(own.name)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(own.type) and own.type.tz is None and kind.tz is not None:
        column = column.cast(pa.timestamp(own.type.unit, "UTC"))
    try:
        return _with(table, own.with_type(kind), column.cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f'{where}: column "{own.name}" of type {own.type} is compared with {kind}: {error}'
        ) from error


def _with(table: pa.RecordBatch, field: pa.Field, column: pa.Array) -> pa.RecordBatch:
    """Return the table with another column under a name that it has."""
    return table.set_column(table.schema.get_field_index(field.name), field, column)
