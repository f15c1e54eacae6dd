"""`stream.window(...)` returns a `Windowed`: a stream with windows, which `aggregate` makes a stream again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from oop_engine.api.refinement import Refinement, refine_of
from oop_engine.api.stream import Stream, meld
from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.aggregates import grouping, named_results
from oop_engine.plan.graph import Logical, Node, OperatorNode, operator_node, settled
from oop_engine.plan.strategies import named_strategy
from oop_engine.plan.ticks import Amount, length_of, ticks_of
from oop_engine.plan.windows import Windowing, window_text
from oop_engine.rewrite.lateness import relying
from oop_engine.rewrite.steps import steps
from oop_engine.rewrite.strategy import LogicalAggregate, Windows, check_asked, chosen, parts, share_slices
from operators.functions.protocol import AggregateFunction
from operators.window import PartitionedWindow, SlidingWindow
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.facts import names_windows
from operators.window_aggregate.results import WINDOW
from operators.window_aggregate.stores.per_window.wid import START, STOP, WID

if TYPE_CHECKING:
    from oop_engine.api.early import Early
    from oop_engine.api.trigger import Trigger
    from oop_engine.plan.strategies import Strategy
    from operators.data.schema import Schema
    from operators.rows.process_windows import WindowFunction
    from operators.window.session import SessionWindow
    from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
    from operators.window_aggregate.triggers.condition import Condition

_RELEASING: Final = (FROM, WID, START, STOP)


@attrs.frozen(eq=False, repr=False)
class Windowed:
    """Hold a stream with its windows, until `aggregate` says what to compute.

    - `stream`: the stream below.
    - `windows`: the windows by name; the name of a single one is empty.
    - `consistent`, `partition`: as in `Stream.window`.

    >>> stream = oop.rows([(1, 5)], oop.Schema.of(ts="int64", v="int64"))
    >>> windowed = stream.window(range=10)
    >>> windowed.named, windowed.compute({"total": oop.sum("v")}).schema.names
    (False, ['total', 'wid', 'window_start', 'window_end'])
    """

    stream: Stream
    windows: Mapping[str, Windowing]
    consistent: bool = False
    partition: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the windows and the plan of the stream below them."""
        text = ", ".join(f"{name} {self._text(window)}".strip() for name, window in self.windows.items())
        return f"windows {text}, nothing computed yet: call .aggregate(...)\nover\n{self.stream!r}"

    def aggregate(
        self,
        /,
        *functions: AggregateFunction,
        by: str | Sequence[str] = (),
        empty: bool = False,
        strategy: str | Strategy = "auto",
        lateness: Amount = 0,
        early: Early | Trigger | Amount | None = None,
        refine: Refinement | None = None,
        **named: AggregateFunction,
    ) -> Stream:
        """Aggregate each window, for each group.

        - `functions`: aggregate functions, whose results are named after them, as `sum_length`.
        - `named`: further functions, with names for their results.
        - `by`: one grouping attribute, or several in a list.
        - `empty`: also give windows without a tuple, between the first and the last that have one. Without groups only.
          With `early` they fire, too, from the first result on.
        - `strategy`: how to compute, by name or from `oop.strategy`. It changes time and memory, never the answer;
          `explain` says what "auto" chose and why.
        - `lateness`: how late a tuple may be and still change a released window; see below.
        - `early`: results before a window is complete, from `oop.early`; an amount alone says how often. They are over
          the tuples before the tick `fired`, and `final` tells whether the window is complete. An `oop.Trigger` fires
          as tuples and events come; then `firing` numbers the results of a window and group.
        - `refine`: how an early or a late result relates to the one before it of its window, by default as `early`
          says. "accumulate" repeats the whole, "discard" has only what is new, "retract" takes the former result back,
          with `sign` -1, before it gives the new one with `sign` 1.

        Return the grouping attributes, one attribute a function, `window` for those of `windows(...)`, then wid,
        window_start and window_end. PlanError when no promise could ever release a window: punctuate the source on the
        windowing attribute.

        With `lateness`, a window that a late tuple changes is given again, with `revision` 1, 2, ...: the last one of
        each group, `window` and wid holds. If a late tuple joins two sessions, the one that is gone is taken back by a
        row of null aggregates and a null window_end; with "retract" only by its sign. With `early` too, early results
        are given once, and late tuples change the final ones; with "discard" what came late is a result of its own.
        With a trigger, `firing` numbers early, final and late results on.

        Whoever reads results that change gets those that stand: windows, joins, `distinct`, `top` behind them count
        each window once, when nothing can change it any more. PlanError where an operator between has left out what
        tells which they are, such as `sign`, or has chosen revisions by their values.

        >>> stream = oop.rows([(1, 5), (12, 2), (3, 7)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.window(range=10).aggregate(oop.count(), most=oop.max("v")).to_arrow().to_pylist()
        [{'count': 2, 'most': 7, 'wid': 0, 'window_start': 0, 'window_end': 10}, {'count': 1, 'most': 2, 'wid': 1,
        'window_start': 10, 'window_end': 20}]
        """
        options: dict[str, Any] = {"by": by, "empty": empty, "strategy": strategy, "lateness": lateness}
        return self.compute(named_results(functions, named), **options, early=early, refine=refine)

    def process(
        self,
        function: WindowFunction,
        schema: Schema,
        *,
        columns: Sequence[str] = (),
        by: str | Sequence[str] = (),
        most: int = 100_000,
        empty: bool = False,
        strategy: str | Strategy = "auto",
        lateness: Amount = 0,
        early: Early | Trigger | Amount | None = None,
        refine: Refinement | None = None,
    ) -> Stream:
        """Compute rows of each window, for each group, by a function of your own over all its tuples.

        - `function`: called once for each result as function(tuples, window). `tuples` is an `oop.Page` of the tuples
          in the order of the windowing attribute, then of the next ones: tuples["v"] is a NumPy array,
          tuples.column("v") an Arrow array. `window` is a page of one row with the groups, the extent and all else that
          a result of `aggregate` has, and `left_out`. It returns a mapping of columns, in which a single value stands
          for all rows; an Arrow table, or a frame that exports one; a list of tuples; or None for no rows.
        - `schema`: attributes and types of these rows.
        - `columns`: the attributes that the function reads, by default all but the groups. Fewer take less memory.
        - `by`, `empty`, `strategy`, `lateness`, `early`, `refine`: as in `aggregate`.
        - `most`: how many tuples of a window and group are kept. Of more, the function gets a sample in which each
          tuple is as likely as any other, whatever the order of arrival. `left_out` in the results counts the others,
          and a note of the run the windows.

        Return the groups, the attributes of `schema`, `left_out`, and what else `aggregate` returns; each row of a
        result has them. The same tuples must make the same rows: with refine="retract" the function is called again
        for what is taken back. Where a result replaces an earlier one of its window (`lateness` or `early` with
        "accumulate"), all rows of the last result hold; if the function returns none, the result is one row of nulls.
        AggregateFailure names the window, the group and the line if the function raises, or if it returns no rows of
        `schema`. PlanError for windows over several attributes without `columns`, of which the first orders tuples.

        >>> stream = oop.rows([(1, 5), (3, 7), (2, 9)], oop.Schema.of(ts="int64", v="int64"))
        >>> def steps(tuples, window):
        ...     v = tuples["v"]
        ...     return {"up": int((v[1:] - v[:-1]).max()), "tuples": len(tuples)}
        >>> stream.window(range=10).process(steps, oop.Schema.of(up="int64", tuples="int64")).to_arrow().to_pylist()
        [{'up': 4, 'tuples': 3, 'left_out': 0, 'wid': 0, 'window_start': 0, 'window_end': 10}]
        """
        # Start-up: few plans call a function with whole windows.
        from oop_engine.api.processing import LISTED, collected, processing

        if early is not None:
            # Start-up: few windows give early results.
            from oop_engine.api.early import Early

            early = Early.of(early)
        how = refine_of(refine) if early is None else refine_of(refine, early.refine)
        operator = processing(function, schema, replaces=how == "accumulate" and bool(early is not None or lateness))
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        wattrs = [window.wattr for window in self.windows.values() if not isinstance(window, PartitionedWindow)]
        listed = collected(self.stream.schema, wattrs, self._groups(by), names, most)
        options: dict[str, Any] = {"by": by, "empty": empty, "strategy": strategy, "lateness": lateness}
        stream = self.compute({LISTED: listed}, **options, early=early, refine=refine)
        said = f"process windows by {getattr(function, '__name__', type(function).__name__)}"
        remark = f"reads {', '.join(listed.columns)}; of more than {most:,} tuples of a window a sample"
        return Stream(operator_node(operator, stream.node, label=said, remarks=(remark,)))

    def compute(
        self,
        functions: Mapping[str, AggregateFunction],
        *,
        by: str | Sequence[str] = (),
        empty: bool = False,
        strategy: str | Strategy = "auto",
        lateness: Amount = 0,
        early: Early | Trigger | Amount | None = None,
        refine: Refinement | None = None,
    ) -> Stream:
        """Compute aggregates as `aggregate` does, from a mapping.

        - `functions`: aggregate functions by the names of their results.
        - `by`, `empty`, `strategy`, `lateness`, `early`, `refine`: as in `aggregate`.
        """
        if refine is not None and early is None and not lateness:
            raise PlanError(
                f'aggregate(refine="{refine}"): every window is given once, when it is complete.\n'
                "  Say when it is given before, early=..., or until when late tuples change it, lateness=...."
            )
        if early is not None:
            options: dict[str, Any] = {"by": by, "strategy": strategy, "lateness": lateness, "empty": empty}
            return self._early(functions, early, refine, **options)
        how = refine_of(refine)
        options: dict[str, Any] = {"empty": empty, "strategy": strategy, "lateness": lateness}
        stream = self._computed(functions, by=by, discards=how == "discard", **options)
        return _refined(stream, how, self._groups(by))

    def _computed(
        self,
        functions: Mapping[str, AggregateFunction],
        *,
        by: str | Sequence[str],
        empty: bool,
        strategy: str | Strategy,
        lateness: Amount,
        once: frozenset[str] = frozenset(),
        discards: bool = False,
    ) -> Stream:
        """Compute each window when it is complete, and again as late tuples change it, but for those given `once`."""
        asked = named_strategy(strategy)
        if not self.named:
            return self._together(functions, by=by, empty=empty, asked=asked, lateness=lateness, discards=discards)
        several = parts(self.windows)
        if len(several) > 1:
            check_asked(self.windows, strategy=asked.name, empty=empty, lateness=lateness)
            return self._beside(several, functions, by=by, strategy=asked, lateness=lateness)
        options: dict[str, Any] = {"empty": empty, "asked": asked, "lateness": lateness, "discards": discards}
        stream = self._together(functions, by=by, once=once, **options)
        bears = _bears_names(stream) or (discards and bool(lateness))
        return stream if bears else self._naming(self.windows, stream)

    @property
    def named(self) -> bool:
        """Return whether the windows have names, which their results bear."""
        return "" not in self.windows

    def _together(
        self,
        functions: Mapping[str, AggregateFunction],
        *,
        by: str | Sequence[str],
        empty: bool,
        asked: Strategy,
        lateness: Amount,
        once: frozenset[str] = frozenset(),
        discards: bool = False,
        condition: Condition | None = None,
        interval: float | None = None,
    ) -> Stream:
        """Compute one window, or those that share slices; results bear names if slices are shared, or may be."""
        names = self._groups(by)
        options = dict(asked.options)
        window = next(iter(self.windows.values()))
        # Before the first of several operators, so that what they compute together stays in a row.
        node = settled(self.stream.node, keys=names)
        if isinstance(source := options.get("source"), str):
            options["source"] = node.schema.resolve(source, where=f'strategy("{asked.name}", source="{source}")')
        field = None if isinstance(window, PartitionedWindow) else node.schema.field(window.wattr, where="window")
        # Windows counted by partition have no unit for it: any lateness is one too many, and refused with its reasons.
        late = int(bool(lateness)) if field is None else length_of(lateness, field, what="lateness", least=0)
        logical = LogicalAggregate(
            windows=self.windows,
            functions=functions,
            by=names,
            strategy=asked.name,
            options=options,
            consistent=self.consistent,
            empty=empty,
            lateness=late,
            partition=self.partition,
            once=once,
            discards=discards,
            condition=condition,
            interval=interval,
            named=self.named,
        )
        try:
            choice = chosen(logical, node.schema)
            for number, step in enumerate(found := steps(logical, node.schema, choice), 1):
                last = Logical(logical, number, choice.strategy) if number == len(found) else None
                node = operator_node(step.operator, node, label=step.label, remarks=step.remarks, logical=last)
                self._check(node, names)
        except SchemaError as error:
            if asked.name == "auto":
                raise
            # Where "auto" cannot either, its error says what is wrong with more than the strategy.
            self.compute(functions, by=by, empty=empty, lateness=lateness)
            told = re.sub(r"^aggregate[^:]*: ", "", str(error).partition("\n")[0].rstrip("."))
            raise PlanError(f'aggregate(strategy="{asked.name}"): {told}.\n  Leave strategy out.') from error
        if late:
            self._check_late()
        return Stream(node)

    def _check_late(self) -> None:
        """Refuse a lateness where late tuples do not get here."""
        if (strict := relying(self.stream.node)) is not None:
            raise PlanError(
                f'aggregate(lateness=...): "{strict.label}" relies on what is promised, so late tuples are left out'
                ' before it.\n  Put it behind the window, or give the source late="revise".'
            )

    def _groups(self, by: str | Sequence[str]) -> tuple[str, ...]:
        """Name the groups of the results: what the windows are parted by is one of them."""
        names = grouping(self.stream.schema, by, "aggregate", "by")
        return (*self.partition, *(name for name in names if name not in self.partition))

    def _early(
        self,
        functions: Mapping[str, AggregateFunction],
        early: Early | Trigger | Amount,
        refine: Refinement | None,
        *,
        by: str | Sequence[str],
        strategy: str | Strategy,
        lateness: Amount,
        empty: bool,
    ) -> Stream:
        """Compute parts of windows that end early beside these, and say of each result when it fired."""
        # Start-up: few windows give early results.
        from oop_engine.api.early import Early
        from oop_engine.api.early_kinds import by_trigger

        when = Early.of(early)
        when = attrs.evolve(when, refine=refine_of(refine, when.refine))
        groups = self._groups(by)
        if empty:
            self._check_empty(when, groups, lateness)
        if by_trigger(when, self.windows.values(), self.stream.schema, lateness):
            return _refined(
                self._triggered(functions, when, by=by, strategy=strategy, lateness=lateness), when.refine, groups
            )
        if WINDOW in (*groups, *functions):
            raise PlanError(
                f'aggregate(early=...): "{WINDOW}" is what tells the parts of windows apart.\n'
                f"  Rename the {'group' if WINDOW in groups else 'result'} that is called so."
            )
        # Start-up: few windows give early results.
        from oop_engine.api.early_sessions import sessions_of

        others, sessions = sessions_of(self.windows)
        found: list[Stream] = []
        if others:
            windows, fire = when.parts(others, self.stream.schema, named=self.named)
            fired = attrs.evolve(self, windows=windows)
            once = frozenset(name for name, part in fire.parts.items() if lateness and part.after != part.size)
            options: dict[str, Any] = {"empty": False, "strategy": strategy, "lateness": lateness, "once": once}
            stream = fired._computed(functions, by=by, discards=when.refine == "discard", **options)
            node = operator_node(fire, stream.node, label=f"early results {when}")
            if empty:
                # Start-up: few windows without a tuple fire.
                from operators.window_aggregate.early.empty import FillEmpty

                ((name, window),) = others.items()
                assert isinstance(window, SlidingWindow)
                after = {part.after for part in fire.parts.values() if part.window == name}
                fill = FillEmpty(window, tuple(after), functions, self.stream.schema, name)
                remark = "a result of no tuple leaves once a later window has a tuple"
                node = operator_node(fill, node, label="add results of windows without a tuple", remarks=(remark,))
            found.append(Stream(node))
        options = {"by": by, "strategy": strategy, "lateness": lateness, "exact": True}
        found += self._sessions(functions, when, sessions, **options)
        return _refined(found[0] if len(found) == 1 else meld(*found), when.refine, groups)

    def _check_empty(self, when: Early, groups: Sequence[str], lateness: Amount) -> None:
        """Refuse results of no tuple where windows fire that are not known by their window-ids alone."""
        windows = self.windows.values()
        seen = (
            f"windows fire {when.when} here" if not when.on_event_time
            else "these are several" if len(windows) > 1
            else f"this is {self._text(next(iter(windows)))}" if not all(isinstance(w, SlidingWindow) for w in windows)
            else "the groups of a window without a tuple are unknown" if groups
            else "late tuples change windows here" if lateness else None
        )  # fmt: skip
        if seen is not None:
            raise PlanError(
                "aggregate(early=..., empty=True) is for one sliding or tumbling window that fires on event time, and"
                f" has no groups and\n  no lateness; {seen}. Leave empty out."
            )

    def _triggered(
        self,
        functions: Mapping[str, AggregateFunction],
        when: Early,
        *,
        by: str | Sequence[str],
        strategy: str | Strategy,
        lateness: Amount,
    ) -> Stream:
        """Compute windows, each by itself, that give what they have so far as a trigger says."""
        schema = self.stream.schema
        # Start-up: few windows fire as tuples arrive.
        from oop_engine.api.early_kinds import as_fired
        from oop_engine.api.early_sessions import sessions_of

        others, sessions = sessions_of({name: as_fired(window) for name, window in self.windows.items()})
        conditions = when.conditions(others, schema, strategy=named_strategy(strategy), late=lateness)
        options: dict[str, Any] = {"by": by, "empty": False, "asked": named_strategy("auto"), "lateness": lateness}
        options |= {"discards": when.refine == "discard", "interval": when.interval}
        found: list[Stream] = []
        for name, window in others.items():
            part = attrs.evolve(self, windows={name: window})
            stream = part._together(functions, **options, condition=conditions[name])
            if when.events is not None:
                stream = _controlled(stream, when.events)
            found.append(self._naming(part.windows, stream) if self.named else stream)
        options = {"by": by, "strategy": strategy, "lateness": lateness, "exact": False}
        found += self._sessions(functions, when, sessions, **options)
        return found[0] if len(found) == 1 else meld(*found)

    def _sessions(
        self,
        functions: Mapping[str, AggregateFunction],
        when: Early,
        sessions: Mapping[str, SessionWindow],
        *,
        by: str | Sequence[str],
        strategy: str | Strategy,
        lateness: Amount,
        exact: bool,
    ) -> Iterator[Stream]:
        """Yield the results of sessions that give what they have so far, `exact` at ticks or as a trigger says."""
        # Start-up: few sessions give early results.
        from oop_engine.api.early_sessions import early_session, triggered_session

        groups = self._groups(by)
        node, asked = settled(self.stream.node, keys=groups), named_strategy(strategy)
        made = early_session if exact else triggered_session
        for name, window in sessions.items():
            step = made(when, window, node.schema, functions, groups, strategy=asked, late=lateness)
            session = operator_node(step.operator, node, label=step.label, remarks=step.remarks)
            self._check(session, groups)
            if ticks_of(lateness, node.schema.field(window.wattr, where="window"), what="lateness"):
                self._check_late()
            yield self._naming({name: window}, Stream(session)) if self.named else Stream(session)

    def _beside(
        self,
        several: Sequence[Windows],
        functions: Mapping[str, AggregateFunction],
        *,
        by: str | Sequence[str],
        strategy: Strategy,
        lateness: Amount,
    ) -> Stream:
        """Compute those windows together that share slices, the others beside them, and unite the results."""

        found: list[Stream] = []
        for windows in several:
            own = strategy if share_slices(windows) else named_strategy("auto")
            part = attrs.evolve(self, windows=windows)
            stream = part._together(functions, by=by, empty=False, asked=own, lateness=lateness)
            found.append(self._naming(windows, stream))
        return meld(*found)

    def _naming(self, windows: Windows, stream: Stream) -> Stream:
        """Return results of some of the windows with their names, and with bounds as all have them."""
        # Start-up: most streams have one window.
        from oop_engine.rewrite.window_groups import Bounds

        bounds = Bounds.of(self.windows, self.stream.schema)
        named = bounds.naming(windows, stream.schema, told=_bears_names(stream))
        return Stream(operator_node(named, stream.node, label=f"results of {', '.join(windows)}"))

    def _check(self, node: Node, names: tuple[str, ...]) -> None:
        """Refuse windows that nothing could ever release: no promise reaches them, alone or with groups."""
        if any(promise <= {*_RELEASING, *names} for promise in node.schema.progress):
            return
        # Start-up: only a refusal needs its reasons.
        from oop_engine.rewrite.unreleasable import unpromised

        raise PlanError(unpromised(self.stream.node, next(iter(self.windows.values())).wattr))

    def _text(self, window: Windowing) -> str:
        return window_text(window, self.stream.schema)


