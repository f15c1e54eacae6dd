"""The whole state of a decoder: sessions with their counters, templates, sequence numbers and data that wait.

A decoder that takes it up reads what follows as the one would have that was saved. `exporter_state` keeps less: what
exporters taught, without counters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.exporter_names import Named
from oop_engine.sources.flows.exporter_state import packed, template_of
from oop_engine.sources.flows.sessions import MOST_SESSIONS, NONE, Held, Known, Sessions
from oop_engine.sources.flows.templates import Template
from operators.data.saved import bounded, read_array, read_batch, read_int, read_integers
from operators.protocol import State, StateValue
from punctuation import NO_TIME

Compile = Callable[[int, Template], None]
"""Compiles the plan of this number."""
_ROWS: Final = ("keys", "senders", "table", "recent", "gaps", "read", "drops", "samplers")
"""Arrays of a row a session."""
_COUNTS: Final = ("evicted", "evicted_templates", "revision")
_FACTS: Final = (e.P_EXPIRES, e.P_USED, e.P_BORN, e.P_KIND)
_HELD: Final = pa.schema(
    [
        ("session", pa.int64()), ("template", pa.int64()), ("since", pa.int64()), ("body", pa.binary()),
        ("head", pa.binary()), ("address", pa.binary(16)),
    ]
)  # fmt: skip
_NAMES: Final = pa.schema(
    [
        ("session", pa.int64()), ("kind", pa.string()), ("key", pa.binary()), ("name", pa.string()),
        ("description", pa.string()), ("at", pa.int64()),
    ]
)  # fmt: skip


def save_sessions(sessions: Sessions) -> State:
    """Return all that is known of sessions, of which it shares nothing. Cost: a copy of some 20 KB a session."""
    many = len(sessions.known)
    state: State = {name: getattr(sessions, name)[:many].copy() for name in _ROWS}
    state |= {name: getattr(sessions, name) for name in _COUNTS}
    state |= {"allowances": sessions.allowances.copy(), "forgotten": sessions.forgotten.copy()}
    every = [packed(known) if known.templates else NONE for known in sessions.known]
    for name in ("number", "scopes", "options", "sizes", "fields"):
        state[f"templates.{name}"] = np.concatenate([getattr(one, name) for one in every]).astype(np.int64)
    plans = np.concatenate([one.plans for one in every])
    state["templates.session"] = np.repeat(np.arange(many), [len(one.plans) for one in every])
    state["templates.facts"] = sessions.plans.facts[np.ix_(plans, np.array(_FACTS))]
    rates = [(number, place) for number, known in enumerate(sessions.known) for place in known.rates.values()]
    state["rates"] = np.array(rates, np.int64).reshape(-1, 2)
    spans = [(known.active, known.inactive) for known in sessions.known]
    state["timeouts"] = np.array([[NO_TIME if s is None else s for s in both] for both in spans], np.int64)
    waiting = [
        (number, h.template, h.since, h.body, h.head.tobytes(), h.address.tobytes())
        for number, known in enumerate(sessions.known)
        for h in known.held
    ]
    columns = zip(*waiting, strict=True) if waiting else ((),) * len(_HELD)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, _HELD, strict=True)]
    names = [
        {"session": number, **attrs.asdict(named), "at": at}
        for number, known in enumerate(sessions.known)
        for named, at in known.names.values()
    ]
    if names or sessions.unnamed:
        # Only where somebody looks names up; states from before have none.
        state |= {"names": pa.RecordBatch.from_pylist(names, schema=_NAMES), "unnamed": sessions.unnamed}
    return {**state, "held": pa.RecordBatch.from_arrays(arrays, schema=_HELD)}


def restore_sessions(sessions: Sessions, state: Mapping[str, StateValue], compile_plan: Compile) -> None:
    """Make fresh sessions those that were saved; ValueError where that cannot be."""
    table = read_array(state, "table", like=sessions.table)
    many = len(table)
    if not 1 <= many <= MOST_SESSIONS + 1:
        raise ValueError(f"the saved state has {many} sessions, and there are 1 to {MOST_SESSIONS + 1}")
    sessions.make_rows(many)
    for name in _ROWS:
        array = getattr(sessions, name)
        saved = read_array(state, name, like=array)
        array[:many] = bounded(saved, name, least=None, below=None, length=many)
    _check(sessions, many)
    for name in ("allowances", "forgotten"):
        array = getattr(sessions, name)
        array[:] = bounded(read_array(state, name, like=array), name, least=None, below=None, length=len(array))
    sessions.known = [Known() for _ in range(many)]
    timeouts = read_integers(state, "timeouts", width=2, length=many)
    for known, (active, inactive) in zip(sessions.known, timeouts.tolist(), strict=True):
        known.active = None if active == NO_TIME else active
        known.inactive = None if inactive == NO_TIME else inactive
    for number, place in read_integers(state, "rates", width=2, least=0).tolist():
        kind, key, _ = sessions.samplers[number, place].tolist()
        sessions.known[number].rates[kind, key] = place
    sessions.index_all()
    _restore_templates(sessions, state, compile_plan)
    # Templates that are learnt make it forget what was read.
    sessions.read[:many] = read_array(state, "read", like=sessions.read)
    for name in _COUNTS:
        setattr(sessions, name, read_int(state, name))
    _restore_held(sessions, read_batch(state, "held"))
    if "names" in state:
        sessions.unnamed = read_int(state, "unnamed", least=0)
        _restore_names(sessions, read_batch(state, "names"))


def _check(sessions: Sessions, many: int) -> None:
    """Refuse rows whose entries lead out of their arrays."""
    table = sessions.table[:many]
    within = {
        e.T_RECENT: sessions.recent.shape[1],
        e.T_GAPS: sessions.gaps.shape[1] // 2 + 1,
        e.T_SAMPLERS: sessions.samplers.shape[1] + 1,
        e.T_READ: sessions.read.shape[1],
        e.T_ALLOWANCE: len(sessions.allowances),
    }
    for entry, below in within.items():
        bounded(table[:, entry], f"table {entry}", below=below)


def _restore_templates(sessions: Sessions, state: Mapping[str, StateValue], compile_plan: Compile) -> None:
    whose = read_integers(state, "templates.session", least=0, below=len(sessions.known))
    number, scopes, options, sizes = (
        read_integers(state, f"templates.{name}", length=len(whose))
        for name in ("number", "scopes", "options", "sizes")
    )
    facts = read_integers(state, "templates.facts", width=len(_FACTS), length=len(whose))
    fields, ends = read_integers(state, "templates.fields"), np.cumsum(sizes)
    # In the order in which they were learnt.
    for k in np.argsort(facts[:, _FACTS.index(e.P_BORN)], kind="stable").tolist():
        expires, used, born, kind = facts[k].tolist()
        own: list[int] = fields[ends[k] - sizes[k] : ends[k]].tolist()
        template = template_of(int(number[k]), int(scopes[k]), bool(options[k]), own)
        plan = sessions.plans.add(template.number, expires, used)
        sessions.plans.facts[plan, e.P_BORN] = born
        sessions.learn(int(whose[k]), template, plan)
        if kind != e.K_RAW:
            compile_plan(plan, template)
    if len(whose):
        sessions.plans.born = int(facts[:, _FACTS.index(e.P_BORN)].max())


def _restore_names(sessions: Sessions, names: pa.RecordBatch) -> None:
    if not names.schema.equals(_NAMES):
        raise ValueError(f"names of exporters are saved as {_NAMES}, not as {names.schema}")
    whose = bounded(np.asarray(names.column("session"), np.int64), "names", below=len(sessions.known))
    for session, row in zip(whose.tolist(), names.to_pylist(), strict=True):
        named = Named(row["kind"], row["key"], row["name"], row["description"])
        sessions.known[session].names[named.kind, named.key] = named, row["at"]


def _restore_held(sessions: Sessions, held: pa.RecordBatch) -> None:
    if not held.schema.equals(_HELD):
        raise ValueError(f"data that wait are saved as {_HELD}, not as {held.schema}")
    for known in sessions.known:
        known.held = deque()
    for row in held.to_pylist():
        known, head = sessions.known[row["session"]], np.frombuffer(row["head"], np.int64).copy()
        if len(head) in e.H_WIDTHS_BEFORE:
            head = np.concatenate([head, np.zeros(e.H_WIDTH - len(head), np.int64)])
            head[e.H_SEQUENCE] = -1
        bounded(head, "head", least=None, below=None, length=e.H_WIDTH)
        address = np.frombuffer(row["address"], np.uint64).copy()
        known.held.append(Held(row["template"], row["body"], head, address, row["since"]))
        known.held_bytes += len(row["body"])
