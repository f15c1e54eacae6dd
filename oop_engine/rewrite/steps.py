"""Make the operators that compute a window aggregate as its strategy says, with what `explain` shows of them.

The operators of a strategy are imported when it is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.strategies import STRATEGIES, cost_of, flush_of
from oop_engine.plan.windows import Windowing, amount_text, gaps, window_remarks, window_text
from oop_engine.rewrite.state_size import state_size
from oop_engine.rewrite.strategy import Choice, LogicalAggregate, chosen
from operators.chain import Chain
from operators.data.schema import Schema
from operators.expression import Column
from operators.protocol import Operator
from operators.rows.project import Project
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import FixedBandWindow
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.bucket import FROM, UNTIL, Bucket
from operators.window_aggregate.stores.per_window.paned import split
from operators.window_aggregate.stores.per_window.wid import WindowAggregate

if TYPE_CHECKING:
    from operators.window_aggregate.partial_final import TwoLevel
    from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
    from operators.window_aggregate.stores.slices.windows import Spec
    from operators.window_aggregate.strategy import Technique
    from operators.window_aggregate.triggers.condition import Condition

_LISTED: Final = 12
"""So many windows at most are told by name."""


@attrs.frozen
class Step:
    """One operator of the plan, with its label and remarks."""

    operator: Operator
    label: str
    remarks: tuple[str, ...] = ()


def steps(logical: LogicalAggregate, schema: Schema, choice: Choice | None = None) -> Sequence[Step]:
    """Return the operators over a stream of this schema; PlanError when the strategy does not fit what is wanted.

    `choice`: what was `chosen` for this, if it was.
    """
    choice = choice or chosen(logical, schema)
    if logical.strategy == "auto":
        # They have helped to choose.
        logical = attrs.evolve(logical, options={})
    match choice.strategy:
        case "ranked":
            return _ranked(logical, schema)
        case "slicing":
            return _slicing(logical, schema, choice.why)
        case "stacks":
            return _stacks(logical, schema, choice.why)
        case "two_level":
            return two_levels(logical, schema)[0]
        case strategy:
            return _bucketed(logical, schema, strategy, choice.why)


def _bucketed(logical: LogicalAggregate, schema: Schema, strategy: str, why: str) -> Sequence[Step]:
    bucket, step = _bucket(logical, schema)
    window, functions, by = bucket.window, logical.functions, logical.by
    if logical.condition is not None:
        # What counts tuples, or leaves a late one out of all its windows, is told by a Bucket alone.
        tagged = isinstance(window, PartitionedWindow | LandmarkWindow) or logical.consistent
        triggered = _triggered(logical, window, schema, tagged=tagged)
        if tagged:
            return (step, triggered)
        label = f"{triggered.label} {window_text(window, schema)}"
        return (attrs.evolve(triggered, label=label, remarks=(*step.remarks, *triggered.remarks)),)
    if strategy == "negative":
        return (step, *_negative(logical, window, schema, why))
    aggregate: Operator
    match strategy:
        case "adaptive" | "adaptive_panes":
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.baselines.adaptive.adaptive import AdaptiveAggregate

            panes = strategy.endswith("panes")
            options: dict[str, Any] = {
                name: logical.options[name] for name in logical.options if name not in ("aggr", "tup")
            }
            cost = cost_of(logical.options)
            if cost is not None:
                options |= {"cost": cost, "band": cost.band}
            aggregate = AdaptiveAggregate(window, functions, by, panes=panes, **options)
        case "buffer" | "buffer_panes":
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.baselines.buffer.aggregate import BufferAggregate

            aggregate = BufferAggregate(window, functions, by, panes=strategy.endswith("panes"))
        case "wid" | "panes" | "differential" | "two_stacks":
            aggregate = WindowAggregate(window, functions, by, empty=logical.empty, strategy=strategy)
        case _:
            aggregate = WindowAggregate(window, functions, by, empty=logical.empty)
    how = STRATEGIES["panes"].partition(",")[0] if strategy == "auto" else STRATEGIES[strategy]
    remarks = [
        f"strategy {'panes' if strategy == 'auto' else strategy}: {how}; {why}",
        *_panes(window, schema, strategy),
    ]
    remarks.append(state_size(strategy, window, functions, by, schema))
    return (step, Step(aggregate, logical.label(), tuple(remarks)))


def _triggered(logical: LogicalAggregate, window: Window, schema: Schema, *, tagged: bool) -> Step:
    """Return the operator whose windows fire when a condition holds; `tagged`: whether a Bucket is in front."""
    # Start-up: few windows fire as tuples arrive.
    from operators.window_aggregate.triggers.aggregate import TriggeredAggregate

    assert logical.condition is not None
    functions, by = logical.functions, logical.by
    if isinstance(window, LandmarkWindow):
        return _triggered_landmark(logical, window, schema)
    options: dict[str, Any] = {"condition": logical.condition, "tagged": tagged}
    if logical.interval is None:
        options |= {"discards": logical.discards, "lateness": logical.lateness}
        aggregate = TriggeredAggregate(window, functions, by, **options)
    else:
        # Start-up: few windows estimate what is still missing.
        from operators.window_aggregate.triggers.interval import IntervalAggregate

        aggregate = IntervalAggregate(window, functions, by, interval=logical.interval, **options)
    remarks = (
        *_fires(logical),
        f"strategy wid: {STRATEGIES['wid']}",
        state_size("wid", window, functions, by, schema),
        "and 56 bytes for each window and group: what it has seen since it fired",
    )
    if logical.lateness:
        late = amount_text(logical.lateness, window, schema)
        remarks += (f"late tuples change windows up to {late} after their end, at the next promise; 16 bytes each",)
    if logical.interval is not None:
        remarks += (f"early results have an interval that holds the final value in {logical.interval:.4g} of all",)
    return Step(aggregate, logical.label(), remarks)


def _triggered_landmark(logical: LogicalAggregate, window: LandmarkWindow, schema: Schema) -> Step:
    """Return the operator whose windows begin with the stream, and fire when a condition holds."""
    # Start-up: few windows fire as tuples arrive.
    from operators.window_aggregate.triggers.landmark import TriggeredLandmark

    assert logical.condition is not None
    functions, by, discards = logical.functions, logical.by, logical.discards
    remarks = (
        *_fires(logical),
        "a window of a group fires from the first tuple on that no window before it has",
        state_size("wid", window, functions, by, schema),
        "and 96 bytes for each of them: what it has seen since it fired",
    )
    aggregate = TriggeredLandmark(window, functions, by, condition=logical.condition, discards=discards)
    return Step(aggregate, logical.label(), remarks)


def _triggered_ranked(logical: LogicalAggregate, window: Windowing) -> Operator:
    """Return the operator whose windows are defined by tuples, and fire when a condition holds."""
    # Start-up: few windows fire before they are complete.
    from operators.window_aggregate.triggers.counted import TriggeredCounts
    from operators.window_aggregate.triggers.predicates import TriggeredPredicates

    assert logical.condition is not None and isinstance(window, PredicateWindow | CountWindow)
    functions, by, partition = logical.functions, logical.by, logical.partition
    options: dict[str, Any] = {"partition": partition, "condition": logical.condition, "discards": logical.discards}
    if isinstance(window, CountWindow):
        return TriggeredCounts(window, functions, by, **options)
    return TriggeredPredicates(window, functions, by, **options)


def _fires(logical: LogicalAggregate) -> tuple[str, ...]:
    """Say when windows fire, and what their results depend on."""
    return (
        f"windows give what they have so far {logical.condition}{', what is new alone' if logical.discards else ''}",
        "such a result depends on the order of arrival, the final one does not",
    )


def _bucket(logical: LogicalAggregate, schema: Schema) -> tuple[Bucket, Step]:
    """Return the Bucket of a window, and the step that it is."""
    window = logical.window
    assert isinstance(window, Window)
    hands_on = logical.condition is not None and _hears(logical.condition)
    bucket = Bucket(window, consistent=logical.consistent, hands_on=hands_on)
    grows = _grows(window.partition, schema) if isinstance(window, PartitionedWindow) else ()
    return bucket, Step(bucket, f"bucket {window_text(window, schema)}", (*window_remarks(window, schema), *grows))


def _hears(condition: Condition) -> bool:
    """Return whether promises may make windows fire."""
    # Start-up: few windows fire.
    from operators.window_aggregate.triggers.condition import leaves
    from operators.window_aggregate.triggers.promised import At, Every, Promised

    return any(isinstance(leaf, Every | At | Promised) for leaf in leaves(condition))


def two_levels(logical: LogicalAggregate, schema: Schema, *, counted: bool = False) -> tuple[Sequence[Step], TwoLevel]:
    """Return the steps of a bucket, a low and a high level, and these operators by themselves.

    - `counted`: partial aggregates say how many tuples each stands for.

    SchemaError when the results cannot be made of partial ones. In one process the table in front mostly costs more
    than it saves (0.8 to 3 times the whole was measured), and a plan does not know how uneven the groups are.
    """
    why = chosen(logical, schema).why
    bucket, below = _bucket(logical, schema)
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.partial_final import two_level
    from operators.window_aggregate.partial_final.low import PROBES, TABLE

    for name, function in logical.functions.items():
        # Of what cannot be aggregated at all, its own words.
        function.output_field(schema, name)
    size, probes = (logical.options.get(name, default) for name, default in (("size", TABLE), ("probes", PROBES)))
    assert isinstance(size, int) and isinstance(probes, int)
    flush = flush_of(logical.options)
    both = two_level(
        bucket.window, logical.functions, logical.by, schema=schema, size=size, probes=probes, flush=flush,
        consistent=logical.consistent, counted=counted,
    )  # fmt: skip
    remark = f"strategy two_level: {STRATEGIES['two_level']}; {why}; in one process one level is mostly faster"
    low = f"at most {both.low.size:,} partial aggregates; all leave that a promise completes"
    # In a chain of one a plan asks them for no more than their schemas say: their functions are over other attributes.
    found = (
        below,
        _aggregated(logical, schema),
        Step(Chain([both.low]), f"low-level {logical.label()}", (low,)),
        Step(Chain([both.high]), f"high-level {logical.label()}", (remark,)),
    )
    return found, both


def _negative(logical: LogicalAggregate, window: Window, schema: Schema, why: str) -> Sequence[Step]:
    """Return operators that insert and delete tuples behind a bucket, and one that follows their relation."""
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.baselines.negative.aggregate import SignedAggregate
    from operators.baselines.negative.expire import Expire

    remark = f"strategy negative: {STRATEGIES['negative']}; {why}"
    aggregate = SignedAggregate(window, logical.functions, logical.by)
    return (
        _aggregated(logical, schema, window.wattr),
        Step(Expire(), "insert tuples, delete those that expire"),
        Step(aggregate, logical.label(), (remark,)),
    )


def _aggregated(logical: LogicalAggregate, schema: Schema, *others: str) -> Step:
    """Return the projection behind a bucket to what the functions read, the groups, and the windows."""
    arguments = (name for function in logical.functions.values() for name in function.arguments)
    read = dict.fromkeys(schema.resolve(name, where="aggregate") for name in (*logical.by, *arguments, *others))
    return Step(Project({name: Column(name) for name in (*read, FROM, UNTIL)}), "project what is aggregated")


def _panes(window: Windowing, schema: Schema, strategy: str) -> list[str]:
    """Say the two sub-queries of Paned-WID (Fig 6-14), where windows share panes."""
    if (
        not isinstance(window, SlidingWindow)
        or window.slide >= window.size
        or strategy in ("wid", "buffer", "adaptive", "negative")
    ):
        return []
    plq, wlq = split(window)
    over = f"[RANGE {wlq.size}, SLIDE {wlq.slide}, WA pane-id]"
    return [f"panes {window_text(plq, schema)}, windows over them {over}"]


def _slicing(logical: LogicalAggregate, schema: Schema, why: str) -> Sequence[Step]:
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate

    shared = cast("Mapping[str, Spec]", logical.windows)
    if logical.lateness and logical.discards:
        return (_discarding(logical, schema, why),)
    operator = SlicingAggregate(
        shared,
        logical.functions,
        logical.by,
        lateness=logical.lateness,
        once=logical.once,
        named=logical.named or len(shared) > 1,
        **logical.options,  # pyright: ignore[reportArgumentType]
    )
    return (Step(operator, f"slice and {logical.label()}", slicing_remarks(operator, schema, why)),)


def _no_discard(window: Windowing, schema: Schema) -> str:
    """Say why what comes late to a window cannot be a result of its own, and what to write instead."""
    said = f'aggregate(lateness=..., refine="discard"): what comes late to {window_text(window, schema)}'
    if not isinstance(window, FixedBandWindow | EdgeWindow):
        return (
            f"{said} may change where its\n  windows end, so it is no result of its own. Write"
            ' refine="retract", RETRACT.'
        )
    return (
        f"{said} is a result of its own\n  where such windows fire early, as by early=oop.Trigger.rows(1000),"
        ' EARLY WHEN 1000 ROWS. Or write refine="retract", RETRACT.'
    )


def _discarding(logical: LogicalAggregate, schema: Schema, why: str) -> Step:
    """Return the operator that aggregates what comes late by itself; PlanError for windows that it cannot do so for."""
    # Start-up: few results are discarded.
    from operators.window_aggregate.early.discard import DiscardLate

    windows: dict[str, SlidingWindow] = {}
    for name, window in logical.windows.items():
        if not isinstance(window, SlidingWindow):
            raise PlanError(_no_discard(window, schema))
        windows[name] = window
    named = logical.named or len(windows) > 1
    operator = DiscardLate(windows, logical.functions, logical.by, lateness=logical.lateness, named=named)
    remarks = [f"strategy slicing: {STRATEGIES['slicing']}; {why}"]
    for name, window in list(windows.items())[:_LISTED]:
        remarks.append(f"{name} {window_text(window, schema)}, {window_remarks(window, schema)[0]}".strip())
    if len(windows) > _LISTED:
        remarks.append(f"and {len(windows) - _LISTED:,} windows more")
    remarks.append("what comes late is given by itself, with revision 1, 2 and so on: all results of a window add up")
    return Step(operator, f"slice and {logical.label()}", tuple(remarks))


def slicing_remarks(operator: SlicingAggregate, schema: Schema, why: str) -> tuple[str, ...]:
    """Say of a slicing aggregate what it computes, why, what the three decision trees say of it, and what it keeps."""
    windows = cast(Mapping[str, Windowing], operator.windows)
    remarks = [f"strategy slicing: {STRATEGIES['slicing']}; {why}"]
    for name, window in list(windows.items())[:_LISTED]:
        remarks.append(f"{name} {window_text(window, schema)}, {window_remarks(window, schema)[0]}".strip())
        remarks.extend(f"{name}: {gap}" if name else gap for gap in gaps(window, schema))
    if len(windows) > _LISTED:
        remarks.append(f"and {len(windows) - _LISTED:,} windows more")
    kept, split, ahead = operator.waits, operator.splits, operator.combines_ahead
    remarks.append(f"tuples are {'' if kept else 'not '}kept besides slices: {kept.why} (Fig 4)")
    remarks.append(f"slices {'may' if split else 'need not'} be split: {split.why} (Fig 5)")
    remarks.append("tuples are never taken out of slices: windows are not measured in tuples (Fig 6)")
    if operator.lateness:
        remarks.append("revisions: windows that late tuples change are given again; the last revision holds")
        if any(isinstance(window, SessionWindow) for window in windows.values()):
            remarks.append("a session that is no more is given with null aggregates and a null window_end")
    anew = "; chosen anew from what is seen" if operator.chooses else ""
    remarks.append(f"store {'eager: slices are combined ahead' if ahead else 'lazy'}, {ahead.why}{anew}")
    only = next(iter(windows.values())) if len(windows) == 1 else None
    made_of = "vectors" if operator.in_vectors else "slices"
    if any(isinstance(window, SessionWindow) for window in windows.values()):
        made_of = "sessions"
    remarks.append(state_size(made_of, only, operator.functions, operator.by, schema))
    return tuple(remarks)


def _stacks(logical: LogicalAggregate, schema: Schema, why: str) -> Sequence[Step]:
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.stacks.aggregate import StackAggregate

    window = logical.window
    assert isinstance(window, SlidingWindow)
    remark = f"strategy stacks: {STRATEGIES['stacks']}; {why}"
    technique = cast("Technique", logical.options.get("technique", "auto"))
    label = f"{logical.label()} {window_text(window, schema)}"
    operator = StackAggregate(window, logical.functions, technique=technique)
    return (Step(operator, label, (*window_remarks(window, schema), remark)),)


def _ranked(logical: LogicalAggregate, schema: Schema) -> Sequence[Step]:
    window, functions, by, partition = logical.window, logical.functions, logical.by, logical.partition
    assert isinstance(window, CountWindow | LastTuples | SlideByTuple | SlideByRows | SlideByRank | PredicateWindow)
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.ranked import ranked_aggregate

    operator: Operator
    if logical.condition is None:
        operator = ranked_aggregate(window, functions, by, partition=partition, consistent=logical.consistent)
    else:
        operator = _triggered_ranked(logical, window)
    how, holds = "start and end bins, no tuple is kept (Fig 6-7)", tuple[str, ...]()
    if isinstance(window, CountWindow):
        how = "tuples wait, as partial aggregates, until punctuation makes their ranks final"
    elif isinstance(window, LastTuples):
        how = "the last tuples are kept, as partial aggregates, and those not final"
    elif isinstance(window, PredicateWindow):
        how = "tuples wait, as partial aggregates, until their order is final; then it is one a window and group"
        if window.within is None:
            holds = ("a window that stays open holds back what is promised of all later ones; WITHIN bounds it",)
    if logical.condition is not None:
        holds += (*_fires(logical)[:1], "what a window has so far are the tuples whose order is certain")
        holds += ("and 72 bytes for each open window and group: what it has seen since it fired",)
    text = window_text(window, schema)
    if partition:
        text = f"{text[:-1]}, PA {', '.join(partition)}]"
    forgets = isinstance(window, SlideByTuple | PredicateWindow) or (isinstance(window, LastTuples) and window.idle)
    grows = () if forgets else _grows(partition, schema)
    return (Step(operator, f"{logical.label()} {text}", (*window_remarks(window, schema), how, *holds, *grows)),)


def _grows(partition: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """Say that counting by partition remembers each for ever, where no promise ends one."""
    if not partition or any(promise <= set(partition) for promise in schema.progress):
        return ()
    names = ", ".join(partition)
    return (
        f"state grows with every new value of {names}: its tuples are counted on for ever, as nothing promises that"
        " no more of it comes",
    )
