"""A stream is an immutable handle on a node of a plan; every method gives a new handle, nothing runs until it is asked.

packets = oop.meld(oop.pcap("main1.pcap"), oop.pcap("main2.pcap"))
talkers = packets.filter(lambda p: p["length"] > 100).window(range="10 minutes", slide="1 minute", wattr="ts")
for page in talkers.aggregate(oop.count(), by="srcIP"):
    print(page.rows())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.api.output import Output
from oop_engine.api.windowing import WindowOf
from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.aggregates import grouping, listed, named_results
from oop_engine.plan.arrival_attributes import numbered, stamped
from oop_engine.plan.graph import Node, Plan, operator_node
from oop_engine.plan.ticks import Amount, ticks_of
from oop_engine.plan.windows import parted, window_of
from oop_engine.sources.protocol import ARRIVAL
from operators.data.page import Page
from operators.data.schema import ROW_NUM, Schema
from operators.errors import did_you_mean
from operators.expression import Column, Expression
from operators.functions.protocol import AggregateFunction
from operators.plan_facts import Remarking
from operators.protocol import Operator
from operators.rows.apply import Apply
from operators.rows.distinct import Distinct
from operators.rows.filter import Filter
from operators.rows.number import Number
from operators.rows.project import Project
from operators.rows.spread import Spread, needs_reach
from operators.streams.meld import Meld
from operators.streams.merge import Merge
from operators.streams.reorder import Reorder
from operators.window_aggregate.group_by import GroupAggregate

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from oop_engine.api.join import Kind, On, Pair, Promises
    from oop_engine.api.running import Running
    from oop_engine.api.windowed import Windowed
    from oop_engine.drive.outcome import Outcome
    from oop_engine.sinks import Sink
    from oop_engine.spark.counts import Counts
    from operators.join import JoinWindow

Mode: TypeAlias = Literal["consistent", "generous"]
_MODES = ("consistent", "generous")


@attrs.frozen(eq=False, repr=False)
class Stream:
    """A stream of tuples: what it has is in `schema`, how it comes about in `explain()`."""

    node: Node

    @property
    def schema(self) -> Schema:
        """The attributes, and what the stream is punctuated on."""
        return self.node.schema

    def filter(self, predicate: Computed) -> Stream:
        """Keep the tuples for which a predicate is true: `lambda p: p["length"] > 100`, or the same as text."""
        expression = expression_of(predicate, self.schema, "filter")
        return self._then(Filter(expression), f"filter {expression}")

    def project(self, /, *names: str, **computed: Computed) -> Stream:
        """Keep the named attributes, in this order, and add computed ones (renaming is `project(source="srcIP")`)."""
        if not names and not computed:
            raise PlanError('project needs at least one attribute, e.g. project("srcIP", bytes="length * 8")')
        columns: dict[str, Expression] = {n: Column(self.schema.resolve(n, where="project")) for n in names}
        for name, value in computed.items():
            named = isinstance(value, str) and value in self.schema
            columns[name] = Column(str(value)) if named else expression_of(value, self.schema, f"project({name}=...)")
        return self._then(Project(columns), "project " + ", ".join(_shown(n, e) for n, e in columns.items()))

    def derive(self, /, **computed: Computed) -> Stream:
        """Add computed attributes to those there are (thesis: Apply)."""
        if not computed:
            raise PlanError('derive needs at least one attribute, e.g. derive(bits="length * 8")')
        columns = {name: expression_of(value, self.schema, f"derive({name}=...)") for name, value in computed.items()}
        return self._then(Apply(columns), "derive " + ", ".join(_shown(n, e) for n, e in columns.items()))

    def apply(self, operator: Operator, *others: Stream) -> Stream:
        """Put an operator of your own over this stream and, on its further ports, others.

        Every run makes its own: an attrs class anew from its public fields, another object as a deep copy.
        """
        if not isinstance(operator, Operator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(
                f"apply puts an operator over the stream, and {type(operator).__name__} is none: it needs inputs,"
                " output_schema, process, punctuate, state and restore (operators.protocol.Operator)."
            )
        if operator.inputs != 1 + len(others):
            raise PlanError(
                f"{type(operator).__name__} has {operator.inputs} input ports and {1 + len(others)} streams were given."
            )
        label, remarks = type(operator).__name__, operator.remarks() if isinstance(operator, Remarking) else ()
        return Stream(operator_node(operator, self.node, *(o.node for o in others), label=label, remarks=remarks))

    def distinct(self, *attributes: str) -> Stream:
        """Keep the first tuple of each combination of these attributes, of all when none is named (DupElim)."""
        names = tuple(self.schema.resolve(n, where="distinct") for n in attributes)
        return self._then(Distinct(names), "distinct " + (", ".join(names) or "*"))

    def spread(
        self,
        *columns: str,
        step: Amount,
        start: str = "ts",
        end: str = "end_ts",
        into: str | None = None,
        max_panes: int = 4096,
    ) -> Stream:
        """Share amounts such as bytes out over the panes between a flow's start and its end.

        Each flow becomes one tuple a pane of `step`, whose time is `into` (`start` anew by default): windows over it
        count bytes where they belong and not where their record came in; late records revise the past. Whole amounts
        add up exactly. A tuple without a start or an end has no place: it is left out, counted, and noted.

        A flow over more than `max_panes` panes is cut into at most as many longer parts, each several panes, so its
        bytes are still where they belong, to within a part. Only where the stream promises `end` and not `start` do
        all bytes of such a flow go to its last `max_panes` panes: it could begin at any time, so that no window would
        ever be complete. Promise `start`, too, then, or raise `max_panes`, which delays windows by as many panes. The
        notes of the run tell how many flows were cut so.
        """
        first, last = (self.schema.resolve(name, where="spread") for name in (start, end))
        operator = Spread(
            tuple(self.schema.resolve(name, where="spread") for name in columns),
            step=ticks_of(step, self.schema.field(first), what="step"),
            start=first,
            end=last,
            into=into or first,
            max_panes=max_panes,
            reach=max_panes if needs_reach(self.schema, first, last) else None,
        )
        return self._then(operator, f"spread {', '.join(columns)} over [{first}, {last}] by {step}")

    def number(self, name: str = "row_num") -> Stream:
        """Number the tuples in the order in which they arrive here, from 0."""
        return self._then(Number(name), f"number as {name}")

    def reorder(
        self, *, on: str = "ts", slack: Amount | None = None, tuples: int | None = None, mode: Mode = "consistent"
    ) -> Stream:
        """Sort by an attribute as far as a slack in time or tuples allows (BSort); to compare with sorting engines."""
        if mode not in _MODES:
            raise PlanError(f'reorder: mode="{mode}" is none of {", ".join(_MODES)}. {did_you_mean(str(mode), _MODES)}')
        if slack is not None and tuples is not None:
            raise PlanError(
                f"reorder(slack={slack!r}, tuples={tuples!r}): a slack is in time or in tuples; leave one of them out."
            )
        if tuples is not None and (isinstance(tuples, bool) or not isinstance(tuples, int) or tuples < 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(f"reorder(tuples={tuples!r}): a number of tuples is a whole number from 0 on.")
        on = self.schema.resolve(on, where="reorder")
        ticks = None if slack is None else ticks_of(slack, self.schema.field(on), what="slack")
        return self._then(Reorder(on, slack_time=ticks, slack_tuples=tuples, mode=mode), f"reorder by {on}")

    def meld(self, *others: Stream) -> Stream:
        """Unite this stream with others; see `meld`."""
        return meld(self, *others)

    def join(
        self,
        right: Stream,
        on: On = (),
        *,
        range: Pair | None = None,
        tumbling: Amount | None = None,
        window: JoinWindow | None = None,
        wattr: str | tuple[str, str] = "ts",
        closed: bool = False,
        origin: Amount = 0,
        where: Computed | None = None,
        kind: Kind = "inner",
        prefix: str = "right_",
        least: str = "",
        greatest: str = "",
        promises: Promises = "both",
    ) -> Stream:
        """Join this stream, the left one, with a right one: pairs of tuples that are near in time and equal in keys.

        `range` says how long a tuple of each input stays and waits for partners: "2 minutes" for both, or ("3 minutes",
        "2 minutes") for left and right, which is left - 2 minutes < right < left + 3 minutes (with `closed`, <=).
        `tumbling="5 minutes"` joins what is in the same five minutes, from `origin` on. `window` is a join window of
        your own in ticks, e.g. operators.join.WidJoin. `wattr` is the windowing attribute, or that of each input.
        `on` names what must be equal: "srcIP", a pair ("srcIP", "destIP") of a left and a right attribute, or several
        in a list. `where` is a further condition on both: lambda p: p["length"] > p["right_length"], or text.
        `kind`: "inner"; "left", "right" or "full" add tuples without a partner, once, beside nulls; "semi" and "anti"
        give the left tuples with, and without, a partner.

        The result has the attributes of the left, then those of the right, `prefix` before names that the left has
        too; `least` and `greatest` name two more, the lesser and the greater time. It is punctuated on both times, each
        by itself and, more finely, jointly (`promises` chooses). PlanError when nothing could ever purge what is kept.
        """
        from oop_engine.api.join import Joining, check_choices, entered, join_window, pairs_of

        check_stream("join", right, " Write left.join(right, ...).")
        check_choices(kind, promises)
        wattrs = (wattr, wattr) if isinstance(wattr, str) else wattr
        if not isinstance(wattrs, tuple) or len(wattrs) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
            raise PlanError(f"join(wattr={wattr!r}): give one name for both inputs, or a pair for left and right.")
        wattrs = (wattrs[0].replace("-", "_"), wattrs[1].replace("-", "_"))
        one, other = entered(self.node, right.node, wattrs if window is None else window.attributes)
        if window is None:
            window = join_window(
                one.schema, other.schema, wattrs, range=range, tumbling=tumbling, closed=closed, origin=origin
            )
        elif range is not None or tumbling is not None or closed or origin != 0:
            raise PlanError("join(window=...): it says all itself; leave range, tumbling, closed and origin out.")
        joining = Joining(
            window=window, on=pairs_of(on), prefix=prefix, least=least, greatest=greatest, promises=promises
        )
        if where is not None:
            joined = Stream(joining.over(one, other))
            residual = expression_of(where, joined.schema, "join(where=...)")
            if not pa.types.is_boolean(kind_of := residual.type(joined.schema)):
                raise SchemaError(f"join(where={residual}): this is of type {kind_of}, and a condition is wanted.")
            joining = attrs.evolve(joining, residual=residual)
        return Stream(attrs.evolve(joining, kind=kind).over(one, other))

    def window(
        self,
        range: Amount | WindowOf,
        *,
        slide: Amount | None = None,
        wattr: str = "ts",
        partition: str | Sequence[str] = (),
        origin: Amount = 0,
        partial: bool = True,
        consistent: bool = False,
    ) -> Windowed:
        """Specify the windows of an aggregate: RANGE, SLIDE, WA and PA of the thesis.

        `range` and `slide` are durations ("10 minutes"), rows ("1000 rows", on row_num), or integers where `wattr` is
        a number (beside a time, ticks have a unit: "60 ns"); `range="ALL"` is a landmark window; without `slide`
        windows are tumbling. Windows end at `origin` and at multiples of `slide` before and after it, and begin `range`
        earlier. Spark's `window(...)` begins them there: where `range` is no multiple of `slide`, its windows are those
        with the origin `range` modulo `slide`. `partition` counts rows in each partition separately, while `by` of
        `aggregate` parts the rows of the windows of the whole stream; over a time both are the same. With "ALL" the
        last window is the first that has all rows, of each partition its own.
        `wattr="arrival_ts"`, where the stream has none, is when tuples arrive at their source (see
        `oop_engine.plan.arrival_attributes.stamped`). `partial=False` leaves out windows that begin before the origin.
        A tuple that is late for some of its windows is counted in the others, if `consistent` in none (where an
        operator in between relies on promises, or late tuples are refused or diverted, it stops before). Other windows
        are given as a value in the place of `range`: `oop.session("30 s")`, `oop.counted(100)`.

        A tuple is in no window if its `wattr` is null, or 2**61 ticks or more from 0: in nanoseconds, times before
        1896-12 and after 2043-01.
        """
        from oop_engine.api.windowed import Windowed

        names = grouping(self.schema, partition, "window", "partition")
        if isinstance(range, WindowOf):
            if slide is not None or origin or not partial or wattr not in ("ts", range.wattr):
                raise PlanError(f"window({range}): it says all itself; leave slide, wattr and the others out.")
            windowed = self.windows({"": range}, consistent=consistent)
            if not names:
                return windowed
            window = parted(windowed.windows[""], names, str(range))
            # Rows of a partition are counted where its windows are, and not at the entry.
            counted = range.wattr == ROW_NUM or range.counts_arrivals
            return Windowed(self if counted else windowed.stream, {"": window}, consistent, names)
        wanted = wattr.replace("-", "_")
        node = self.node
        if wanted == ROW_NUM and not names:
            node = numbered(node)
        elif wanted == ARRIVAL:
            node = stamped(node)
        window = window_of(
            node.schema, size=range, slide=slide, wattr=wanted, partition=names, origin=origin, partial=partial
        )
        return Windowed(Stream(node), {"": window}, consistent, names)

    def windows(
        self, windows: Mapping[str, WindowOf] | None = None, *, consistent: bool = False, **named: WindowOf
    ) -> Windowed:
        """Specify several windows, of any kinds; results bear the name of theirs in the attribute `window`.

        Those over one attribute share their slices. Windows that tuples define, landmark windows and those over another
        attribute are computed beside them; where some windows are over times, those of n tuples or arrivals have no
        window_start and window_end, which would be ranks.

        stream.windows(short=oop.tumbling("1 s"), burst=oop.session("200 ms")).aggregate(oop.count(), by="srcIP")
        """
        from oop_engine.api.windowed import Windowed

        if windows is not None and not isinstance(windows, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(
                f"windows takes windows by their names, and {windows} has none.\n"
                '  Write windows(short=oop.tumbling("1 s"), ...), or window(...) for one alone.'
            )
        wanted = {**(windows or {}), **named}
        if not wanted:
            raise PlanError('windows needs at least one, e.g. windows(short=oop.tumbling("1 s"))')
        node = self.node
        for name, window in wanted.items():
            if not isinstance(window, WindowOf):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise PlanError(f'windows: {name} is {window!r}, no window. Write one as oop.sliding("60 s", "1 s").')
            if window.wattr == ROW_NUM or window.counts_arrivals:
                node = numbered(node)
            elif window.wattr == ARRIVAL:
                node = stamped(node)
        return Windowed(Stream(node), {name: window.of(node.schema) for name, window in wanted.items()}, consistent)

    def aggregate(
        self, /, *functions: AggregateFunction, by: str | Sequence[str] = (), **named: AggregateFunction
    ) -> Stream:
        """Aggregate without a window: a group leaves when a promise on its attributes ends it, or at the end."""
        results = named_results(functions, named)
        names = grouping(self.schema, by, "aggregate", "by")
        label = "aggregate " + listed(results) + (f" by {', '.join(names)}" if names else "")
        remark = "released by promises on " + (", ".join(names) if names else "nothing: at the end of the stream")
        return self._then(GroupAggregate(results, names), label, remark)

    def to(self, target: str | Path | Sink) -> Output:
        """Say where the results go: a path ending in .parquet, .csv, .ndjson or .arrow, or "-" for the terminal.

        NDJSON, as JSON, has no NaN and no infinity: they are null there.
        """
        from oop_engine.sinks import Sink, sink_for

        if isinstance(target, (str, Path)):
            return Output(self, sink_for(target))
        if not isinstance(target, Sink):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(
                f"to({target!r:.60}): results go to a file or a sink, and {type(target).__name__} is neither.\n"
                '  Write to("out.parquet"), to("-") for the terminal, or to(oop_engine.sinks.ListSink([])).'
            )
        return Output(self, target)

    def run(self, *, mode: Literal["oop", "iop"] = "oop") -> Outcome:
        """Run to the end and keep all results in memory; `to(...)` writes them instead.

        `mode="iop"` sorts the streams between operators, as in-order systems do, to compare (`oop.in_order`).
        """
        from oop_engine.drive.outcome import collect

        if mode not in ("oop", "iop"):
            raise PlanError(f'run(mode="{mode}"): a plan runs out of order, "oop", or in order, "iop".')
        if mode == "iop":
            from oop_engine.api.in_order import in_order

            return in_order(self).run()
        return collect(self._plan())

    def start(self, *, page_rows: int = 65_536) -> Running:
        """Run in this thread, page by page: what is given has windows added and removed while it is iterated over.

        `page_rows` tuples at most go through the plan at a time, so that one hears of results so much sooner.
        """
        from oop_engine.api.running import Running
        from oop_engine.rewrite.fusion import shareable

        if isinstance(page_rows, bool) or not isinstance(page_rows, int) or page_rows < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(f"start(page_rows={page_rows!r}): the tuples of a page are a whole number from 1 on.")
        return Running(shareable(self._plan()), page_rows)

    async def run_async(self) -> Outcome:
        """Run as `run` does, under a trio loop that is already there."""
        from oop_engine.drive.outcome import collect_async

        return await collect_async(self._plan())

    def _plan(self) -> Plan:
        from oop_engine.rewrite.passes import prepared

        return prepared(self.node)

    def __iter__(self) -> Iterator[Page]:
        """Give the pages of the result as they are released.

        Operators run in this thread. Where a source promises by the clock (`lull`, `oop.heartbeat`), those that can be
        read only once are read in threads of their own, and time goes on while they are silent.
        """
        from oop_engine.drive.synchronous import Run

        return (element for _, element in Run(self._plan()) if isinstance(element, Page))

    def to_arrow(self) -> pa.Table:
        """Run to the end and give the results as an Arrow table; addresses are text."""
        return self.run().table

    def to_pandas(self) -> pd.DataFrame:
        """Run to the end and give the results as a pandas frame (needs the extra `pandas`)."""
        if find_spec("pandas") is None:
            raise ImportError(
                "to_pandas() needs pandas, which is not installed.\n"
                "  Run pip install 'oop-engine[pandas]', or write to_arrow(), which needs nothing."
            )
        return self.run().table.to_pandas()

    def explain(self, *, spark: bool = False) -> str:
        """Give the plan as text; with `spark`, which part would run where inside Spark, and why."""
        if spark:
            from oop_engine.spark.explained import explain_on_spark

            return explain_on_spark(self)
        from oop_engine.report.explain import explain

        return explain(self._plan())

    def on_spark(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame] | None = None,
        *,
        buckets: int | None = None,
        counts: Counts | None = None,
        end: bool = False,
    ) -> DataFrame:
        """Run inside Spark and give a DataFrame, streaming if an input is; see `oop_engine.spark.on_spark`."""
        from oop_engine.spark.run import on_spark

        return on_spark(self, spark, inputs, buckets=buckets, counts=counts, end=end)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Run here, and give the results as a DataFrame of Spark."""
        from oop_engine.spark.dataframe import to_spark

        return to_spark(self, spark)

    def __repr__(self) -> str:
        return self.explain()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from oop_engine.report.drawing import svg

        return {"text/plain": self.explain(), "image/svg+xml": svg(self._plan())}

    def _then(self, operator: Operator, label: str, *remarks: str) -> Stream:
        return Stream(operator_node(operator, self.node, label=label, remarks=remarks))


