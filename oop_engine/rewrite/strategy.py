"""Choose the operators that compute a window aggregate. All give the same answer, and differ in time and memory.

The logical aggregate says windows, functions and groups. A strategy, chosen here from the window's class and the
functions' properties or by the user, says how. `explain` shows the choice and its reasons. The operators of one are
imported when it is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import attrs

from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.aggregates import listed
from oop_engine.plan.strategies import STRATEGIES, flush_of
from oop_engine.plan.windows import OwnWindow, Windowing, gaps, window_remarks, window_text
from oop_engine.rewrite.state_size import state_size
from operators.chain import Chain
from operators.data.schema import ROW_NUM, Schema
from operators.expression import Column
from operators.functions.ordered import by_arrival, ordered
from operators.functions.protocol import AggregateFunction
from operators.protocol import Operator
from operators.rows.project import Project
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import FROM, UNTIL, Bucket
from operators.window_aggregate.stores.per_window.paned import split
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.strategy import Costs

if TYPE_CHECKING:
    from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
    from operators.window_aggregate.stores.slices.windows import Spec
    from operators.window_aggregate.strategy import Technique

_COMBINED: Final = ("wid", "panes", "differential", "two_stacks")
_BUCKETED: Final = (*_COMBINED, "adaptive", "adaptive_panes", "buffer", "buffer_panes", "negative", "two_level")
RANKED: Final = (SlideByTuple, SlideByRows, SlideByRank, CountWindow, LastTuples)
"""Windows that tuples themselves define, by their rank."""
SLICED: Final = (SlidingWindow, SessionWindow, FixedBandWindow, OwnWindow)
"""Windows that share slices with others over the same attribute."""
_LISTED: Final = 12
"""So many windows at most are told by name."""
_MANY_SLIDES: Final = 16
"""From so many windows a tuple on, an ungrouped window is answered by slices in order, not combined anew."""


@attrs.frozen
class Step:
    """One operator of the plan, with its label and remarks."""

    operator: Operator
    label: str
    remarks: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Wanted:
    """The logical aggregate: what a user wants computed."""

    windows: Mapping[str, Windowing]
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = ()
    strategy: str = "auto"
    options: Mapping[str, object] = attrs.field(factory=dict)
    """What the strategy leaves open, as `oop_engine.plan.strategies` has it."""
    consistent: bool = False
    empty: bool = False
    lateness: int = 0
    partition: tuple[str, ...] = ()
    """Attributes that give each of their values windows of its own, where tuples are counted (PA)."""
    named: bool = False
    """Whether windows have names, so that others may share the slices of even a single one while it runs."""

    @property
    def window(self) -> Windowing:
        """Return the first window, the only one for most."""
        return next(iter(self.windows.values()))

    def label(self) -> str:
        """Write the aggregates, and the groups."""
        return f"aggregate {listed(self.functions)}" + (f" by {', '.join(self.by)}" if self.by else "")


def steps(wanted: Wanted, schema: Schema) -> Sequence[Step]:
    """Return the operators over a stream of this schema; PlanError when the strategy does not fit what is wanted."""
    strategy, why = (wanted.strategy, "asked for") if wanted.strategy != "auto" else _chosen(wanted, schema)
    if wanted.strategy == "auto":
        # They have helped to choose.
        wanted = attrs.evolve(wanted, options={})
    window = wanted.window
    ranked = isinstance(window, RANKED)
    if ranked and wanted.strategy != "auto":
        raise PlanError(
            f'aggregate(strategy="{strategy}"): the windows of {window_text(window, schema)} are defined by the tuples '
            "themselves,\n  and there is one way to compute them. Leave strategy out."
        )
    if len(wanted.windows) > 1 and strategy != "slicing":
        raise PlanError(
            f'aggregate(strategy="{strategy}"): several windows share slices, which is strategy="slicing".\n'
            "  Leave strategy out, or aggregate each window by itself."
        )
    if wanted.empty and (ranked or strategy not in ("auto", *_COMBINED)):
        raise PlanError(_no_empty(wanted, schema, strategy))
    if wanted.lateness and not all(isinstance(w, SLICED) for w in wanted.windows.values()):
        raise PlanError(_unrevised(wanted, schema))
    if wanted.lateness and strategy != "slicing":
        raise PlanError(
            f'aggregate(lateness=...): results are revised by strategy="slicing", and this is {strategy}.\n'
            "  Leave strategy out, or let late tuples be dropped."
        )
    if ranked:
        return _ranked(wanted, schema)
    if wanted.consistent and strategy not in _BUCKETED and strategy != "auto":
        raise PlanError(_inconsistent(wanted, strategy))
    if strategy == "slicing":
        return _slicing(wanted, schema, why)
    if strategy == "stacks":
        return _stacks(wanted, schema, why)
    return _bucketed(wanted, schema, strategy, why)


def _no_empty(wanted: Wanted, schema: Schema, strategy: str) -> str:
    """Say that windows without a tuple cannot be given, and what can be done instead, if anything."""
    windows = wanted.windows.values()
    several = len(windows) > 1
    stepped = [w for w in windows if isinstance(w, SlidingWindow | LandmarkWindow)]
    seen, way = f'this is strategy="{strategy}"', ""
    if several:
        seen = "these are several"
    elif not stepped:
        seen = f"this is {window_text(wanted.window, schema)}"
    in_order = any(map(ordered, wanted.functions.values())) and not all(map(by_arrival, stepped))
    if len(stepped) == len(windows) and not wanted.by and not in_order:
        if not wanted.lateness:
            way = ", or aggregate each window by itself" if several else ', or ask for strategy="panes"'
        elif wanted.strategy == "auto" and not several:
            way = ", or leave lateness out"
    return f"aggregate(empty=True) is for a sliding or landmark window by itself, and {seen}.\n  Leave empty out{way}."


def _unrevised(wanted: Wanted, schema: Schema) -> str:
    """Say which window cannot be given again when a late tuple comes, and what can be done instead."""
    window = next(w for w in wanted.windows.values() if not isinstance(w, SLICED))
    return (
        f"aggregate(lateness=...): {window_text(window, schema)} cannot be revised; sliding windows over a time,"
        " sessions, bands\n  and most windows of your own can. Leave lateness out, and give the stream so much more"
        ' slack, e.g. slack="10 s":\n  then tuples are in time that would have been late.'
    )


def _inconsistent(wanted: Wanted, strategy: str) -> str:
    """Say that a strategy cannot leave a late tuple out of all its windows, and which way there is."""
    several = len(wanted.windows) > 1
    way = ""
    if all(isinstance(w, SlidingWindow | LandmarkWindow | PartitionedWindow) for w in wanted.windows.values()):
        way = ", or aggregate each window by itself" if several else ', or ask for strategy="panes"'
    return (
        f"{'windows' if several else 'window'}(consistent=True): a tuple that is late for one of its windows is left"
        f" out of all of them,\n  which {strategy} cannot do. Leave consistent out{way}."
    )


def _chosen(wanted: Wanted, schema: Schema) -> tuple[str, str]:
    """Choose a strategy, and say why."""
    window = wanted.window
    if len(wanted.windows) > 1:
        return "slicing", "several windows share slices"
    carried = isinstance(window, SlidingWindow) and bool(wanted.by) and window.size > window.slide
    if wanted.named and isinstance(window, SLICED) and not carried and not wanted.empty and not wanted.consistent:
        return "slicing", "the window has a name, and others may share its slices while it runs"
    if not isinstance(window, SlidingWindow | LandmarkWindow | PartitionedWindow):
        if isinstance(window, Window):
            return "wid", "a window of your own that tells the window-ids of a tuple"
        return "slicing", "these windows are no fixed steps of the attribute"
    if wanted.lateness:
        return "slicing", "released windows may be revised"
    if isinstance(window, SlidingWindow | LandmarkWindow) and not by_arrival(window):
        in_order = next((name for name, function in wanted.functions.items() if ordered(function)), None)
        if in_order is not None and isinstance(window, LandmarkWindow):
            raise PlanError(
                f"aggregate: {in_order} is not commutative, and RANGE ALL is computed as tuples arrive.\n"
                "  Give the window a RANGE, or declare the aggregate commutative, if it is."
            )
        if in_order is not None:
            return "slicing", f"{in_order} is over tuples in the order of {window.wattr}"
    if isinstance(window, SlidingWindow) and not wanted.by and not wanted.empty and not wanted.consistent:
        if window.wattr == ROW_NUM and _stackable(window, wanted.functions, schema):
            return "stacks", "row numbers are in order"
        if window.size > _MANY_SLIDES * window.slide:
            return "slicing", f"{window.size // window.slide} windows a tuple, and no groups"
    tuples, groups = (wanted.options.get(name) for name in ("tuples", "groups"))
    if isinstance(window, SlidingWindow) and isinstance(tuples, int) and isinstance(groups, int):
        panes = Costs().prefer_panes(window, tuples=tuples, groups=groups)
        why = f"for {tuples:,} tuples a window and {groups:,} groups a pane it costs less (Eq. 6.1, 6.3)"
        return "panes" if panes else "wid", why
    return "auto", "carried over where cheaper"


def _stackable(window: SlidingWindow, functions: Mapping[str, AggregateFunction], schema: Schema) -> bool:
    """Return whether stacks hold what these functions aggregate."""
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.stacks.aggregate import StackAggregate

    try:
        StackAggregate(window, functions).output_schema(schema)
    except SchemaError:
        return False
    return True


def _bucketed(wanted: Wanted, schema: Schema, strategy: str, why: str) -> Sequence[Step]:
    window, functions, by = wanted.window, wanted.functions, wanted.by
    if not isinstance(window, Window):
        raise PlanError(
            f'aggregate(strategy="{strategy}"): {window_text(window, schema)} has no window-ids that a tuple alone '
            'tells.\n  Leave strategy out: it is "slicing".'
        )
    if strategy != "wid" and not isinstance(window, SlidingWindow | LandmarkWindow | PartitionedWindow):
        raise PlanError(
            f'aggregate(strategy="{strategy}"): {window_text(window, schema)} is known by its window-ids alone, so that'
            ' there is one way\n  to compute it. Leave strategy out: it is "wid".'
        )
    bucket = Bucket(window, consistent=wanted.consistent)
    grows = _grows(window.partition, schema) if isinstance(window, PartitionedWindow) else ()
    below = Step(bucket, f"bucket {window_text(window, schema)}", (*window_remarks(window, schema), *grows))
    if strategy == "two_level":
        return (below, *_two_level(wanted, window, schema, why))
    if strategy == "negative":
        return (below, *_negative(wanted, window, schema, why))
    aggregate: Operator
    match strategy:
        case "adaptive" | "adaptive_panes":
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.baselines.adaptive.adaptive import AdaptiveAggregate

            panes = strategy.endswith("panes")
            aggregate = AdaptiveAggregate(window, functions, by, panes=panes, **wanted.options)  # pyright: ignore[reportArgumentType]
        case "buffer" | "buffer_panes":
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.baselines.buffer.aggregate import BufferAggregate

            aggregate = BufferAggregate(window, functions, by, panes=strategy.endswith("panes"))
        case "wid" | "panes" | "differential" | "two_stacks":
            aggregate = WindowAggregate(window, functions, by, empty=wanted.empty, strategy=strategy)
        case _:
            aggregate = WindowAggregate(window, functions, by, empty=wanted.empty)
    how = STRATEGIES["panes"].partition(",")[0] if strategy == "auto" else STRATEGIES[strategy]
    remarks = [
        f"strategy {'panes' if strategy == 'auto' else strategy}: {how}; {why}",
        *_panes(window, schema, strategy),
    ]
    remarks.append(state_size(strategy, window, functions, by, schema))
    return (below, Step(aggregate, wanted.label(), tuple(remarks)))


def _two_level(wanted: Wanted, window: Window, schema: Schema, why: str) -> Sequence[Step]:
    """Return the low and the high level behind a bucket; SchemaError when the results cannot be made of partial ones.

    It is chosen where the levels are apart (`oop.apart`; on Spark partitions have low levels of their own). In one
    process the table in front mostly costs more than it saves (0.8 to 3 times the whole was measured), and a plan does
    not know how uneven the groups are.
    """
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.partial_final import two_level
    from operators.window_aggregate.partial_final.low import PROBES, TABLE

    for name, function in wanted.functions.items():
        # Of what cannot be aggregated at all, its own words.
        function.output_field(schema, name)
    size, probes = (wanted.options.get(name, default) for name, default in (("size", TABLE), ("probes", PROBES)))
    assert isinstance(size, int) and isinstance(probes, int)
    flush = flush_of(wanted.options)
    both = two_level(
        window, wanted.functions, wanted.by, schema=schema, size=size, probes=probes, flush=flush,
        consistent=wanted.consistent,
    )  # fmt: skip
    remark = f"strategy two_level: {STRATEGIES['two_level']}; {why}; in one process one level is mostly faster"
    low = f"at most {both.low.size:,} partial aggregates; all leave that a promise completes"
    # In a chain of one a plan asks them for no more than their schemas say: their functions are over other attributes.
    return (
        _aggregated(wanted, schema),
        Step(Chain([both.low]), f"low-level {wanted.label()}", (low,)),
        Step(Chain([both.high]), f"high-level {wanted.label()}", (remark,)),
    )


def _negative(wanted: Wanted, window: Window, schema: Schema, why: str) -> Sequence[Step]:
    """Return operators that insert and delete tuples behind a bucket, and one that follows their relation."""
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.baselines.negative.aggregate import SignedAggregate
    from operators.baselines.negative.expire import Expire

    remark = f"strategy negative: {STRATEGIES['negative']}; {why}"
    aggregate = SignedAggregate(window, wanted.functions, wanted.by)
    return (
        _aggregated(wanted, schema, window.wattr),
        Step(Expire(), "insert tuples, delete those that expire"),
        Step(aggregate, wanted.label(), (remark,)),
    )


def _aggregated(wanted: Wanted, schema: Schema, *others: str) -> Step:
    """Return the projection behind a bucket to what the functions read, the groups, and the windows."""
    arguments = (name for function in wanted.functions.values() for name in function.arguments)
    read = dict.fromkeys(schema.resolve(name, where="aggregate") for name in (*wanted.by, *arguments, *others))
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


def _slicing(wanted: Wanted, schema: Schema, why: str) -> Sequence[Step]:
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate

    if not isinstance(wanted.window, SLICED):
        raise PlanError(
            f'aggregate(strategy="slicing"): {window_text(wanted.window, schema)} is not made of slices.\n'
            "  Leave strategy out."
        )
    shared = cast("Mapping[str, Spec]", wanted.windows)
    operator = SlicingAggregate(
        shared,
        wanted.functions,
        wanted.by,
        lateness=wanted.lateness,
        named=wanted.named or len(shared) > 1,
        **wanted.options,  # pyright: ignore[reportArgumentType]
    )
    return (Step(operator, f"slice and {wanted.label()}", slicing_remarks(operator, schema, why)),)


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
    remarks.append(f"store {'eager: slices are combined ahead' if ahead else 'lazy'}, {ahead.why}")
    only = next(iter(windows.values())) if len(windows) == 1 else None
    made_of = "vectors" if operator.in_vectors else "slices"
    if any(isinstance(window, SessionWindow) for window in windows.values()):
        made_of = "sessions"
    remarks.append(state_size(made_of, only, operator.functions, operator.by, schema))
    return tuple(remarks)


def _stacks(wanted: Wanted, schema: Schema, why: str) -> Sequence[Step]:
    # Start-up: a plan loads the operators of the strategy that was chosen.
    from operators.window_aggregate.stores.stacks.aggregate import StackAggregate

    window = wanted.window
    if not isinstance(window, SlidingWindow) or wanted.by:
        what = "groups" if wanted.by else window_text(window, schema)
        raise PlanError(
            f'aggregate(strategy="stacks"): it is for sliding windows without groups, not for {what}.\n'
            '  Write strategy="two_stacks", which has a stack for every group, or leave it out.'
        )
    remark = f"strategy stacks: {STRATEGIES['stacks']}; {why}"
    technique = cast("Technique", wanted.options.get("technique", "auto"))
    label = f"{wanted.label()} {window_text(window, schema)}"
    operator = StackAggregate(window, wanted.functions, technique=technique)
    return (Step(operator, label, (*window_remarks(window, schema), remark)),)


def _ranked(wanted: Wanted, schema: Schema) -> Sequence[Step]:
    window, functions, by, partition = wanted.window, wanted.functions, wanted.by, wanted.partition
    operator: Operator
    match window:
        case CountWindow():
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.window_aggregate.stores.ranked.counted import CountAggregate

            operator = CountAggregate(window, functions, by, partition=partition)
            how = "tuples wait, as partial aggregates, until punctuation makes their ranks final"
        case LastTuples():
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.window_aggregate.stores.ranked.last import LastAggregate

            operator = LastAggregate(window, functions, by, partition=partition)
            how = "the last tuples are kept, as partial aggregates, and those not final"
        case SlideByTuple() | SlideByRows() | SlideByRank():
            # Start-up: a plan loads the operators of the strategy that was chosen.
            from operators.window_aggregate.stores.ranked.slide import SlideAggregate

            operator = SlideAggregate(window, functions, by, partition=partition, consistent=wanted.consistent)
            how = "start and end bins, no tuple is kept (Fig 6-7)"
        case _:
            raise AssertionError(window)
    text = window_text(window, schema)
    if partition:
        text = f"{text[:-1]}, PA {', '.join(partition)}]"
    forgets = isinstance(window, SlideByTuple) or (isinstance(window, LastTuples) and window.idle)
    grows = () if forgets else _grows(partition, schema)
    return (Step(operator, f"{wanted.label()} {text}", (*window_remarks(window, schema), how, *grows)),)


def _grows(partition: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """Say that counting by partition remembers each for ever, where no promise ends one."""
    if not partition or any(promise <= set(partition) for promise in schema.progress):
        return ()
    names = ", ".join(partition)
    return (
        f"state grows with every new value of {names}: its tuples are counted on for ever, as nothing promises that"
        " no more of it comes",
    )
