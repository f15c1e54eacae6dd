"""Read the tables of names that exporters send as options: interfaces, applications, VRFs and samplers.

A record of such a table is a row of the stream of flow records, of which `announced` says what it names. It has no time
of a flow; `announced_at` says since when the name holds, by the exporter's clock. Only what is news makes a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.sources.flows.options import option_records
from oop_engine.sources.flows.templates import V9_SCOPE, Template

_Key = tuple[int, int]


@attrs.frozen
class Kind:
    """A kind of names: the elements that say which one is named, and those that name and describe it."""

    keys: tuple[_Key, ...]
    name: tuple[_Key, ...]
    description: tuple[_Key, ...] = ()
    opaque: bool = False
    """Whether the key is bytes, and no number."""

    @property
    def read(self) -> frozenset[_Key]:
        """Return all elements that are read of a record."""
        return frozenset((*self.keys, *self.name, *self.description))


_TEXTS: Final = {82, 83, 84, 94, 96, 236, 335}
KINDS: Final[Mapping[str, Kind]] = {
    "interfaces": Kind(((0, 10), (0, 14), (0, 252), (0, 253), (V9_SCOPE, 2)), ((0, 82),), ((0, 83),)),
    "applications": Kind(((0, 95),), ((0, 96),), ((0, 94),), opaque=True),
    "vrfs": Kind(((0, 234), (0, 235)), ((0, 236),)),
    "samplers": Kind(((0, 48), (0, 302)), ((0, 84), (0, 335))),
}
"""The kinds of names by what their tables are called."""
MOST_NAMES: Final = 16_384
"""Names of one session that are kept; further ones are left out and counted."""
_MOST_TEXT: Final = 256
"""Bytes of a name or a description that are kept, at most."""

ANNOUNCED: Final = "announced"
ANNOUNCED_AT: Final = "announced_at"
NAME_SCHEMA: Final = pa.schema(
    [
        pa.field(ANNOUNCED, pa.string()),
        pa.field(ANNOUNCED_AT, pa.timestamp("ns", "UTC")),
        pa.field("announced_id", pa.uint64()),
        pa.field("announced_key", pa.binary()),
        pa.field("announced_name", pa.string()),
        pa.field("announced_description", pa.string()),
    ]
)
"""The columns that records of names have beside those of flow records; null in flow records."""


@attrs.frozen
class Named:
    """A name that an exporter gives one thing of a kind, and a description; None for one that it does not give."""

    kind: str
    key: bytes
    name: str | None
    description: str | None

    @property
    def number(self) -> int | None:
        """Return the key as a number, None where it is bytes."""
        return None if KINDS[self.kind].opaque else int.from_bytes(self.key, "big")


def kinds_in(template: Template) -> list[str]:
    """Return the kinds of names that records of an options template have."""
    fields = {field.key for field in template.fields if field.length}
    if not any(number in _TEXTS for enterprise, number in fields if enterprise == 0):
        return []
    return [
        name
        for name, kind in KINDS.items()
        if fields.intersection(kind.keys) and fields.intersection((*kind.name, *kind.description))
    ]


def read_names(template: Template, body: bytes, most: int) -> Iterator[Named]:
    """Yield the names in the first `most` records of a set; ValueError for a record that ends beyond it."""
    kinds = [(name, KINDS[name]) for name in kinds_in(template)]
    wanted = frozenset[_Key]().union(*(kind.read for _, kind in kinds))
    for values in option_records(template, body, most, wanted):
        for name, kind in kinds:
            key = next((values[key] for key in kind.keys if key in values), b"")
            if not kind.opaque:
                key = key.lstrip(b"\0") or key[-1:]
            if key and len(key) <= (16 if kind.opaque else 8):
                yield Named(name, key, _text(values, kind.name), _text(values, kind.description))


def _text(values: Mapping[_Key, bytes], keys: tuple[_Key, ...]) -> str | None:
    """Return a text without what fills up its field; None for one that is empty."""
    found = next((values[key] for key in keys if key in values), b"")
    return found.partition(b"\0")[0][:_MOST_TEXT].decode("utf-8", "replace").strip() or None
