"""Sessions fire before they are over: `window(oop.session(...)).aggregate(..., early="10 s")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from oop_engine.api.early import Early
from oop_engine.api.early_kinds import by_trigger
from oop_engine.errors import PlanError
from oop_engine.plan.aggregates import listed
from oop_engine.plan.strategies import Strategy
from oop_engine.plan.ticks import Amount, length_of, ticks_of
from oop_engine.plan.windows import Windowing, amount_text, window_remarks, window_text
from oop_engine.rewrite.state_size import state_size
from oop_engine.rewrite.steps import Step
from oop_engine.rewrite.strategy import Windows
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.window.session import SessionWindow
from operators.window_aggregate.early.sessions import EarlySessions
from operators.window_aggregate.triggers.condition import Leaf, leaves, replaced
from operators.window_aggregate.triggers.promised import At, Every, Lull, Promised
from operators.window_aggregate.triggers.sessions import TriggeredSessions


def sessions_of(windows: Windows) -> tuple[Windows, Mapping[str, SessionWindow]]:
    """Return the windows that are no sessions, and those that are, by name.

    - `windows`: windows of any kinds by name.

    >>> others, sessions = sessions_of({"talk": SessionWindow("ts", gap=5)})
    >>> list(others), list(sessions)
    ([], ['talk'])
    """
    sessions = {name: window for name, window in windows.items() if isinstance(window, SessionWindow)}
    return {name: window for name, window in windows.items() if name not in sessions}, sessions


def check(early: Early, windows: Windows, schema: Schema, *, named: bool) -> None:
    """Refuse early results on event time that windows cannot give.

    - `early`: when they fire.
    - `windows`: windows of any kinds by name.
    - `schema`: that of the stream.
    - `named`: results bear the names of their windows.

    PlanError with the window, and what to write instead.
    """
    if by_trigger(early, windows.values(), schema):
        return
    others, sessions = sessions_of(windows)
    if others:
        early.parts(others, schema, named=named)
    for window in sessions.values():
        _times(early, window, schema)


def early_session(
    early: Early,
    window: SessionWindow,
    schema: Schema,
    functions: Mapping[str, AggregateFunction],
    by: Sequence[str],
    *,
    strategy: Strategy,
    late: Amount,
) -> Step:
    """Return the operator whose sessions fire at times behind their begin; PlanError where they cannot.

    - `early`: when they fire.
    - `window`, `schema`: the sessions, and the stream that they are over.
    - `functions`, `by`: what to compute, by the names of the results, for each group.
    - `strategy`, `late`: the strategy and the lateness that were asked for.
    """
    every, after = _times(early, window, schema)
    if ticks_of(late, schema.field(window.wattr, where="early"), what="lateness"):
        raise PlanError(
            "aggregate(early=..., lateness=...): with a lateness, sessions fire behind the promise that reaches a tick,"
            " and other\n  windows here at the tick itself. Aggregate the sessions by themselves; or leave lateness"
            " out."
        )
    _check_options(strategy)
    discards = early.refine == "discard"
    operator = EarlySessions(window, functions, by, every=every, after=after, discards=discards)
    remarks = (
        *window_remarks(window, schema),
        f"sessions give what they have so far {early}, from their begin on",
        "tuples wait, as partial aggregates, until their order is final; then it is one a session and group",
        state_size("sessions", window, functions, tuple(by), schema),
    )
    return Step(operator, _label(window, schema, functions, by), remarks)


def triggered_session(
    early: Early,
    window: SessionWindow,
    schema: Schema,
    functions: Mapping[str, AggregateFunction],
    by: Sequence[str],
    *,
    strategy: Strategy,
    late: Amount,
) -> Step:
    """Return the operator whose sessions fire as a trigger says; PlanError where they cannot.

    - `early`: when they fire.
    - `window`, `schema`: the sessions, and the stream that they are over.
    - `functions`, `by`: what to compute, by the names of the results, for each group.
    - `strategy`, `late`: the strategy and the lateness that were asked for.
    """
    where = window_text(window, schema)
    for leaf in leaves(early.when.condition):
        if isinstance(leaf, Promised):
            raise PlanError(
                f"aggregate(early=...): {where} does not fire {leaf}: promises end sessions, and show where they begin."
                "\n  Leave that out of the trigger: rows, ticks, lulls, events and a clock fire sessions."
            )
    for name, given in (("events", early.events), ("interval", early.interval)):
        if given is not None:
            raise PlanError(
                f"aggregate(early=oop.early({name}=...)): {where} has no length of its own, and {name} are for windows"
                f" that have.\n  Leave {name} out{'; fire events by running.fire' if name == 'events' else ''}."
            )
    _check_options(strategy)
    discards = early.refine == "discard"
    lateness = length_of(late, schema.field(window.wattr, where="early"), what="lateness", least=0)
    if lateness and discards:
        raise PlanError(
            'aggregate(early=..., lateness=..., refine="discard"): a late tuple may join two sessions, which is no'
            ' result of its own.\n  Write refine="retract", in text RETRACT; or leave lateness out.'
        )
    condition = replaced(early.when.condition, lambda leaf: _of_session(leaf, window, schema))
    options: dict[str, Any] = {"condition": condition, "discards": discards, "lateness": lateness}
    operator = TriggeredSessions(window, functions, by, **options)
    remarks = [
        *window_remarks(window, schema),
        f"sessions give what they have so far {early}, once all tuples before their begin are promised",
        "such a result depends on the order of arrival, the final one does not",
        state_size("sessions", window, functions, tuple(by), schema),
        f"and {144 if lateness else 120} bytes for each open session: what it has seen since it fired",
    ]
    if lateness:
        text = amount_text(lateness, window, schema)
        remarks.append(f"late tuples change sessions up to {text} after their end; so long they are held")
    return Step(operator, _label(window, schema, functions, by), tuple(remarks))


def _of_session(leaf: Leaf, window: SessionWindow, schema: Schema) -> Leaf:
    """Return a part of a condition as a session has it; PlanError for a lull that ends it, and for a share."""
    if isinstance(leaf, Every | At):
        return attrs.evolve(leaf, ticks=_behind_begin(leaf, window, schema))
    if not isinstance(leaf, Lull):
        return leaf
    ticks = ticks_of(cast("Amount", leaf.amount), schema.field(window.wattr, where="early"), what="a lull")
    if ticks >= window.gap:
        raise PlanError(
            f"aggregate(early=...): {leaf} {window_text(window, schema)} is over, so that it does not fire.\n"
            "  Write a lull that is shorter than the gap."
        )
    return attrs.evolve(leaf, ticks=ticks)


def _label(window: Windowing, schema: Schema, functions: Mapping[str, AggregateFunction], by: Sequence[str]) -> str:
    grouped = f" by {', '.join(by)}" if by else ""
    return f"aggregate {listed(functions)}{grouped} {window_text(window, schema)}"


def _check_options(strategy: Strategy) -> None:
    """Refuse what sessions that give early results do not have."""
    if strategy.name != "auto":
        raise PlanError(
            f'aggregate(early=..., strategy="{strategy.name}"): there is one way to compute sessions that give early'
            " results.\n  Leave strategy out."
        )


def _times(early: Early, window: Windowing, schema: Schema) -> tuple[int, tuple[int, ...]]:
    """Return how often sessions fire, in ticks, 0 for never, and how many ticks behind their begin besides."""
    every: list[int] = []
    after: list[int] = []
    for leaf in leaves(early.when.condition):
        assert isinstance(leaf, Every | At)
        (every if isinstance(leaf, Every) else after).append(_behind_begin(leaf, window, schema))
    if len(every) > 1:
        raise PlanError(
            f"aggregate(early=...): {window_text(window, schema)} fires at one pace, and {len(every)} are given.\n"
            "  Leave all but one out."
        )
    return sum(every), tuple(after)


def _behind_begin(leaf: Every | At, window: Windowing, schema: Schema) -> int:
    """Return how many ticks behind its begin a session fires, first; PlanError for a share of it."""
    amount = leaf.amount
    if isinstance(amount, float):
        raise PlanError(
            f"aggregate(early=...): how long {window_text(window, schema)} lasts is not known before it is over, so"
            f' {amount} of it\n  is no time. Write how long after its begin it fires, as at="10 s", in text EARLY 10 s.'
        )
    what = "the time between early results" if isinstance(leaf, Every) else "the time of an early result"
    return length_of(cast("Amount", amount), schema.field(window.wattr, where="early"), what=what)
