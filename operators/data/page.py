"""A page is a read-only columnar batch of tuples of one schema; its columns are Arrow arrays, seen as numpy arrays.

Times and decimals are integers below the surface: `ticks` returns any attribute that counts in steps as int64, in the
unit of its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.markup import html_table
from operators.data.printable import printable
from operators.data.readable import address_text, address_text_field, printable_texts, python_values, text_of
from operators.data.schema import Schema
from operators.data.steps import (
    decimal_column,
    decimal_ticks,
    held_as_ticks,
    is_stepped_decimal,
    plain_ticks,
)
from operators.errors import SchemaError
from punctuation import Punctuation, Value

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[np.generic]
Scalar: TypeAlias = Value | bool | None
Row: TypeAlias = dict[str, Scalar]
INT64: Final = pa.int64()
ROWS: Final = 1 << 16
"""Tuples of a page of results, at most."""
V = TypeVar("V")
_SHOWN = 10
_NOTHING: Final[Mapping[str, Scalar]] = MappingProxyType({})


@attrs.frozen(eq=False, repr=False)
class Page:
    """Hold tuples of one `schema`, as the columns of an Arrow record `batch`.

    In `same` stands the value of an attribute that all tuples have in common, in ticks where it is a time. It says what
    whoever made the page knew, so nothing follows for an attribute that is not in it.

    >>> page = Page.of(Schema.of(ts=pa.timestamp("s"), v="int64"), {"ts": [3, 1], "v": [5, None]})
    >>> page.rows(), page.plain_rows()[0], page.describe(1)
    ([{'ts': '1970-01-01T00:00:03Z', 'v': 5}, {'ts': '1970-01-01T00:00:01Z', 'v': None}], {'ts': 3, 'v': 5}, 'ts
    = 1970-01-01T00:00:01Z, v = ')
    >>> page.column("v").null_count, page["v"], page.valid("v"), page.ticks("ts"), page.timed("ts")[1]
    (1, array([5, 0]), array([ True, False]), array([3, 1]), None)
    >>> [len(part) for part in (page.slice(0, 1), page.select(page.ticks("ts") > 2), page.take(np.array([1, 1])))]
    [1, 1, 2]
    >>> from punctuation import before
    >>> page.matching(before("ts", 2))
    array([False,  True])
    """

    schema: Schema
    batch: pa.RecordBatch
    same: Mapping[str, Scalar] = attrs.field(default=_NOTHING)
    _columns: dict[str, pa.Array] = attrs.field(init=False, factory=dict)
    """Those that were asked for: to make an object of a column is most of the work on a page of few tuples."""
    _counted: dict[str, Int64s] = attrs.field(init=False, factory=dict)
    """Those that were asked for in ticks, where that is another view of them."""

    @classmethod
    def of(cls, schema: Schema, columns: Mapping[str, Sequence[object] | Array | pa.Array]) -> Page:
        """Make a page from one column an attribute.

        - `schema`: the attributes.
        - `columns`: by attribute; Arrow converts and checks the types.
        """
        arrays = [c if isinstance(c := columns[f.name], pa.Array) else pa.array(c, f.type) for f in schema.arrow]
        return cls(schema, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))

    @classmethod
    def of_rows(cls, schema: Schema, rows: Iterable[Sequence[object]]) -> Page:
        """Make a page from tuples in the order of the attributes.

        - `schema`: the attributes.
        - `rows`: the tuples.

        >>> len(Page.of_rows(Schema.of(ts="int64", v="string"), [(3, "a"), (1, "b")]))
        2
        """
        columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
        return cls.of(schema, dict(zip(schema.names, columns, strict=True)))

    def __len__(self) -> int:
        return self.batch.num_rows

    def column(self, name: str) -> pa.Array:
        """Return the attribute `name` as an Arrow array; SchemaError when there is none."""
        found = self._columns.get(name)
        if found is None:
            place = self.schema.arrow.get_field_index(name)
            found = self.batch.column(self.schema.resolve(name, where="page") if place < 0 else place)
            self._columns[name] = found
        return found

    def __getitem__(self, name: str) -> Array:
        """Return an attribute as a read-only array, shape (n,); where it is null, any value may stand.

        Timestamps are datetime64, IP addresses and fixed-size binaries byte strings of that size, text is object.
        """
        column = self.column(name)
        kind = column.type
        if pa.types.is_fixed_size_binary(kind):
            return _fixed(column)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        if column.null_count and pa.types.is_boolean(kind):
            column = column.fill_null(False)
        elif column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            column = column.fill_null(0)
        elif column.null_count and pa.types.is_temporal(kind):
            return column.view(pa.int64()).fill_null(0).to_numpy().view(kind.to_pandas_dtype())
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def valid(self, name: str) -> Bools | None:
        """Return which tuples have a value of the attribute `name`, shape (n,); None when all have."""
        column = self.column(name)
        return None if column.null_count == 0 else np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))

    def ticks(self, name: str) -> Int64s:
        """Return the attribute `name` in ticks, as read-only int64; where it is null, any value may stand.

        It is an integer, a time, or a decimal, which counts in units of its last digit. Values above the largest
        int64 become that. SchemaError for other types.
        """
        found = self._counted.get(name)
        if found is None:
            column = self.column(name)
            found = _ticks(name, column)
            # What is a copy would take room in pages that are kept.
            if column.null_count == 0 and (column.type == INT64 or pa.types.is_timestamp(column.type)):
                self._counted[name] = found
        return found

    def timed(self, name: str) -> tuple[Int64s, Bools | None]:
        """Return both `ticks` and `valid` of the attribute `name`."""
        return self.ticks(name), self.valid(name)

    def slice(self, start: int, stop: int) -> Page:
        """Return tuples `start` <= i < `stop`, without copying."""
        return Page(self.schema, self.batch.slice(start, stop - start), self.same)

    def select(self, mask: Bools | pa.Array) -> Page:
        """Return the tuples where the `mask`, shape (n,), is true."""
        batch = self.batch.filter(mask if isinstance(mask, pa.Array) else pa.array(mask))
        return Page(self.schema, batch, self.same)

    def take(self, indices: npt.NDArray[np.signedinteger]) -> Page:
        """Return the tuples at these positions, `indices`, in this order."""
        return Page(self.schema, self.batch.take(pa.array(indices)), self.same)

    def matching(self, punctuation: Punctuation) -> Bools:
        """Return which tuples match a `punctuation`, shape (n,); a null matches the wildcard only."""
        matched = np.ones(len(self), np.bool_)
        for name, pattern in punctuation.patterns:
            kind = self.column(name).type
            values: Array = self.ticks(name) if held_as_ticks(kind) else self[name]
            if (valid := self.valid(name)) is None:
                matched &= pattern.mask(values)
            else:
                matched &= valid
                matched[valid] &= pattern.mask(values[valid])
        return matched

    def rows(self) -> list[dict[str, Any]]:
        """Return the tuples as dictionaries of Python values that `json.dumps` takes; for people, not for hot paths.

        Addresses are text, times and dates ISO 8601 text ("2013-05-02T20:20:30Z"), durations seconds, bytes hexadecimal
        and decimals text, also in lists, structs and maps. `plain_rows` returns times as integers, `page["ts"]` a
        column as an array, and `to_pandas()` of a stream times to compute with.
        """
        columns = zip(self.batch.columns, self.schema.arrow, strict=True)
        return self._dictionaries([python_values(column, field) for column, field in columns])

    def to_arrow(self) -> pa.RecordBatch:
        """Return the tuples for other libraries: addresses are text, at any depth, and all else as it is in `batch`.

        >>> [page] = oop.rows([(1, "10.0.0.1")], oop.Schema.of(ts="int64", a="ip"))
        >>> page.to_arrow().to_pylist()
        [{'ts': 1, 'a': '10.0.0.1'}]
        """
        fields = list(self.schema.arrow)
        arrays = [address_text(array, field) for array, field in zip(self.batch.columns, fields, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([address_text_field(field) for field in fields]))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Let DuckDB, Polars, pandas and others read the tuples as those of `to_arrow`."""
        return pa.Table.from_batches([self.to_arrow()]).__arrow_c_stream__(requested_schema)

    def plain_rows(self) -> list[Row]:
        """Return the tuples as dictionaries of the values that promises hold.

        Times and decimals are integers, in ticks, and addresses bytes.
        """
        return self._dictionaries([plain_values(column) for column in self.batch.columns])

    def describe(self, index: int) -> str:
        """Return the tuple at `index` as text for a message: at most 200 characters, control characters escaped."""
        cells = self.slice(index, index + 1)._texts()
        names = map(printable, self.schema.names)
        line = ", ".join(f"{name} = {texts[0]}" for name, texts in zip(names, cells, strict=True))
        return line if len(line) <= 200 else line[:197] + "..."

    def _repr_html_(self) -> str:
        """Return the first tuples as a table, for a notebook."""
        shown = self.slice(0, min(len(self), _SHOWN))
        caption = f"{len(self):,} tuples" if len(shown) == len(self) else f"the first {_SHOWN} of {len(self):,} tuples"
        return html_table(self.schema.names, zip(*shown._texts(), strict=True), caption)

    def __repr__(self) -> str:
        shown = self.slice(0, min(len(self), _SHOWN))
        columns = [[printable(name), *texts] for name, texts in zip(self.schema.names, shown._texts(), strict=True)]
        widths = [min(40, max(map(len, column))) for column in columns]
        lines = [
            "  ".join(text[:40].ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in zip(*columns, strict=True)
        ]
        more = f"\n... {len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return f"page of {len(self)} tuple{'s' * (len(self) != 1)}\n" + "\n".join(lines) + more

    def _dictionaries(self, columns: Sequence[Sequence[V]]) -> list[dict[str, V]]:
        names = self.schema.names
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def _texts(self) -> list[list[str]]:
        """Return all cells as text that a terminal can show, column by column."""
        columns = zip(self.batch.columns, self.schema.arrow, strict=True)
        return [printable_texts(text_of(column, field)).fill_null("").to_pylist() for column, field in columns]


def concatenate(schema: Schema, pages: Sequence[Page]) -> Page:
    """Make one page of several of one schema."""
    if len(pages) == 1:
        return pages[0]
    if not pages:
        return Page(
            schema, pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema.arrow], schema=schema.arrow)
        )
    return Page(schema, pa.concat_batches([page.batch for page in pages]))