def meld(*streams: Stream) -> Stream:
    """Unite streams of one schema: tuples pass at once, and only what every input promised is promised (Fig 8-2)."""
    _check_streams("meld", streams)
    if len(streams) == 1:
        return streams[0]
    return Stream(operator_node(Meld(len(streams)), *(s.node for s in streams), label=f"meld of {len(streams)}"))


def merge(*streams: Stream, on: str = "ts") -> Stream:
    """Unite streams in the order of an attribute, holding tuples back until every input allows it; for comparison."""
    _check_streams("merge", streams)
    on = streams[0].schema.resolve(on, where="merge")
    nodes = (s.node for s in streams)
    return Stream(operator_node(Merge(len(streams), on), *nodes, label=f"merge of {len(streams)} by {on}"))


def check_stream(where: str, stream: object, hint: str = "") -> None:
    """Check that what a call was given is a stream; PlanError, naming the call, for anything else."""
    if not isinstance(stream, Stream):
        takes = "streams" if hint else "a stream"
        raise PlanError(f"{where} takes {takes}, and {type(stream).__name__} is none.{hint}")


def _check_streams(where: str, streams: Sequence[object]) -> None:
    if not streams:
        raise PlanError(f"{where} needs at least one stream")
    for stream in streams:
        several = isinstance(stream, Sequence) and not isinstance(stream, str)
        check_stream(where, stream, f" Write {where}(*streams)." if several else f" Write {where}(one, other).")


def _shown(name: str, expression: Expression) -> str:
    text = str(expression)
    return name if text == name else f"{text} as {name}"
