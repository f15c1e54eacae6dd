"""Flows that several observers tell of: find what tells flows and observers apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oop_engine.errors import PlanError
from oop_engine.plan.ticks import Amount, length_of, tick_ns
from operators.data.schema import Schema
from operators.rates.dedup import Dedup

OBSERVERS: Final = ("sampling", "direction", "exporter", "domain")
"""What tells where a flow was seen, the more exact ones first."""
_MINUTE: Final = 60 * 10**9


def dedup_of(
    schema: Schema,
    *,
    by: str | Sequence[str],
    keys: str | Sequence[str],
    observers: str | Sequence[str],
    mark: str | None,
    reach: Amount,
    step: Amount | None,
    start: str,
    end: str,
) -> Dedup:
    """Make the operator that finds duplicates in a stream of this schema; parameters as in `Stream.dedup`.

    PlanError when nothing tells observers apart, SchemaError for an unknown attribute.

    >>> schema = oop.Schema.of(ts="int64", end_ts="int64", port="int64", exporter="string")
    >>> options = {"mark": None, "reach": 0, "step": None, "start": "ts", "end": "end_ts"}
    >>> dedup_of(schema, by=(), keys="port", observers=(), **options).observers
    ('exporter',)
    """
    seen = _names(observers) or [name for name in OBSERVERS if name in schema]
    if not seen:
        raise PlanError(
            f"dedup: nothing tells who saw a flow; of {', '.join(OBSERVERS)} the stream has none.\n"
            '  Name the attributes, e.g. dedup(observers=["router"]).'
        )
    field = schema.field(start, where="dedup")
    tick = tick_ns(field.type)
    minute = 1 if tick is None else max(1, _MINUTE // tick)
    return Dedup(
        tuple(dict.fromkeys(schema.resolve(name, where="dedup") for name in (*_names(by), *_names(keys)))),
        tuple(schema.resolve(name, where="dedup") for name in seen),
        mark=mark,
        reach=length_of(reach, field, what="reach", least=0) if reach else 0,
        step=minute if step is None else length_of(step, field, what="step"),
        start=field.name,
        end=schema.resolve(end, where="dedup"),
    )


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
