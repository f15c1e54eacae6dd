"""Run a stream while its user watches: pages as they are released, and windows that come and go meanwhile.

running = packets.windows(short=oop.tumbling("1 s"), burst=oop.session("200 ms")).aggregate(oop.count()).start()
for page in running:
    if page["count"].max() > 1000 and "fine" not in running.windows:
        running.add("fine", oop.tumbling("10 ms"))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.api.column_expressions import Computed
from oop_engine.api.disclaiming import disclaim
from oop_engine.api.windowing import WindowOf
from oop_engine.drive.limit import Limit
from oop_engine.drive.meter import Statistics, operators_table
from oop_engine.drive.outcome import Marking, table_of
from oop_engine.drive.preference import ranks_of
from oop_engine.drive.snapshot import released_at_end
from oop_engine.drive.synchronous import Run
from oop_engine.drive.why import Wait, why
from oop_engine.errors import PlanError
from oop_engine.messages import say
from oop_engine.plan.graph import Node, OperatorNode, Plan
from oop_engine.plan.windows import Windowing
from oop_engine.rewrite.demand import windows_of
from oop_engine.rewrite.strategy import share_slices
from operators.data.page import Page
from operators.data.printable import printable
from operators.pace import pace_of
from operators.protocol import OneByOne
from operators.signals import Event
from operators.window_aggregate.facts import ChangesWindows, KnowsWindows, names_windows, open_for
from operators.window_aggregate.results import WINDOW
from punctuation import Punctuation

if TYPE_CHECKING:
    from oop_engine.page.shown import Shown


@attrs.define(eq=False, repr=False)
class Running:
    """Run a stream in the thread that iterates over it; between two pages, add and remove windows.

    `Stream.start` makes it from a `plan`, with `page_rows` tuples in a page and a `limit` of memory, if any; results of
    a run that refuses groups are marked by `marking`. Use it in a `with`, or call `close`, to close its files.

    >>> stream = oop.rows([(1,), (12,), (30,)], oop.Schema.of(ts="int64")).windows(short=oop.tumbling(10))
    >>> with stream.aggregate(oop.count()).start(page_rows=1) as running:
    ...     first = next(iter(running))
    ...     at = running.add("long", oop.tumbling(20))
    ...     running.remove("short")
    ...     running.poll()
    ...     later = [row["window"] for page in running for row in page.rows()]
    >>> later, at, list(running.windows), running.partial().num_rows, running.statistics.tuples
    (['long'], 10, ['long'], 0, 3)
    >>> running.close()
    """

    plan: Plan
    page_rows: int
    limit: Limit | None = None
    """What operators may hold in memory."""
    marking: Marking | None = None
    """Marks results of windows that refused groups."""
    _run: Run = attrs.field(init=False)
    _pages: Generator[Page] = attrs.field(init=False)
    _within: bool = attrs.field(init=False, default=False)
    """Whether the operators are at work, or were when the run failed: some know of a page, others not yet."""
    _shown: list[Shown] = attrs.field(init=False, factory=list)
    """Where the run shows itself, if it does."""

    def __attrs_post_init__(self) -> None:
        self._run = Run(self.plan, self.page_rows, self.limit)
        self._pages = self._released()

    def __iter__(self) -> Iterator[Page]:
        """Yield the pages of the result as they are released; called again, go on from there."""
        return self._pages

    def __next__(self) -> Page:
        return next(self._pages)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and end the run; no more pages come."""
        self._pages.close()
        for shown in self._shown:
            shown.close()

    def page(self, address: str = "127.0.0.1:8080", *, token: str | None = None) -> str:
        """Return the URL of a page that shows the run in a browser until `close`; see docs/page.md.

        The page follows while you iterate: each page of results that is released brings it up to date.

        - `address`: where it is served, as ADDRESS:PORT; port 0 takes any that is free.
        - `token`: what its readers must know, 8 letters and digits or more; needed where other machines reach the
          address.

        PlanError where that cannot be, or a page is served already. It needs `oop-engine[page]`.

        >>> stream = oop.rows([(1,), (12,), (30,)], oop.Schema.of(ts="int64")).window(range=10)
        >>> with stream.aggregate(oop.count()).start() as running:
        ...     url = running.page("127.0.0.1:0")
        ...     results = sum(map(len, running))
        >>> url.startswith("http://127.0.0.1:"), results
        (True, 3)
        """
        for shown in self._shown:
            if shown.url is not None:
                raise PlanError(f"page: this run is shown at {shown.url} already.")
        return str(self._show(address, token, None, lambda text: None).url)

    def show(self, *, page: str | None = None, page_token: str | None = None, record: str | Path | None = None) -> None:
        """Show the run from now on, until `close`: serve a `page` of it, and keep a `record`.

        - `page`, `page_token`, `record`: as in `Output.run`; what is not named is not done.

        >>> stream = oop.rows([(1,), (12,), (30,)], oop.Schema.of(ts="int64")).window(range=10)
        >>> with stream.aggregate(oop.count()).start() as running:
        ...     running.show(record="run.oop")
        ...     results = sum(map(len, running))
        >>> results
        3
        """
        self._show(page, page_token, record, say)

    def _show(
        self, page: str | None, page_token: str | None, record: str | Path | None, told: Callable[[str], None]
    ) -> Shown:
        # Start-up: few runs show themselves.
        from oop_engine.page.shown import Shown

        shown = Shown(self.plan, page, page_token, record, self.plan.outputs[0].schema, told=told).__enter__()
        self._shown.append(shown)
        if not self._within:
            shown.look(self._run.circuit)
        return shown

    def __repr__(self) -> str:
        """Return what runs, and how far it is."""
        return f"Running({printable(self.plan.outputs[0].label)}; {self.statistics!r})"

    def _repr_html_(self) -> str:
        """Return how far the operators are, as a table, for a notebook."""
        return operators_table(self.statistics)

    @property
    def windows(self) -> Mapping[str, Windowing]:
        """Return the windows that share slices, by name, as they are now."""
        _, operator = self._slicing()
        return cast(Mapping[str, Windowing], operator.windows)

    def add(self, name: str, window: WindowOf) -> int:
        """Add a window that shares the slices from now on; return the tick from which on its windows begin.

        - `name`: a new name, which its results bear.
        - `window`: over the same attribute as the others, such as `oop.tumbling("1 s")`.

        Every window that begins at this tick or later is given, as if it had been there from the start; earlier ones
        are not. For sessions the tick is one gap later, because a session that began before may be under way. A context
        of your own sees no tuple before the tick. Sources promise as finely as the window asks, if they can; if not, as
        a file that is promised exactly, its results come with the others' promises.

        PlanError when the run has ended, has no windows that share slices, or does not read what this one needs;
        SchemaError for a name that is taken, or a window over another attribute.
        """
        place, operator = self._slicing()
        if self._run.ended:
            raise PlanError("add: the run has ended, and all windows were released. Start the stream anew.")
        node = self.plan.nodes[place]
        schema = node.inputs[0].schema
        specification = window.of(schema)
        if not share_slices({name: specification}):
            raise PlanError(f"add: {name} is {window}, which shares no slices.\n  Begin a stream of its own for it.")
        circuit = self._run.circuit
        read = circuit.given[circuit.plan.position(circuit.plan.nodes[place].inputs[0])]
        missing = [name for name in getattr(specification, "reads", ()) if name not in read]
        if missing:
            raise PlanError(
                f"add: {name} reads {', '.join(missing)}, and this run does not.\n"
                "  Let a window or a function read it from the start."
            )
        since = operator.add(name, specification)
        pace = pace_of(specification, schema)
        for source, above in self.plan.sources.items():
            if above.schema.progressing(specification.wattr):
                circuit.allow(source, operator.lateness + open_for(specification))
                with suppress(PlanError):
                    circuit.describe(source, specification.wattr, pace)
        return since

    def remove(self, name: str) -> None:
        """Remove the window called `name`; SchemaError when there is none.

        Results that the last promise completed and that are still to be given are left out, too, unless another
        operator than `filter`, `derive` and `project` took them in already.
        """
        place, operator = self._slicing()
        operator.remove(name)
        for attribute in self._telling(place):
            self._run.leave_out(functools.partial(_without, attribute=attribute, name=name))

    def poll(self) -> None:
        """Poll the sources: they promise how far they are as soon as they are read again."""
        for output in self.plan.outputs:
            self._run.circuit.poll(self.plan.position(output))

    def disclaim(self, unwanted: Punctuation | Computed) -> None:
        """Stop results that match a condition, and what is computed for nothing else (assumed feedback punctuation).

        - `unwanted`: comparisons of attributes of the result with constants, joined by `and`, as text or a function; or
          a punctuation.

        From the next page on, none of them comes, and operators and sources leave out what is needed for nothing else:
        tuples of a group, those before or behind a time, and the rest of a source of which nothing more is wanted. All
        other results come as they would have come. What was left out is counted, as `disclaimed` in the statistics of
        each operator.

        SchemaError where it does not fit the attributes; PlanError for another condition, or within the run.

        >>> stream = oop.rows([(at,) for at in range(100)], oop.Schema.of(ts="int64")).window(range=10)
        >>> with stream.aggregate(oop.count()).start(page_rows=1) as running:
        ...     first = next(running).rows()
        ...     running.disclaim("window_start < 50")
        ...     rest = [row["window_start"] for page in running for row in page.rows()]
        >>> rest, running.statistics.total("disclaimed")
        ([50, 60, 70, 80, 90], 40)
        """
        if self._within:
            raise PlanError("disclaim: the run is in the middle of a page. Call it between two pages.")
        said = disclaim(self._run.circuit, 0, unwanted)
        self._run.leave_out(lambda page: page.select(~page.matching(said)))

    def prefer(self, *names: str) -> None:
        """Read some sources before others whenever both have something (desired feedback); no result changes.

        - `names`: of the sources, the first one first. None: whatever is furthest behind comes first, as before.

        Of files, a preferred one is read to its end first, and what it meets is held until then. Live sources that
        others are preferred to have a turn after 64 of theirs. Late tuples, and what is defined by the order of
        arrival, depend on the order of reading in any case. PlanError for a name that no source has.

        >>> sources = [oop.rows([(1,), (2,)], oop.Schema.of(ts="int64"), name=name) for name in ("left", "right")]
        >>> with oop.meld(*sources).start(page_rows=1) as running:
        ...     running.prefer("right")
        ...     _, _ = next(running), next(running)
        ...     [(one.label, one.tuples_in) for one in running.statistics.operators[:2]]
        [('left', 0), ('right', 2)]
        """
        circuit = self._run.circuit
        circuit.preference.ask(ranks_of(circuit.plan, names))

    def fire(self, event: str) -> None:
        """Fire an event: open windows whose trigger hears it give what they have so far, with the next pages.

        - `event`: its name, as in `oop.Trigger.event`. It comes behind all tuples taken in so far, and windows that
          open later do not know of it. PlanError when no window of the run hears it, and when the run has ended.

        >>> stream = oop.rows(iter([(1,), (2,), (12,)]), oop.Schema.of(ts="int64"), punctuate=oop.slack(5))
        >>> results = stream.window(range=10).aggregate(
        ...     oop.count(), early=oop.Trigger.rows(2) | oop.Trigger.event("flush")
        ... )
        >>> with results.start(page_rows=1) as running:
        ...     first = next(running)
        ...     running.fire("flush")
        ...     later = [(row["count"], row["final"]) for page in running for row in page.rows()]
        >>> first["count"].tolist(), later
        ([2], [(2, True), (1, True)])
        """
        if self._run.ended:
            raise PlanError(f'fire("{event}"): the run has ended, and all windows were released.')
        if not self._run.circuit.operators:
            raise PlanError(f'fire("{event}"): the run has not begun, and has no windows: ask for its first page.')
        self._run.circuit.fire(Event(event))

    def partial(self) -> pa.Table:
        """Return what the run would release if every stream ended here: the open windows, as far as they are.

        It is a consistent cut: it counts all tuples taken in so far, and no other, through the whole plan. Tuples are
        taken in by pages of at most `page_rows`; those read and not taken in yet are not counted. Pages given so far,
        pages that wait to be given, and this table are together the answer of a run that ended here. Windows that were
        added are in it, those removed are not. With `lateness` it has the revisions that late tuples caused.

        The run goes on as if nothing had been asked, and gives all of this again when it is complete. To tell them
        apart, the table has `oop.partial` in the metadata of its schema, which is otherwise that of `to_arrow`. After
        the end of the run it is empty; after `close` it is that of where the run was closed. Your own operators and
        functions are called as at the end of their streams.

        Cost: the state of all operators is saved, restored and released once, which takes twice its room more.
        PlanError within the run, as in a function that it calls, and when the run has failed.
        """
        if self._within:
            raise PlanError(
                "partial: the run is in the middle of a page, or failed there, and only some operators know of it.\n"
                "  Ask between two pages, where you iterate over the run."
            )
        pages = [self._marked(page) for page in released_at_end(self._run.circuit)]
        schema = self.plan.outputs[0].schema if self.marking is None else self.marking.schema
        table = table_of(schema.arrow, pages)
        return table.replace_schema_metadata({**(table.schema.metadata or {}), b"oop.partial": b"true"})

    def why(self) -> Wait:
        """Return what the result waits for: its next window, the promise that this lacks, and who does not make it.

        `str` of it is a sentence; its fields are the same as data, see `oop_engine.drive.why.Wait`. Asking changes
        nothing. PlanError within the run, as in a function that it calls.

        >>> schema = oop.Schema.of(ts="int64")
        >>> stream = oop.rows(iter([(1,), (12,), (38,), (50,)]), schema, name="r1", punctuate=oop.slack(20))
        >>> with stream.window(range=10).aggregate(oop.count()).start(page_rows=1) as running:
        ...     page, wait = next(running), running.why()
        >>> wait.cause, wait.holder, wait.needs, wait.window["window_start"]
        ('slack', 'r1', '[ts < 20]', '10')
        >>> print(wait.facts[0])
        its highest ts is 38, and tuples may be 20 late
        """
        if self._within:
            raise PlanError(
                "why: the run is in the middle of a page. Ask between two pages, where you iterate over it."
            )
        return why(self._run.circuit)[0]

    def explain(self) -> str:
        """Describe the plan as `Stream.explain` does, and what operators chose from what they have seen so far.

        A window aggregate says how it makes windows now, the tuples of a window and the groups of a pane that it has
        seen, and the costs of Eq. 6.1 to 6.4 for them.

        >>> stream = oop.rows([(t, t % 3) for t in range(90)], oop.Schema.of(ts="int64", k="int64"))
        >>> by_key = stream.window(range=20, slide=10).aggregate(oop.count(), by="k")
        >>> with by_key.start(page_rows=10) as running:
        ...     pages = list(running)
        ...     text = " ".join(running.explain().replace("│", " ").split())
        >>> print(text[text.index("each window is") : text.index(" (Eq. 6.1")])  # doctest: +NORMALIZE_WHITESPACE
        each window is combined anew of its slices, chosen anew 0 times: for 18 tuples a window and 3 groups a pane, a
        window costs 54 combined of panes
        """
        # Start-up: few runs are explained.
        from oop_engine.report.explain import explain

        circuit = self._run.circuit
        return explain(circuit.plan, seen=[operator.choices for operator in circuit.statistics()])

    @property
    def statistics(self) -> Statistics:
        """Return the statistics of the operators so far."""
        circuit = self._run.circuit
        return Statistics(circuit.statistics(), tuple(circuit.notes()), refused=circuit.refused())

    def _released(self) -> Generator[Page]:
        self._within = True
        for _, element in self._run:
            for shown in self._shown:
                shown.take(element)
                shown.watch(self._run.circuit)
            if isinstance(element, Page):
                self._within = False
                yield self._marked(element)
                self._within = True
        self._within = False
        for shown in self._shown:
            shown.finish()

    def _marked(self, page: Page) -> Page:
        return page if self.marking is None else self.marking.mark(page)

    def _telling(self, place: int) -> list[str]:
        """Return the attributes of the result that tell the window of each row, if it has the rows of the aggregate."""
        node: Node = self.plan.outputs[0]
        behind: list[tuple[OneByOne, OperatorNode]] = []
        while node is not self.plan.nodes[place]:
            if not isinstance(node, OperatorNode) or not isinstance(node.operator, OneByOne) or len(node.inputs) != 1:
                return []
            behind.append((node.operator, node))
            node = node.inputs[0]
        names = [WINDOW]
        for operator, above in reversed(behind):
            below = above.inputs[0].schema
            names = [name for name in above.schema.names if operator.comes_from(name, below) in names]
        return names

    def _slicing(self) -> tuple[int, ChangesWindows]:
        """Return the place of the windows that share slices, and the operator that runs there."""
        places = [place for place, node in self.plan.operators.items() if names_windows(node.operator)]
        if len(places) != 1:
            raise PlanError(self._nowhere(places))
        if self.limit is not None:
            raise PlanError(
                "windows of a run with a memory limit stay as they are: start the stream without memory (OOP_MEMORY) to"
                " add or remove some."
            )
        if any(isinstance(node.operator, KnowsWindows) for node in self.plan.operators.values()):
            raise PlanError("windows that give early results do not come and go: start a stream without early=....")
        running = self._run.circuit.operators
        if not running:
            raise PlanError("the run has not begun: ask for its first page, or name the window in windows(...).")
        operator = running[places[0]]
        assert isinstance(operator, ChangesWindows)
        return places[0], operator

    def _nowhere(self, places: list[int]) -> str:
        """Say why windows cannot come and go, and what to write."""
        if places:
            labels = "; ".join(self.plan.nodes[place].label for place in places)
            return (
                f"windows come and go in one aggregate that shares slices, and here are {len(places)}: {labels}.\n"
                "  Start a stream with one of them."
            )
        nodes = self.plan.operators.values()
        seen = "; ".join(node.label for node in nodes if windows_of(node.operator)) or "no windows"
        return (
            f"windows come and go where they have names and share slices, and this stream has {seen}.\n"
            '  Write windows(a=oop.tumbling("1 s")).aggregate(...), and start() that. Sliding windows over a time,'
            " sessions, bands\n  and windows of your own share slices; not with empty=True, consistent=True or"
            " another strategy."
        )


def _without(page: Page, *, attribute: str, name: str) -> Page:
    return page.select(pc.not_equal(page.column(attribute), name))
