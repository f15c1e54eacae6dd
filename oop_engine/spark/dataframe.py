"""Turn DataFrames into streams.

Nothing is held in memory as a whole. A DataFrame comes here a batch of rows at a time, into a file that can then be
read ahead, as exact promises need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa

from oop_engine.api.output import Output
from oop_engine.api.outputs import run_outputs
from oop_engine.api.read import table
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError, SchemaError
from oop_engine.spark.embedded import temporary
from oop_engine.spark.errors import errors
from oop_engine.spark.in_memory import crossing
from oop_engine.spark.narrow import read_page
from oop_engine.spark.reading import packed
from oop_engine.spark.schema import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Answer: TypeAlias = "Stream | Output | Sequence[Output] | None"


_UNSIGNED: Final = spark_type(pa.uint64())


def from_spark(
    frame: DataFrame, *, name: str = "spark", types: Mapping[str, str | pa.DataType] | None = None, **promises: Any
) -> Stream:
    """Make a stream of a DataFrame that is not streaming; it is computed once, now, into a file on this machine.

    - `frame`: the DataFrame.
    - `name`: how plans and messages call the stream.
    - `types`: the meaning of texts, as {"srcIP": "ip"}.
    - `promises`: `slack`, `punctuate`, `on`, `late` and `divert`, as in `oop.from_source`. By default the stream is
      promised exactly.

    A decimal(20, 0), Spark's form of uint64, becomes uint64, unless `types` names it; SchemaError when a value does not
    fit.

    >>> spark = oop.spark.session(cores=2)
    >>> oop.spark.from_spark(spark.range(3)).aggregate(oop.count()).to_arrow().to_pylist()
    [{'count': 3}]
    """
    if frame.isStreaming:
        raise PlanError(
            "this DataFrame is streaming; from_spark takes one that is not.\n"
            "  Run the plan on every batch: frame.writeStream.foreachBatch(oop.spark.each_batch(function))."
        )
    path = temporary() / "rows.arrow"
    with errors():
        schema = _taken(_arrow(frame), types or {})
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches(frame):
                writer.write_batch(_as(schema, batch))
    return table(path, name=name, types=types, **promises)


def batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a DataFrame as Arrow batches, a partition at a time, their columns named as they cross."""
    for row in (
        frame.toDF(*map(crossing, frame.columns))
        .mapInArrow(in_cells, "page binary")
        .toLocalIterator(prefetchPartitions=True)
    ):
        yield read_page(row.page)


def in_cells(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put each batch into one cell; runs on workers."""
    for batch in given:
        yield pa.RecordBatch.from_arrays([packed(batch)], ["page"])


def each_batch(
    function: Callable[[Stream, int], Answer], *, types: Mapping[str, str | pa.DataType] | None = None, **promises: Any
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that hands every batch to a function of yours, as a stream that ends.

    - `function`: gets the stream and Spark's number of the batch. It returns an output, several in a list, or a stream,
      which is run and counted. Write to a file named after the number: a batch that is run again then replaces its own
      results.
    - `types`, `promises`: as for `from_spark`.

    >>> spark = oop.spark.session(cores=2)
    >>> stored = oop.spark.each_batch(lambda stream, number: stream.to(f"batch-{number}.csv"))
    >>> stored(spark.range(3), 0)
    >>> from pathlib import Path
    >>> Path("batch-0.csv").exists()
    True
    """

    def run(frame: DataFrame, number: int) -> None:
        stream = from_spark(frame, name=f"batch {number}", types=types, **promises)
        run_answer(function(stream, number))

    return run


def run_answer(answer: object) -> None:
    """Run what the function of a batch gave; PlanError when it cannot be run."""
    if isinstance(answer, Stream | Output):
        answer.run()
        return
    outputs = [one for one in answer if isinstance(one, Output)] if isinstance(answer, Sequence) else []
    if outputs and len(outputs) == len(cast("Sequence[object]", answer)):
        run_outputs(outputs)
    elif answer is not None:
        raise PlanError(
            f"each_batch: the function of a batch gives {type(answer).__name__}, which cannot be run.\n"
            '  Return an output, as stream.to(f"batch-{number}.parquet"), a list of outputs, a stream, or nothing.'
        )


def _as(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows under a schema; Spark gives times in the zone of the session."""
    arrays = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f'from_spark: the column "{field.name}" is {column.type}, which is taken as {field.type}: {error}.\n'
            f'  Say that it is no such number: from_spark(frame, types={{"{field.name}": pa.decimal128(20, 0)}}).'
        ) from None


def _taken(schema: pa.Schema, types: Mapping[str, object]) -> pa.Schema:
    """Return the columns of a DataFrame as they are stored here: a decimal(20, 0) of Spark as the uint64 it was."""
    unsigned = {field.name for field in schema if field.type == _UNSIGNED and field.name not in types}
    return pa.schema([field.with_type(pa.uint64()) if field.name in unsigned else field for field in schema])


def _arrow(frame: DataFrame) -> pa.Schema:
    # Optional: pyspark.
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")
