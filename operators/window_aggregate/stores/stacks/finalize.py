"""Turn the aggregates of windows into a column, as the functions' accumulators would, without their detour.

Where a result needs more than the plain case (a sum beyond 64 bits, an average of more than 53 bits, a duration), the
accumulator itself finalizes it, so that both agree to the last bit and the same errors are raised.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from operators.data.page import Array, Bools, Int64s
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import is_floating, is_whole, plain_type, result
from operators.functions.count import Count
from operators.functions.extremes import Max, Min
from operators.functions.order import is_keyed
from operators.functions.protocol import AggregateFunction
from operators.functions.sums import EXACT, Avg, Sum
from operators.kernels.stacks import floating as stacks_floating
from operators.kernels.stacks import least as stacks_least
from operators.kernels.stacks import whole as stacks_whole
from operators.kernels.ticks import FOREVER
from operators.window_aggregate.stores.stacks.kinds import FloatingSum, Kind, LeastKey, WholeSum

Stacked: TypeAlias = Count | Sum | Avg | Min | Max
_ALL = np.ones(1, np.bool_)


def stacked(function: AggregateFunction, schema: Schema) -> Stacked:
    """Check that stacks can compute a function of this input; SchemaError with the way out."""
    call = f"{function.name}({', '.join(function.arguments)})"
    if not isinstance(function, Count | Sum | Avg | Min | Max):
        raise SchemaError(
            f"aggregate by stacks: {call} is not computed on stacks; count, sum, avg, min and max are.\n"
            "  Put a Bucket and a WindowAggregate in its place: they compute every function."
        )
    function.output_field(schema, "result")
    if isinstance(function, Min | Max) and not is_keyed(_kind(function.argument, schema)):
        raise SchemaError(
            f"aggregate by stacks: {call}: stacks hold numbers, truth values and times, not "
            f"{_kind(function.argument, schema)}.\n  Put a Bucket and a WindowAggregate in its place."
        )
    return function


def kind_of(function: Stacked, schema: Schema) -> Kind | None:
    """Return what a function needs of each pane; None for counts."""
    if isinstance(function, Count):
        return None
    kind = _kind(function.argument, schema)
    name = schema.resolve(function.argument, where=function.name)
    if isinstance(function, Min | Max):
        return LeastKey(name, kind, isinstance(function, Max))
    return FloatingSum(name) if is_floating(kind) else WholeSum(name, kind)


def finalize(
    function: Stacked, schema: Schema, kind: Kind, found: Array, counts: Int64s | None, start: int, stop: int
) -> pa.Array:
    """Return the results of windows start <= i < stop from what their stack found and the number of their values.

    Without counts every window has a value. AggregateOverflow, its slot the place of the window behind `start`, when a
    sum does not fit.
    """
    found, counts = found[:, start:stop], None if counts is None else counts[start:stop]
    there = _ALL if counts is None else counts > 0
    if isinstance(kind, LeastKey):
        return _least(kind, found[0], there)
    if isinstance(kind, FloatingSum):
        sums = np.empty(found.shape[1], np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            stacks_floating.settle(found, sums)
            return result(_quotient(sums, counts, there) if isinstance(function, Avg) else sums, there, pa.float64())
    if isinstance(function, Sum) and stacks_whole.within(found, FOREVER):
        return result(found[0], there, kind.kind if pa.types.is_duration(kind.kind) else pa.int64())
    if isinstance(function, Avg) and is_number(kind.kind) and stacks_whole.within(found, EXACT - 1):
        return result(_quotient(found[0], counts, there), there, pa.float64())
    accumulator = function.accumulator(schema)
    numbers = np.ones(found.shape[1], np.int64) if counts is None else counts
    accumulator.restore({"sums": np.stack((*found, numbers), axis=1), "nulls": 0})
    return accumulator.finalize(np.arange(found.shape[1], dtype=np.int32))


def is_number(kind: pa.DataType) -> bool:
    """Return whether values are whole numbers or truth values."""
    return is_whole(kind) and not pa.types.is_duration(kind)


def _least(kind: LeastKey, found: Array, there: Bools) -> pa.Array:
    if is_floating(kind.kind):
        bits = np.empty_like(found)
        stacks_least.unkey(found, kind.layout, bits)
        return result(bits.view(np.float32 if kind.dtype == np.int32 else np.float64), there, kind.kind)
    values: Array = np.bitwise_xor(found, kind.turn)
    return result(values if there.all() else np.where(there, values, values.dtype.type(0)), there, kind.kind)


def _quotient(sums: Array, counts: Int64s | None, there: Bools) -> Array:
    assert counts is not None
    averages: Array = np.true_divide(sums, counts if there.all() else np.where(there, counts, 1))
    return averages


def _kind(name: str, schema: Schema) -> pa.DataType:
    return plain_type(schema.field(name, where="aggregate").type)
