"""Where streams come from, as users call it: every function gives a `Stream` and reads nothing but what it must.

All take the same promises: by default a bounded file is punctuated exactly (it is read ahead once, by the attribute
that windows use); `slack="2s"` or `punctuate=` say otherwise, and are needed for what can be read only once. `late` is
what happens to a tuple that breaks a promise: "drop" leaves it out of the windows that are released (thesis 6.1.5.2,
generous), "refuse" raises StreamViolation at the first, "revise" passes it on (counted as `behind`, and as late where a
window then refuses it), and `divert=` takes every one
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
from oop_engine.sources.kind import KINDS, kind_of
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.packets import Packets
from oop_engine.sources.paths import Pipe, expand, is_pipe, standard_input
from oop_engine.sources.protocol import Source
from oop_engine.sources.rows import PlainRow, from_pages, from_rows
from oop_engine.sources.tables import FORMATS as _FORMATS
from oop_engine.sources.tables import SUFFIXES
from oop_engine.stream import Stream
from oop_engine.ticks import Amount, ticks_of
from operators.errors import did_you_mean
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema
from punctuation import Punctuation

if TYPE_CHECKING:
    import socket

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

    Paths may be patterns; "-" is standard input, and a named pipe is read once, as that is. Attributes: ts, srcIP,
    destIP, srcPort, destPort, proto, length (bytes on the wire), flags, ... as in
    `oop_engine.sources.capture.PACKET_SCHEMA`. A truncated or damaged file gives what can be read, and the run's notes
    say where it stopped; `strict` makes that an error.
    """
    if not places:
        raise PlanError('pcap needs at least one file, e.g. oop.pcap("capture.pcap")')
    paths = [found for place in places for found in _expanded(place)]
    source = Packets(paths, label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, late=late, divert=divert, arrival_ts=arrival_ts)


