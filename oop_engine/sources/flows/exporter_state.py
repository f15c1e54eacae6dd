"""Exporter state: a row a session with its templates, rates, clock, and the next sequence number.

Counters are not part of it, nor data that wait for a template: a decoder that restores a row counts anew, and counts
what its exporter sent in the meantime as lost. Templates are good as long after they were last sent as they always are,
and go when the exporter is seen to have begun anew.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.sessions import NONE, Known, Packed, Sessions
from oop_engine.sources.flows.templates import Field, Template

FACTS: Final = (e.T_EXPECTED, e.T_UPTIME, e.T_BOOT, e.T_EXPORT, e.T_IDLE, e.T_INIT, e.T_RATE)
"""The entries of a session's table that outlive it."""

_TEMPLATE: Final = pa.struct(
    [("number", pa.int64()), ("scopes", pa.int64()), ("options", pa.bool_()), ("expires", pa.int64()),
     ("fields", pa.list_(pa.int64()))]
)  # fmt: skip
SAVED_BEFORE: Final = pa.schema(
    [
        ("address", pa.binary(16)), ("port", pa.int64()), ("version", pa.int64()), ("domain", pa.int64()),
        ("facts", pa.list_(pa.int64())), ("active", pa.int64()), ("inactive", pa.int64()),
        ("samplers", pa.list_(pa.int64())), ("templates", pa.list_(_TEMPLATE)),
    ]
)  # fmt: skip
"""Without who sends for an agent of sFlow; of those nothing is taken up."""
SAVED: Final = SAVED_BEFORE.append(pa.field("sender", pa.binary(16)))


def save_learnt(sessions: Sessions) -> pa.RecordBatch:
    """Return a row of each session but nobody's, those that are refused, and those of connections, which end with who
    reads them; the least used first.

    Cost: a few array operations over the sessions; templates are written out when they change.
    """
    table = sessions.table
    rows = table[1 : len(sessions.known)]
    numbers = np.flatnonzero((rows[:, e.T_REFUSED] == 0) & (rows[:, e.T_PORT] < e.STREAM)) + 1
    numbers = numbers[np.argsort(table[numbers, e.T_USED], kind="stable")]
    every = [sessions.known[number] for number in numbers.tolist()]
    facts = table[np.ix_(numbers, np.array(FACTS))]
    columns = {
        "address": _bytes(sessions.keys[numbers]),
        "port": pa.array(table[numbers, e.T_PORT]),
        "version": pa.array(table[numbers, e.T_VERSION]),
        "domain": pa.array(table[numbers, e.T_DOMAIN]),
        "facts": _lists(np.full(len(numbers), len(FACTS)), pa.array(facts.reshape(-1))),
        "active": pa.array([known.active for known in every], pa.int64()),
        "inactive": pa.array([known.inactive for known in every], pa.int64()),
        "samplers": _samplers(sessions, numbers),
        "templates": _templates(sessions, [packed(known) for known in every]),
        "sender": _bytes(sessions.senders[numbers]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SAVED.names], schema=SAVED)


def _bytes(addresses: NDArray[np.uint64]) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(16), len(addresses), [None, pa.py_buffer(addresses.tobytes())])


def _lists(sizes: NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return lists of these sizes, whose values stand one behind the other."""
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()), values)


def _samplers(sessions: Sessions, numbers: NDArray[np.int64]) -> pa.Array:
    many = sessions.table[numbers, e.T_SAMPLERS]
    some = [sessions.samplers[n, :k].reshape(-1) for n, k in zip(numbers.tolist(), many.tolist(), strict=True) if k]
    return _lists(3 * many, pa.array(np.concatenate(some) if some else np.zeros(0, np.int64)))


def _templates(sessions: Sessions, every: list[Packed]) -> pa.Array:
    some = [packed for packed in every if len(packed.plans)] or [NONE]
    plans, number, scopes, options, fields = (
        np.concatenate([getattr(packed, name) for packed in some])
        for name in ("plans", "number", "scopes", "options", "fields")
    )
    structs = pa.StructArray.from_arrays(
        [
            pa.array(number),
            pa.array(scopes),
            pa.array(options),
            pa.array(sessions.plans.facts[plans, e.P_EXPIRES]),
            _lists(np.concatenate([packed.sizes for packed in some]), pa.array(fields)),
        ],
        fields=list(_TEMPLATE),
    )
    return _lists(np.array([len(packed.plans) for packed in every], np.int64), structs)


def packed(known: Known) -> Packed:
    """Return a session's templates as they are written, put together anew when they changed."""
    if known.packed is None:
        templates = [template for template, _ in known.templates.values()]
        fields = [(f.number, f.length, f.enterprise) for template in templates for f in template.fields]
        known.packed = Packed(
            np.array([plan for _, plan in known.templates.values()], np.int64),
            np.array([template.number for template in templates], np.int64),
            np.array([template.scopes for template in templates], np.int64),
            np.array([template.options for template in templates], np.bool_),
            np.array([3 * len(template.fields) for template in templates], np.int64),
            np.array(fields, np.int64).reshape(-1),
        )
    return known.packed


def template_of(number: int, scopes: int, options: bool, fields: list[int]) -> Template:
    """Return a template; `fields` are number, length and enterprise of each."""
    parts = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return Template(number, tuple(Field(*part) for part in parts), scopes, options)
