"""The state of a job as Arrow tables, read from its last checkpoint, without the program that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs
import pyarrow as pa

from oop_engine.drive.checkpoints.prototype import prototype
from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.store import Checkpoint
from oop_engine.drive.outcome import table_of
from oop_engine.sinks.disk import RealDisk
from operators.data.page import Page
from operators.data.readable import tick_text
from operators.data.saved import UNFIT, part, restore
from operators.overflow import overflows
from operators.protocol import Element, Operator
from operators.streams.lanes import ADMITTED
from operators.window_aggregate.bucket import FROM
from operators.window_aggregate.results import START, STOP, WID
from punctuation import END

MOST = 1_000_000
_OPERATORS = pa.schema([
    ("operator", pa.string()), ("kind", pa.string()), ("tuples_in", pa.int64()), ("tuples_out", pa.int64()),
    ("open_windows", pa.int64()), ("state_tuples", pa.int64()), ("state_bytes", pa.int64()),
    ("saved_bytes", pa.int64()),
])  # fmt: skip
_SOURCES = pa.schema([
    ("source", pa.string()), ("tuples", pa.int64()), ("ended", pa.bool_()), ("files", pa.list_(pa.string())),
])  # fmt: skip
_PROMISES = pa.schema([
    ("operator", pa.string()), ("source", pa.bool_()), ("attribute", pa.string()), ("below", pa.int64()),
    ("text", pa.string()),
])  # fmt: skip
_COUNTERS = pa.schema([("operator", pa.string()), ("counter", pa.string()), ("value", pa.int64())])
_RESULTS = pa.schema([("path", pa.string()), ("rows", pa.int64())])


@attrs.frozen(eq=False, repr=False)
class JobState:
    """Hold what the last checkpoint of a job has, as Arrow tables; `state` reads it.

    - `epoch`, `when`, `ended`: the number of the checkpoint, its time (UTC), and whether the job has ended.
    - `windows`: for each operator that holds results back, by its name, what it would give if its input ended here: the
      open windows with their groups, and the partial results of the functions. Addresses are text.
    - `operators`: tuples in and out, open windows, and how much each holds: tuples and partial aggregates, bytes in
      memory, and bytes in the checkpoint; null where an operator does not count it.
    - `sources`: how many tuples were taken from each source, from which files, and whether it has ended.
    - `promises`: what each operator and source has promised: no later tuple has less than `below` in `attribute`.
      `text` is the bound as people read it.
    - `counters`: every other count: late tuples, results, peaks.
    - `results`: where results went, and how many rows.
    - `unread`: the operators whose windows are not told, and why.

    >>> per_host = oop.packets(20_000).window(range="1 s").aggregate(oop.count(), by="srcIP")
    >>> ran = per_host.to("hosts.csv").run(checkpoint="hosts")
    >>> oop.state("hosts")
    JobState(checkpoint 1, ended; 3 operators, 0 open windows)
    """

    epoch: int
    when: str
    ended: bool
    windows: Mapping[str, pa.Table]
    operators: pa.Table
    sources: pa.Table
    promises: pa.Table
    counters: pa.Table
    results: pa.Table
    unread: Mapping[str, str]

    def __repr__(self) -> str:
        """Return the sums."""
        rows = sum(table.num_rows for table in self.windows.values())
        ended = "ended" if self.ended else "not ended"
        return f"JobState(checkpoint {self.epoch}, {ended}; {len(self.operators)} operators, {rows:,} open windows)"


def state(folder: str | Path, *, most: int = MOST) -> JobState:
    """Read the state of a job from the last checkpoint in its folder, also while the job runs; nothing is changed.

    - `folder`: what the run has as `checkpoint`.
    - `most`: rows of open windows for each operator, the earliest windows first.

    The program of the job is not needed: the checkpoint has the class and the parameters of each operator. Functions
    and windows in Python are not in it; operators with such are in `unread`. CheckpointError where there is no job, or
    its checkpoint is damaged.

    The tables are there for DuckDB and Polars: `windows = oop.state("job").windows[name]`, and then
    `duckdb.sql("SELECT * FROM windows")` or `polars.from_arrow(windows)`.

    >>> per_port = oop.packets(20_000).window(range="1 s").aggregate(oop.count(), by="destPort")
    >>> ran = per_port.to("ports.csv").run(checkpoint="ports")
    >>> oop.state("ports").sources.to_pylist()[0]["tuples"]
    20000
    """
    return read(last_of(Path(folder).expanduser(), RealDisk()), most=most)


def read(checkpoint: Checkpoint, *, most: int = MOST) -> JobState:
    """Return the state that a checkpoint has, see `state`."""
    body = checkpoint.body
    nodes = cast(Mapping[str, Mapping[str, object]], body.get("nodes") or {})
    query = cast(Mapping[str, object], body.get("query") or {})
    held = _Holding(checkpoint, query, most)
    operators, sources, promises, counters = (list[Mapping[str, object]]() for _ in range(4))
    for name, node in nodes.items():
        described = cast(Mapping[str, object], query.get(name) or {})
        details = cast("dict[str, int]", node.get("details") or {})
        if isinstance(position := node.get("position"), Mapping):
            files = cast(Mapping[str, list[Mapping[str, str]]], described.get("identity") or {}).get("files", [])
            paths = [file["path"] for file in files]
            sources.append({"source": name, "tuples": position["tuples"], "ended": node.get("ended"), "files": paths})
        about: dict[str, object] = {
            "operator": name,
            "kind": _kind(described),
            "saved_bytes": checkpoint.size(name),
        }
        if (windows := held.windows.get(name)) is not None:
            about |= {"open_windows": windows.num_rows}
        operators.append(about | {key: node.get(key) for key in ("tuples_in", "tuples_out")} | details)
        counted = {key: value for key, value in node.items() if type(value) is int and key not in about} | details
        counters += [{"operator": name, "counter": key, "value": value} for key, value in counted.items()]
        units = cast(Mapping[str, str], node.get("units") or {})
        for attribute, bound in cast(Mapping[str, object], node.get("lwm") or {}).items():
            ticks = bound if isinstance(bound, int) else None
            promises.append({
                "operator": name, "source": "position" in node, "attribute": attribute, "below": ticks,
                "text": tick_text(bound, units.get(attribute)),
            })  # fmt: skip
    outputs = cast(Sequence[Mapping[str, object]], body.get("outputs") or [])
    return JobState(
        checkpoint.epoch, str(body.get("when")), bool(body.get("ended")), held.windows,
        _table(operators, _OPERATORS), _table(sources, _SOURCES), _table(promises, _PROMISES),
        _table(counters, _COUNTERS), _table(outputs, _RESULTS), held.unread,
    )  # fmt: skip


@attrs.define(eq=False)
class _Holding:
    """The operators of a checkpoint made again, each ended alone, so that it gives all that it holds back."""

    checkpoint: Checkpoint
    query: Mapping[str, object] = attrs.field(repr=False)
    most: int
    windows: dict[str, pa.Table] = attrs.field(init=False, factory=dict)
    unread: dict[str, str] = attrs.field(init=False, factory=dict)
    _partials: dict[str, list[Page]] = attrs.field(init=False, factory=dict)
    """By operator, the partial aggregates that it combines and that another holds in front of it."""

    def __attrs_post_init__(self) -> None:
        for name, node in self.query.items():
            if isinstance(node, Mapping) and "operator" in node:
                self._end(name, cast(Mapping[str, object], node))

    def _end(self, name: str, node: Mapping[str, object]) -> None:
        reads = cast(Iterable[str], node.get("reads") or ())
        given = [page for read in reads for page in self._partials.get(read, [])]
        operator, saved = prototype(node["operator"]), self.checkpoint.states.get(name)
        if saved is None:
            return
        if operator is None:
            self.unread[name] = f"what a checkpoint says of a {_kind(node)} is not enough to make it again"
            return
        pages = list[Page]()
        try:
            held = saved.decoded()
            restore(operator, part("operator.", held) if ADMITTED in held else held)
            pages = _given(operator, given, self.most)
        except (*UNFIT, NotImplementedError) as error:
            self.unread[name] = str(error).partition("\n")[0]
        if not pages:
            return
        schema = pages[0].schema
        if FROM in schema:
            self._partials[name] = pages
            return
        if STOP not in schema:  # tuples that wait or expire, not results
            return
        table = table_of(schema.arrow, pages)
        order = [(column, "ascending") for column in (STOP, START, WID) if column in table.column_names]
        self.windows[name] = (table.sort_by(order) if order else table).slice(0, self.most)


class Enough(Exception):
    """As many rows were given as are wanted."""


def _given(operator: Operator, partials: Sequence[Page], most: int) -> list[Page]:
    """End an operator, and return the pages that it gives then, of so many rows at least if there are."""
    pages, rows = list[Page](), 0

    def emit(element: Element) -> None:
        nonlocal rows
        if isinstance(element, Page) and len(element):
            pages.append(element)
            rows += len(element)
            if rows >= most and FROM not in element.schema:
                raise Enough

    for overflow in overflows(operator):
        overflow.forgiving = True
    try:
        for page in partials:
            operator.process(page, emit)
        for port in range(operator.inputs):
            operator.punctuate(END, emit, port)
    except Enough:
        pass
    return pages


def _kind(described: Mapping[str, object]) -> str:
    operator = described.get("operator")
    found = cast(Mapping[str, object], operator).get("is") if isinstance(operator, Mapping) else operator
    return "source" if found is None else str(found).rpartition(".")[2]


def _table(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
