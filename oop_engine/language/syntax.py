"""The syntax tree says what a query text says, and nothing about what its names mean.

Every node bears the `span` it was written at; spans, like the text itself, take no part in equality, so that
two texts which say the same give equal trees. Words of the language are canonical in the tree: operators as
listed in `BinaryOperator` and `UnaryOperator`, function names in lower case, `row-num` as `row_num`,
`arrival-ts` as `arrival_ts`.
"""

from __future__ import annotations

import typing as t
from decimal import Decimal

import attrs

from oop_engine.plan.durations import Duration
from oop_engine.span import NOWHERE, Span

UnaryOperator = t.Literal["-", "not"]
BinaryOperator = t.Literal[
    "||", "&", "|", "<<", ">>", "+", "-", "*", "/", "//", "%", "=", "<>", "<", "<=", ">", ">=", "and", "or"
]
Value = int | float | Decimal | str | bool | None
Kind = t.Literal["", "timestamp", "interval"]
JoinKind = t.Literal["inner", "left", "right", "full", "semi", "anti"]
Cardinality = t.Literal["many to many", "many to one", "one to many", "one to one"]


def _typed(value: Value) -> tuple[str, Value]:
    return type(value).__name__, value


def _shortest(value: Value) -> Value:
    """Return the float that stands for a decimal digit by digit, as 0.1 does; other decimals stay."""
    if not isinstance(value, Decimal):
        return value
    nearest = float(value)
    return nearest if Decimal(repr(nearest)) == value else value


@attrs.frozen
class Node:
    """A piece of a query, and where it stands."""

    span: Span = attrs.field(default=NOWHERE, kw_only=True, eq=False, repr=False)


@attrs.frozen
class Name(Node):
    """Name an attribute: ("srcIP",), or qualified by its stream, ("Main1", "srcIP").

    `said` is what the query says where the tree has been changed to name what that means.
    """

    parts: tuple[str, ...]
    said: str = attrs.field(default="", kw_only=True, eq=False, repr=False)

    def __str__(self) -> str:
        """Write the name as a person says it, e.g. "Main1.srcIP"."""
        return self.said or ".".join(self.parts)


@attrs.frozen
class Literal(Node):
    """Hold a constant; no number is negative (`-1` is `Unary("-", Literal(1))`); 1, 1.0 and TRUE differ.

    A number with a point is a float where its digits are those of one, and else a Decimal: no digit is lost.
    `kind` says what a text was written as: TIMESTAMP '...' (then it is ISO 8601, in UTC) or INTERVAL '...'.
    """

    value: Value = attrs.field(eq=_typed, converter=_shortest)
    kind: Kind = attrs.field(default="", kw_only=True)


@attrs.frozen
class Call(Node):
    """Call the function named `function` (lower case); `star` is `count(*)`, which has no arguments.

    `x LIKE y` is the call like(x, y), ILIKE and HAS alike; CASE WHEN a THEN b ELSE c END is case(a, b, c).
    """

    function: str
    args: tuple[Expr, ...]
    distinct: bool = attrs.field(default=False, kw_only=True)
    star: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class Unary(Node):
    """Negate a number ("-") or a condition ("not")."""

    op: UnaryOperator
    x: Expr


@attrs.frozen
class Binary(Node):
    """Combine two values by arithmetic, bits, "||" for text, comparison, "and" or "or"."""

    op: BinaryOperator
    l: Expr  # noqa: E741 - the pair l, r is the design's
    r: Expr


@attrs.frozen
class Between(Node):
    """Test `low <= x <= high`."""

    x: Expr
    low: Expr
    high: Expr
    negated: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class InList(Node):
    """Test whether `x` equals one of `items`."""

    x: Expr
    items: tuple[Expr, ...]
    negated: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class InNetwork(Node):
    """Test whether the address `x` lies in `network`, a string constant such as "10.0.0.0/8"."""

    x: Expr
    network: Literal
    negated: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class IsNull(Node):
    """Test whether `x` is null."""

    x: Expr
    negated: bool = attrs.field(default=False, kw_only=True)


Expr: t.TypeAlias = Name | Literal | Call | Unary | Binary | Between | InList | InNetwork | IsNull


@attrs.frozen
class Star(Node):
    """Select every attribute, or every one of the stream called `stream`."""

    stream: str | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class SelectItem(Node):
    """Select (or group by) an expression, under the name `alias` if there is one."""

    expr: Expr | Star
    alias: str | None


@attrs.frozen
class All(Node):
    """Reach back to the beginning of the stream: the RANGE of a landmark window."""


@attrs.frozen
class Band(Node):
    """Reach over one stretch alone, of the length `size`, that begins at `start`; a string holds a timestamp."""

    size: Duration
    start: Duration | Literal


@attrs.frozen
class Marked(Node):
    """Reach from each tuple that the attribute `by` marks to the next one."""

    by: Name


@attrs.frozen
class Calendar(Node):
    """Reach over a day, week, month, quarter or year of a time zone."""

    unit: str
    zone: str = "UTC"


@attrs.frozen
class When(Node):
    """Reach over the tuples for which `enter` is true, or from one of them to the first for which `leave` is.

    `next`: to the next one for which `enter` is. `within`: and no further than this.
    """

    enter: Expr
    leave: Expr | None = None
    next: bool = False
    within: Duration | None = None


@attrs.frozen
class Strategy(Node):
    """Say how to compute: the name of a strategy, and its options."""

    name: str
    options: tuple[tuple[str, int | float | str], ...] = ()


@attrs.frozen
class Trigger(Node):
    """Say when windows fire: after some rows, on event time, at an event, a promise, by a clock, or as several do.

    `value` is how many rows, how often or where in a window (in percent or as a time since it began), the name of the
    event, the pattern of the promise, the period of the clock, or how long a lull lasts; `parts` are the two that OR,
    AND, THEN or UNTIL combine.
    """

    kind: t.Literal["rows", "every", "at", "event", "promise", "clock", "lull", "or", "and", "then", "until"]
    value: int | str | Duration | Expr | None = None
    parts: tuple[Trigger, ...] = ()

    @property
    def on_event_time(self) -> bool:
        """Return whether windows fire on event time alone."""
        return all(part.on_event_time for part in self.parts) if self.kind == "or" else self.kind in ("every", "at")


Reach: t.TypeAlias = Duration | All | Band | Marked | Calendar | When


@attrs.frozen(kw_only=True)
class WindowClause(Node):
    """Hold a window as written between brackets.

    `tumbling` says RANGE TUMBLING and then `slide` is None; otherwise `slide` is None where none was written
    (the inputs of a join). `session` says SESSION; then `range` is the gap and `slide` None. `wattr` stands for both
    `rattr` and `sattr`, which come together or not at all; as a call it is rank(...), the place in the order of an
    attribute.
    `origin` is a duration since the attribute's zero (it may be negative), or a string constant that holds
    a timestamp. `closed` says CLOSED: in a join, tuples exactly RANGE apart still meet (thesis 7.1). `early` says how
    often windows give results before they are complete, `at` where in a window they do, in percent or as a time since
    it began, `when` at which tuples and signals, and `refine` what the next result, early or late, makes of those.
    `idle` is false where windows of the last rows are left out that hold the same tuples as the one before.
    `consistent`, `empty`, `lateness` and `strategy` are as in Python. They, like `early`, hold for all windows of
    a query; of several windows, the first has them.
    """

    range: Reach
    slide: Duration | None = None
    wattr: Name | Call | None = None
    partition: tuple[Name, ...] = ()
    rattr: Name | None = None
    sattr: Name | Call | None = None
    tumbling: bool = False
    session: bool = False
    origin: Duration | Literal | None = None
    partial: bool = True
    closed: bool = False
    early: Duration | None = None
    named: bool = attrs.field(default=False, eq=False)
    """Whether a function such as TUMBLE made the window of a source, before it becomes that of the query."""
    refine: t.Literal["accumulate", "discard", "retract"] = "accumulate"
    at: tuple[Duration | Literal, ...] = ()
    when: Trigger | None = None
    events: From | None = None
    """The stream whose tuples fire events by name, beside those of `running.fire`."""
    interval: Literal | None = None
    idle: bool = True
    consistent: bool = False
    empty: bool = False
    lateness: Duration | None = None
    strategy: Strategy | None = None
    name: str | None = None
    """What results call the window, where several stand beside one another."""

    @property
    def fires(self) -> bool:
        """Return whether windows give results before they are complete."""
        return self.early is not None or bool(self.at) or self.when is not None


@attrs.frozen
class Spread(Node):
    """Spread amounts over the panes between two times: SPREAD bytes OVER ts, end_ts BY 10 s."""

    columns: tuple[Name, ...]
    step: Duration
    over: tuple[Name, Name] | None = None


@attrs.frozen
class Numbered(Node):
    """Number the tuples of a source in the order of arrival there: NUMBER AS n."""

    name: str


@attrs.frozen
class Deduped(Node):
    """Count each flow once within values of `by`, or mark those that count already: DEDUP BY exporter MARK twice."""

    by: tuple[Name, ...] = ()
    mark: str | None = None


Step: t.TypeAlias = Spread | Numbered | Deduped
"""What is done to the tuples of a source before the rest of the query reads them, in the order of the text."""


@attrs.frozen
class Table(Node):
    """Read the stream called `name`, or, where it is a `path`, that file."""

    name: str
    path: bool = attrs.field(default=False, kw_only=True)
    steps: tuple[Step, ...] = attrs.field(default=(), kw_only=True)
    alias: str | None = attrs.field(default=None, kw_only=True)
    window: WindowClause | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Union(Node):
    """Meld two or more sources; the alias and window after the last are the whole union's (thesis Q8-3)."""

    items: tuple[From, ...]
    steps: tuple[Step, ...] = attrs.field(default=(), kw_only=True)
    alias: str | None = attrs.field(default=None, kw_only=True)
    window: WindowClause | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class SubQuery(Node):
    """Read the results of a query in parentheses."""

    query: Query
    steps: tuple[Step, ...] = attrs.field(default=(), kw_only=True)
    alias: str | None = attrs.field(default=None, kw_only=True)
    window: WindowClause | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Flush(Node):
    """Say how tuples without a partner leave a join: the name of a flush, and its options."""

    name: str
    options: tuple[tuple[str, int | float | str], ...] = ()


