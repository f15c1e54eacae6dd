"""A schema is what is statically known of a stream: its attributes, and the promises that will come on it.

`progress` is a set of attribute sets. `{ts}` says that linear punctuation `[ts < v]` will come; `{srcIP, wid}` that
group-wise punctuation `[srcIP = k, wid < v]` will. From it a plan knows before the first byte whether a window could
ever be released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import pyarrow as pa

from operators.data.printable import printable
from operators.errors import SchemaError, did_you_mean

IP_METADATA = {b"oop.type": b"ip"}
IP_TYPE = pa.binary(16)

ALIASES = {"len": "length", "row-num": "row_num", "arrival-ts": "arrival_ts"}
"""The thesis' names for attributes, accepted wherever the input has no attribute of that very name."""

ROW_NUM: Final = "row_num"
"""The attribute that numbers the tuples of a stream, or of a partition, as they arrive."""

_ALIASES_KEY = b"oop.aliases"


def ip_field(name: str) -> pa.Field:
    """Make the Arrow field `name` of IP addresses: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d.

    >>> ip_field("srcIP").type
    FixedSizeBinaryType(fixed_size_binary[16])
    """
    return pa.field(name, IP_TYPE, metadata=IP_METADATA)


def _field(name: str, kind: pa.DataType | str) -> pa.Field:
    if kind == "ip":
        return ip_field(name)
    try:
        return pa.field(name, kind)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f'schema: {kind!r} is no type for "{name}".\n  Write an Arrow type, such as pa.int64(), pa.string() or'
            ' pa.timestamp("ns"), or "ip" for addresses.'
        ) from error


def is_ip(field: pa.Field) -> bool:
    """Return whether a field holds IP addresses."""
    return bool(field.metadata and field.metadata.get(b"oop.type") == b"ip")


def type_name(field: pa.Field) -> str:
    """Return a field's type as texts show it: "ip" for addresses, Arrow's name for others.

    >>> type_name(ip_field("srcIP")), type_name(pa.field("length", pa.int32()))
    ('ip', 'int32')
    """
    return "ip" if is_ip(field) else str(field.type)


def aliased(field: pa.Field, names: Iterable[str]) -> pa.Field:
    """Return a field that other names mean too: they go where the attribute goes, and are in no other stream's way."""
    metadata: dict[bytes, bytes] = dict(field.metadata or {})
    return field.with_metadata({**metadata, _ALIASES_KEY: " ".join([*aliases_of(field), *names]).encode()})


def aliases_of(field: pa.Field) -> list[str]:
    """Return the further names of a field, as its source gave them."""
    return field.metadata.get(_ALIASES_KEY, b"").decode().split() if field.metadata else []


def _progress(sets: Iterable[str | Iterable[str]]) -> frozenset[frozenset[str]]:
    return frozenset(frozenset((s,)) if isinstance(s, str) else frozenset(s) for s in sets)


@attrs.frozen
class Schema:
    """Name the attributes of a stream, their Arrow types, and what the stream is punctuated on.

    - `arrow`: names and types.
    - `progress`: promises that will come: "ts" for `[ts < v]`, ("srcIP", "wid") for `[srcIP = k, wid < v]`.

    >>> schema = Schema.of(ts="int64", srcIP="ip", length="int32", progress=["ts"])
    >>> schema.names, schema.resolve("len", where="example"), str(schema.field("ts").type)
    (['ts', 'srcIP', 'length'], 'length', 'int64')
    >>> schema.progressing("ts"), schema.with_progress([]).progressing("ts")
    (True, False)
    >>> schema.onto(pa.schema([("time", pa.int64())]), {"ts": "time"}).progress
    frozenset({frozenset({'time'})})
    """

    arrow: pa.Schema
    progress: frozenset[frozenset[str]] = attrs.field(default=frozenset(), converter=_progress, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check that what is promised are attributes; SchemaError when not."""
        for name in (name for promise in self.progress for name in promise):
            if name not in self:
                hint = did_you_mean(name, self.names)
                raise SchemaError(f'progress names "{name}", and the stream has no such attribute.\n  {hint}')

    @classmethod
    def of(cls, *, progress: Iterable[str | Iterable[str]] = (), **types: pa.DataType | str) -> Schema:
        """Make a schema from attribute names and types.

        - `types`: by attribute, Arrow types or their names; "ip" is the type of addresses.
        - `progress`: promises that will come, as in `Schema`.

        SchemaError for an unknown type.
        """
        return cls(pa.schema([_field(name, kind) for name, kind in types.items()]), progress=progress)

    @property
    def names(self) -> list[str]:
        """Return the names of the attributes, in order."""
        return list(self.arrow.names)

    def __contains__(self, name: str) -> bool:
        return self.arrow.get_field_index(name) >= 0

    def resolve(self, name: str, *, where: str) -> str:
        """Return the attribute that `name` means, by itself or by an alias.

        Aliases are the thesis' names, and those that a source gave its attributes; of several, the first in the schema.
        SchemaError, which tells `where`, when there is none.
        """
        if name in self:
            return name
        alias = ALIASES.get(name)
        if alias is not None and alias in self:
            return alias
        for field in self.arrow:
            if name in aliases_of(field):
                return str(field.name)
        raise SchemaError(
            f'{where}: the input has no attribute "{name}".\n'
            f"  input: {', '.join(self.names)}\n"
            f"  {did_you_mean(name, self.names)}"
        )

    def field(self, name: str, *, where: str = "schema") -> pa.Field:
        """Return the Arrow field of the attribute `name`; SchemaError, which tells `where`, when there is none."""
        return self.arrow.field(self.resolve(name, where=where))

    def progressing(self, attribute: str) -> bool:
        """Return whether linear punctuation on an `attribute` will come."""
        return frozenset((attribute,)) in self.progress

    def with_progress(self, progress: Iterable[str | Iterable[str]]) -> Schema:
        """Return the same attributes with other promises, `progress`."""
        return Schema(self.arrow, progress=progress)

    def onto(self, arrow: pa.Schema, kept: Mapping[str, str]) -> Schema:
        """Return the schema after a projection; promises on attributes that it drops are dropped.

        - `arrow`: the attributes after it.
        - `kept`: their names before and after.
        """
        return Schema(
            arrow, progress=[{kept[a] for a in promise} for promise in self.progress if all(a in kept for a in promise)]
        )

    def __repr__(self) -> str:
        """Return the attributes and the promises, as text shows them."""
        return f"Schema({self})"

    def __str__(self) -> str:
        attributes = ", ".join(f"{printable(f.name)} {type_name(f)}" for f in self.arrow)
        sets = (map(printable, sorted(promise)) for promise in sorted(self.progress, key=sorted))
        promises = ", ".join("{" + ", ".join(names) + "}" for names in sets)
        return f"{attributes} | punctuated on {promises or 'nothing'}"
