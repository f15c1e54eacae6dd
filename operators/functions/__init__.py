"""The functions of window aggregates: one constructor each, and `by_name` for queries that spell them out.

>>> sum("length").output_name(), count().output_name(), by_name("mean", ["length"]).output_name()
('sum_length', 'count', 'avg_length')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from operators.errors import AggregateFailure, SchemaError, did_you_mean
from operators.functions.protocol import Accumulator, AggregateFunction, Slots, Subtractable, Totalling
from operators.lazy import loader

if TYPE_CHECKING:
    from operators.functions.chosen import ArgMax, ArgMin, First, Last
    from operators.functions.collecting import Collect
    from operators.functions.concatenation import Concat
    from operators.functions.count import Count
    from operators.functions.distinct import CountDistinct
    from operators.functions.extremes import Max, Min
    from operators.functions.frequent import HeavyHitters, Mode, TopK
    from operators.functions.gaps import GapVariation, MeanGap
    from operators.functions.geometric import GeometricMean
    from operators.functions.mass import CentreOfMass
    from operators.functions.moments import Stddev, Variance
    from operators.functions.outline import M4, MinMax
    from operators.functions.quantile import Median, Quantile
    from operators.functions.sharing import Sharing, accumulators
    from operators.functions.sketches import ApproxCountDistinct, ApproxHeavyHitters, ApproxQuantile
    from operators.functions.sums import Avg, Sum
    from operators.functions.user import UserAggregate, user_aggregate

__all__ = [
    "M4",
    "Accumulator",
    "AggregateFailure",
    "AggregateFunction",
    "ApproxCountDistinct",
    "ApproxHeavyHitters",
    "ApproxQuantile",
    "ArgMax",
    "ArgMin",
    "Avg",
    "CentreOfMass",
    "Collect",
    "Concat",
    "Count",
    "CountDistinct",
    "First",
    "GapVariation",
    "GeometricMean",
    "HeavyHitters",
    "Last",
    "Max",
    "MeanGap",
    "Median",
    "Min",
    "MinMax",
    "Mode",
    "Quantile",
    "Sharing",
    "Slots",
    "Stddev",
    "Subtractable",
    "Sum",
    "TopK",
    "Totalling",
    "UserAggregate",
    "Variance",
    "accumulators",
    "approx_count_distinct",
    "approx_heavy_hitters",
    "approx_quantile",
    "argmax",
    "argmin",
    "avg",
    "by_name",
    "centre_of_mass",
    "collect",
    "concat",
    "constants",
    "count",
    "count_distinct",
    "first",
    "forms",
    "gap_variation",
    "geometric_mean",
    "heavy_hitters",
    "is_function",
    "last",
    "m4",
    "max",
    "mean_gap",
    "median",
    "min",
    "minmax",
    "mode",
    "quantile",
    "stddev",
    "sum",
    "top_k",
    "user_aggregate",
    "variance",
]

# A function is imported when a plan first computes it.
__getattr__ = _load = loader(
    __name__,
    {
        "chosen": "ArgMax ArgMin First Last",
        "collecting": "Collect",
        "concatenation": "Concat",
        "count": "Count",
        "distinct": "CountDistinct",
        "extremes": "Max Min",
        "frequent": "HeavyHitters Mode TopK",
        "gaps": "GapVariation MeanGap",
        "geometric": "GeometricMean",
        "mass": "CentreOfMass",
        "moments": "Stddev Variance",
        "outline": "M4 MinMax",
        "quantile": "Median Quantile",
        "sharing": "Sharing accumulators",
        "sketches": "ApproxCountDistinct ApproxHeavyHitters ApproxQuantile",
        "sums": "Avg Sum",
        "user": "UserAggregate user_aggregate",
    },
)


def count(argument: str | None = None) -> AggregateFunction:
    """Count tuples, or those in which the attribute `argument` is not null.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.count()).to_arrow().to_pylist()
    [{'count': 3}]
    """
    return _load("Count")(argument)


def sum(argument: str) -> AggregateFunction:
    """Add the values of the attribute `argument`.

    Whole numbers are added exactly, floating ones with their rounding errors carried along: the order of arrival
    changes the last bits at most, unless values cancel almost completely (see `Sum`), or a sum on the way exceeds
    1.8e308 and becomes infinite.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.sum("v")).to_arrow().to_pylist()
    [{'sum_v': 10}]
    """
    return _load("Sum")(argument)


def min(argument: str) -> AggregateFunction:
    """Find the least value of the attribute `argument`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.min("v")).to_arrow().to_pylist()
    [{'min_v': 2}]
    """
    return _load("Min")(argument)


def max(argument: str) -> AggregateFunction:
    """Find the greatest value of the attribute `argument`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.max("v")).to_arrow().to_pylist()
    [{'max_v': 4}]
    """
    return _load("Max")(argument)


def avg(argument: str) -> AggregateFunction:
    """Average the attribute `argument`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.avg("v")).to_arrow().to_pylist()
    [{'avg_v': 3.3333333333333335}]
    """
    return _load("Avg")(argument)


def variance(argument: str, *, ddof: int = 1) -> AggregateFunction:
    """Compute the variance of the attribute `argument`, over n - `ddof`, which is 0 or 1.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.variance("v", ddof=0)).to_arrow().to_pylist()
    [{'variance_v': 0.8888888888888888}]
    """
    return _load("Variance")(argument, ddof=ddof)


def stddev(argument: str, *, ddof: int = 1) -> AggregateFunction:
    """Compute the standard deviation of the attribute `argument`, over n - `ddof`, which is 0 or 1.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.stddev("v", ddof=0)).to_arrow().to_pylist()
    [{'stddev_v': 0.9428090415820634}]
    """
    return _load("Stddev")(argument, ddof=ddof)


def first(argument: str) -> AggregateFunction:
    """Return the value of the attribute `argument` that arrived first.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.first("v")).to_arrow().to_pylist()
    [{'first_v': 2}]
    """
    return _load("First")(argument)


def last(argument: str) -> AggregateFunction:
    """Return the value of the attribute `argument` that arrived last.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.last("v")).to_arrow().to_pylist()
    [{'last_v': 4}]
    """
    return _load("Last")(argument)


def argmin(value: str, by: str) -> AggregateFunction:
    """Return `value` of the tuple with the least `by`; of several, the smallest value.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.argmin("ts", by="v")).to_arrow().to_pylist()
    [{'argmin_ts_v': 1}]
    """
    return _load("ArgMin")(value, by)


def argmax(value: str, by: str) -> AggregateFunction:
    """Return `value` of the tuple with the greatest `by`; of several, the smallest value.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.argmax("ts", by="v")).to_arrow().to_pylist()
    [{'argmax_ts_v': 2}]
    """
    return _load("ArgMax")(value, by)


def count_distinct(*arguments: str) -> AggregateFunction:
    """Count the different values of an attribute, or combinations of several `arguments`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.count_distinct("v")).to_arrow().to_pylist()
    [{'count_distinct_v': 2}]
    """
    return _load("CountDistinct")(*arguments)


def median(argument: str) -> AggregateFunction:
    """Find the lower median of the attribute `argument`, exactly.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.median("v")).to_arrow().to_pylist()
    [{'median_v': 4}]
    """
    return _load("Median")(argument)


def quantile(argument: str, q: float) -> AggregateFunction:
    """Find the least value of the attribute `argument` that a share `q` of its values do not exceed, exactly.

    `q` is from 0 to 1.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.quantile("v", 0.3)).to_arrow().to_pylist()
    [{'p30_v': 2}]
    """
    return _load("Quantile")(argument, q)


def mode(argument: str) -> AggregateFunction:
    """Find the most frequent value of the attribute `argument`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.mode("v")).to_arrow().to_pylist()
    [{'mode_v': 4}]
    """
    return _load("Mode")(argument)


def top_k(argument: str, k: int) -> AggregateFunction:
    """List the `k` most frequent values of the attribute `argument`, with their counts.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.top_k("v", 1)).to_arrow().to_pylist()
    [{'top_1_v': [{'value': 4, 'count': 2}]}]
    """
    return _load("TopK")(argument, k)


def heavy_hitters(argument: str, share: float) -> AggregateFunction:
    """List the values of the attribute `argument` that are at least a `share` (0 to 1) of all, with their counts.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.heavy_hitters("v", 0.5)).to_arrow().to_pylist()
    [{'heavy_hitters_v': [{'value': 4, 'count': 2}]}]
    """
    return _load("HeavyHitters")(argument, share)


def minmax(argument: str) -> AggregateFunction:
    """Find the least and the greatest value of the attribute `argument`, and how many tuples have each.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.minmax("v")).to_arrow().to_pylist()
    [{'minmax_v': {'min': 2, 'min_count': 1, 'max': 4, 'max_count': 2}}]
    """
    return _load("MinMax")(argument)


def m4(argument: str, by: str | None = None) -> AggregateFunction:
    """Find the least, greatest, first and last value of the attribute `argument`.

    First and last are by the attribute `by`, or by arrival.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.m4("v", by="ts")).to_arrow().to_pylist()
    [{'m4_v': {'min': 2, 'max': 4, 'first': 2, 'last': 4}}]
    """
    return _load("M4")(argument, by)


def centre_of_mass(value: str, weight: str) -> AggregateFunction:
    """Average the attribute `value`, weighted by the attribute `weight`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.centre_of_mass("ts", weight="v")).to_arrow().to_pylist()
    [{'centre_of_mass_ts_v': 2.2}]
    """
    return _load("CentreOfMass")(value, weight)


def mean_gap(argument: str) -> AggregateFunction:
    """Average the distances between neighbouring values of the attribute `argument`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.mean_gap("ts")).to_arrow().to_pylist()
    [{'mean_gap_ts': 1.0}]
    """
    return _load("MeanGap")(argument)


def gap_variation(argument: str) -> AggregateFunction:
    """Compute how irregular the values of the attribute `argument` are: 0 for equal distances.

    It is the coefficient of variation of the distances between neighbouring values.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.gap_variation("ts")).to_arrow().to_pylist()
    [{'gap_variation_ts': 0.0}]
    """
    return _load("GapVariation")(argument)


def geometric_mean(argument: str) -> AggregateFunction:
    """Compute the n-th root of the product of n values of the attribute `argument`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> result = stream.aggregate(oop.geometric_mean("v")).to_arrow()
    >>> round(result["geometric_mean_v"][0].as_py(), 6)
    3.174802
    """
    return _load("GeometricMean")(argument)


def concat(argument: str, by: str | None = None, *, separator: str = "") -> AggregateFunction:
    """Join the texts of the attribute `argument`, with `separator` between.

    They are in the order of the attribute `by`, or of arrival.

    >>> stream = oop.rows([(2, "b"), (1, "a")], oop.Schema.of(ts="int64", k="string"))
    >>> stream.aggregate(oop.concat("k", by="ts", separator=" ")).to_arrow().to_pylist()
    [{'concat_k': 'a b'}]
    """
    return _load("Concat")(argument, by, separator=separator)


def collect(*columns: str, most: int = 1000) -> AggregateFunction:
    """List the tuples of a window, as structs of the attributes `columns`, with the count of all that there were.

    They are in the order of the first attribute, then of the next ones. Of more than `most` tuples a sample is listed:
    those whose values have the least hashes, whatever the order of arrival. Each tuple is as likely in it as any other;
    equal tuples go together.

    >>> stream = oop.rows([(2, "b"), (1, "a"), (3, "c")], oop.Schema.of(ts="int64", k="string"))
    >>> stream.aggregate(all=oop.collect("ts", "k")).to_arrow()["all"][0].as_py()
    {'count': 3, 'tuples': [{'ts': 1, 'k': 'a'}, {'ts': 2, 'k': 'b'}, {'ts': 3, 'k': 'c'}]}
    >>> stream.aggregate(some=oop.collect("ts", most=1)).to_arrow()["some"][0]["count"].as_py()
    3
    """
    return _load("Collect")(columns, most)


def approx_count_distinct(argument: str, *, lg_k: int = 12) -> AggregateFunction:
    """Estimate how many different values the attribute `argument` has.

    It uses a HyperLogLog sketch of 2^`lg_k` registers; needs the extra `sketches`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.approx_count_distinct("v")).to_arrow().to_pylist()
    [{'approx_count_distinct_v': 2}]
    """
    return _load("ApproxCountDistinct")(argument, lg_k=lg_k)


def approx_quantile(argument: str, q: float, *, k: int = 200) -> AggregateFunction:
    """Estimate the quantile `q` (0 to 1) of the attribute `argument`.

    It uses a KLL sketch of size `k`; needs the extra `sketches`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.approx_quantile("v", 0.3)).to_arrow().to_pylist()
    [{'approx_p30_v': 2.0}]
    """
    return _load("ApproxQuantile")(argument, q, k=k)


def approx_heavy_hitters(argument: str, share: float, *, lg_k: int | None = None) -> AggregateFunction:
    """List the values of the attribute `argument` that may be at least a `share` (0 to 1) of all, with estimated
    counts.

    It uses a frequent-items sketch that is large enough to miss none; `lg_k` makes it larger. Needs the extra
    `sketches`.

    >>> stream = oop.rows([(1, 2), (2, 4), (3, 4)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.aggregate(oop.approx_heavy_hitters("v", 0.5)).to_arrow().to_pylist()
    [{'approx_heavy_hitters_v': [{'value': 4, 'count': 2}]}]
    """
    return _load("ApproxHeavyHitters")(argument, share, lg_k=lg_k)


_Make = Callable[..., AggregateFunction]


@attrs.frozen
class _Known:
    """The call of a function in queries: attributes, of which the last may be optional, then constants."""

    make: _Make
    attributes: tuple[str, ...] = ("x",)
    constants: tuple[tuple[str, str], ...] = ()
    """Name and example of each."""
    optional: str | None = None
    any_number: bool = False
    """Whether it takes any number of attributes, and behind them a constant or none."""

    def form(self, name: str) -> str:
        """Return the call as an example, as "quantile(x, 0.95)"."""
        if name == "count":
            return "count(*) or count(x)"
        if name == "count_distinct":
            return "count(distinct x), or count(distinct x, y) for combinations"
        if self.any_number:
            return f"{name}({', '.join(self.attributes)}) or {name}({', '.join(self.attributes)}, 100)"
        plain = f"{name}({', '.join((*self.attributes, *(example for _, example in self.constants)))})"
        if self.optional is None:
            return plain
        return f"{plain} or {name}({', '.join((*self.attributes, self.optional))})"


def _collect_named(*given: str | float) -> AggregateFunction:
    """List the tuples of a window as a query says it: attributes, and behind them how many at most."""
    *columns, last = given
    return _load("Collect")((*columns, last)) if isinstance(last, str) else _load("Collect")(tuple(columns), last)


_SHARE = (("share", "0.05"),)
_QUANTILE = (("q", "0.95"),)
_KNOWN: dict[str, _Known] = {
    "count": _Known(count),
    "sum": _Known(sum),
    "min": _Known(min),
    "max": _Known(max),
    "avg": _Known(avg),
    "variance": _Known(variance),
    "stddev": _Known(stddev),
    "first": _Known(first),
    "last": _Known(last),
    "argmin": _Known(argmin, ("x", "y")),
    "argmax": _Known(argmax, ("x", "y")),
    "count_distinct": _Known(count_distinct),
    "median": _Known(median),
    "quantile": _Known(quantile, constants=_QUANTILE),
    "mode": _Known(mode),
    "top_k": _Known(top_k, constants=(("k", "5"),)),
    "heavy_hitters": _Known(heavy_hitters, constants=_SHARE),
    "minmax": _Known(minmax),
    "m4": _Known(m4, optional="ts"),
    "centre_of_mass": _Known(centre_of_mass, ("x", "w")),
    "mean_gap": _Known(mean_gap),
    "gap_variation": _Known(gap_variation),
    "geometric_mean": _Known(geometric_mean),
    "collect": _Known(_collect_named, ("x", "y"), any_number=True),
    "concat": _Known(concat, optional="ts"),
    "approx_count_distinct": _Known(approx_count_distinct),
    "approx_quantile": _Known(approx_quantile, constants=_QUANTILE),
    "approx_heavy_hitters": _Known(approx_heavy_hitters, constants=_SHARE),
}
_ALIASES = {"mean": "avg", "var": "variance", "std": "stddev"}
_IDEMPOTENT = ("min", "max")
"""Functions to which a value counted twice makes no difference."""


def forms() -> dict[str, str]:
    """Return how each function is called in a query, by its name.

    >>> forms()["quantile"]
    'quantile(x, 0.95)'
    """
    return {name: known.form(name) for name, known in _KNOWN.items()}


def is_function(name: str) -> bool:
    """Return whether there is an aggregate function called `name`, in any case."""
    return _ALIASES.get(name.lower(), name.lower()) in _KNOWN or _percentile(name) is not None


def _percentile(name: str) -> float | None:
    """Return the share that a name such as p95 says, 0.95; None for any other name."""
    digits = name[1:]
    if name[:1].lower() != "p" or not digits.isascii() or not digits.isdigit() or len(digits) > 2 or not int(digits):
        return None
    return int(digits) / 100


def constants(name: str) -> range:
    """Return the places, from 0, at which a function takes numbers instead of attributes: 1 for quantile(x, 0.95)."""
    known = _KNOWN.get(_ALIASES.get(name.lower(), name.lower()))
    if known is None:
        return range(0)
    if known.any_number:
        return range(1, 1 << 16)
    return range(len(known.attributes), len(known.attributes) + len(known.constants))


def by_name(name: str, arguments: Sequence[str | float], *, distinct: bool = False) -> AggregateFunction:
    """Make the function that a query names, in any case; without an argument, or with "*", it counts tuples.

    Arguments are attributes, and numbers at the places that `constants` returns. SchemaError says what to write
    instead.
    """
    plain = _ALIASES.get(name.lower(), name.lower())
    share = _percentile(name)
    if share is not None:
        if distinct or len(arguments) != 1 or not isinstance(arguments[0], str) or arguments[0] == "*":
            raise SchemaError(f"{name} takes one attribute.\n  Write {name}(x); it is quantile(x, {share}).")
        return by_name("quantile", [arguments[0], share])
    if plain not in _KNOWN:
        known = [*_KNOWN, *_ALIASES]
        raise SchemaError(f'there is no aggregate function "{name}".\n  {did_you_mean(name, known)}')
    starred = plain == "count" and not distinct and list(arguments) in ([], ["*"])
    if starred:
        return _load("Count")(None)
    if distinct and plain == "count":
        plain = "count_distinct"
    elif distinct and plain not in (*_IDEMPOTENT, "count_distinct"):
        listed = ", ".join(map(str, arguments))
        raise SchemaError(
            f"{name}(distinct {listed}): only count, min and max take distinct.\n"
            f"  Write count(distinct {listed}), or {name}({listed})."
        )
    wanted = _KNOWN[plain]
    expected = len(wanted.attributes) + len(wanted.constants)
    enough = bool(arguments) if plain == "count_distinct" else len(arguments) == expected
    enough |= wanted.optional is not None and len(arguments) == expected + 1
    enough |= wanted.any_number and bool(arguments)
    listed = ", ".join(map(str, arguments))
    if not enough or "*" in arguments:
        raise SchemaError(
            f"{name}({listed}): {len(arguments)} argument{'' if len(arguments) == 1 else 's'} given.\n"
            f"  Write {wanted.form(plain)}."
        )
    for place, given in enumerate(arguments):
        is_number = isinstance(given, int | float)
        wrong = is_number != (place in constants(plain))
        if wanted.any_number:
            wrong = is_number and not 0 < place == len(arguments) - 1
        if wrong:
            needed = "an attribute" if is_number else "a number"
            raise SchemaError(
                f"{name}({listed}): argument {place + 1} is {given}, and {needed} is needed there.\n"
                f"  Write {wanted.form(plain)}."
            )
    return wanted.make(*arguments)