@attrs.frozen
class Join(Node):
    """Join two or more sources, each with its own window, or all in one tumbling `window` (thesis Q5-7).

    `on` holds the conditions after ON, and is None where commas stand between all sources. A `kind` other than "inner"
    joins two sources. `flush` says how tuples that have no partner leave it, `cardinality` how many partners a tuple
    may have.
    """

    items: tuple[Table | Union | SubQuery, ...]
    window: WindowClause | None = attrs.field(default=None, kw_only=True)
    kind: JoinKind = attrs.field(default="inner", kw_only=True)
    on: Expr | None = attrs.field(default=None, kw_only=True)
    flush: Flush | None = attrs.field(default=None, kw_only=True)
    cardinality: Cardinality = attrs.field(default="many to many", kw_only=True)


From: t.TypeAlias = Table | Union | Join | SubQuery


@attrs.frozen
class Lookup(Node):
    """Look the tuples of FROM up in the table called `table`, or, where it is a `path`, in that file.

    `on` compares attributes with columns of the table. `required` says INNER: a tuple that finds no row is left out.
    `valid_from` is the column that says since when a row is valid, and `at` the time of the tuple, ts if it is None.
    Where the table is a stream, tuples `wait` for its promise, or are given anew, up to `revise` later.
    """

    table: str
    on: Expr
    alias: str | None = attrs.field(default=None, kw_only=True)
    path: bool = attrs.field(default=False, kw_only=True)
    required: bool = attrs.field(default=False, kw_only=True)
    valid_from: Name | None = attrs.field(default=None, kw_only=True)
    at: Name | None = attrs.field(default=None, kw_only=True)
    wait: bool = attrs.field(default=False, kw_only=True)
    revise: Duration | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class OrderItem(Node):
    """Order results by an expression, the smallest first unless `descending`."""

    expr: Expr
    descending: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class Alert(Node):
    """Follow the results of windows: open when `when` is true of so many `windows` in a row, close when `clear` is."""

    name: str
    when: Expr
    windows: int = attrs.field(default=1, kw_only=True)
    clear: Expr | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Bill(Node):
    """Bill the rates of windows over a period: BILL bps, sum(bytes) AS bytes PER month IN "Europe/Berlin" AT 0.95."""

    value: Name
    per: Duration | str
    more: tuple[SelectItem, ...] = attrs.field(default=(), kw_only=True)
    """Aggregates over the results of the windows of a period."""
    zone: str = attrs.field(default="UTC", kw_only=True)
    share: float = attrs.field(default=0.95, kw_only=True)


@attrs.frozen(kw_only=True)
class Query(Node):
    """Say a whole query.

    `window` is the aggregate's window, whether it was written after the select list or after a single source; `beside`
    are further ones that are computed beside it.
    An item of `group_by` is a Name, or a SelectItem when it is an expression or has an alias.
    `text` is the whole text that every span inside points into, for a sub-query too.
    """

    select: tuple[SelectItem, ...]
    window: WindowClause | None = None
    beside: tuple[WindowClause, ...] = ()
    source: From
    lookups: tuple[Lookup, ...] = ()
    where: Expr | None = None
    group_by: tuple[Name | SelectItem, ...] = ()
    having: Expr | None = None
    alert: Alert | None = None
    bill: Bill | None = None
    order: tuple[OrderItem, ...] = ()
    limit: Literal | None = None
    within: tuple[Name, ...] = ()
    """The columns of the result that make groups, of each of which `limit` keeps so many."""
    distinct: bool = False
    text: str = attrs.field(default="", eq=False, repr=False)

    @property
    def windows(self) -> tuple[WindowClause, ...]:
        """Return all windows of the aggregate; none where there is none."""
        return () if self.window is None else (self.window, *self.beside)


__all__ = [
    "NOWHERE",
    "Alert",
    "All",
    "Band",
    "Between",
    "Bill",
    "Binary",
    "BinaryOperator",
    "Calendar",
    "Call",
    "Cardinality",
    "Deduped",
    "Duration",
    "Expr",
    "Flush",
    "From",
    "InList",
    "InNetwork",
    "IsNull",
    "Join",
    "JoinKind",
    "Kind",
    "Literal",
    "Lookup",
    "Marked",
    "Name",
    "Numbered",
    "OrderItem",
    "Query",
    "Reach",
    "SelectItem",
    "Span",
    "Spread",
    "Star",
    "Step",
    "Strategy",
    "SubQuery",
    "Table",
    "Unary",
    "UnaryOperator",
    "Union",
    "Value",
    "When",
    "WindowClause",
]
