"""Say why a window is still open: what it waits for, who holds that back, and what would let it go.

The promise that a window lacks is followed upstream, from operator to operator, at each to the input that has promised
least, until a source is reached, or an operator that promises nothing of it. All that is said is read from what the run
knows already; asking changes nothing.

Where tuples are held and nobody can tell in which windows (partial aggregates in front of another operator, parts on
disk), no window is named, and any promise that is more than the last is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.forecast import Forecast, forecast, has_pace, stepped
from oop_engine.drive.turns import above as sources_above
from oop_engine.plan.durations import format_duration
from oop_engine.plan.graph import Node, OperatorNode, SourceNode, own_promises
from oop_engine.plan.ticks import tick_ns
from oop_engine.sources.holder import NamesHolder
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import tick_text, written_unit
from operators.data.schema import Schema
from operators.lazy import is_of
from operators.pace import Pace
from operators.plan_facts import HoldsBack, PromisesWhen, links, passage, passes_on, promises_asked, reduces
from operators.protocol import Measured, Operator
from operators.streams.by_key import ByKey
from operators.streams.lateness import rounded
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.facts import KnowsLateness, OpensWindows, WaitsForTuples, windows_of
from operators.window_aggregate.results import REVISION, START, STOP, WID, WINDOW, ends_of
from punctuation import END, Punctuation, below
from punctuation.demanded_progress import follow, known
from punctuation.punctuators import BlockEnd, Embedded, Heartbeat, Ordered, Punctuator, Scheduled, Slack, TupleSlack

_MILLISECOND: Final = 10**6
_SECOND: Final = 10**9
_QUIET: Final = 1.0
"""Seconds without anything after which a source is called silent."""
_WRONG: Final = 5 * _SECOND
"""By so much a clock is behind, at least, that is called wrong."""
_BUSY: Final = 0.8
"""The share of the time that an operator is at work for which it is called slow."""


@attrs.frozen
class Link:
    """One node on the way from a window to who holds it open: what it has promised, and what is needed of it."""

    label: str
    attribute: str
    promised: str | None
    """The bound of its promise as text, None where it has made none."""
    needed: str | None
    """The bound that is needed, None where any more would do."""


@attrs.frozen
class Change:
    """Say what another setting of a source would do, by what was counted.

    - `setting`, `value`: what to write, such as `slack` and `20 s`; `ticks`: the value in ticks of the attribute.
    - `late`: how many tuples it would have made late so far, of those `counted`.
    - `exact`: every tuple was counted, so a run with that setting has just so many late ones so far.

    >>> from oop_engine.drive.why import Change
    >>> print(Change("slack", "20 s", 20, 41, 31_000, True))
    slack="20 s" would complete it now, and have made 41 of 31,000 tuples late (0.13 %)
    """

    setting: str
    value: str
    ticks: int
    late: int
    counted: int
    exact: bool

    def __str__(self) -> str:
        """Return it as a clause."""
        number = self.value if self.value.isdigit() else f'"{self.value}"'
        share = f" ({100 * self.late / self.counted:.2g} %)" if self.late else ""
        about = "" if self.exact or not self.late else "about "
        many = f"{about}{self.late:,}" if self.late else "none"
        said = f"have made {many} of {self.counted:,} tuples late{share}"
        return f"{self.setting}={number} would complete it now, and {said}"


@attrs.frozen
class Taking:
    """Say which lateness a window would have to allow for tuples that came too late to be in its results, as revisions.

    - `value`: what to write as `lateness=`, such as `25 s`; `ticks`: the same in ticks of the attribute.
    - `taken`: how many tuples that would have taken in so far, all that came too late, of those `counted`.
    - `exact`: every tuple was counted, so a run with that lateness has just so many fewer late ones so far.

    >>> from oop_engine.drive.why import Taking
    >>> print(Taking("25 s", 25, 41, 31_000, True))
    lateness="25 s" would have taken in the 41 of 31,000 tuples that came too late, as revisions
    """

    value: str
    ticks: int
    taken: int
    counted: int
    exact: bool

    def __str__(self) -> str:
        """Return it as a clause."""
        number = self.value if self.value.isdigit() else f'"{self.value}"'
        about = "" if self.exact else "about "
        many = f"the {about}{self.taken:,} of {self.counted:,} tuples that came too late"
        return f"lateness={number} would have taken in {many}, as revisions"


@attrs.frozen(repr=False)
class Wait:
    """Say what one output of a run waits for; `str` gives it as a sentence.

    - `output`: the label of the output.
    - `operator`: the label of the operator whose window is open, None where no operator has windows.
    - `window`: the next window: its start, its end and its group; None where none is open.
    - `needs`: the promise that completes it, such as `[ts < 12:00:05]`; None where any more would do.
    - `cause`: one of the words of `CAUSES`.
    - `holder`: who holds it open: a source, an exporter, an operator.
    - `chain`: the nodes from the window to the holder.
    - `facts`: what explains it, a clause each, with what would let the window go.
    - `forecast`: when the window will be complete if all goes on as it did; None where nothing tells.
    - `change`: the setting that would complete it now, and how many tuples that makes late; None where none is known.
    - `taking`: the lateness that would have taken in the tuples that were late so far; None where none was, or where
      that is not counted.
    """

    output: str
    operator: str | None
    window: Mapping[str, object] | None
    needs: str | None
    cause: str
    holder: str
    chain: tuple[Link, ...] = ()
    facts: tuple[str, ...] = ()
    forecast: Forecast | None = None
    change: Change | None = None
    taking: Taking | None = None

    def __str__(self) -> str:
        """Return the sentence."""
        what = self.output if self.operator is None else self.operator
        if self.window is not None:
            what = f"{what}: {self._window()}"
        if self.cause in ("ended", "no window"):
            return printable(f"{what}: {'; '.join(self.facts)}.")
        clauses = [*self.facts, *(str(one) for one in (self.forecast, self.change, self.taking) if one is not None)]
        return printable(f"{what} waits for {self.holder}{self._promise()}{''.join(f'; {one}' for one in clauses)}.")

    def to_json(self) -> dict[str, object]:
        """Return the fields, and the sentence as `text`, as what JSON has; `from_json` makes them a wait again."""
        window = None if self.window is None else {name: _plain(value) for name, value in self.window.items()}
        return {**attrs.asdict(self), "window": window, "text": str(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wait:
        """Make a wait of what `to_json` gave."""
        fields: dict[str, Any] = {field.name: data.get(field.name) for field in attrs.fields(cls)}
        fields["chain"] = tuple(Link(**link) for link in data["chain"])
        fields["facts"] = tuple(data["facts"])
        foreseen = data.get("forecast")  # a run of an earlier version has none
        fields["forecast"] = None if foreseen is None else Forecast(**foreseen)
        fields["change"] = None if (change := data.get("change")) is None else Change(**change)
        fields["taking"] = None if (taking := data.get("taking")) is None else Taking(**taking)
        return cls(**fields)

    def __repr__(self) -> str:
        """Return the cause and the holder."""
        return f"Wait({printable(self.cause)}: {printable(self.holder)})"

    def _window(self) -> str:
        assert self.window is not None
        parts = dict(self.window)
        name, begin, end = parts.pop(WINDOW, None), parts.pop(START, None), parts.pop(STOP, None)
        parts.pop(WID, None)
        group = ", ".join(f"{key} {value}" for key, value in parts.items())
        return " ".join([*([str(name)] if name else []), f"{begin} to {end}", *([f"of {group}"] if group else [])])

    def _promise(self) -> str:
        if not self.chain:
            return ""
        last = self.chain[-1]
        if last.promised is None:
            return f", which has promised nothing of {last.attribute} yet"
        needed = "" if last.needed is None else f" and must come to {last.needed}"
        return f", which has promised {last.attribute} to {last.promised}{needed}"


def _plain(value: object) -> object:
    """Return a value as JSON has it, text for what it has not."""
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


EDGES: Final = {START: "begin of stream", STOP: "end of stream"}
"""What the edges of a window are called that are those of its stream: results have null there."""
NOT_RUNNING: Final = "not running"
CAUSES: Final = (
    "ended", "no window", "silent", "behind", "slack", "seldom", "to follow", "end of stream", "exporter", "clock",
    "session", "tuples", "flush", "operator", "backpressure", NOT_RUNNING,
)  # fmt: skip
"""The causes that `why` tells apart.