def netflow(
    *places: Place,
    listen: str | socket.socket | None = None,
    columns: Sequence[str | flows.Element] = (),
    ports: Sequence[int] | int | None = None,
    allow: Sequence[str] | str | None = None,
    anyone: bool = False,
    buffer: int | None = None,
    lasting: Amount | None = None,
    most: int | None = None,
    name: str = "",
    strict: bool = False,
    progress: str | None = None,
    by_exporter: bool = False,
    active: Amount | None = None,
    inactive: Amount | None = None,
    scan: Amount = "10s",
    settle: Amount = "10s",
    lull: Amount | None = "10s",
    idle: Amount = "1 minute",
    correct_clocks: bool = False,
    shed: bool = False,
    state: str | Path | None = None,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str | Sequence[str] = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read flow exports, NetFlow v5 and v9, IPFIX and sFlow v5, from captures, files of datagrams, or as they come.

    Attributes: ts and end_ts (start and end of the flow), srcIP, destIP, ports, bytes, packets, exporter, sampling, ...
    as in `oop_engine.sources.flows.FLOW_SCHEMA`; `columns` names further elements as IANA does. `ports` are the UDP
    ports of collectors in captures, `allow` networks that exporters may send from. What is not decoded is counted by
    exporter and reason, and noted at the end of a run.

    `listen="127.0.0.1:2055"` (or a UDP socket that is bound) collects what exporters send from now on, until the run is
    interrupted, `lasting` is over or `most` datagrams came. Elsewhere than on loopback that needs `allow`, or
    `anyone=True`. `buffer` are the bytes of receive buffer to ask for; what the kernel gave, and what it dropped, is in
    the notes. Such a stream makes its own promises on `on` ("ts", "end_ts" or both), and of each exporter with
    `by_exporter`; files do with `progress="exporters"`, as they were exported, and are else promised exactly.

    An exporter promises its clock less `inactive` + `scan`, on "ts" also less `active`: the timeouts of its flow cache,
    or, where they are neither given nor announced, the furthest that was seen. Nothing is promised in the first
    `settle`; an exporter that is silent longer than `lull` is assumed to be that far behind its clock (None: is waited
    for), one that is longer than `idle` is not waited for. `correct_clocks` puts times right by the estimated skew.
    `state` names a file in which promises, skews, timeouts and templates are kept: a later run that names it goes on
    from there, takes back nothing that was promised before, and need not settle. With `shed`, a run that cannot keep up
    takes one of n datagrams, by chance; `sampling` of each record is n times what it was, so that sums over
    `bytes * sampling` are right in expectation. Without, the kernel drops what finds no room, and counts it.
    """
    if (listen is None) == (not places):
        raise PlanError(
            'netflow needs at least one file, e.g. oop.netflow("exports.pcap"), or where to listen, e.g.\n'
            '  oop.netflow(listen="127.0.0.1:2055"); not both.'
        )
    if progress not in (None, "exporters"):
        raise PlanError(f'progress="{progress}": write progress="exporters", or leave it out for exact promises.')
    others = slack is not None or bool(_promises(punctuate))
    if others and not isinstance(on, str):
        raise PlanError("slack is on one attribute, and on names several; give one, or leave out slack.")
    if others and progress is not None:
        raise PlanError('progress="exporters" makes the promises itself; leave out slack and punctuate, or progress.')
    if shed and listen is None:
        raise PlanError("shed is for what comes in by itself; files are read no faster than they are taken in.")
    if state is not None and (listen is None or others):
        raise PlanError(
            f'state="{state}" keeps the promises that exporters make while they are listened to;\n'
            "  files are read anew from their beginning, and with slack or punctuate nobody asks exporters."
        )
    from oop_engine.sources.flows import FlowExports
    from oop_engine.sources.live import BUFFER, LiveFlows, Rules, Shedding

    def span(amount: Amount, what: str) -> int:
        return ticks_of(amount, pa.field("ts", pa.timestamp("ns", "UTC")), what=what)

    rules = Rules(
        active=None if active is None else span(active, "active"),
        inactive=None if inactive is None else span(inactive, "inactive"),
        scan=span(scan, "scan"),
        settle=span(settle, "settle"),
        lull=None if lull is None else span(lull, "lull"),
        idle=span(idle, "idle"),
        correct=correct_clocks,
    )
    own: tuple[str, ...] = (on,) if isinstance(on, str) else tuple(on)
    source: Source
    if listen is not None:
        source = LiveFlows(
            listen, columns=columns, allow=allow, anyone=anyone, on=() if others else own, by_exporter=by_exporter,
            rules=rules, lasting=None if lasting is None else span(lasting, "lasting"), most=most, label=name,
            buffer=BUFFER if buffer is None else buffer, state=state,
            shedding=Shedding() if shed else None,
        )  # fmt: skip
    else:
        files = [found for place in places for found in _expanded(place)]
        source = FlowExports(
            files, columns=columns, ports=ports, allow=allow, label=name, strict=strict,
            rules=None if progress is None else rules, on=own, by_exporter=by_exporter,
        )  # fmt: skip
    return from_source(
        source, punctuate=punctuate, slack=slack, on=own[0], late=late, divert=divert, arrival_ts=arrival_ts
    )


def interface(
    interface: str,
    *,
    promiscuous: bool = False,
    lasting: Amount | None = None,
    most: int | None = None,
    name: str = "",
    slack: Amount = "1s",
    late: str = "drop",
    divert: Divert = None,
) -> Stream:
    """Read the packets that an interface, such as "eth0" or "lo", sees from now on (Linux, with the right to see them).

    Attributes are those of a capture. The stream goes on until the run is interrupted, `lasting` is over or `most`
    packets came; it promises the time of now less `slack`, also while nothing comes. `promiscuous`: also what is for
    other machines. What the kernel dropped is in the notes.
    """
    from oop_engine.sources.live import Interface

    field = pa.field("ts", pa.timestamp("ns", "UTC"))
    source = Interface(
        interface,
        slack=ticks_of(slack, field, what="slack"),
        promiscuous=promiscuous,
        lasting=None if lasting is None else ticks_of(lasting, field, what="lasting"),
        most=most,
        label=name,
    )
    return from_source(source, late=late, divert=divert)


def zeek(
    *places: Place,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
) -> Stream:
    """Read logs of Zeek, tab-separated or JSON, plain or packed.

    A last line that is not whole, since Zeek is still writing it, is left out, and the run's notes say so; `strict`
    makes that an error.
    """
    from oop_engine.sources.flows import ZeekLogs

    if not places:
        raise PlanError('zeek needs at least one log, e.g. oop.zeek("conn.log.gz")')
    source = ZeekLogs([found for place in places for found in _expanded(place)], label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert)


def nfdump(
    *places: str | Path,
    name: str = "",
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: str = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read the flow records of nfcapd files, as nfdump, which must be installed, prints them."""
    from oop_engine.sources.flows import NfdumpFiles

    if not places:
        raise PlanError('nfdump needs at least one file, e.g. oop.nfdump("nfcapd.202611211200")')
    source = NfdumpFiles([found for place in places for found in expand(place)], label=name)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


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
    """Read files of any known kind: by suffix for tables, by content for captures, flow exports and logs of Zeek.

    `format` says it where neither does: "netflow" for a capture of export datagrams, "zeek" for a JSON log named
    .json, "pcap", "nfdump" or a format of tables.
    """
    known = format if format is not None else _kind(places)
    if known in _FORMATS:
        return table(*places, name=name, format=format, **options)  # type: ignore[arg-type]
    options.pop("types", None)
    match known:
        case "netflow":
            return netflow(*places, name=name, strict=strict, **options)  # type: ignore[arg-type]
        case "zeek":
            return zeek(*places, name=name, strict=strict, **options)  # type: ignore[arg-type]
        case "nfdump":
            return nfdump(*places, name=name, **options)  # type: ignore[arg-type]
        case "pcap":
            options.pop("on", None)
            return pcap(*places, name=name, strict=strict, **options)  # type: ignore[arg-type]
        case _:
            formats = (*KINDS, *_FORMATS)
            raise PlanError(f'read(format="{format}"): known are {", ".join(formats)}. {did_you_mean(known, formats)}')


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


def _kind(places: Sequence[Place]) -> str:
    """Tell a format by the suffix of the first place, else by what is in it."""
    first = places[0] if places else "-"
    if not isinstance(first, (str, Path)) or str(first) == "-":
        return "pcap"
    suffixes = [s.lower() for s in Path(first).suffixes]
    while suffixes and suffixes[-1] in (".gz", ".zst", ".zstd"):
        suffixes.pop()
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    return kind_of(expand(first)[0]) or "pcap"


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
    return [Pipe(path) if is_pipe(path) else path for path in expand(place)]
