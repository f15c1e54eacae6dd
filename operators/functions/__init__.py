"""What a window aggregate computes: one constructor a function, and `by_name` for queries that spell them out.

>>> sum("length").output_name(), count().output_name(), by_name("mean", ["length"]).output_name()
('sum_length', 'count', 'avg_length')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operators.errors import SchemaError, did_you_mean
from operators.functions.chosen import ArgMax, ArgMin, First, Last
from operators.functions.count import Count
from operators.functions.distinct import CountDistinct
from operators.functions.extremes import Max, Min
from operators.functions.moments import Stddev, Variance
from operators.functions.protocol import Accumulator, AggregateFunction, Slots
from operators.functions.sums import Avg, Sum

__all__ = [
    "Accumulator",
    "AggregateFunction",
    "ArgMax",
    "ArgMin",
    "Avg",
    "Count",
    "CountDistinct",
    "First",
    "Last",
    "Max",
    "Min",
    "Slots",
    "Stddev",
    "Sum",
    "Variance",
    "argmax",
    "argmin",
    "avg",
    "by_name",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "min",
    "stddev",
    "sum",
    "variance",
]


def count(argument: str | None = None) -> AggregateFunction:
    """Count tuples, or those in which an attribute is not null."""
    return Count(argument)


def sum(argument: str) -> AggregateFunction:
    """Add the values of an attribute, whole numbers exactly."""
    return Sum(argument)


def min(argument: str) -> AggregateFunction:
    """Find the least value of an attribute."""
    return Min(argument)


def max(argument: str) -> AggregateFunction:
    """Find the greatest value of an attribute."""
    return Max(argument)


def avg(argument: str) -> AggregateFunction:
    """Average an attribute."""
    return Avg(argument)


def variance(argument: str, *, ddof: int = 1) -> AggregateFunction:
    """Give the variance of an attribute, over n - ddof."""
    return Variance(argument, ddof=ddof)


def stddev(argument: str, *, ddof: int = 1) -> AggregateFunction:
    """Give the standard deviation of an attribute, over n - ddof."""
    return Stddev(argument, ddof=ddof)


def first(argument: str) -> AggregateFunction:
    """Give the value that arrived first."""
    return First(argument)


def last(argument: str) -> AggregateFunction:
    """Give the value that arrived last."""
    return Last(argument)


def argmin(value: str, by: str) -> AggregateFunction:
    """Give the value of the tuple with the least `by`."""
    return ArgMin(value, by)


def argmax(value: str, by: str) -> AggregateFunction:
    """Give the value of the tuple with the greatest `by`."""
    return ArgMax(value, by)


def count_distinct(*arguments: str) -> AggregateFunction:
    """Count the different values of an attribute, or combinations of several."""
    return CountDistinct(*arguments)


_Make = Callable[..., AggregateFunction]
_KNOWN: dict[str, tuple[_Make, tuple[str, ...]]] = {
    "count": (count, ("x",)),
    "sum": (sum, ("x",)),
    "min": (min, ("x",)),
    "max": (max, ("x",)),
    "avg": (avg, ("x",)),
    "variance": (variance, ("x",)),
    "stddev": (stddev, ("x",)),
    "first": (first, ("x",)),
    "last": (last, ("x",)),
    "argmin": (argmin, ("x", "y")),
    "argmax": (argmax, ("x", "y")),
    "count_distinct": (count_distinct, ("x",)),
}
_ALIASES = {"mean": "avg", "var": "variance", "std": "stddev"}
_IDEMPOTENT = ("min", "max")
"""Functions to which a value counted twice makes no difference."""


def by_name(name: str, arguments: Sequence[str], *, distinct: bool = False) -> AggregateFunction:
    """Make the function that a query names, in any case; no argument or "*" counts tuples. SchemaError that teaches."""
    plain = _ALIASES.get(name.lower(), name.lower())
    if plain not in _KNOWN:
        known = [*_KNOWN, *_ALIASES]
        raise SchemaError(f'there is no aggregate function "{name}".\n  {did_you_mean(name, known)}')
    starred = plain == "count" and not distinct and list(arguments) in ([], ["*"])
    if starred:
        return Count(None)
    if distinct and plain == "count":
        plain = "count_distinct"
    elif distinct and plain not in (*_IDEMPOTENT, "count_distinct"):
        listed = ", ".join(arguments)
        raise SchemaError(
            f"{name}(distinct {listed}): only count, min and max take distinct.\n"
            f"  Write count(distinct {listed}), or {name}({listed})."
        )
    make, wanted = _KNOWN[plain]
    enough = bool(arguments) if plain == "count_distinct" else len(arguments) == len(wanted)
    if not enough or "*" in arguments:
        raise SchemaError(
            f"{name}({', '.join(arguments)}): {len(arguments)} argument{'' if len(arguments) == 1 else 's'} given.\n"
            f"  Write {_form(plain, wanted)}."
        )
    return make(*arguments)


def _form(name: str, wanted: tuple[str, ...]) -> str:
    if name == "count":
        return "count(*) or count(x)"
    if name == "count_distinct":
        return "count(distinct x), or count(distinct x, y) for combinations"
    return f"{name}({', '.join(wanted)})"
