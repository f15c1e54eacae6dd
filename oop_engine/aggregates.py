"""Aggregate functions, as a user lists them, get the names of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oop_engine.errors import PlanError, SchemaError
from operators.functions.protocol import AggregateFunction


def named_results(
    functions: Sequence[AggregateFunction], named: Mapping[str, AggregateFunction]
) -> dict[str, AggregateFunction]:
    """Give the functions by the names of their results: the keyword, else `count`, `sum_length`, ...

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


def listed(results: Mapping[str, AggregateFunction]) -> str:
    """Give the functions with their arguments, as plans show them."""
    return ", ".join(f"{f.name}({', '.join(f.arguments) or '*'})" for f in results.values())


def _check_functions(functions: Sequence[object]) -> None:
    for given in functions:
        if not isinstance(given, AggregateFunction):
            name = given if isinstance(given, str) else getattr(given, "__name__", repr(given))
            raise PlanError(
                f"aggregate takes functions over the tuples of a window, and {name} is none.\n"
                '  Call one: oop.count(), oop.sum("length"), or named, total=oop.sum("length").'
            )
