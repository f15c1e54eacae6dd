"""ProcessWindows calls a user's function once for each result of a window, with all tuples of the window."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.schema import Schema, type_name
from operators.errors import AggregateFailure, SchemaError
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting, passed_on
from punctuation import Punctuation

LEFT_OUT = "left_out"
"""The attribute that counts the tuples of a window that the function did not see."""

WindowFunction: TypeAlias = Callable[[Page, Page], object]


@attrs.define(eq=False)
class ProcessWindows(memory.Stateful):
    """Replace the tuples that `collect` listed of a window by the rows that a function makes of them.

    The function is called once for each result, as function(tuples, window): a page of the tuples, and a page of one
    row with all other attributes of the result and `left_out`. It returns rows of the schema `result`: a mapping of
    columns, in which a single value stands for all rows; an Arrow table, or anything else that exports one; tuples in
    a list; None for no rows. Each row has the attributes of its result beside its own. `left_out` counts the tuples
    that a sample lacks. A result without a list, of a session that is gone, calls nothing.

    Where a result `replaces` an earlier one of its window, no rows would leave the earlier ones standing: one row of
    nulls stands for them.
    Pass: the rows of a result at once. Keep: nothing. Propagate: every promise but those on the list.
    Cost: one call a result.

    >>> from operators.drive import drive, rows
    >>> tuples = pa.list_(pa.struct([("v", pa.int64())]))
    >>> schema = Schema.of(all=pa.struct([("count", pa.int64()), ("tuples", tuples)]), wid=pa.int64(), progress=["wid"])
    >>> page = Page.of(schema, {"all": [{"count": 2, "tuples": [{"v": 3}, {"v": 8}]}], "wid": [7]})
    >>> widest = ProcessWindows(lambda tuples, window: {"gap": np.diff(tuples["v"])}, Schema.of(gap=pa.int64()), "all")
    >>> rows(drive(widest, [page]))
    [{'gap': 5, 'left_out': 0, 'wid': 7}]
    """

    function: WindowFunction
    result: Schema
    tuples: str
    """The attribute with the lists."""
    replaces: bool = attrs.field(default=False, kw_only=True)
    _fitted: tuple[Schema, Schema, Schema] | None = attrs.field(init=False, default=None)
    """The schema of the input, of what a function is told of a window, and of the output."""
    _sampled: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    """Calls with a sample instead of all tuples."""

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        listed = schema.field(self.tuples, where="process").name
        own = [pa.field(f.name, f.type, metadata=f.metadata) for f in self.result.arrow]
        fields: list[pa.Field] = []
        for field in schema.arrow:
            fields += [*own, pa.field(LEFT_OUT, pa.int64())] if field.name == listed else [field]
        names = [field.name for field in fields]
        if doubly := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise SchemaError(
                f'process: two attributes of the results are called "{doubly[0]}".\n'
                f"  the window's: {', '.join([n for n in schema.names if n != listed] + [LEFT_OUT])}\n"
                f"  the function's: {', '.join(self.result.names)}\n  Choose another name in the schema."
            )
        return Schema(pa.schema(fields), progress=[promise for promise in schema.progress if listed not in promise])

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return None if name == LEFT_OUT or name in self.result else name

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is None:
            return None
        passed = passed_on(self, found, inputs)
        if found.settles is not None and found.settles.change == "revisions":
            way = 'Write process(..., refine="retract"): then each row that is replaced is taken back.'
            passed = attrs.evolve(passed, settles=None, way=way)
        return passed

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        kept, output = self._fit(page.schema)
        listed = page.column(self.tuples)
        counts, lists = listed.flatten()
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)
        counts = np.asarray(pc.fill_null(counts, 0), np.int64)
        left_out = counts - lengths
        around = _around(kept, page, left_out)
        values = lists.flatten()
        schema = Schema(pa.schema(list(values.type)))
        members = pa.RecordBatch.from_arrays(values.flatten(), schema=schema.arrow)
        known = page.valid(self.tuples)
        stops = np.cumsum(lengths)
        found: list[pa.RecordBatch] = []
        for place in range(len(page)):
            if known is not None and not known[place]:
                made = self._empty
            else:
                tuples = Page(schema, members.slice(int(stops[place] - lengths[place]), int(lengths[place])))
                made = self._called(tuples, around.slice(place, place + 1))
                self._sampled += bool(left_out[place])
            found.append(self._nulls if self.replaces and made.num_rows == 0 else made)
        sizes = [batch.num_rows for batch in found]
        if not sum(sizes):
            return
        own = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        others = around.take(np.repeat(np.arange(len(page)), sizes))
        columns = [(own if name in self.result else others.batch).column(name) for name in output.names]
        emit(Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow)))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if self.tuples not in punctuation.attributes:
            emit(punctuation)

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": 0, "sampled_windows": self._sampled}

    def notes(self, counts: Mapping[str, int]) -> Iterable[str]:
        if sampled := counts.get("sampled_windows", 0):
            windows = "window had" if sampled == 1 else "windows had"
            yield f"{sampled:,} {windows} more tuples than `most`: the function saw a sample; left_out counts the rest"

    @property
    def _arrow(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type, metadata=f.metadata) for f in self.result.arrow])

    @property
    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in self.result.arrow], schema=self._arrow)

    @property
    def _nulls(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in self.result.arrow], schema=self._arrow)

    def _fit(self, schema: Schema) -> tuple[Schema, Schema]:
        """Return the schema of what a function is told of a window, and that of the output."""
        if self._fitted is None or self._fitted[0] is not schema:
            kept = [field for field in schema.arrow if field.name != self.tuples]
            about = Schema(pa.schema([*kept, pa.field(LEFT_OUT, pa.int64())]))
            self._fitted = (schema, about, self.output_schema(schema))
        return self._fitted[1:]

    def _called(self, tuples: Page, window: Page) -> pa.RecordBatch:
        """Call the function for one window; AggregateFailure names it, the window and the line where it raised."""
        try:
            made = self.function(tuples, window)
        except Exception as error:
            raise AggregateFailure(
                f"process: {self._name} raises {type(error).__name__}: {error}{_line(error)}.\n"
                f"  {_told(tuples, window)}"
            ) from error
        try:
            return self._rows(made)
        except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
            told = error.args[0] if error.args else error
            raise AggregateFailure(
                f"process: {self._name} returned {type(made).__name__}, which is not rows of"
                f" {', '.join(f'{f.name}: {type_name(f)}' for f in self.result.arrow)}: {told}.\n"
                f"  {_told(tuples, window)}\n  Return a mapping of columns, an Arrow table, or a list of tuples."
            ) from error

    @property
    def _name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__).rpartition(".")[2]

    def _rows(self, made: object) -> pa.RecordBatch:
        """Return what a function returned as rows of the schema of results."""
        names = self.result.names
        if made is None:
            return self._empty
        if isinstance(made, Page):
            made = {name: made.column(name) for name in made.schema.names}
        if hasattr(made, "__arrow_c_stream__") or hasattr(made, "__arrow_c_array__"):
            given = cast("Any", made)
            table = given if isinstance(given, pa.Table | pa.RecordBatch) else pa.table(given)
            made = {name: table[name] for name in table.schema.names if not name.startswith("__index_level")}
        if isinstance(made, Mapping):
            columns = cast("Mapping[str, object]", made)
            wrong = [*(name for name in names if name not in columns), *(n for n in columns if n not in names)]
            if wrong:
                raise ValueError(f'"{wrong[0]}" is {"missing" if wrong[0] in names else "not in the schema"}')
            size = next((len(cast("Any", value)) for value in columns.values() if _is_column(value)), 1)
            columns = {n: value if _is_column(value) else [value] * size for n, value in columns.items()}
        else:
            taken = [tuple(row) for row in cast("Iterable[Iterable[object]]", made)]
            if odd := next((row for row in taken if len(row) != len(names)), None):
                raise ValueError(f"a row has {len(odd)} values")
            columns = dict(zip(names, zip(*taken, strict=True) if taken else [()] * len(names), strict=True))
        arrays = [_array(columns[field.name], field) for field in self.result.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)


def _around(kept: Schema, page: Page, left_out: Int64s) -> Page:
    columns = [page.column(name) for name in kept.names[:-1]]
    return Page(kept, pa.RecordBatch.from_arrays([*columns, pa.array(left_out)], schema=kept.arrow))


def _is_column(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, Any]", value).ndim > 0
    return isinstance(value, Sequence | pa.Array | pa.ChunkedArray) and not isinstance(value, str | bytes)


def _array(values: object, field: pa.Field) -> pa.Array:
    """Return a column of a result as its type asks; ValueError where the values do not fit."""
    given = cast("Any", values)
    if isinstance(given, pa.ChunkedArray):
        given = pa.concat_arrays(given.chunks) if given.num_chunks else pa.array([], given.type)
    found: pa.Array = given.cast(field.type) if isinstance(given, pa.Array) else pa.array(given, field.type)
    if found.null_count and not field.nullable:
        raise ValueError(f'"{field.name}" has a null, and the schema says that it has none')
    return found


def _told(tuples: Page, window: Page) -> str:
    sample = "" if not window.ticks(LEFT_OUT)[0] else f", a sample that lacks {window.ticks(LEFT_OUT)[0]}"
    names = [name for name in window.schema.names if name != LEFT_OUT]
    shown = Schema(pa.schema([window.schema.field(name, where="process") for name in names]))
    page = Page(shown, window.batch.select(names))
    return f"Window: {page.describe(0)}, of {len(tuples)} tuple{'s' * (len(tuples) != 1)}{sample}."


def _line(error: Exception) -> str:
    """Return the line at which the user's code raised: the first frame behind the call."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if not frames:
        return ""
    own = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f" in {own.filename}, line {own.lineno}{f' ({own.line})' if own.line else ''}"
