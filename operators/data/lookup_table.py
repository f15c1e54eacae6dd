"""A table that tuples are looked up in: each key has one row, or one row at each time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.keys import Ids, KeyIndex
from operators.data.networks import NetworkIndex
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema, is_ip, type_name
from operators.errors import SchemaError
from operators.kernels.data.versions import find_versions

NOT_FOUND: Final = "not_found"
"""The statistic that counts the tuples for which a table has no row."""
_ALWAYS: Final = np.iinfo(np.int64).min


@attrs.frozen(eq=False)
class Versions:
    """The rows of each key, in the order in which they became valid."""

    firsts: Ids
    """Place of the first version of each key, and one for the end."""
    since: Int64s
    rows: Ids

    @classmethod
    def of(cls, ids: Ids, since: Int64s, count: int) -> Versions:
        """Order rows, of these ids of keys, by when they became valid."""
        order = np.lexsort((since, ids)).astype(np.int32)
        firsts = np.searchsorted(ids[order], np.arange(count + 1)).astype(np.int32)
        return cls(firsts, since[order], order)

    def twice(self, ids: Ids) -> tuple[int, int] | None:
        """Return two rows of one key that became valid at one time, if there are any."""
        same = (np.diff(self.since) == 0) & (np.diff(ids[self.rows]) == 0)
        if not same.any():
            return None
        at = int(np.argmax(same))
        return int(self.rows[at]), int(self.rows[at + 1])

    def find(self, ids: Ids, times: Int64s, timed: Bools | None) -> Ids:
        """Return the row that is valid for each key at each time, shape (n,); -1 for none."""
        found = np.empty(len(ids), np.int32)
        known = np.empty(0, np.bool_) if timed is None else timed
        find_versions(ids, times, known, self.firsts, self.since, self.rows, found)
        return found


@attrs.frozen(eq=False)
class LookupTable:
    """Find rows of a table by equal keys, or by the longest network that holds an address.

    A table is no state of an operator: its `contents`, a hash, tell a run that goes on whether it is still the same.

    >>> table = LookupTable.of("ports", pa.record_batch({"port": [22, 53], "name": ["ssh", "dns"]}), ["port"])
    >>> table.find([pa.array([53, 80, None], pa.uint16())]).tolist(), len(table)
    ([1, -1, -1], 2)
    """

    name: str
    keys: tuple[str, ...]
    networks: bool
    valid_from: str | None
    """The column that says since when a row is valid; None where rows are valid at all times."""
    contents: str
    _batch: pa.RecordBatch
    _index: KeyIndex | NetworkIndex
    _versions: Versions | None

    @classmethod
    def of(
        cls,
        name: str,
        batch: pa.RecordBatch,
        keys: Sequence[str],
        *,
        networks: bool = False,
        valid_from: str | None = None,
    ) -> LookupTable:
        """Index a table by its columns `keys`; a single text column holds `networks` if that is said.

        SchemaError, with the rows, for a key that has two rows, or no value. Rows count from 1.
        """
        columns = [batch.column(key) for key in keys]
        versions: Versions | None = None
        index: KeyIndex | NetworkIndex
        if networks:
            index = NetworkIndex.of(columns[0], f"{name}.{keys[0]}")
        else:
            _check_values(name, keys, columns)
            index = KeyIndex([batch.schema.field(key) for key in keys])
            ids, fresh = index.assign_new(columns)
            twice: tuple[int, int] | None = None
            if valid_from is not None:
                versions = Versions.of(ids, _since(batch, valid_from), len(index))
                twice = versions.twice(ids)
            elif not fresh.all():
                second = int(np.argmin(fresh))
                twice = int(np.argmax(ids == ids[second])), second
            if twice is not None:
                raise _twice(name, batch, keys, valid_from, twice)
        return cls(name, tuple(keys), networks, valid_from, _hash(batch), batch, index, versions)

    def __len__(self) -> int:
        return self._batch.num_rows

    @property
    def arrow(self) -> pa.Schema:
        """Return the columns."""
        return self._batch.schema

    def find(self, columns: Sequence[pa.Array], times: Int64s | None = None, timed: Bools | None = None) -> Ids:
        """Return the row of each key, shape (n,): -1 where there is none, and where a part of the key is null.

        - `columns`: the parts of the keys, in the order of `keys`.
        - `times`: when a row must be valid, shape (n,), where the table has `valid_from`.
        - `timed`: which tuples have a time; None when all have.
        """
        if isinstance(self._index, NetworkIndex):
            return self._index.find(columns[0])
        ids = self._index.find(columns)
        for column in columns:
            if column.null_count:
                ids[column.is_null().to_numpy(zero_copy_only=False)] = -1
        if self._versions is None:
            return ids
        assert times is not None
        return self._versions.find(ids, times, timed)

    def same_as(self, other: LookupTable) -> bool:
        """Return whether another table gives the same answers."""
        return all(
            getattr(self, field) == getattr(other, field)
            for field in ("name", "keys", "networks", "valid_from", "contents")
        )

    def take(self, name: str, indices: pa.Array) -> pa.Array:
        """Return a column's values in rows; null where an index is null."""
        return self._batch.column(name).take(indices)

    def check_key(self, place: int, field: pa.Field, where: str) -> None:
        """Check that an attribute can be found in the key at a place; SchemaError, which tells `where`, if not."""
        check_key(field, self.arrow.field(self.keys[place]), self.name, where, networks=self.networks)


def check_key(field: pa.Field, column: pa.Field, name: str, where: str, *, networks: bool = False) -> None:
    """Check that an attribute can be found in a column of the table `name`; SchemaError, with `where`, if not."""
    right = is_ip(field) if networks else _kind(field.type) == _kind(column.type)
    if not right:
        wanted = "networks" if networks else type_name(column)
        hint = "Only addresses lie in networks."
        if not networks:
            hint = f'Give the column that type, of a file by types={{"{column.name}": "..."}}, or cast the attribute.'
        raise SchemaError(
            f'{where}: "{field.name}" is of type {type_name(field)}, and {name}.{column.name} of {wanted}.\n  {hint}'
        )


def _check_values(name: str, keys: Sequence[str], columns: Sequence[pa.Array]) -> None:
    for key, column in zip(keys, columns, strict=True):
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise SchemaError(
                f"{name}.{key}: row {row + 1} has no value, so that no tuple could find it.\n  Leave the row out."
            )


def _since(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """Return since when rows are valid, in ticks; a row without a time always was."""
    times, timed = Page(Schema(batch.schema), batch).timed(name)
    return times if timed is None else np.where(timed, times, _ALWAYS)


def _twice(
    name: str, batch: pa.RecordBatch, keys: Sequence[str], valid_from: str | None, rows: tuple[int, int]
) -> SchemaError:
    first, second = sorted(rows)
    columns = [*keys, *([] if valid_from is None else [valid_from])]
    some = batch.select(columns)
    shown = Page(Schema(some.schema), some).describe(second)
    hint = "Leave one of them out."
    if valid_from is None:
        hint = "Leave one of them out, or say by valid_from= which column tells since when each is valid."
    return SchemaError(
        f"{name}: rows {first + 1} and {second + 1} have the same key, {shown}; a lookup needs one answer.\n  {hint}"
    )


def _hash(batch: pa.RecordBatch) -> str:
    """Return a hash of what a table holds."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def _kind(kind: pa.DataType) -> object:
    """Return what two types have in common whose values can be equal keys."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "float"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind
