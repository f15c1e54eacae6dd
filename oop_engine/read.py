"""Where streams come from, as users call it: every function gives a `Stream` and reads nothing but what it must.

All take the same promises: by default a bounded file is punctuated exactly (it is read ahead once, by the attribute
that windows use); `slack="2s"` or `punctuate=` say otherwise, and are needed for what can be read only once. `late` is
what happens to a tuple that breaks a promise: "drop" leaves it out of the windows that are released (thesis 6.1.5.2,
generous), "refuse" raises StreamViolation at the first, "revise" passes it on, and `divert=` takes every one of them
out of the stream, to a function of pages or to a file such as "late.parquet". All are counted.

With `arrival_ts` a stream also says when its tuples arrived, in ns by the system's clock (True) or by a function that
gives ns since 1970: one stamp for all that was read at once, never less than the one before, so windows over arrival_ts
need no other promise. For a file that is the time of its reading, not of its recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan import Divert, source_node
from oop_engine.punctuate import Promise
from oop_engine.punctuate import slack as slack_promise
from oop_engine.sources.arrival import Clock, stamped_source
from oop_engine.sources.files import Files
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.packets import Packets
from oop_engine.sources.paths import expand, standard_input
from oop_engine.sources.protocol import Source
from oop_engine.sources.rows import PlainRow, from_pages, from_rows
from oop_engine.sources.tables import SUFFIXES
from oop_engine.stream import Stream
from oop_engine.ticks import Amount
from operators.errors import did_you_mean
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema
from punctuation import Punctuation

if TYPE_CHECKING:
    from oop_engine.sources import flows

Place: TypeAlias = "str | Path | BinaryIO"
Promises: TypeAlias = "Promise | Iterable[Promise] | None"
Arrival: TypeAlias = "bool | Clock"


def from_source(
    source: Source,
    *,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of any source; `slack` is short for `punctuate=oop.slack(slack, on=on)`."""
    # Callers without a type checker give a path here; the annotation does not stop them.
    if not isinstance(source, Source):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"from_source takes a source, and {type(source).__name__} {source!r:.60} is none.\n  "
            + (f'For a file write oop.read("{source}"). ' if isinstance(source, (str, Path)) else "")
            + "A source has name, arrow, rewindable, promised, open and values (oop_engine.sources.protocol.Source)."
        )
    promises = _promises(punctuate)
    if slack is not None:
        promises = (*promises, slack_promise(slack, on=on))
    if arrival_ts is not False:
        clock = arrival_ts if callable(arrival_ts) else None
        if clock is None and arrival_ts is not True:
            raise PlanError(f"arrival_ts is {arrival_ts!r}; write True, or a function that gives ns since 1970.")
        source = stamped_source(source, clock=clock)
    return Stream(source_node(source, promises=promises, late=late, divert=divert))


