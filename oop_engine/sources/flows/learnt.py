"""What exporters have taught a decoder is a row a session: templates, rates, clock, and the sequence number to come.

What was counted is not part of it, nor what waits for its template: a decoder that takes a row up counts anew, and what
its exporter sent in the meantime as lost. Templates are good as long after they were last sent as they always are, and
go when the exporter is seen to have begun anew.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.sessions import Sessions
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
    """Give a row of each session but nobody's and those that are refused, the least used first."""
    table = sessions.table
    numbers = [n for n in range(1, len(sessions.known)) if not table[n, e.T_REFUSED]]
    numbers.sort(key=lambda n: int(table[n, e.T_USED]))
    return pa.RecordBatch.from_pylist([_row(sessions, n) for n in numbers], schema=SAVED)


def _row(sessions: Sessions, number: int) -> dict[str, object]:
    row, known = sessions.table[number], sessions.known[number]
    return {
        "address": sessions.keys[number].tobytes(),
        "sender": sessions.senders[number].tobytes(),
        "port": int(row[e.T_PORT]),
        "version": int(row[e.T_VERSION]),
        "domain": int(row[e.T_DOMAIN]),
        "facts": [int(row[fact]) for fact in FACTS],
        "active": known.active,
        "inactive": known.inactive,
        "samplers": sessions.samplers[number, : row[e.T_SAMPLERS]].reshape(-1).tolist(),
        "templates": [
            {
                "number": template.number,
                "scopes": template.scopes,
                "options": template.options,
                "expires": int(sessions.plans.facts[plan, e.P_EXPIRES]),
                "fields": [part for f in template.fields for part in (f.number, f.length, f.enterprise)],
            }
            for template, plan in known.templates.values()
        ],
    }


def template_of(number: int, scopes: int, options: bool, fields: list[int]) -> Template:
    """Give back a template; `fields` are number, length and enterprise of each."""
    parts = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return Template(number, tuple(Field(*part) for part in parts), scopes, options)