def only(page: Page, names: Sequence[str]) -> Page:
    """Return a page with some of its attributes, and the promises on these."""
    if page.schema.names == list(names):
        return page
    batch = page.batch.select(list(names))
    return Page(page.schema.onto(batch.schema, {name: name for name in names}), batch)


def tick_column(ticks: Int64s, kind: pa.DataType = INT64, *, beyond: int | None = None) -> pa.Array:
    """Make a column of a type that counts in steps of ticks, null where they are `beyond` either way, or the type.

    Without `beyond`, all ticks are taken to fit the type, and 64 bits are not copied.

    >>> tick_column(np.array([0, 2**62]), pa.timestamp("s"), beyond=2**61).to_pylist()
    [datetime.datetime(1970, 1, 1, 0, 0), None]
    """
    if is_stepped_decimal(kind):
        return decimal_column(ticks, kind, None if beyond is None else np.abs(ticks) >= beyond)
    if kind.bit_width != 64:
        absent = None if beyond is None else np.abs(ticks) >= min(beyond, 2**31)
        return pa.array(ticks, mask=absent).cast(pa.int32()).view(kind)
    # Where one number stands for all, one is looked at.
    some = ticks[:1] if ticks.strides == (0,) else ticks
    if beyond is not None and (absent := np.abs(some) >= beyond).any():
        return pa.array(np.ascontiguousarray(ticks), mask=np.repeat(absent, len(ticks) // len(some))).view(kind)
    return pa.Array.from_buffers(kind, len(ticks), [None, pa.py_buffer(np.ascontiguousarray(ticks))], 0)


def is_date64(kind: pa.DataType) -> bool:
    """Return whether a type is milliseconds since the epoch, by day."""
    return bool(pa.types.is_date64(kind))


def _ticks(name: str, column: pa.Array) -> Int64s:
    kind = column.type
    if kind == INT64:
        pass
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind) or is_date64(kind):
        column = column.view(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_uint64(kind):
        values = (column.fill_null(0) if column.null_count else column).to_numpy()
        ticks = np.minimum(values, np.uint64(2**63 - 1)).astype(np.int64)
        ticks.setflags(write=False)
        return ticks
    elif pa.types.is_integer(kind):
        column = column.cast(pa.int64())
    elif is_stepped_decimal(kind):
        column = decimal_ticks(column)
    else:
        raise SchemaError(
            f'attribute "{name}" has type {kind}; an integer, a time or a decimal is needed to order tuples'
        )
    return (column.fill_null(0) if column.null_count else column).to_numpy()


def _fixed(column: pa.Array) -> Array:
    width: int = column.type.byte_width
    data = column.buffers()[1]
    if data is None or len(column) == 0:
        return np.empty(0, f"S{width}")
    values = np.frombuffer(data, f"S{width}", count=column.offset + len(column))[column.offset :]
    values.flags.writeable = False
    return values


def plain_values(column: pa.Array) -> list[Scalar]:
    """Return a column as Python values, times and decimals in ticks: the form in which patterns hold constants."""
    return plain_ticks(column) if held_as_ticks(column.type) else column.to_pylist()