def pcap(
    *places: Place,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read captures (pcap or pcapng, plain, gzip or zstd; told by content) as one stream of packets.

    Paths may be patterns; "-" is standard input. Attributes: ts, srcIP, destIP, srcPort, destPort, proto, length (bytes
    on the wire), flags, ... as in `oop_engine.sources.capture.PACKET_SCHEMA`. A truncated or damaged file gives what
    can be read, and the run's notes say where it stopped; `strict` makes that an error.
    """
    if not places:
        raise PlanError('pcap needs at least one file, e.g. oop.pcap("capture.pcap")')
    paths = [found for place in places for found in _expanded(place)]
    source = Packets(paths, label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, late=late, divert=divert, arrival_ts=arrival_ts)


def netflow(
    *places: Place,
    columns: Sequence[str | flows.Element] = (),
    ports: Sequence[int] | int | None = None,
    allow: Sequence[str] | str | None = None,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read flow exports, NetFlow v5 and v9, IPFIX and sFlow v5, from captures of them or files of datagrams.

    Attributes: ts and end_ts (start and end of the flow), srcIP, destIP, ports, bytes, packets, exporter, sampling, ...
    as in `oop_engine.sources.flows.FLOW_SCHEMA`; `columns` names further elements as IANA does. `ports` are the UDP
    ports of collectors in captures, `allow` networks that exporters may send from. What is not decoded is counted by
    exporter and reason, and noted at the end of a run.
    """
    from oop_engine.sources.flows import FlowExports

    if not places:
        raise PlanError('netflow needs at least one file, e.g. oop.netflow("exports.pcap")')
    paths = [found for place in places for found in _expanded(place)]
    source = FlowExports(paths, columns=columns, ports=ports, allow=allow, label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def zeek(
    *places: Place,
    name: str = "",
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
) -> Stream:
    """Read connection logs of Zeek, tab-separated or JSON, plain or packed."""
    from oop_engine.sources.flows import ZeekLogs

    if not places:
        raise PlanError('zeek needs at least one log, e.g. oop.zeek("conn.log.gz")')
    source = ZeekLogs([found for place in places for found in _expanded(place)], label=name)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert)


def table(
    *places: Place,
    name: str = "",
    format: str | None = None,
    types: Mapping[str, str | pa.DataType] | None = None,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read CSV, TSV, NDJSON, Parquet or Arrow files as one stream, the format told by the suffix or given.

    `types` overrules what a file says: {"srcIP": "ip", "ts": "timestamp"}.
    """
    if not places:
        raise PlanError('table needs at least one file, e.g. oop.table("flows.csv")')
    first = places[0]
    label = name or (Path(first).name if isinstance(first, (str, Path)) and str(first) != "-" else "stdin")
    given = [p for p in places if isinstance(p, (str, Path))]
    source = Files(label, given if len(given) == len(places) and len(given) > 1 else first, format, types)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def read(*places: Place, name: str = "", format: str | None = None, strict: bool = False, **options: object) -> Stream:
    """Read files of any known kind: by suffix for tables, by content for captures."""
    first = places[0] if places else "-"
    suffixes = [s.lower() for s in Path(str(first)).suffixes] if isinstance(first, (str, Path)) else []
    while suffixes and suffixes[-1] in (".gz", ".zst", ".zstd"):
        suffixes.pop()
    if (format is not None and format != "pcap") or (format is None and suffixes and suffixes[-1] in SUFFIXES):
        return table(*places, name=name, format=format, **options)  # type: ignore[arg-type]
    options.pop("types", None)
    options.pop("on", None)
    return pcap(*places, name=name, strict=strict, **options)  # type: ignore[arg-type]


def rows(
    records: Iterable[PlainRow | Punctuation],
    schema: Schema | pa.Schema,
    *,
    name: str = "rows",
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of dictionaries or tuples, IP addresses also as text.

    A collection can be punctuated exactly. An iterator, read only once, needs `punctuate` or `slack`, or brings its own
    punctuations between the tuples: then `schema` is a `Schema` that says on what.
    """
    if not isinstance(schema, (Schema, pa.Schema)):
        raise PlanError(
            f"rows needs a schema, and {type(schema).__name__} is none.\n"
            '  Write pa.schema([("ts", pa.int64()), ("x", pa.float64())]), or oop.Schema.of(ts=pa.int64(), ...).'
        )
    shape = schema if isinstance(schema, Schema) else Schema(schema)
    source: Source
    if isinstance(records, Iterator) or shape.progress:
        again = not isinstance(records, Iterator)
        source = Once(name, shape.arrow, lambda: from_rows(records, shape), _promised(shape), again=again)
    else:
        pages = (element for element in from_rows(records, shape) if isinstance(element, Page))
        source = Rows(name, tuple(page.batch for page in pages), shape.arrow)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def arrow(
    data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
    *,
    name: str = "arrow",
    schema: pa.Schema | None = None,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of an Arrow table or of record batches; an iterator of batches needs `schema` and `punctuate`."""
    source: Source
    if isinstance(data, pa.Table):
        source = Rows(name, tuple(data.to_batches()), data.schema)  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(data, pa.RecordBatch):
        source = Rows(name, (data,))
    elif isinstance(data, Iterator):
        if schema is None:
            raise PlanError("an iterator of record batches needs schema=, since it can be read only once")
        source = Once(name, schema, lambda: data, again=False)
    else:
        batches = tuple(data)
        if not all(isinstance(batch, pa.RecordBatch) for batch in batches):
            raise PlanError(
                f"arrow takes a table or record batches, and {type(data).__name__} is neither.\n"
                "  Write pa.table(...), or pa.Table.from_pandas(frame, preserve_index=False) for a pandas frame."
            )
        source = Rows(name, batches, schema)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def pages(
    elements: Iterable[Element],
    schema: Schema,
    *,
    name: str = "pages",
    late: str = "drop",
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of pages and punctuations of your own; `schema` says on what it is punctuated."""
    again = not isinstance(elements, Iterator)
    source = Once(name, schema.arrow, lambda: from_pages(elements, schema), _promised(schema), again=again)
    return from_source(source, late=late, arrival_ts=arrival_ts)


def packets(
    n: int,
    *,
    rate: float = 100_000,
    late: str = "drop",
    slack: Amount | None = None,
    arrival_ts: Arrival = False,
    **shape: Any,
) -> Stream:
    """Generate n packets at `rate` a second of event time from a seed; the same seed gives the same stream.

    `shape` is what `oop_engine.sources.generator.packets` takes: sources, zipf, disorder (`Band`, `Blocks`),
    late_share, skew, lulls, start, seed, link. Their `arrival_ts` is the generated one, which is always the same.
    """
    from inspect import signature

    from oop_engine.sources.generated import GeneratedPackets
    from oop_engine.sources.generator import packets as generate

    known = [*(name for name in signature(generate).parameters if name != "n"), "late", "slack", "arrival_ts"]
    for given in shape:
        if given not in known:
            raise PlanError(f'packets takes no "{given}".\n  {did_you_mean(given, known)}')
    return from_source(GeneratedPackets(generate(n, rate=rate, **shape)), slack=slack, late=late, arrival_ts=arrival_ts)


def _promises(said: object) -> tuple[Promise, ...]:
    """Give the promises as a tuple; PlanError for whatever else users write there."""
    given: tuple[object, ...] = tuple(said) if isinstance(said, (list, tuple, set, frozenset, Iterator)) else (said,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    promises = tuple(promise for promise in given if isinstance(promise, Promise))
    if said is not None and len(promises) < len(given):
        raise PlanError(
            f"punctuate is {said!r}, which is no promise.\n"
            '  Write punctuate=oop.slack("2s"), oop.every("1s"), oop.ordered() or a list of such.'
        )
    return promises


def _promised(schema: Schema) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(promise)) for promise in schema.progress)


def _expanded(place: Place) -> list[Path | BinaryIO]:
    if not isinstance(place, (str, Path)):
        if not hasattr(place, "read"):
            raise PlanError(
                f"pcap takes paths or binary streams, and {type(place).__name__} is neither."
                + (" Write pcap(*paths)." if isinstance(place, (list, tuple)) else "")
            )
        return [place]
    if str(place) == "-":
        return [standard_input()]
    return list(expand(place))
