"""Compare the results of two runs window by window: how many are wrong, and by how much.

truth = exact.window(range="1 minute").aggregate(oop.count())
print(oop.compare(hasty.window(range="1 minute").aggregate(oop.count()), truth))

So a slack is judged that drops late tuples, an approximate function, or an early result: the error of a window is that
of thesis 6.1.5.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, cast

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.api.stream import Stream
from oop_engine.drive.outcome import Outcome
from oop_engine.errors import PlanError
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s
from operators.data.printable import printable
from operators.errors import did_you_mean
from operators.window_aggregate.early.firing import FIRED
from operators.window_aggregate.results import REVISION, START, STOP, WID, WINDOW

Results: TypeAlias = "Stream | Outcome | pa.Table"
Floats: TypeAlias = npt.NDArray[np.float64]
_OF_WINDOWS: Final = (WINDOW, WID, START, STOP)


@attrs.frozen
class Comparison:
    """Hold how results differ from true ones; `oop.compare` makes it.

    - `windows`: how many results the truth has, one for each window and group.
    - `missing`: how many of them there is no result for.
    - `extra`: how many results there are for no window of the truth.
    - `wrong`: how many results differ from the true one, in any attribute.
    - `errors`: of each number, the mean relative error over the windows of the truth, in percent. A missing result is
      off by 100 %, and so is any other than 0 where 0 is true.

    >>> Comparison(4, 1, 0, 1, {"count": 37.5}).share_wrong
    50.0
    """

    windows: int
    missing: int
    extra: int
    wrong: int
    errors: Mapping[str, float]

    @property
    def share_wrong(self) -> float:
        """Return how many answers are wrong, missing or of no window, in percent of all."""
        every = self.windows + self.extra
        return 100 * (self.missing + self.extra + self.wrong) / every if every else 0.0

    def __str__(self) -> str:
        found = [f"{self.windows:,} windows: {self.wrong:,} wrong, {self.missing:,} missing, {self.extra:,} extra"]
        found[0] += f" ({self.share_wrong:.3g} %)"
        found += [f"mean error of {printable(name)} {error:.3g} %" for name, error in self.errors.items()]
        return "; ".join(found)


def compare(results: Results, truth: Results, *, on: str | Iterable[str] | None = None) -> Comparison:
    """Compare results with true ones, window by window and group by group.

    - `results`, `truth`: streams, which are run, or outcomes or tables of results. Both have the same attributes.
    - `on`: the attributes that say which result is meant, beside those of windows: the groups. By default all that are
      not numbers. All others are compared: numbers by their relative error, NaN as equal to NaN.

    PlanError where attributes differ, or one has several results for a window and group, as early ones and revisions.

    >>> schema = oop.Schema.of(ts="int64")
    >>> hasty, exact = (oop.rows(iter([(1,), (12,), (3,)]), schema, slack=slack) for slack in (0, 20))
    >>> print(oop.compare(*(s.window(range=10).aggregate(oop.count()) for s in (hasty, exact))))
    2 windows: 1 wrong, 0 missing, 0 extra (50 %); mean error of count 25 %
    """
    found, true = _table(results), _table(truth)
    if set(found.column_names) != set(true.column_names):
        there, lacking = ", ".join(map(printable, true.column_names)), ", ".join(map(printable, found.column_names))
        raise PlanError(
            f"compare: the results have {lacking}, and the truth {there}.\n  Compute the same of both, or project them."
        )
    keys = _keys(true, on)
    fields = [true.schema.field(name) for name in keys]
    if differing := [name for name in keys if found.schema.field(name).type != true.schema.field(name).type]:
        name = differing[0]
        raise PlanError(
            f"compare: {printable(name)} is {found.schema.field(name).type} in the results, and"
            f" {true.schema.field(name).type} in the truth.\n  Cast one: project({name}=\"cast({name}, '...')\")."
        )
    index = KeyIndex(fields)
    at, ids = _places(found, keys, index, "results"), _places(true, keys, index, "truth")
    rows = np.full(max(len(index), 1), -1, np.int64)
    rows[at] = np.arange(len(at))
    here = rows[ids]
    missing = here < 0
    values = [name for name in true.column_names if name not in keys]
    paired, expected = found.take(pa.array(here[~missing])), true.filter(pa.array(~missing))
    wrong = np.zeros(paired.num_rows, np.bool_)
    errors: dict[str, float] = {}
    for name in values:
        one, other = paired.column(name).combine_chunks(), expected.column(name).combine_chunks()
        wrong |= ~_equal(one, other)
        if _is_number(other.type) and true.num_rows:
            errors[name] = 100 * (float(_error(one, other).sum()) + int(missing.sum())) / true.num_rows
    return Comparison(
        true.num_rows, int(missing.sum()), found.num_rows - int((~missing).sum()), int(wrong.sum()), errors
    )


def _table(results: Results) -> pa.Table:
    if isinstance(results, Stream):
        return results.to_arrow()
    if isinstance(results, Outcome):
        return results.table
    if isinstance(results, pa.Table):  # pyright: ignore[reportUnnecessaryIsInstance]
        return results
    raise PlanError(f"compare takes streams, outcomes or tables of results, not {type(results).__name__}.")


def _keys(true: pa.Table, on: str | Iterable[str] | None) -> list[str]:
    """Name the attributes by which results are found."""
    names = true.column_names
    windows = [name for name in _OF_WINDOWS if name in names]
    if on is None:
        return [*windows, *(n for n in names if n not in windows and not _is_number(true.schema.field(n).type))]
    groups = [on] if isinstance(on, str) else list(on)
    for name in groups:
        if name not in names:
            raise PlanError(f'compare(on=...): the results have no "{name}".\n  {did_you_mean(name, names)}')
    return [*windows, *(name for name in groups if name not in windows)]


def _places(table: pa.Table, keys: list[str], index: KeyIndex, which: str) -> Int64s:
    """Return the number of each row's key; PlanError where two rows have one."""
    if not keys:
        ids = np.zeros(table.num_rows, np.int64)
    else:
        ids = index.assign([table.column(name).combine_chunks() for name in keys]).astype(np.int64)
    if len(np.unique(ids)) < len(ids):
        counts = np.bincount(ids)
        row = table.select(keys).slice(int(np.argmax(counts[ids] > 1)), 1).to_pylist()[0]
        shown = ", ".join(f"{name} = {value}" for name, value in row.items())
        hint = "Name the groups: on=..."
        if FIRED in table.column_names or REVISION in table.column_names:
            hint = 'Keep the final ones: filter("final"), or leave the lateness out'
        raise PlanError(f"compare: the {which} have {counts.max()} rows for {shown or 'the whole'}.\n  {hint}.")
    return ids


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _equal(one: pa.Array, other: pa.Array) -> Bools:
    """Return which values are equal, shape (n,): null is null, and NaN is NaN."""
    same = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    nothing = pc.and_(pc.is_null(one), pc.is_null(other)).to_numpy(zero_copy_only=False)
    found = same | nothing
    if pa.types.is_floating(one.type) and pa.types.is_floating(other.type):
        both = (pc.fill_null(pc.is_nan(array), False).to_numpy(zero_copy_only=False) for array in (one, other))
        found = found | np.logical_and(*both)
    return cast(Bools, found)


def _floats(array: pa.Array) -> Floats:
    return cast(Floats, array.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _error(one: pa.Array, other: pa.Array) -> Floats:
    """Return by which part of the true value each value differs from it, shape (n,); 1 where that is not defined."""
    found, true = _floats(one), _floats(other)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(found - true) / np.abs(true)
    return np.where(_equal(one, other), 0.0, np.where(np.isfinite(error), error, 1.0))