def _refined(stream: Stream, refine: Refinement, groups: Sequence[str]) -> Stream:
    """Return results that take back, where they are to, those that they replace."""
    if refine != "retract":
        return stream
    # Start-up: few results are taken back.
    from operators.window_aggregate.early.refine import Refine

    return Stream(operator_node(Refine(groups), stream.node, label="take back what the next result replaces"))


def _controlled(stream: Stream, events: Stream) -> Stream:
    """Return the results of windows that fire events of another stream, too."""
    # Start-up: few windows hear a stream of events.
    from operators.window_aggregate.triggers.controlled import ControlledAggregate

    node = stream.node
    assert isinstance(node, OperatorNode)
    fires = cast("TriggeredAggregate", node.operator)
    options: dict[str, Any] = {"discards": fires.discards, "tagged": fires.tagged, "lateness": fires.lateness}
    operator = ControlledAggregate(fires.window, fires.functions, fires.by, condition=fires.condition, **options)
    remarks = (*node.remarks, "the second input fires events by name, behind the tuples that arrived before")
    return Stream(operator_node(operator, *node.inputs, events.node, label=node.label, remarks=remarks))


def _bears_names(stream: Stream) -> bool:
    """Return whether the results of a window aggregate bear the names of their windows."""
    node = stream.node
    return isinstance(node, OperatorNode) and names_windows(node.operator)
