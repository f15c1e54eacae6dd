"""Every aggregate function with the types it takes, values of each that lie at the edges, and its naive twin."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import attrs
import pyarrow as pa

from operators import functions as fn
from operators.data.schema import IP_METADATA, IP_TYPE
from operators.functions import AggregateFunction
from tests import naive_functions as naive

IPS = [bytes(10) + b"\xff\xff" + bytes(q) for q in ([0, 0, 0, 1], [127, 0, 0, 1], [128, 0, 0, 0])] + [
    b"\x7f" + bytes(15),
    b"\x80" + bytes(15),
    b"\xff" * 16,
]
WHOLE = [*range(-3, 4), -(1 << 53) - 1, (1 << 53) + 1, 1 << 40]
FLOAT = [0.0, -0.0, 1.5, -2.0, 3.25, math.nan, math.inf, -math.inf]
TAME = [0.0, -0.0, 1.5, -2.0, 3.25, 1e6]
TEXT = ["", "a", "ab", "b", "ä", "a\x00"]
DOMAIN: dict[str, tuple[pa.Field, list[object]]] = {
    "int64": (pa.field("x", pa.int64()), WHOLE),
    "int64 edge": (pa.field("x", pa.int64()), [-(1 << 63), -1, 0, (1 << 63) - 1]),
    "uint64": (pa.field("x", pa.uint64()), [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]),
    "small uint64": (pa.field("x", pa.uint64()), list(range(10))),
    "int8": (pa.field("x", pa.int8()), [-128, -1, 0, 5, 127]),
    "uint32": (pa.field("x", pa.uint32()), [0, 7, (1 << 32) - 1]),
    "bool": (pa.field("x", pa.bool_()), [False, True]),
    "float64": (pa.field("x", pa.float64()), FLOAT),
    "tame float64": (pa.field("x", pa.float64()), TAME),
    "weight": (pa.field("x", pa.float64()), [0.25, 1.0, 2.0, 1e-3]),
    "float32": (pa.field("x", pa.float32()), FLOAT),
    "timestamp": (pa.field("x", pa.timestamp("ns", "UTC")), list(range(-5, 6))),
    "duration": (pa.field("x", pa.duration("us")), list(range(-9, 10))),
    "date32": (pa.field("x", pa.date32()), list(range(-5, 6))),
    "date64": (pa.field("x", pa.date64()), [d * 86_400_000 for d in range(-5, 6)]),
    "time32": (pa.field("x", pa.time32("s")), list(range(6))),
    "ip": (pa.field("x", IP_TYPE, metadata=IP_METADATA), IPS),
    "binary(3)": (pa.field("x", pa.binary(3)), [b"aaa", b"aab", b"\xff\x00\x00"]),
    "string": (pa.field("x", pa.string()), TEXT),
    "large_string": (pa.field("x", pa.large_string()), TEXT),
    "string_view": (pa.field("x", pa.string_view()), TEXT),
    "dictionary": (pa.field("x", pa.dictionary(pa.int8(), pa.string())), TEXT),
    "binary": (pa.field("x", pa.binary()), [b"", b"\x00", b"\xff", b"a"]),
    "decimal": (pa.field("x", pa.decimal128(5, 2)), [Decimal("-1.50"), Decimal("0.25"), Decimal("9")]),
    "list": (pa.field("x", pa.list_(pa.int64())), [[], [0], [1], [0, 1], [2, 2]]),
}
KEYED = ["int64 edge", "uint64", "int8", "bool", "float64", "float32", "timestamp", "duration", "date32", "time32"]
WEIGHTS = ["small uint64", "uint64", "int8", "int64 edge", "bool"]
FLOATING_MASS = [("tame float64", "weight"), ("int8", "weight"), ("tame float64", "uint32"), ("float64", "uint32")]
POSITIVE = ["uint32", "weight", "float64", "bool"]
ADDING = ["int64", "int8", "uint32", "small uint64", "bool", "float64", "float32", "duration"]
ORDERED = [name for name in DOMAIN if name not in ("list",)]
COUNTABLE = [name for name in DOMAIN if name not in ("list",)]


MEAN = fn.user_aggregate(
    "users_mean",
    lambda x: (x, 1),
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda s: s[0] / s[1],
    invert=lambda a, b: (a[0] - b[0], a[1] - b[1]),
    arguments="x",
    identity=(0, 0),
    output=pa.float64(),
)
SPREAD = fn.user_aggregate(
    "users_spread",
    lambda x: (x, x),
    lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
    lambda s: None if s[0] == s[1] else s[1] - s[0],
    arguments="x",
    identity=(math.inf, -math.inf),
    output=pa.float64(),
)
DOT = fn.user_aggregate(
    "users_dot",
    lambda x, y: x * y,
    lambda a, b: a + b,
    invert=lambda a, b: a - b,
    arguments=("x", "y"),
    identity=0,
    output=pa.int64(),
)
SLOW_DOT = attrs.evolve(DOT, name="users_slow_dot", interpreted=True, verbs={})


def naive_spread(rows: naive.Rows) -> object:
    found = [float(v) for v in naive.values(rows)]
    return max(found) - min(found) if found and min(found) != max(found) else None


def naive_dot(rows: naive.Rows) -> object:
    found = [x * y for x, y in rows if x is not None and y is not None]
    return sum(found) if found else None


@attrs.frozen
class Case:
    """A function, the domains of its arguments, and its naive twin."""

    function: AggregateFunction
    domains: tuple[str, ...]
    naive: naive.Naive
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(self.domains)})"


def cases() -> list[Case]:
    found = [
        Case(fn.count(), ("int64",), naive.naive_count_all),
        *(Case(fn.count("x"), (d,), naive.naive_count) for d in DOMAIN),
        *(Case(fn.sum("x"), (d,), naive.naive_sum) for d in ADDING),
        *(Case(fn.avg("x"), (d,), naive.naive_avg) for d in [*ADDING, "uint64", "int64 edge"] if d != "duration"),
        Case(fn.avg("x"), ("duration",), naive.naive_avg_ticks),
        *(Case(fn.min("x"), (d,), naive.naive_min) for d in ORDERED),
        *(Case(fn.max("x"), (d,), naive.naive_max) for d in ORDERED),
        *(Case(fn.first("x"), (d,), naive.naive_first) for d in DOMAIN),
        *(Case(fn.last("x"), (d,), naive.naive_last) for d in DOMAIN),
    ]
    for domain in ("int64", "float64", "tame float64", "bool", "small uint64"):
        for ddof in (0, 1):
            found.append(Case(fn.variance("x", ddof=ddof), (domain,), naive.naive_variance(ddof), exact=False))
            found.append(Case(fn.stddev("x", ddof=ddof), (domain,), naive.naive_stddev(ddof), exact=False))
    for value in ("int64 edge", "float64", "ip", "string", "dictionary", "list"):
        for by in ("int64 edge", "uint64", "float64", "timestamp", "ip", "string"):
            if value == "list":
                least, greatest = naive.naive_argmin_unordered, naive.naive_argmax_unordered
            else:
                least, greatest = naive.naive_argmin, naive.naive_argmax
            found.append(Case(fn.argmin("x", "y"), (value, by), least))
            found.append(Case(fn.argmax("x", "y"), (value, by), greatest))
    found += [Case(fn.count_distinct("x"), (d,), naive.naive_count_distinct) for d in COUNTABLE]
    found += [
        Case(fn.count_distinct("x", "y"), pair, naive.naive_count_distinct)
        for pair in (("int64", "string"), ("ip", "float64"), ("decimal", "ip"))
    ]
    for domain in KEYED:
        found.append(Case(fn.median("x"), (domain,), naive.naive_quantile("0.5")))
        found += [Case(fn.quantile("x", q), (domain,), naive.naive_quantile(str(q))) for q in (0, 0.05, 0.7, 1.0)]
        found.append(Case(fn.minmax("x"), (domain,), naive.naive_minmax))
        found.append(Case(fn.m4("x"), (domain,), naive.naive_m4))
        found += [Case(fn.m4("x", "y"), (domain, by), naive.naive_m4) for by in ("timestamp", "float64")]
    for domain in COUNTABLE:
        found.append(Case(fn.mode("x"), (domain,), naive.naive_mode))
        found += [Case(fn.top_k("x", k), (domain,), naive.naive_top(k)) for k in (1, 3)]
        found += [Case(fn.heavy_hitters("x", s), (domain,), naive.naive_heavy(str(s))) for s in (0.2, 0.35, 1.0)]
    for value in ("int64", "int64 edge", "uint64", "bool", "duration"):
        centre = naive.naive_centre_ticks if value == "duration" else naive.naive_centre
        weights = [by for by in WEIGHTS if (value, by) != ("duration", "int64 edge")]
        found += [Case(fn.centre_of_mass("x", "y"), (value, by), centre) for by in weights]
    found += [Case(fn.centre_of_mass("x", "y"), pair, naive.naive_centre, exact=False) for pair in FLOATING_MASS]
    for domain in ("int64", "int8", "small uint64", "timestamp", "duration"):
        timed = domain in ("timestamp", "duration")
        found.append(Case(fn.mean_gap("x"), (domain,), naive.naive_mean_gap(timed)))
        found.append(Case(fn.gap_variation("x"), (domain,), naive.naive_gap_variation, exact=False))
    found += [Case(fn.geometric_mean("x"), (d,), naive.naive_geometric_mean, exact=False) for d in POSITIVE]
    for domain in ("string", "large_string", "string_view", "dictionary", "binary"):
        found.append(Case(fn.concat("x"), (domain,), naive.naive_concat("")))
        found += [
            Case(fn.concat("x", "y", separator=", "), (domain, by), naive.naive_concat(", "))
            for by in ("int64", "timestamp", "float64")
        ]
    for pair in [("int64", "string"), ("timestamp", "float64"), ("float32", "ip"), ("decimal", "bool")]:
        fields = [DOMAIN[domain][0].with_name(name) for domain, name in zip(pair, "xy", strict=True)]
        found += [Case(fn.collect("x", "y", most=m), pair, naive.naive_collect(fields, m)) for m in (1, 3, 100)]
    found += [Case(MEAN, (d,), naive.naive_avg) for d in ("int8", "uint32", "bool")]
    found += [Case(SPREAD, (d,), naive_spread) for d in ("int8", "tame float64")]
    found += [Case(DOT, ("int8", "int8"), naive_dot), Case(SLOW_DOT, ("int8", "bool"), naive_dot)]
    return found


def same(case: Case, found: object, wanted: object) -> bool:
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(case, found[key], wanted[key]) for key in found)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(same(case, f, w) for f, w in zip(found, wanted, strict=True))
    if isinstance(found, float) and isinstance(wanted, float | int) and not isinstance(wanted, bool):
        if not case.exact:
            return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(found) and math.isnan(wanted))
        # By its text, for NaN is NaN and -0.0 is not 0.0.
        return repr(found) == repr(float(wanted))
    return found == wanted


def plain(array: pa.Array) -> list[object]:
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [plain(array.field(i)) for i in range(kind.num_fields)]
        rows = [dict(zip([f.name for f in kind], values, strict=True)) for values in zip(*parts, strict=True)]
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        values, offsets = plain(array.flatten()), array.offsets.to_pylist()
        return [values[a - offsets[0] : b - offsets[0]] for a, b in itertools.pairwise(offsets)]
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.view(pa.int32()).to_pylist()
    return (array.view(pa.int64()) if pa.types.is_temporal(kind) else array).to_pylist()


def skipped(case: Case, values: naive.Row) -> bool:
    """Tell whether a function skips a tuple for a null, and counts it."""
    if not case.function.arguments or case.function.name == "collect":
        return False
    if case.function.name in ("argmin", "argmax"):
        return values[1] is None
    return None in values