- `ended`: the run has ended, nothing is open. `no window`: no tuple is in an open window.
- `silent`: a source has given nothing for a while, or nothing at all. `behind`: its times are not that far yet.
- `slack`: its times are, and the slack that it is allowed keeps the promise back. `seldom`: the promise is true already
  and is made in steps. `to follow`: a tuple of the window is still to come, as was seen when the file was read ahead.
- `end of stream`: only the end of the source completes it. `exporter`: one of the exporters that are heard live.
- `clock`: an exporter whose clock is behind by more than the window lacks. `session`: the window is a session, which
  goes on while tuples of its group come. `tuples`: the window is of so many tuples, or over their numbers, and waits
  for more. `flush`: a join that lets tuples without a partner leave little by little.
- `operator`: an operator whose inputs promise nothing, or have ended. `backpressure`: an operator that is slower than
  its input comes, or a consumer of results, so that the sources wait for it. `not running`: a job that was stopped or
  killed.
"""


def why(circuit: Circuit) -> tuple[Wait, ...]:
    """Say of each output of a run what it waits for; call it where no operator is at work."""
    slow = {number: seconds for number, seconds in circuit.pressing().items() if seconds > _QUIET}
    return tuple(
        _pressed(circuit, number, slow, _busy(circuit, _Search(circuit, output)))
        for number, output in enumerate(circuit.plan.outputs)
    )


def why_apart(parts: Sequence[Circuit]) -> tuple[Wait, ...]:
    """Say the same of a run that is divided among circuits, each with some of the groups, none of them at work.

    It is told of the one whose next window ends first; of several, the first.
    """
    found = list[Wait]()
    for number in range(len(parts[0].plan.outputs)):
        searches = [_Search(circuit, circuit.plan.outputs[number]) for circuit in parts]
        waits = [search.found() for search in searches]
        stops = [
            (wait.cause == "no window", search.stop is None, search.stop or 0)
            for search, wait in zip(searches, waits, strict=True)
        ]
        found.append(waits[stops.index(min(stops))])
    return tuple(found)


def _busy(circuit: Circuit, search: _Search) -> Wait:
    """Name the operator that keeps the live source waiting which an output waits for, if there is one."""
    found = search.found()
    slowest = circuit.busy.slowest(circuit.clock())
    if slowest is None or slowest[1] < _BUSY or search.source is None:
        return found
    if found.cause == "silent" and not has_pace(circuit, search.source):
        return found
    place, share = slowest
    plan = circuit.plan
    source = plan.nodes[search.source]
    if place == search.source or search.source not in sources_above(plan, place):
        return found
    if not isinstance(source, SourceNode) or source.source.rewindable:
        return found  # a file is read as fast as operators take it
    said = f"it is at work {100 * share:.0f} % of the time, and {source.label} waits for it meanwhile"
    return attrs.evolve(
        found, cause="backpressure", holder=plan.nodes[place].label, chain=(), facts=(said,), change=None
    )


def _pressed(circuit: Circuit, number: int, slow: Mapping[int, float], found: Wait) -> Wait:
    """Name the slow consumer that the sources of an output wait for, if there is one."""
    plan = circuit.plan
    sources = {other: set(sources_above(plan, plan.position(plan.outputs[other]))) for other in {number, *slow}}
    for other, seconds in slow.items():
        if sources[other] & sources[number]:
            which = "its results" if other == number else f"output {other} ({plan.outputs[other].label})"
            said = f"it takes one page for {seconds:.0f} s now, and nothing more is read meanwhile"
            return attrs.evolve(
                found,
                cause="backpressure",
                holder=f"the consumer of {which}",
                chain=(),
                facts=(said,),
                forecast=None,
                change=None,
            )
    return found


@attrs.define
class _Search:
    """The way from one output to who holds it back."""

    circuit: Circuit
    output: Node
    chain: list[Link] = attrs.field(init=False, factory=list)
    operator: str | None = attrs.field(init=False, default=None)
    window: dict[str, object] | None = attrs.field(init=False, default=None)
    stop: int | None = attrs.field(init=False, default=None)
    """The end of the window, in ticks."""
    needs: str | None = attrs.field(init=False, default=None)
    _firsts: dict[int, tuple[OpensWindows, Page] | None] = attrs.field(init=False, factory=dict)
    """What `_first` said of each operator."""
    _have_ended: list[bool] = attrs.field(init=False, factory=list)
    """Whether all sources of each node have ended, once that was asked for."""
    beside: tuple[str, ...] = attrs.field(init=False, default=())
    """How far those are that are not the holder."""
    forecast: Forecast | None = attrs.field(init=False, default=None)
    change: Change | None = attrs.field(init=False, default=None)
    taking: Taking | None = attrs.field(init=False, default=None)
    source: int | None = attrs.field(init=False, default=None)
    """The place of the source that holds the window."""
    _waiting: int = attrs.field(init=False, default=0)
    """How many sources have not promised what the window needs, where that is known."""

    def found(self) -> Wait:
        circuit = self.circuit
        if not circuit.operators:
            return self._wait("silent", self.output.label, "the run has not begun")
        if len(circuit.finished) == len(circuit.inputs):
            return self._wait("ended", self.output.label, "the run has ended")
        place = self._position(self.output)
        windowed = self._windowed(place)
        return self._from(place, None) if windowed is None else self._of_window(windowed)

    def _windowed(self, place: int) -> int | None:
        """Return the place of the nearest operator upstream that has windows of its own."""
        places = [place]
        while places:
            at = places.pop(0)
            node = self.circuit.plan.nodes[at]
            if STOP in node.schema and telling(self.circuit, at):
                return at
            places += map(self._position, node.inputs)
        return None

    def _of_window(self, place: int) -> Wait:
        node = self.circuit.plan.nodes[place]
        self.operator = node.label
        first = self._first(place)
        if first is None:
            return self._no_window(place)
        opening, page = first
        row = page.rows()[0]
        ticks = {name: int(page.ticks(name)[0]) for name in (START, STOP) if row[name] is not None}
        self.stop = ticks.get(STOP)
        texts = dict(EDGES) | {name: tick_text(tick, _unit(page.schema, name)) for name, tick in ticks.items()}
        self.window = {name: texts.get(name, value) for name, value in row.items() if name != REVISION}
        needed = closing(opening, row)
        (source,) = node.inputs
        if isinstance(opening, WaitsForTuples) and (many := opening.lacking(int(row[WID]))):
            return self._wait("tuples", node.label, f"{_many(many)} must come, from any of its sources")
        if needed is None or not needed.patterns:
            return self._from(self._position(source), None, ends=needed == END)
        attribute, pattern = needed.patterns[0]
        bound = below(pattern)
        if attribute in (FROM, WID) and (windows := windows_of(opening)):
            self.needs = f"[{windows[0].wattr} < {texts[STOP]}]"
        need = bound if isinstance(bound, int) else None
        if need is not None:
            self.forecast = self._forecast(self._position(source), attribute, need)
        self.taking = self._taking(place, opening) or self._refused(place)
        found = self._from(self._position(source), attribute, need)
        return self._in_session(found, opening, row, attribute)

    def _in_session(self, found: Wait, opening: OpensWindows, row: Mapping[str, Any], attribute: str) -> Wait:
        """Say that a window is a session that goes on: its source is as far as its last tuple, and none is beyond.

        One that has not lasted for longer than its gap may have ended with the tuples that came.
        """
        name, windows = row.get(WINDOW), getattr(opening, "windows", {})
        window = windows.get(name) if name is not None else next(iter(windows_of(opening)), None)
        if not is_of(window, "operators.window.session", "SessionWindow") or found.cause != "behind":
            return found
        if self.source is None or self.stop is None:
            return found
        node = self.circuit.plan.nodes[self.source]
        gap, begin = int(getattr(window, "gap", 0)), int(row.get(WID, self.stop))
        last, reached = self.stop - gap, self.circuit.meters[self.source].hwm.get(attribute)
        keyed = (p for p in self.circuit.inputs[self.source].punctuators if isinstance(p, ByKey))
        if (punctuator := next(keyed, None)) is not None:
            reached = None if (bound := known(punctuator)) is None else bound + punctuator.slack
        if not isinstance(node, SourceNode) or reached is None or reached < last or last - begin < gap:
            return found
        meters = (self.circuit.meters[at] for at in sources_above(self.circuit.plan, self._position(self.output)))
        if any(meter.hwm.get(attribute, last) >= self.stop for meter in meters):
            return found
        group = {key: value for key, value in row.items() if key not in (WID, START, STOP, WINDOW, REVISION)}
        group = {key: value for key, value in group.items() if key not in getattr(opening, "functions", {})}
        whose = f" of {', '.join(f'{key} {value}' for key, value in group.items())}" if group else ""
        far, at = self._amount(node, attribute, gap), self._text(node, attribute, last)
        said = f"its last tuple is at {at}, and it goes on until none comes for {far}"
        holder = f"the session{whose}"
        return attrs.evolve(found, cause="session", holder=holder, chain=(), facts=(said,), forecast=None, change=None)

    def _taking(self, place: int, opening: OpensWindows) -> Taking | None:
        """Return the lateness that windows over one source would have to allow for all late tuples so far.

        A tuple is late for its last window once the highest value, less slack and lateness, has passed the end of that.
        """
        windows, plan, at, passed = windows_of(opening), self.circuit.plan, place, True
        window = windows[0] if len(windows) == 1 else None
        if not isinstance(window, SlidingWindow) or window.size % window.slide:
            return None
        while isinstance(node := plan.nodes[at], OperatorNode):
            bucket = FROM in node.schema and FROM not in node.inputs[0].schema
            if at != place and not bucket and not passes_on(node.operator):
                return None
            passed &= at == place or bucket
            if len(node.inputs) != 1 or window.wattr not in node.inputs[0].schema:
                return None
            at = self._position(node.inputs[0])
        source = self.circuit.inputs[at]
        given, counts = [p for p in source.punctuators if p.attribute == window.wattr], source.counts_of(window.wattr)
        if node.late != "drop" or counts is None or len(given) != 1:
            return None
        if counts.step != window.slide or (counts.origin - window.origin) % window.slide:
            return None
        slack = getattr(given[0], "slack", -int(getattr(given[0], "strictly", False)))
        longer = slack + window.size - window.slide
        allowed = longer + int(getattr(opening, "lateness", 0))
        enough, late = counts.enough(), counts.late(allowed)
        if enough <= allowed or not late:
            return None
        timers = getattr(given[0], "lull", None) is not None or getattr(given[0], "every", None) is not None
        exact = passed and not timers and counts.counted == counts.read and rounded(allowed) == max(allowed, 0)
        return self._allowing(node.schema, window.wattr, enough - longer, late, counts.counted, exact)

    def _refused(self, place: int) -> Taking | None:
        """Return the lateness that windows would have to allow for all tuples that came to them too late so far.

        Only where all tuples come to them, so that none was left out before.
        """
        plan, operators = self.circuit.plan, self.circuit.operators
        told = [one for one in openings(operators[place]) if isinstance(one, KnowsLateness)]
        by, waiting, sources = plan.nodes[place], [place], set[int]()
        while waiting:
            node = plan.nodes[at := waiting.pop()]
            if isinstance(node, SourceNode):
                sources.add(at)
                continue
            if at != place and not told and isinstance(bucket := operators[at], KnowsLateness):
                told, by = [bucket], node
            elif at != place and not passes_on(node.operator):
                return None
            waiting += map(self._position, node.inputs)
        counts = [self.circuit.inputs[at].statistics() for at in sources]
        found = [known for one in told if (known := one.enough()) is not None]
        late = sum(many for _, many in found)
        if not late or len(found) < len(told) or any(one.get("late", 0) for one in counts):
            return None
        assert isinstance(by, OperatorNode)
        enough, read = max(ticks for ticks, _ in found), sum(one["tuples"] for one in counts)
        return self._allowing(by.inputs[0].schema, windows_of(by.operator)[0].wattr, enough, late, read, exact=True)

    def _allowing(self, schema: Schema, name: str, ticks: int, late: int, counted: int, exact: bool) -> Taking:
        """Say a lateness as one writes it, in whole milliseconds where it is that long."""
        tick = _tick(schema, name)
        if tick is not None and ticks * tick > _MILLISECOND:
            ticks = -(-ticks * tick // _MILLISECOND) * _MILLISECOND // tick
        value = str(ticks) if tick is None else format_duration(ticks * tick)
        return Taking(value, ticks, late, counted, exact)

    def _forecast(self, place: int, attribute: str, need: int) -> Forecast | None:
        """Return when the node at a place will have promised a bound: when all sources have that it waits for."""
        asked: dict[tuple[int, str], int] = {}
        if not self._reach(place, attribute, need, asked):
            return None
        sources = [(at, name, bound) for (at, name), bound in asked.items() if at in self.circuit.inputs]
        self._waiting = len(sources)
        found = [self._of_source(at, name, bound) for at, name, bound in sources]
        told = [one for one in found if one is not None]
        return Forecast.latest(told) if told and len(told) == len(found) else None

    def _reach(self, place: int, attribute: str, need: int, asked: dict[tuple[int, str], int]) -> bool:
        """Add what a bound of the node at a place asks of the nodes upstream; return whether all of that is known."""
        node = self.circuit.plan.nodes[place]
        name = attribute if attribute in node.schema else _progressing(node.schema)
        if name is None:
            return False
        if asked.get((place, name), need - 1) >= need:
            return True
        asked[place, name] = need
        if isinstance(node, SourceNode):
            return True
        if STOP in node.schema and (first := self._first(place)) is not None:
            # What is still open upstream ends so much earlier than what is waited for here.
            opening, page = first
            needed, stop = closing(opening, page.rows()[0]), int(ends_of(page)[0])
            if needed is None or not needed.patterns or self.stop is None:
                return False
            inner, pattern = needed.patterns[0]
            bound = stop if inner in (FROM, WID) else below(pattern)
            more = max(self.stop, stop) - stop
            return isinstance(bound, int) and self._reach(
                self._position(node.inputs[0]), self._over(opening, inner), bound + more, asked
            )
        return all(self._reach(at, on, bound, asked) for at, on, bound in self._unmet(node, name, need))

    @staticmethod
    def _over(opening: OpensWindows, name: str) -> str:
        """Return the attribute that windows are over, for one that numbers them."""
        windows = windows_of(opening)
        return windows[0].wattr if name in (FROM, WID) and windows else name

    def _unmet(self, node: Node, attribute: str, need: int) -> Iterator[tuple[int, str, int]]:
        """Yield what a bound of a node needs of its inputs and what these have not promised."""
        assert isinstance(node, OperatorNode)
        schemas = [above.schema for above in node.inputs]
        if isinstance(node.operator, PromisesWhen):
            needed = [(port, name, bound) for port, name, bound in node.operator.promised_when(attribute, need)]
        else:
            asked = promises_asked(node.operator, {attribute: Pace(None)}, schemas)
            over = self.stop if attribute in (FROM, WID) else need
            needed = [
                (port, name, bound)
                for port, wanted in enumerate(asked)
                for name in wanted
                if (bound := need if name == attribute else over) is not None
            ]
        for port, name, bound in needed:
            at = self._position(node.inputs[port])
            far = self.circuit.meters[at].lwm.get(name)
            if not self._ended(at) and (not isinstance(far, int) or far < bound):
                yield at, name, bound

    def _of_source(self, place: int, attribute: str, need: int) -> Forecast | None:
        reader = self.circuit.readers.get(place)
        if isinstance(reader, NamesHolder) and (holder := reader.holder(attribute)) is not None:
            if holder.bound is None or not holder.moves:
                return None
            tick = _tick(self.circuit.plan.nodes[place].schema, attribute) or 1
            left = max(0, need - holder.bound) * tick
            return Forecast(None, left / _SECOND, self.circuit.wall() + left)
        return forecast(self.circuit, place, attribute, need)

    def _first(self, place: int) -> tuple[OpensWindows, Page] | None:
        """Return who has the open window that ends first, of all lanes of an operator, with the one row of it."""
        if place not in self._firsts:
            found = [(opening, opening.open_windows(1)) for opening in telling(self.circuit, place)]
            some = (one for one in found if len(one[1]))
            self._firsts[place] = min(some, key=lambda one: int(ends_of(one[1])[0]), default=None)
        return self._firsts[place]

    def _no_window(self, place: int) -> Wait:
        """Say what comes before any window of this operator that can be told: windows upstream, or tuples."""
        for node in self.circuit.plan.nodes[place].inputs:
            above = self._windowed(self._position(node))
            if above is not None and self._first(above) is not None:
                inner = _Search(self.circuit, self.circuit.plan.nodes[above])
                found = inner._of_window(above)
                self.source, self.stop = inner.source, inner.stop
                return attrs.evolve(found, output=self.output.label)
        if self._holds(place):
            return self._from(self._position(self.circuit.plan.nodes[place].inputs[0]), None)
        return self._wait("no window", self.circuit.plan.nodes[place].label, "no tuple is in an open window")

    def _holds(self, place: int) -> bool:
        """Return whether an operator, or one in front of it, holds tuples that nobody can tell the windows of."""
        node, operator = self.circuit.plan.nodes[place], self.circuit.operators[place]
        counts = operator.statistics() if isinstance(operator, Measured) else {}
        held = any(counts.get(name, 0) for name in ("state_tuples", "away_bytes"))
        return held or any(self._holds(self._position(above)) for above in node.inputs)

    def _from(self, place: int, attribute: str | None, need: int | None = None, *, ends: bool = False) -> Wait:
        """Follow a promise that is needed of the node at a place, up to who does not make it."""
        node = self.circuit.plan.nodes[place]
        attribute = attribute if attribute is not None and attribute in node.schema else _progressing(node.schema)
        if attribute is None:
            return self._unended(place)
        self._link(place, attribute, need)
        if isinstance(node, SourceNode):
            return self._source(place, node, attribute, need, ends=ends)
        if STOP in node.schema and self._first(place) is not None:
            # The promises behind an aggregate are those of its windows.
            inner = _Search(self.circuit, node)
            found = inner._of_window(place)
            self.source = inner.source
            return attrs.evolve(
                found, output=self.output.label, operator=self.operator, window=self.window, needs=self.needs,
                chain=(*self.chain, *found.chain), forecast=self.forecast, change=None,
            )  # fmt: skip
        if (numbered := self._numbered(place, attribute, need)) is not None:
            return numbered
        if (held := self._flushed(place, node, attribute, need)) is not None:
            return held
        if isinstance(node.operator, PromisesWhen) and need is not None:
            for port, name, bound in node.operator.promised_when(attribute, need):
                at = self._position(node.inputs[port])
                known_of = self.circuit.meters[at].lwm.get(name)
                if not self._ended(at) and (not isinstance(known_of, int) or known_of < bound):
                    return self._from(at, name, bound, ends=ends)
        schemas = [above.schema for above in node.inputs]
        asked = promises_asked(node.operator, {attribute: Pace(None)}, schemas)
        if not any(asked):
            need = None
            # It does not say from what it makes its promise: then from any that come.
            asked = [{} if (name := _progressing(schema)) is None else {name: Pace(None)} for schema in schemas]
        least: tuple[float, int, str] | None = None
        reached = list[float]()
        for above, wanted in zip(node.inputs, asked, strict=True):
            at = self._position(above)
            if self._ended(at):
                continue
            for name in wanted:
                bound = self.circuit.meters[at].lwm.get(name)
                unit = (_tick(above.schema, name) or 1) if isinstance(bound, int) else 1
                far = float("-inf") if not isinstance(bound, int) else bound * unit
                reached.append(far)
                if least is None or far < least[0]:
                    least = far, at, name
        if least is None:
            return self._wait("operator", node.label, "its inputs promise nothing before their end")
        far, at, name = least
        self._compare(at, name, reached)
        if name != attribute and attribute in (FROM, WID):
            need = None if name in (FROM, WID) else self.stop
        unit = _tick(self.circuit.plan.nodes[at].schema, name) or 1
        if need is not None and far >= need * unit:
            # A join with a range, for one, needs more of its inputs than it promises.
            need = None
        return self._from(at, name, need, ends=ends)

    def _unended(self, place: int) -> Wait:
        """Name the source whose end completes what has no progress, of several the one that is furthest behind."""
        circuit = self.circuit
        left = [at for at in sources_above(circuit.plan, place) if at not in circuit.finished]
        self.source = min(left, key=circuit.behind)
        label, others = circuit.plan.nodes[self.source].label, len(left) - 1
        said = "nothing that progresses completes it before the end of its input"
        more = "" if not others else f"{others} other source{'s have' if others > 1 else ' has'} not ended either"
        return self._wait("end of stream", label, said, more)

    def _flushed(self, place: int, node: OperatorNode, attribute: str, need: int | None) -> Wait | None:
        """Say that a join holds a promise back, with tuples that are certain; None where none of its lanes does."""
        parts = [self.circuit.operators[place], *links(self.circuit.operators[place])]
        found = [held for one in parts if isinstance(one, HoldsBack) and (held := one.held_back(attribute, need))]
        if not found:
            return None
        held = max(found, key=lambda one: one.tuples)
        plural = held.tuples != 1
        leave = "they leave" if plural else "it leaves"
        ways = [] if held.coming is None else [f"as {_many(held.coming)} come"]
        for port, name, bound in held.promises:
            above = node.inputs[port]
            ways.append(f"once {above.label} promises {name} < {tick_text(bound, _unit(above.schema, name))}")
        said = f"{held.tuples:,} tuple{'s' * plural} without a partner wait{'' if plural else 's'} for its flush"
        return self._wait("flush", node.label, said, f"{leave} {', or '.join(ways) or 'with the end of an input'}")

    def _numbered(self, place: int, attribute: str, need: int | None) -> Wait | None:
        """Say that an operator numbers tuples and waits for more; None where it does not, or others hold some back."""
        node = self.circuit.plan.nodes[place]
        assert isinstance(node, OperatorNode)
        schemas = [above.schema for above in node.inputs]
        if attribute not in passage(node.operator, attribute, node.schema, schemas).numbers:
            return None
        if any(self._holds(self._position(above)) for above in node.inputs):
            return None
        far = self.circuit.meters[place].lwm.get(attribute)
        many = None if need is None else need - (far if isinstance(far, int) else 0)
        said = "more tuples" if many is None else _many(many)
        return self._wait("tuples", node.label, f"{said} must come, from any of its sources")

    def _compare(self, place: int, name: str, reached: Sequence[float]) -> None:
        """Note how far the other inputs of an operator are, where one is behind them."""
        schema = self.circuit.plan.nodes[place].schema
        others = sorted(reached)[1:]
        if others and others[0] > float("-inf"):
            bound = tick_text(int(others[0]) // (_tick(schema, name) or 1), _unit(schema, name))
            who = "the other input has" if len(others) == 1 else f"the {len(others)} other inputs have"
            self.beside = (f"{who} promised it to {bound} at least",)

    def _source(self, place: int, node: SourceNode, attribute: str, need: int | None, *, ends: bool) -> Wait:
        circuit, label = self.circuit, node.label
        self.source = place
        if ends:
            return self._wait("end of stream", label, "only the end of the stream completes this window")
        reader = circuit.readers.get(place)
        if isinstance(reader, NamesHolder) and (holder := reader.holder(attribute)) is not None:
            facts = list(holder.facts)
            if holder.released is not None and not holder.moves:
                facts.append(
                    f"if it stays silent, windows do not wait for it from {tick_text(holder.released // 10**9, 's')} on"
                )
            self._not_wait(node, reader, attribute, need)
            tick = _tick(node.schema, attribute) or 1
            skew, left = holder.skew or 0, None if need is None or holder.bound is None else need - holder.bound
            if skew > _WRONG and (holder.moves if left is None else left * tick <= skew):
                return self._wait("clock", holder.name, *facts, "a right clock, or correct_clocks, would complete it")
            return self._wait("exporter", holder.name, *facts)
        silent = (now := circuit.clock()) - circuit.heard.get(place, now)
        if not node.source.rewindable and (silent > _QUIET or place not in circuit.heard):
            said = f"nothing has come from it for {silent:.0f} s" if place in circuit.heard else "nothing has come yet"
            self._assume(place, node, attribute, need)
            return self._wait("silent", label, said, self._lull(place, attribute))
        punctuators = [p for p in circuit.inputs[place].punctuators if p.attribute == attribute]
        if not punctuators:
            own = (attribute,) in own_promises(node.source)
            said = "the stream makes its promises itself" if own else f"{attribute} is not promised before its end"
            return self._wait("behind" if own else "end of stream", label, said)
        return self._punctuated(place, node, punctuators[0], need)

    def _lull(self, place: int, attribute: str) -> str:
        lulls = [getattr(p, "lull", None) for p in self.circuit.inputs[place].punctuators if p.attribute == attribute]
        return "" if any(lull is not None for lull in lulls) else 'lull="10 s" would promise by the clock meanwhile'

    def _punctuated(self, place: int, node: SourceNode, punctuator: Punctuator, need: int | None) -> Wait:
        """Say what a punctuator of a source waits for."""
        label, name = node.label, punctuator.attribute
        true = known(punctuator)
        if need is not None and true is not None and true >= need:
            step = getattr(punctuator, "step", None)
            how = "as often as the plan needs" if step is None else f"once every {self._amount(node, name, step)}"
            return self._wait("seldom", label, f"its tuples allow that promise already, which is made {how}")
        match punctuator:
            case ByKey():
                slowest = punctuator.slowest()
                if slowest is None:
                    return self._behind(node, name, None)
                far = self._amount(node, name, slowest.behind)
                said = f"{slowest.key} holds it back, {far} behind the foremost"
                self._let_go(node, punctuator, need)
                if true is None or need is None or punctuator.late_per_million is not None:
                    return self._wait("behind", label, said)
                return self._of_slack(place, node, punctuator, true + punctuator.slack, need, said)
            case Scheduled():
                many = None if need is None else follow(punctuator, need)
                last = "" if many is None else f", the last of the next {many:,}" if many > 1 else ", the next one"
                return self._wait("to follow", label, f"a tuple before that is still to come{last}, as was read ahead")
            case Slack():
                highest = None if true is None else true + punctuator.slack
                if highest is None or need is None:
                    return self._behind(node, name, highest)
                return self._of_slack(place, node, punctuator, highest, need)
            case TupleSlack():
                said = f"tuples may come {punctuator.n:,} places late, so that many more must follow"
                return self._wait("slack", label, said)
            case BlockEnd():
                return self._wait(
                    "slack", label, "the block in progress has not ended, and it may have any order inside"
                )
            case Ordered():
                return self._behind(node, name, true)
            case Heartbeat():
                return self._wait("behind", label, "its promises follow the clock")
            case Embedded():
                return self._wait("behind", label, f"its promises stand in the data, marked by {punctuator.marker}")
            case _:
                return self._wait("behind", label, f"it is promised by {type(punctuator).__name__}")

    def _not_wait(self, node: SourceNode, reader: NamesHolder, attribute: str, need: int | None) -> None:
        """Say which setting of a reading would not wait for who holds it back."""
        sooner = None if need is None or self._waiting != 1 else reader.sooner(attribute, need)
        tick = _tick(node.schema, attribute)
        if sooner is not None and tick is not None:
            value, ticks = format_duration(sooner.length), sooner.length // tick
            self.change = Change(sooner.setting, value, ticks, sooner.late, sooner.counted, sooner.exact)

    def _assume(self, place: int, node: SourceNode, attribute: str, need: int | None) -> None:
        """Say what a shorter lull would do, the longest of two digits that completes the window now."""
        tick, lateness = _tick(node.schema, attribute), self.circuit.inputs[place].lateness.get(attribute)
        punctuators = [p for p in self.circuit.inputs[place].punctuators if p.attribute == attribute]
        if need is None or tick is None or lateness is None or self._waiting != 1 or len(punctuators) != 1:
            return
        (punctuator,) = punctuators
        now, bound, silences = self.circuit.wall() // tick, stepped(punctuator, need), lateness.silences
        most = now - (bound if lateness.highest is None else max(bound, lateness.highest + 1))
        given: int | None = getattr(punctuator, "lull", None)
        lull = rounded(most if silences is None else max(most, silences.longest(bound)))
        if lull < 1 or (given is not None and lull >= given):
            return
        late = lateness.late_after(lull)
        if 2 * late > lateness.counted or not lateness.counted:
            return  # a stream of the past, or one that is behind all the time, is not served by any lull
        exact = lateness.counted == lateness.read and given is not None and getattr(punctuator, "every", None) is None
        exact = exact and silences is not None and silences.complete
        value = self._amount(node, attribute, lull)
        self.change = Change("lull", value, lull, late, lateness.counted, exact)

    def _let_go(self, node: SourceNode, punctuator: ByKey, need: int | None) -> None:
        """Say what a shorter `idle` of keys would do, the longest of those that were followed that completes it now."""
        sooner = None if need is None or self._waiting != 1 else punctuator.sooner(need)
        if sooner is not None:
            value = self._amount(node, punctuator.attribute, sooner.idle)
            self.change = Change("idle", value, sooner.idle, sooner.late, sooner.counted, exact=True)

    def _of_slack(
        self, place: int, node: SourceNode, punctuator: Slack | ByKey, highest: int, need: int, who: str = ""
    ) -> Wait:
        """Say that a slack keeps a promise back, where times are as far; else that they are not."""
        label, name = node.label, punctuator.attribute
        if highest < need:
            return self._wait("behind", label, who) if who else self._behind(node, name, highest)
        slack = self._amount(node, name, punctuator.slack)
        whose = "its" if not who else "that"
        said = f"{whose} highest {name} is {self._text(node, name, highest)}, and tuples may be {slack} late"
        more = need + punctuator.slack
        self._allow(place, node, punctuator, highest - stepped(punctuator, need))
        seen = self._seen(place, node, punctuator)
        done = f"a tuple at {self._text(node, name, more)} completes it"
        return self._wait("slack", label, who, said, seen, done)

    def _seen(self, place: int, node: SourceNode, punctuator: Slack | ByKey) -> str:
        """Say that a slack is larger than what was seen, where it is."""
        lateness = self.circuit.inputs[place].counts_of(punctuator.attribute)
        if lateness is None or not lateness.counted or (enough := lateness.enough()) >= punctuator.slack:
            return ""
        slack = self._amount(node, punctuator.attribute, enough) if enough else "0"
        return f"a slack of {slack} would have been enough for all {lateness.counted:,} tuples that were looked at"

    def _allow(self, place: int, node: SourceNode, punctuator: Slack | ByKey, most: int) -> None:
        """Say what a smaller slack would do, the largest of two digits that completes the window now."""
        lateness = self.circuit.inputs[place].counts_of(punctuator.attribute)
        if lateness is None or not lateness.counted or self._waiting != 1 or most < 0:
            return
        slack = rounded(most)
        exact = (
            lateness.counted == lateness.read and punctuator.lull is None and getattr(punctuator, "every", None) is None
        )
        value = self._ticks(node, punctuator.attribute, slack)
        self.change = Change("slack", value, slack, lateness.late(slack), lateness.counted, exact)

    def _behind(self, node: SourceNode, name: str, highest: int | None) -> Wait:
        reached = (
            "it has no tuple yet" if highest is None else f"its highest {name} is {self._text(node, name, highest)}"
        )
        return self._wait("behind", node.label, reached)

    def _ended(self, place: int) -> bool:
        """Return whether all sources of a node have ended."""
        if not self._have_ended:
            for at, node in enumerate(self.circuit.plan.nodes):  # a node comes behind its inputs
                if isinstance(node, SourceNode):
                    self._have_ended.append(at in self.circuit.finished)
                else:
                    self._have_ended.append(all(self._have_ended[self._position(above)] for above in node.inputs))
        return self._have_ended[place]

    def _position(self, node: Node) -> int:
        return self.circuit.plan.position(node)

    def _link(self, place: int, attribute: str, need: int | None) -> None:
        schema, bound = self.circuit.plan.nodes[place].schema, self.circuit.meters[place].lwm.get(attribute)
        unit = _unit(schema, attribute)
        promised = None if bound is None else tick_text(bound, unit)
        needed = None if need is None else tick_text(need, unit)
        if self.needs is None and needed is not None:
            self.needs = f"[{attribute} < {needed}]"
        self.chain.append(Link(self.circuit.plan.nodes[place].label, attribute, promised, needed))

    def _wait(self, cause: str, holder: str, *facts: str) -> Wait:
        told = (*(fact for fact in facts if fact), *self.beside)
        chain = tuple(self.chain)
        return Wait(
            self.output.label, self.operator, self.window, self.needs, cause, holder, chain, told, self.forecast,
            self.change, self.taking,
        )  # fmt: skip

    @staticmethod
    def _text(node: SourceNode, name: str, tick: int) -> str:
        return tick_text(tick, _unit(node.schema, name))

    @staticmethod
    def _ticks(node: SourceNode, name: str, ticks: int) -> str:
        """Return a setting as one writes it, a length of time where the attribute is one."""
        return "0 s" if not ticks and _tick(node.schema, name) is not None else _Search._amount(node, name, ticks)

    @staticmethod
    def _amount(node: SourceNode, name: str, ticks: int) -> str:
        tick = _tick(node.schema, name)
        if tick is None:
            return tick_text(ticks, _unit(node.schema, name))
        ns = ticks * tick
        return format_duration(ns if ns < _MILLISECOND else ns // _MILLISECOND * _MILLISECOND)


def openings(operator: Operator) -> list[OpensWindows]:
    """Return the operators that one is made of, in a row or in lanes, that know which of their windows are open."""
    if isinstance(operator, OpensWindows):
        return [operator]
    parts = links(operator)
    return [] if operator in parts else [opening for part in parts for opening in openings(part)]


def telling(circuit: Circuit, place: int) -> list[OpensWindows]:
    """Return the operators at a place that know which of its windows are open, all of them.

    Where partial aggregates wait in front of it, there may be earlier ones, and none is told.
    """
    at = place
    while isinstance(node := circuit.plan.nodes[at], OperatorNode) and FROM in node.inputs[0].schema:
        at = circuit.plan.position(node.inputs[0])
        operator = circuit.operators[at]
        counts = operator.statistics() if isinstance(operator, Measured) else {}
        if counts.get("state_tuples", 0) and any(map(reduces, links(operator))):
            return []
    return openings(circuit.operators[place])


def closing(opening: OpensWindows, row: Mapping[str, object]) -> Punctuation | None:
    """Return the promise that completes a window; None where the operator can not say it."""
    wid, window = row.get(WID), row.get(WINDOW)
    if not isinstance(wid, int):
        return None
    closed_by: Callable[..., Punctuation] = opening.closed_by
    try:
        return closed_by(wid) if window is None else closed_by(wid, window)
    except LookupError:
        return None


def _many(tuples: int) -> str:
    return f"{tuples:,} more tuple{'s' * (tuples != 1)}"


def _progressing(schema: Schema) -> str | None:
    """Return the first attribute alone that a schema says progresses."""
    return next((name for name in schema.names if schema.progressing(name)), None)


def _unit(schema: Schema, name: str) -> str | None:
    """Return the unit in which values of an attribute are written, None where they are written as they are."""
    return written_unit(schema.field(name).type) if name in schema else None


def _tick(schema: Schema, name: str) -> int | None:
    return tick_ns(schema.field(name).type) if name in schema else None
