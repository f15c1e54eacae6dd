"""Streams are immutable handles on nodes of a plan: every method returns a new handle, and nothing runs until asked.

packets = oop.meld(oop.pcap("main1.pcap"), oop.pcap("main2.pcap"))
talkers = packets.filter(lambda p: p["length"] > 100).window(range="10 minutes", slide="1 minute", wattr="ts")
for page in talkers.aggregate(oop.count(), by="srcIP"):
    print(page.rows())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.api.output import Output
from oop_engine.api.windowing import WindowOf
from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.aggregates import grouping, listed, named_results
from oop_engine.plan.arrival_attributes import numbered, stamped
from oop_engine.plan.graph import Node, Plan, operator_node
from oop_engine.plan.ticks import Amount, length_of, ticks_of
from oop_engine.plan.windows import parted, window_of
from oop_engine.sinks.choice import sink_for
from oop_engine.sinks.protocol import Sink
from oop_engine.sinks.python import PageSink
from oop_engine.sources.protocol import ARRIVAL
from operators.data.page import Page
from operators.data.schema import ROW_NUM, Schema
from operators.errors import did_you_mean
from operators.expression import Column, Expression
from operators.expression.expensive import mark, marked, workers_of
from operators.functions.protocol import AggregateFunction
from operators.plan_facts import Remarking
from operators.protocol import Operator
from operators.rows.apply import Apply
from operators.rows.filter import Filter
from operators.rows.number import Number
from operators.rows.project import Project
from operators.streams.meld import Meld
from operators.window_aggregate.results import START, STOP, WID

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from oop_engine.api.exporter_names import ExporterNames
    from oop_engine.api.join import Cardinality, Flushes, Kind, On, Pair, Promises
    from oop_engine.api.lookup import Reference
    from oop_engine.api.running import Running
    from oop_engine.api.windowed import Windowed
    from oop_engine.drive.limit import Policy
    from oop_engine.drive.outcome import Outcome
    from oop_engine.sinks import Sink
    from oop_engine.spark.counts import Counts
    from operators.join import JoinWindow

Mode: TypeAlias = Literal["consistent", "generous"]
_MODES = ("consistent", "generous")


@attrs.frozen(eq=False, repr=False)
class Stream:
    """Describe a stream of tuples: sources such as `oop.read` make one, and its methods build further ones.

    `node` is the place of the stream in its plan. Iterating over a stream runs it, page by page.

    >>> stream = oop.rows([(1, 5), (3, 2)], oop.Schema.of(ts="int64", v="int64"))
    >>> stream.schema.names
    ['ts', 'v']
    >>> [page.rows() for page in stream.filter("v > 2")]
    [[{'ts': 1, 'v': 5}]]
    """

    node: Node

    @property
    def schema(self) -> Schema:
        """Return the attributes of the stream, and those that it promises progress on."""
        return self.node.schema

    def filter(self, predicate: Computed, *, expensive: bool = False, workers: int | None = None) -> Stream:
        """Keep the tuples for which a condition is true; null counts as not true.

        - `predicate`: a function of the tuple, or the same condition as text.
        - `expensive`: the functions of pages in it take long, or else all of it does: threads compute it in the
          background, while tuples that cheap conditions decide overtake. `oop.expensive` marks parts of a condition,
          as `expensive(...)` does in a text. Without it, tuples keep their order.
        - `workers`: how many threads, 1 to 256; by default 4.

        SchemaError when the condition does not fit the attributes.

        >>> stream = oop.rows([(1, 5), (3, 2)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.filter(lambda p: p["v"] > 2).to_arrow().to_pylist()
        [{'ts': 1, 'v': 5}]
        >>> stream.filter("v > 2 and ts < 9").to_arrow().num_rows
        1
        """
        expression = expression_of(predicate, self.schema, "filter", pa.bool_() if expensive else None)
        if expensive and not marked(expression):
            expression = mark(expression, workers)
        elif workers is not None:
            raise PlanError(
                f"filter(workers={workers}): threads compute expensive conditions.\n  Write filter(...,"
                f" expensive=True, workers={workers}), or mark a part of it: oop.expensive(..., workers={workers})."
            )
        operator: Operator = Filter(expression)
        if marked(expression):
            # Start-up: few plans have this operator.
            from operators.rows.deferred import DeferredFilter

            operator = DeferredFilter(expression, workers=workers_of(expression))
        return self._then(operator, f"filter {expression}")

    def project(self, /, *names: str, **computed: Computed) -> Stream:
        """Keep some attributes, and add computed ones.

        - `names`: the attributes to keep, in the order of the result.
        - `computed`: further attributes: a function of the tuple, the same as text, or the name of an attribute to
          rename.

        PlanError when nothing is named, SchemaError for an unknown attribute.

        >>> stream = oop.rows([(1, 5)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.project("ts", value="v", double=lambda p: p["v"] * 2).to_arrow().to_pylist()
        [{'ts': 1, 'value': 5, 'double': 10}]
        """
        if not names and not computed:
            raise PlanError('project needs at least one attribute, e.g. project("srcIP", bytes="length * 8")')
        columns: dict[str, Expression] = {n: Column(self.schema.resolve(n, where="project")) for n in names}
        for name, value in computed.items():
            named = isinstance(value, str) and value in self.schema
            columns[name] = Column(str(value)) if named else expression_of(value, self.schema, f"project({name}=...)")
        return self._then(Project(columns), "project " + ", ".join(_shown(n, e) for n, e in columns.items()))

    def derive(self, /, **computed: Computed) -> Stream:
        """Add computed attributes to those there are (thesis: Apply).

        - `computed`: a function of the tuple, or the same as text, for each new attribute.

        >>> stream = oop.rows([(1, 5)], oop.Schema.of(ts="int64", length="int64"))
        >>> stream.derive(bits="length * 8").to_arrow().to_pylist()
        [{'ts': 1, 'length': 5, 'bits': 40}]
        """
        if not computed:
            raise PlanError('derive needs at least one attribute, e.g. derive(bits="length * 8")')
        columns = {name: expression_of(value, self.schema, f"derive({name}=...)") for name, value in computed.items()}
        return self._then(Apply(columns), "derive " + ", ".join(_shown(n, e) for n, e in columns.items()))

    def apply(self, operator: Operator, *others: Stream) -> Stream:
        """Put an operator of your own over this stream.

        - `operator`: an object as `operators.protocol.Operator` describes it. Each run uses a copy: an attrs class is
          made anew from its public fields, another object is deep-copied.
        - `others`: the streams on its further input ports.

        PlanError when it is no operator, or has another number of ports.

        >>> from operators.rows.largest import Largest
        >>> stream = oop.rows([(1, 5), (1, 7)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.apply(Largest("v", 1, ("ts",))).to_arrow().to_pylist()
        [{'ts': 1, 'v': 7}]
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

    def lookup(
        self,
        table: Reference | Stream | ExporterNames,
        on: On,
        *,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        prefix: str | None = None,
        name: str | None = None,
        required: bool = False,
        types: Mapping[str, str | pa.DataType] | None = None,
        valid_from: str | None = None,
        at: str = "ts",
        wait: bool = False,
        revise: Amount | None = None,
    ) -> Stream:
        """Add what a table knows of each tuple: names of hosts, sites of networks, descriptions of interfaces.

        A lookup in a table holds no tuple and no promise back. It is read when this is called, and stays as it is.

        - `table`: the path of a CSV, TSV, NDJSON, Parquet or Arrow file, Arrow data, a frame, columns by name, or rows
          as a list of dictionaries; a stream of rows, see below; or `oop.exporter_names(...)`, which exporters send.
        - `on`: the attribute and the column that are equal: a name that both have, a pair ("srcIP", "ip"), or a list of
          these. A text column is compared with addresses as addresses; where it has networks such as "10.0.0.0/8", the
          longest one that holds the address counts.
        - `columns`: the columns of the table to add, by default all others; or {"new name": "column"}.
        - `prefix`: put before the names of these columns. Without it, a column that the stream has too is called
          table_column. An expression may always say "table.column".
        - `name`: the name of the table, by default that of its file.
        - `required`: drop tuples that find no row, and count them. By default they have null, and are counted.
        - `types`: the types of columns of a file, as `oop.table` takes them.
        - `valid_from`: the column that says since when a row is valid, in a table that has several rows for one key.
          Each tuple gets the row that was valid `at` its own time, whenever it arrives.
        - `at`: the time of the tuple, for `valid_from`.
        - `wait`, `revise`: what a lookup in a stream does before it knows all rows of a time.

        A row of a stream is valid from its `valid_from`, by default ts, to that of the next row of its key. An idle
        stream delays nothing: tuples leave at once, with `sign` 1. A row that comes late takes those that it changes
        back, with `sign` -1, and gives them anew, so that sums over `sign` are right in the end. Tuples are kept for
        this until the stream of rows has promised their time, or with `revise="10 minutes"` until the stream looked up
        is so far ahead; rows that come later still are counted as late. With `wait=True` tuples leave once, when the
        stream of rows has promised their time, and windows can follow.

        SchemaError, with the numbers of the rows, where a key of a table has two rows.

        >>> stream = oop.rows([(1, "10.1.2.3"), (2, "8.8.8.8")], oop.Schema.of(ts="int64", srcIP="ip"))
        >>> sites = {"network": ["10.0.0.0/8", "10.1.0.0/16"], "site": ["all", "north"]}
        >>> stream.lookup(sites, on=("srcIP", "network")).to_arrow()["site"].to_pylist()
        ['north', None]
        """
        # Start-up: few plans have this operator.
        from oop_engine.api.exporter_names import ExporterNames, announcing
        from oop_engine.api.lookup import as_of, label, lookup_of, table_name, table_of

        called = table_name(table) if name is None else name
        if isinstance(table, Stream | ExporterNames):
            if types is not None:
                raise PlanError(f"lookup in {called}: a stream has types already; leave types out.")
            stream, rows, first_holds = self, table, False
            if isinstance(rows, ExporterNames):
                stream, first_holds = Stream(announcing(self.node)), True
                rows, valid_from = Stream(rows.rows(stream.node)), "since" if valid_from is None else valid_from
            looked = as_of(
                stream.schema, rows.schema, called, on, columns=columns, prefix=prefix, required=required,
                valid_from=valid_from, at=at, wait=wait, revise=revise, first_holds=first_holds,
            )  # fmt: skip
            return Stream(operator_node(looked, stream.node, rows.node, label=label(looked), remarks=looked.remarks()))
        if wait or revise is not None:
            raise PlanError(f"lookup in {called}: a table is there at once; wait and revise are for streams of rows.")
        operator = lookup_of(
            self.schema, table_of(table, called, types), called, on,
            columns=columns, prefix=prefix, required=required, valid_from=valid_from, at=at,
        )  # fmt: skip
        return self._then(operator, label(operator), *operator.remarks())

    def distinct(self, *attributes: str) -> Stream:
        """Keep the first tuple of each combination of values (thesis: DupElim).

        - `attributes`: the attributes that are compared; all of them if none is named.

        >>> stream = oop.rows([(1, 5), (2, 5), (3, 6)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.distinct("v").to_arrow().to_pylist()
        [{'v': 5}, {'v': 6}]
        """
        names = tuple(self.schema.resolve(n, where="distinct") for n in attributes)
        # Start-up: few plans have this operator.
        from operators.rows.distinct import Distinct

        return self._then(Distinct(names), "distinct " + (", ".join(names) or "*"))

    def top(
        self,
        n: int,
        by: str | Sequence[str],
        *,
        within: str | Sequence[str] | None = None,
        ascending: bool = False,
    ) -> Stream:
        """Keep the first n tuples of each window, the largest first: the top talkers.

        - `n`: how many tuples of a window.
        - `by`: the attribute by which they are ordered, or several. All other attributes decide between equals, so that
          the answer does not depend on the order of arrival. Nulls come last.
        - `within`: the attributes that tell one window from another, by default wid, window_start and window_end where
          the stream has them. Without any, the first n of all tuples come at the end of the stream.
        - `ascending`: the smallest first.

        >>> stream = oop.rows([(1, 5), (1, 7), (1, 6)], oop.Schema.of(wid="int64", v="int64"))
        >>> stream.top(2, "v", within="wid").to_arrow().to_pylist()
        [{'wid': 1, 'v': 7}, {'wid': 1, 'v': 6}]
        """
        order = (by,) if isinstance(by, str) else tuple(by)
        if within is None:
            within = tuple(name for name in (WID, START, STOP) if name in self.schema)
        group = (within,) if isinstance(within, str) else tuple(within)
        return self.ranked(order, n, within=group, descending=() if ascending else order)

    def ranked(
        self, order: Sequence[str], n: int | None, *, within: Sequence[str], descending: Sequence[str] = ()
    ) -> Stream:
        """Put the tuples of each group into an order, and keep the first n, or all of them.

        - `order`: the attributes by which they are ordered.
        - `n`: how many tuples of a group, None for all.
        - `within`: the attributes that make a group.
        - `descending`: those of `order` of which the largest comes first.

        >>> stream = oop.rows([(1, 5), (1, 7), (1, 6)], oop.Schema.of(wid="int64", v="int64"))
        >>> stream.ranked(["v"], None, within=["wid"]).to_arrow()["v"].to_pylist()
        [5, 6, 7]
        """
        # Start-up: few plans have this operator.
        from operators.rows.ranking import Ranking

        names = [self.schema.resolve(name, where="ranked") for name in order]
        falling = [self.schema.resolve(name, where="ranked") for name in descending]
        group = [self.schema.resolve(name, where="ranked") for name in within]
        said = ", ".join(f"{name} descending" if name in falling else name for name in names)
        label = f"order by {said}" + ("" if n is None else f", first {n}") + (f" of each {group[0]}" if group else "")
        return self._then(Ranking(names, n, group, descending=falling), label)

    def alert(self, name: str, when: Computed, *, clear: Computed | None = None, windows: int = 1) -> Stream:
        """Report of each group when an alert over results of windows opens, goes on and closes.

        - `name`: name of the alert, which its events bear.
        - `when`: a condition over the results. A null is not true.
        - `clear`: the alert closes when this is true, by default when `when` is not.
        - `windows`: how many windows in a row must meet `when`.

        A window without a result does not meet `when`: it ends a run, and closes an alert that is open. Early results
        (`early=`) make an alert provisional at once; the complete window opens or withdraws it. Results that are given
        again (`lateness=`) count as they are in the end.

        Each event has the attributes of the result that caused it, null where the window had none, and four more:
        `alert`; `event`: "provisional", "open", "update", "close" or "withdrawn"; `since`, where the first window of
        the run begins; and `windows`, how many they are. A session that meets `when` is an alert by itself: it opens
        and closes when it is over. PlanError when the windows are neither sessions nor a fixed time apart.

        >>> stream = oop.rows([(1,), (2,), (11,), (12,), (13,), (21,)], oop.Schema.of(ts="int64"))
        >>> busy = stream.window(range=10).aggregate(oop.count()).alert("busy", "count >= 2", windows=2)
        >>> busy.project("event", "count", "window_end", "since").to_arrow().to_pylist()
        [{'event': 'open', 'count': 3, 'window_end': 20, 'since': 0}, {'event': 'close', 'count': 1, 'window_end': 30,
        'since': 0}]
        """
        # Start-up: few plans have alerts.
        from oop_engine.api.alert import alerts_of

        alerts = alerts_of(self.node, name, when, clear, windows)
        run = f" for {windows} windows" if windows > 1 else ""
        return self._then(alerts, f"alert {name} when {alerts.when}{run}")

    def billing(
        self,
        value: str,
        *functions: AggregateFunction,
        per: Amount = "month",
        zone: str = "UTC",
        origin: Amount = 0,
        share: float = 0.95,
        sources: str | Sequence[str] = (),
        on_time: Mapping[str, AggregateFunction] | None = None,
        **named: AggregateFunction,
    ) -> Stream:
        """Compute a percentile of rates over all slots of a period, as bills do; slots are results of windows.

        - `value`: the attribute with the rate of a slot, a number.
        - `functions`, `named`: further aggregates over the results of the slots of a period.
        - `per`: the period: "day", "week", "month", "quarter" or "year", or a length such as "30 days".
        - `zone`: the time zone of these dates, such as "Europe/Berlin".
        - `origin`: where a period of a length begins, by default at multiples of it.
        - `share`: which share of the slots is at most the percentile.
        - `sources`: some of the groups: a slot in which no group with the same of these has a result is `missing`.
        - `on_time`: aggregates over the results as they were first given, where windows have a lateness.

        The percentile is that of the nearest rank over all slots of the period. Slots without a result count as zero,
        also those before the first and behind the last result. A slot belongs to the period that it begins in.
        Results: the groups, p95_<value>, max_<value>, the functions, `slots`, `empty` (slots without a result of the
        group), `missing`, window_start and window_end of the period. PlanError when the windows are not a fixed time
        apart.

        >>> stream = oop.rows([(2, 8), (3, 7), (14, 5)], oop.Schema.of(ts="int64", v="int64"))
        >>> rates = stream.window(range=5).aggregate(v=oop.sum("v"))
        >>> rates.billing("v", per=20, share=0.75).to_arrow().to_pylist()
        [{'p75_v': 5, 'max_v': 15, 'slots': 4, 'empty': 2, 'missing': 2, 'window_start': 0, 'window_end': 20}]
        """
        # Start-up: few plans have bills.
        from oop_engine.api.billing import billing_of

        results = named_results(functions, named) if functions or named else {}
        by = (sources,) if isinstance(sources, str) else tuple(sources)
        bills = billing_of(
            self.node, value, results, per=per, zone=zone, origin=origin, share=share, sources=by, on_time=on_time
        )  # fmt: skip
        return self._then(bills, f"bill {bills.value} at {share} per {per}" + ("" if zone == "UTC" else f" in {zone}"))

    def dedup(
        self,
        *,
        by: str | Sequence[str] = (),
        keys: str | Sequence[str] = ("srcIP", "destIP", "srcPort", "destPort", "proto"),
        observers: str | Sequence[str] = (),
        mark: str | None = None,
        reach: Amount = "2 s",
        step: Amount | None = None,
        start: str = "ts",
        end: str = "end_ts",
    ) -> Stream:
        """Count each flow once: leave out the records of flows that another observer tells of, or mark them.

        - `by`: attributes within whose values a flow counts once. Where one is the exporter, only records of the same
          exporter can be duplicates of each other.
        - `keys`: the attributes that tell one flow from another.
        - `observers`: the attributes that tell where a flow was seen, by default those that the stream has of sampling,
          direction, exporter and domain. The least comes first: of two records the one with the lower sampling stays,
          then the one of packets that come in (0), then the one of the lower address. Nulls come last.
        - `mark`: a new attribute that is true for duplicates; without it they are left out, and counted in the notes.
        - `reach`: how far the clocks and timeouts of two observers may be apart.
        - `step`: judge flows at multiples of this, which spares work; by default once a minute.
        - `start`, `end`: the times at which a flow starts and ends.

        A record is a duplicate if records of observers before its own tell of at least half of its life. So a flow that
        moves from one exporter to another counts on both. Sampled exporters see different packets of a flow: what one
        of them alone saw counts, so of these choose one observer by a filter. A flow waits until its end is promised.

        >>> schema = oop.Schema.of(ts="int64", end_ts="int64", port="int64", exporter="string")
        >>> flows = oop.rows([(0, 60, 80, "r2"), (1, 59, 80, "r1"), (0, 60, 443, "r2")], schema)
        >>> flows.dedup(keys="port", reach=0).project("port", "exporter").to_arrow().to_pylist()
        [{'port': 80, 'exporter': 'r1'}, {'port': 443, 'exporter': 'r2'}]
        """
        # Start-up: few plans have this operator.
        from oop_engine.api.dedup import dedup_of

        dedup = dedup_of(
            self.schema, by=by, keys=keys, observers=observers, mark=mark, reach=reach, step=step, start=start, end=end
        )
        return self._then(dedup, f"dedup {', '.join(dedup.keys)} by {', '.join(dedup.observers)}")

    def spread(
        self,
        *columns: str,
        step: Amount,
        start: str = "ts",
        end: str = "end_ts",
        into: str | None = None,
        max_panes: int = 4096,
    ) -> Stream:
        """Spread amounts, such as the bytes of a flow, over the panes between its start and its end.

        Each flow becomes one tuple a pane. So windows count bytes when they were sent, not when their record came in.
        Whole amounts add up exactly.

        - `columns`: the attributes that hold amounts.
        - `step`: length of a pane, such as "1 s".
        - `start`, `end`: the times at which a flow starts and ends. A tuple that lacks one is left out, and counted in
          the notes of the run.
        - `into`: name of the pane's time in the result, by default that of `start`.
        - `max_panes`: most panes for one flow. A longer flow is cut into at most as many parts of several panes each.
          Only if the stream promises `end` and not `start`, all its bytes go to its last `max_panes` panes instead,
          because windows would never complete otherwise: promise `start` too, or raise `max_panes`, which delays
          windows by as many panes. The notes of the run count such flows.

        >>> flows = oop.rows([(0, 20, 300)], oop.Schema.of(ts="int64", end_ts="int64", bytes="int64"))
        >>> flows.spread("bytes", step=10).to_arrow().to_pylist()
        [{'ts': 0, 'end_ts': 20, 'bytes': 150}, {'ts': 10, 'end_ts': 20, 'bytes': 150}]
        """
        # Start-up: few plans have this operator.
        from operators.rows.spread import Spread, needs_reach

        if max_panes < 1:
            raise PlanError(f"spread: max_panes is {max_panes}; write how many panes a flow has at most, e.g. 4096.")
        first, last = (self.schema.resolve(name, where="spread") for name in (start, end))
        operator = Spread(
            tuple(self.schema.resolve(name, where="spread") for name in columns),
            step=length_of(step, self.schema.field(first), what="step"),
            start=first,
            end=last,
            into=into or first,
            max_panes=max_panes,
            reach=max_panes if needs_reach(self.schema, first, last) else None,
        )
        return self._then(operator, f"spread {', '.join(columns)} over [{first}, {last}] by {step}")

    def number(self, name: str = "row_num") -> Stream:
        """Number the tuples from 0, in the order in which they arrive here.

        - `name`: the new attribute.

        >>> stream = oop.rows([(3,), (1,)], oop.Schema.of(ts="int64"))
        >>> stream.number().to_arrow().to_pylist()
        [{'ts': 3, 'row_num': 0}, {'ts': 1, 'row_num': 1}]
        """
        return self._then(Number(name), f"number as {name}")

    def reorder(
        self, *, on: str = "ts", slack: Amount | None = None, tuples: int | None = None, mode: Mode = "consistent"
    ) -> Stream:
        """Sort by an attribute within a slack, as sorting engines do (BSort); for comparisons.

        - `on`: the attribute to sort by.
        - `slack`: how long a tuple may wait, such as "2 s"; or `tuples`: how many tuples may wait. Leave one of them
          out.
        - `mode`: "consistent" drops tuples that come too late to be sorted, "generous" passes them on.

        >>> stream = oop.rows([(3,), (1,), (9,)], oop.Schema.of(ts="int64"))
        >>> stream.reorder(slack=5).to_arrow()["ts"].to_pylist()
        [1, 3, 9]
        """
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
        # Start-up: few plans have this operator.
        from operators.streams.reorder import Reorder

        return self._then(Reorder(on, slack_time=ticks, slack_tuples=tuples, mode=mode), f"reorder by {on}")

    def meld(self, *others: Stream) -> Stream:
        """Unite this stream with `others` of the same schema; see `oop.meld`.

        >>> one = oop.rows([(3,)], oop.Schema.of(ts="int64"))
        >>> one.meld(oop.rows([(1,)], oop.Schema.of(ts="int64"))).to_arrow().num_rows
        2
        """
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
        flush: Flushes = "complete",
        every: int | None = None,
        delay: int | None = None,
        cardinality: Cardinality = "many to many",
    ) -> Stream:
        """Join this stream, the left one, with another: pairs of tuples that are near in time and equal in keys.

        Say with `range`, `tumbling` or `window` which times meet:

        - `range`: how long a tuple waits for partners: "2 minutes" for both inputs, or ("3 minutes", "2 minutes") for
          left and right, which means left - 2 minutes < right < left + 3 minutes; with `closed`, <=.
        - `tumbling`: join what is in the same interval, such as "5 minutes", counted from `origin`.
        - `window`: a join window of your own in ticks, such as `operators.join.WidJoin`.
        - `wattr`: the windowing attribute, or a pair of them for left and right.

        The other parameters:

        - `right`: the other stream.
        - `on`: attributes that must be equal: "srcIP", a pair ("srcIP", "destIP") of a left and a right one, or a list
          of these.
        - `where`: a further condition on both: `lambda p: p["length"] > p["right_length"]`, or text.
        - `kind`: "inner"; "left", "right" or "full" add each tuple without a partner, beside nulls; "semi" and "anti"
          return the left tuples with, and without, a partner.
        - `prefix`: put before names of right attributes that the left has too.
        - `least`, `greatest`: names for two more attributes, the lesser and the greater of both times.
        - `promises`: promise both times "individual"ly, "joint"ly, or "both".
        - `flush`: how tuples leave that have no partner, once that is certain: "complete", at once; "slow", one for
          every `every` tuples that come (160); "lazy", as late as may be. The last two are at most `delay` windows (2)
          late, of tumbling windows or of the width of the band. So are promises that speak of what waits.
        - `every`, `delay`: options of `flush`.
        - `cardinality`: "many to one" states that the right attributes of `on` are a key: no left tuple has two right
          partners. So a left tuple is not kept once it met one. "one to many" and "one to one" alike. Tuples that
          break the statement are counted and told; some of their pairs may be missing.

        PlanError when no promise could ever remove a stored tuple: let the other input promise its time.

        >>> schema = oop.Schema.of(ts="int64", k="int64")
        >>> left, right = oop.rows([(1, 7)], schema), oop.rows([(2, 7), (9, 7)], schema)
        >>> left.join(right, "k", range=3).to_arrow().to_pylist()
        [{'ts': 1, 'k': 7, 'right_ts': 2, 'right_k': 7}]
        """
        # Start-up: few plans have this operator.
        from oop_engine.api.join import Joining, check_choices, entered, join_flush, join_window, pairs_of

        check_stream("join", right, " Write left.join(right, ...).")
        check_choices(kind, promises, cardinality)
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
            raise PlanError(
                "join(window=...): this defines the whole window; leave range, tumbling, closed and origin out."
            )
        joining = Joining(
            window=window,
            on=pairs_of(on),
            prefix=prefix,
            least=least,
            greatest=greatest,
            promises=promises,
            flush=join_flush(kind, flush, every, delay),
            cardinality=cardinality,
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
        """Put sliding or tumbling windows over the stream; call `aggregate` on the result.

        - `range`: length of a window: a duration ("10 minutes"), rows ("1000 rows"), a number of units where `wattr` is
          a number, or "ALL" for landmark windows, which all begin with the stream. Or any other window as a value:
          `oop.session("30 s")`, `oop.counted(100)`; then leave the other parameters out.
        - `slide`: distance between two windows, in the same form. By default `range`: windows are tumbling.
        - `wattr`: the windowing attribute, a time or a whole number. "row_num" counts tuples as they arrive;
          "arrival_ts", unless the stream has it, is when they arrive at their source.
        - `partition`: attributes; rows are counted for each of their values separately. Over a time that is the same as
          `by` of `aggregate`.
        - `origin`: windows end there, and at multiples of `slide` from there; they begin `range` earlier.
        - `partial`: keep windows that begin before `origin`.
        - `consistent`: count a tuple that is late for some of its windows in none of them; by default it counts in
          those still open. A tuple that its source refuses or diverts reaches no window either way.

        Spark's `window(...)` begins windows at multiples of the slide. If `range` is no multiple of `slide`, get the
        same windows with `range` modulo `slide` as `origin`. With "ALL" the last window is the first that holds all
        rows. A tuple is in no window if its `wattr` is null, or 2**61 ticks or more from 0: in nanoseconds, before
        1896-12 or after 2043-01.

        >>> stream = oop.rows([(1, 5), (12, 2), (3, 7)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.window(range=10).aggregate(oop.sum("v")).to_arrow().to_pylist()
        [{'sum_v': 12, 'wid': 0, 'window_start': 0, 'window_end': 10}, {'sum_v': 2, 'wid': 1, 'window_start': 10,
        'window_end': 20}]
        """
        # Circle: a window makes a stream of its results.
        from oop_engine.api.windowed import Windowed

        names = grouping(self.schema, partition, "window", "partition")
        if isinstance(range, WindowOf):
            if slide is not None or origin or not partial or wattr not in ("ts", range.wattr):
                raise PlanError(
                    f"window({range}): this defines the whole window; leave slide, wattr and the others out."
                )
            windowed = self.windows({"": attrs.evolve(range, partition=())}, consistent=consistent)
            names = names or grouping(self.schema, range.partition, "window", "by")
            if not names:
                return windowed
            window = parted(windowed.windows[""], names, str(range), self.schema)
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
        """Put several windows of any kinds over the stream; results bear the name of theirs in the attribute `window`.

        - `windows`, `named`: the windows by name, as a mapping or as keywords.
        - `consistent`: as in `window`.

        Windows over one attribute share their slices. Landmark windows, windows that tuples define, and windows over
        another attribute are computed beside them. If some windows are over times, those that count tuples have null as
        window_start and window_end.

        >>> stream = oop.rows([(1,), (2,), (12,)], oop.Schema.of(ts="int64"))
        >>> several = stream.windows(short=oop.tumbling(10), burst=oop.session(4))
        >>> several.aggregate(oop.count()).project("window", "count", "wid").to_arrow().to_pylist()
        [{'window': 'short', 'count': 2, 'wid': 0}, {'window': 'burst', 'count': 2, 'wid': 1}, {'window': 'short',
        'count': 1, 'wid': 1}, {'window': 'burst', 'count': 1, 'wid': 12}]
        """
        # Circle: a window makes a stream of its results.
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
            if window.partition:
                raise PlanError(
                    f"windows: {name} has windows of its own for each {', '.join(window.partition)}, and beside others"
                    " it has not.\n  Leave `by` out, or aggregate that window by itself: window(oop.when(...))."
                )
            if window.wattr == ROW_NUM or window.counts_arrivals:
                node = numbered(node)
            elif window.wattr == ARRIVAL:
                node = stamped(node)
        return Windowed(Stream(node), {name: window.of(node.schema) for name, window in wanted.items()}, consistent)

    def aggregate(
        self, /, *functions: AggregateFunction, by: str | Sequence[str] = (), **named: AggregateFunction
    ) -> Stream:
        """Aggregate without windows: a group is complete when a promise ends it, or the stream does.

        - `functions`: aggregate functions, whose results are named after them, as `sum_v`.
        - `named`: further functions, with names for their results.
        - `by`: one grouping attribute, or several in a list.

        >>> stream = oop.rows([(1, 5), (2, 7)], oop.Schema.of(ts="int64", v="int64"))
        >>> stream.aggregate(oop.count(), total=oop.sum("v")).to_arrow().to_pylist()
        [{'count': 2, 'total': 12}]
        """
        results = named_results(functions, named)
        names = grouping(self.schema, by, "aggregate", "by")
        label = "aggregate " + listed(results) + (f" by {', '.join(names)}" if names else "")
        remark = "released by promises on " + (", ".join(names) if names else "nothing: at the end of the stream")
        # Start-up: few plans have this operator.
        from operators.window_aggregate.group_by import GroupAggregate

        return self._then(GroupAggregate(results, names), label, remark)

    def to(
        self,
        target: str | Path | Sink | Callable[[Any], object],
        *,
        each: Literal["page", "row"] = "page",
        partition_by: str | Sequence[str] = (),
        newest: bool = False,
    ) -> Output:
        """Choose where the results go; call `run` on the output that is returned.

        - `target`: a path that ends in .parquet, .csv, .ndjson, .arrow, .pages, .sqlite or .duckdb, a database
          and table as "sqlite:///results.sqlite?table=hosts&key=srcIP,wid" or "duckdb:///results.duckdb?table=hosts",
          of a PostgreSQL server as "postgresql://user@host/database?table=hosts&key=srcIP,wid",
          of other servers as docs/results.md lists them, "-" for the terminal, a sink, or a function, which is called
          with results as they are released. An async function is awaited in the loop of the run.
        - `each`: what a function gets: a "page" of several results, or one "row", a dict.
        - `partition_by`: attributes by which results go to folders, as Hive names them, of Parquet files: "hour(ts)"
          and "day(ts)" by the time in UTC, any other by its values, which the files then lack. `target` is the folder.
        - `newest`: for a display. While it keeps the run waiting, it gets the newest results alone: older ones, by
          window_end or the time of tuples, are left out and not computed any more. A note of the run tells how many.

        NDJSON has no NaN and no infinity; they become null there. SinkError for an unknown suffix or a missing folder.

        >>> stream = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64"))
        >>> stream.to("out.csv").run().tuples
        2
        >>> _ = stream.to(print, each="row").run()
        {'ts': 1}
        {'ts': 2}
        """
        if isinstance(target, (str, Path)):
            if newest and str(target) != "-":
                raise PlanError(f"to({target!r}, newest=True): a file takes all results; newest is for displays.")
            return Output(self, sink_for(target, partition_by=partition_by), newest)
        if newest:
            # Start-up: few outputs are displays.
            from oop_engine.drive.newest import newest_by

            newest_by(self.schema)
        if partition_by:
            raise PlanError("to(partition_by=...): results in partitions go to a folder, which a path names.")
        if isinstance(target, Sink):
            return Output(self, target, newest)
        if not callable(target):
            raise PlanError(
                f"to({target!r:.60}): results go to a file, a function or a sink, and {type(target).__name__} is none"
                ' of them.\n  Write to("out.parquet"), to("-") for the terminal, or to(function).'
            )
        if each not in ("page", "row"):
            raise PlanError(f'to(each={each!r:.60}): a function gets each "page" or each "row".')
        return Output(self, PageSink(target, each), newest)

    def run(
        self, *, mode: Literal["oop", "iop"] = "oop", threads: int | None = None, memory: str | int | None = None,
        memory_policy: Policy | None = None, page: str | None = None, page_token: str | None = None,
        record: str | Path | None = None,
    ) -> Outcome:  # fmt: skip
        """Run to the end, keep all results in memory, and return them with the statistics of the run.

        - `mode`: "oop" runs out of order; "iop" sorts the streams between operators, as in-order engines do
          (`oop.in_order`).
        - `threads`: how many threads share the work of operators; by default as many as OOP_THREADS says, or one. The
          results are the same; the order of groups within a window may differ. See docs/performance.md for when several
          pay.
        - `memory`, `memory_policy`: how much operators may hold, and what becomes of more, as in `Output.run`. All
          results are in memory besides.
        - `page`, `page_token`, `record`: where the run shows itself in a browser, and the file that keeps this, as in
          `Output.run`.

        Use `to(...)` for results that are too large for memory.

        >>> outcome = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64")).aggregate(oop.count()).run()
        >>> outcome.table.to_pylist(), outcome.statistics.late
        ([{'count': 2}], 0)
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.api.watching import watched
        from oop_engine.drive.limit import limit_of
        from oop_engine.drive.outcome import collect

        if mode not in ("oop", "iop"):
            raise PlanError(f'run(mode="{mode}"): a plan runs out of order, "oop", or in order, "iop".')
        if mode == "iop":
            # Start-up: few runs compare orders.
            from oop_engine.rewrite.in_order import ordered

            return Stream(ordered(self.node)).run(
                threads=threads, memory=memory, memory_policy=memory_policy, page=page, page_token=page_token,
                record=record,
            )  # fmt: skip
        plan, limit = self._plan(), limit_of(memory, memory_policy)
        with watched(plan, page=page, page_token=page_token, record=record) as (watch, seen):
            return collect(plan, self.node, threads=threads, limit=limit, watch=watch, seen=seen)

    def start(
        self, *, page_rows: int = 65_536, memory: str | int | None = None, memory_policy: Policy | None = None,
        page: str | None = None, page_token: str | None = None, record: str | Path | None = None,
    ) -> Running:  # fmt: skip
        """Start a run in this thread that you iterate over, and add and remove windows meanwhile.

        - `page_rows`: most tuples that pass through the plan at a time. Fewer bring results sooner, and cost more.
        - `memory`, `memory_policy`: how much operators may hold, and what becomes of more, as in `Output.run`. Windows
          of a run with a limit stay as they are.
        - `page`, `page_token`, `record`: where the run shows itself in a browser until `close`, and the file that keeps
          this, as in `Output.run`.

        >>> stream = oop.rows([(1,), (12,)], oop.Schema.of(ts="int64")).windows(short=oop.tumbling(10))
        >>> with stream.aggregate(oop.count()).start() as running:
        ...     [page["count"].tolist() for page in running]
        [[1], [1]]
        """
        # Start-up: few runs are added to.
        from oop_engine.api.running import Running
        from oop_engine.drive.limit import limit_of
        from oop_engine.drive.outcome import shedding_of
        from oop_engine.rewrite.fusion import shareable

        if isinstance(page_rows, bool) or not isinstance(page_rows, int) or page_rows < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(f"start(page_rows={page_rows!r}): the tuples of a page are a whole number from 1 on.")
        plan, limit = shareable(self._plan()), limit_of(memory, memory_policy)
        running = Running(plan, page_rows, limit, shedding_of(limit, plan, 0, self.node))
        if page is not None or page_token is not None or record is not None:
            running.show(page=page, page_token=page_token, record=record)
        return running

    async def run_async(
        self, *, threads: int | None = None, memory: str | int | None = None, memory_policy: Policy | None = None,
        page: str | None = None, page_token: str | None = None, record: str | Path | None = None,
    ) -> Outcome:  # fmt: skip
        """Run as `run` does under a trio loop of yours.

        `threads`, `memory`, `memory_policy`, `page`, `page_token` and `record` are as there.

        >>> import trio
        >>> trio.run(oop.rows([(1,)], oop.Schema.of(ts="int64")).run_async).table.num_rows
        1
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.api.watching import watched
        from oop_engine.drive.limit import limit_of
        from oop_engine.drive.outcome import collect_async

        plan, limit = self._plan(), limit_of(memory, memory_policy)
        with watched(plan, page=page, page_token=page_token, record=record) as (watch, seen):
            return await collect_async(plan, self.node, threads=threads, limit=limit, watch=watch, seen=seen)

    def _plan(self) -> Plan:
        # Start-up: a stream that is not run needs no rewriting.
        from oop_engine.rewrite.passes import prepared

        return prepared(self.node)

    def __iter__(self) -> Iterator[Page]:
        """Yield the pages of the result as they are released.

        Operators run in this thread. If a source promises by the clock (`lull`, `oop.heartbeat`), sources that can be
        read only once are read in threads of their own, so that time goes on while they are silent. OOP_MEMORY limits
        what operators hold; `start` takes the limit as an argument.
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.drive.limit import limit_of
        from oop_engine.drive.synchronous import Run

        return (element for _, element in Run(self._plan(), limit=limit_of()) if isinstance(element, Page))

    def to_arrow(self) -> pa.Table:
        """Run to the end and return the results as an Arrow table; addresses are text, also those in lists.

        DuckDB, Polars and pandas take the table, an `Outcome`, or a page that a function was given, as they are:
        `polars.DataFrame(stream.run())`.

        >>> oop.rows([(1,)], oop.Schema.of(ts="int64")).to_arrow().to_pylist()
        [{'ts': 1}]
        """
        return self.run().table

    def to_pandas(self) -> pd.DataFrame:
        """Run to the end and return the results as a pandas frame; ImportError without the extra `pandas`.

        >>> len(oop.rows([(1,)], oop.Schema.of(ts="int64")).to_pandas())
        1
        """
        if find_spec("pandas") is None:
            raise ImportError(
                "to_pandas() needs pandas, which is not installed.\n"
                "  Run pip install 'oop-engine[pandas]', or write to_arrow(), which needs nothing."
            )
        return self.run().table.to_pandas()

    def explain(
        self, *, spark: bool = False, threads: int | None = None, memory: bool | str | int = False,
        memory_policy: Policy | None = None,
    ) -> str:  # fmt: skip
        """Return the plan as text: its operators, what each promises, and why a strategy was chosen.

        - `spark`: show instead which part would run where inside Spark, and why.
        - `threads`: say of each operator how so many threads share its work, or why they do not; by default as many as
          a run has.
        - `memory`, `memory_policy`: say of each operator what it does beyond this limit, which part goes to disk or
          which groups are refused; `memory=True` for a limit of any size.

        >>> print(oop.rows([(1,)], oop.Schema.of(ts="int64")).filter("ts > 0").explain())
        filter ts > 0
        │  attributes  those of its input
        │  punctuated  on nothing before its end
        └─ rows
              attributes  ts int64
              punctuated  on nothing before its end: nothing downstream asks for it
              - late tuples are dropped and counted
        """
        if spark:
            # Optional: Spark.
            from oop_engine.spark.explained import explain_on_spark

            return explain_on_spark(self)
        # Start-up: few streams are explained.
        from oop_engine.drive.limit import bound_of
        from oop_engine.drive.workers import threads_of
        from oop_engine.report.explain import explain

        return explain(self._plan(), threads=threads_of(threads), bound=bound_of(memory, memory_policy))

    def on_spark(
        self,
        spark: SparkSession,
        inputs: Mapping[str, DataFrame] | None = None,
        *,
        buckets: int | None = None,
        counts: Counts | None = None,
        end: bool = False,
    ) -> DataFrame:
        """Run inside Spark and return a DataFrame, a streaming one if an input is.

        - `spark`, `inputs`, `buckets`, `counts`, `end`: as `oop.spark.on_spark` explains them.

        >>> spark = oop.spark.session(cores=2)
        >>> stream = oop.read("demos/captures/web.pcap.gz").aggregate(oop.count())
        >>> stream.on_spark(spark).collect()
        [Row(count=4631)]
        """
        # Optional: Spark.
        from oop_engine.spark.run import on_spark

        return on_spark(self, spark, inputs, buckets=buckets, counts=counts, end=end)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Run here, and return the results as a DataFrame of Spark.

        - `spark`: a session; by default that of this process, or a new one.

        >>> spark = oop.spark.session(cores=2)
        >>> oop.rows([(1,)], oop.Schema.of(ts="int64")).to_spark(spark).count()
        1
        """
        # Optional: Spark.
        from oop_engine.spark.embedded import to_spark

        return to_spark(self, spark)

    def __repr__(self) -> str:
        return self.explain(threads=1)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        # Start-up: few streams are explained.
        from oop_engine.report.drawing import svg

        return {"text/plain": self.explain(threads=1), "image/svg+xml": svg(self._plan())}

    def _then(self, operator: Operator, label: str, *remarks: str) -> Stream:
        return Stream(operator_node(operator, self.node, label=label, remarks=remarks))


def meld(*streams: Stream) -> Stream:
    """Unite streams of one schema without waiting for order (Fig 8-2).

    Tuples pass at once. The result promises what every input has promised.

    - `streams`: the streams, at least one.

    >>> links = [oop.rows([(at,)], oop.Schema.of(ts="int64")) for at in (3, 1)]
    >>> oop.meld(*links).aggregate(oop.count()).to_arrow().to_pylist()
    [{'count': 2}]
    """
    _check_streams("meld", streams)
    if len(streams) == 1:
        return streams[0]
    return Stream(operator_node(Meld(len(streams)), *(s.node for s in streams), label=f"meld of {len(streams)}"))


def merge(*streams: Stream, on: str = "ts") -> Stream:
    """Merge streams in the order of an attribute, as in-order engines do; for comparisons.

    A tuple is held back until every input has promised to be past it.

    - `streams`: the streams, at least one.
    - `on`: the attribute.

    >>> links = [oop.rows([(at,)], oop.Schema.of(ts="int64")) for at in (3, 1)]
    >>> oop.merge(*links).to_arrow()["ts"].to_pylist()
    [1, 3]
    """
    _check_streams("merge", streams)
    on = streams[0].schema.resolve(on, where="merge")
    nodes = (s.node for s in streams)
    # Start-up: few plans have this operator.
    from operators.streams.merge import Merge

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
