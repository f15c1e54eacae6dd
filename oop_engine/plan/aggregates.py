"""Aggregate functions and groups, as a user lists them, get the names of their results and of their attributes.

Of functions that are interpreted it is told that they are slow, wherever a plan or a run is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oop_engine.errors import PlanError, SchemaError
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.plan_facts import links
from operators.protocol import Operator


def named_results(
    functions: Sequence[AggregateFunction], named: Mapping[str, AggregateFunction]
) -> dict[str, AggregateFunction]:
    """Return the functions by the names of their results: the keyword, else `count`, `sum_length`, ...

    PlanError where there is none or one is no function, SchemaError for two results of one name.
    """
    _check_functions((*functions, *named.values()))
    results: dict[str, AggregateFunction] = {}
    for name, function in [*((f.output_name(), f) for f in functions), *named.items()]:
        if name in results:
            raise SchemaError(f'aggregate: two results are named "{name}"; name one with a keyword.')
        results[name] = function
    if not results:
        raise PlanError("aggregate needs at least one function, e.g. oop.count()")
    return results


def grouping(schema: Schema, names: str | Sequence[str], call: str, parameter: str) -> tuple[str, ...]:
    """Return the attributes of groups or partitions by their own names.

    SchemaError for one that there is not and for one that is named twice, PlanError for what is no name; both say the
    call and its parameter.
    """
    given = _all(names)
    known = [name for name in given if isinstance(name, str)]
    if len(known) < len(given):
        raise PlanError(
            f"{call}({parameter}={names!r}): the name of an attribute, or several, are wanted.\n"
            f'  Write {parameter}="srcIP" or {parameter}=["srcIP", "destIP"].'
        )
    found = tuple(schema.resolve(name, where=f'{call}({parameter}="{name}")') for name in known)
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise SchemaError(f'{call}({parameter}=...): "{twice}" is named twice; name it once.')
    return found


def _all(names: object) -> tuple[object, ...]:
    """Return what a user without a type checker wrote, one thing or several."""
    if isinstance(names, Iterable) and not isinstance(names, str):
        return tuple(names)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return (names,)


def listed(results: Mapping[str, AggregateFunction]) -> str:
    """Return the functions with their arguments, as plans show them."""
    return ", ".join(f"{f.name}({', '.join(f.arguments) or '*'})" for f in results.values())


def slow(operator: Operator) -> list[str]:
    """Say of each function of an operator that is interpreted, by its name and once, how slow that is.

    Measured for sums and a mean on two small cores: 4 to 7 microseconds for a tuple or a state, 1 to 7 nanoseconds
    compiled; sums of a Parquet file by windows take 20 to 60 times as long as a whole.
    """
    if len(found := links(operator)) > 1 or found[0] is not operator:
        return list(dict.fromkeys(line for one in found for line in slow(one)))
    functions = getattr(operator, "functions", None)
    if not isinstance(functions, Mapping):
        return []
    names = dict.fromkeys(f.name for f in functions.values() if getattr(f, "interpreted", False))
    return [f'user function "{name}" is interpreted, some thousand times slower than compiled' for name in names]


def _check_functions(functions: Sequence[object]) -> None:
    for given in functions:
        if not isinstance(given, AggregateFunction):
            name = given if isinstance(given, str) else getattr(given, "__name__", repr(given))
            raise PlanError(
                f"aggregate takes functions over the tuples of a window, and {name} is none.\n"
                '  Call one: oop.count(), oop.sum("length"), or named, total=oop.sum("length").'
            )
