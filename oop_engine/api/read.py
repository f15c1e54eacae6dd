"""Streams of files and of what comes in by itself: every function gives a `Stream` and reads nothing but what it must.

What is said of promises and late tuples is in `oop_engine.api.promising`. All take all of it but two: `interface` makes
its promises itself, by the clock and `slack`, and has no `punctuate` and no `on`; flow exports bring the `arrival_ts`
of their datagrams, so `netflow` adds none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, TypedDict

import pyarrow as pa

from oop_engine.api.promising import Arrival, Promises, from_source, promises_said
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Divert, Late
from oop_engine.plan.ticks import Amount, ticks_of
from oop_engine.sources.files import Files
from oop_engine.sources.inputs import FORMATS, SUFFIXES
from oop_engine.sources.kind import KINDS, kind_of
from oop_engine.sources.packets import Packets
from oop_engine.sources.paths import called, check_places, expand, opened
from oop_engine.sources.protocol import Source
from operators.errors import did_you_mean

if TYPE_CHECKING:
    import socket

    from oop_engine.sources import flows

Place: TypeAlias = "str | Path | BinaryIO"
_TIME: Final = pa.field("ts", pa.timestamp("ns", "UTC"))
_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "pcap": ("strict", "arrival_ts"),
    "netflow": ("strict", "columns"),
    "zeek": ("strict", "arrival_ts"),
    "nfdump": ("arrival_ts",),
    **dict.fromkeys(FORMATS, ("strict", "types", "arrival_ts")),
}
"""What `read` takes for files of some kinds only."""


def pcap(
    *places: Place,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read captures (pcap or pcapng, plain, gzip or zstd; told by content) as one stream of packets.

    Paths may be patterns; "-" is standard input, and a named pipe is read once, as that is. Attributes: ts, srcIP,
    destIP, srcPort, destPort, proto, length (bytes on the wire), flags, ... as in
    `oop_engine.sources.capture.PACKET_SCHEMA`. A truncated or damaged file gives what can be read, and the run's notes
    say where it stopped; `strict` makes that an error.
    """
    check_places("pcap", places, example="capture.pcap")
    source = Packets(opened(places), label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


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
    late: Late = "drop",
    divert: Divert = None,
) -> Stream:
    """Read flow exports, NetFlow v5 and v9, IPFIX and sFlow v5, from captures, files of datagrams, or as they come.

    Attributes: ts and end_ts (start and end of the flow), srcIP, destIP, ports, bytes, packets, exporter, sampling, ...
    as in `oop_engine.sources.flows.FLOW_SCHEMA`; `columns` names further elements as IANA does. Times of v9 that count
    from an uptime are up to a second early: its header has whole seconds. `ports` are the UDP ports of collectors in
    captures, `allow` networks that exporters may send from. What is not decoded is counted by exporter and reason, and
    noted at the end of a run.

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
    if places:
        check_places("netflow", places)
    if progress not in (None, "exporters"):
        raise PlanError(f'progress="{progress}": write progress="exporters", or leave it out for exact promises.')
    others = slack is not None or bool(promises_said(punctuate))
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
        return ticks_of(amount, _TIME, what=what)

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
        source = FlowExports(
            opened(places), columns=columns, ports=ports, allow=allow, label=name, strict=strict,
            rules=None if progress is None else rules, on=own, by_exporter=by_exporter,
        )  # fmt: skip
    return from_source(source, punctuate=punctuate, slack=slack, on=own[0], late=late, divert=divert)


def interface(
    interface: str,
    *,
    promiscuous: bool = False,
    lasting: Amount | None = None,
    most: int | None = None,
    name: str = "",
    slack: Amount = "1s",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read the packets that an interface, such as "eth0" or "lo", sees from now on (Linux, with the right to see them).

    Attributes are those of a capture. The stream goes on until the run is interrupted, `lasting` is over or `most`
    packets came; it promises the time of now less `slack`, also while nothing comes. `promiscuous`: also what is for
    other machines. What the kernel dropped is in the notes.
    """
    from oop_engine.sources.live import Interface

    source = Interface(
        interface,
        slack=ticks_of(slack, _TIME, what="slack"),
        promiscuous=promiscuous,
        lasting=None if lasting is None else ticks_of(lasting, _TIME, what="lasting"),
        most=most,
        label=name,
    )
    return from_source(source, late=late, divert=divert, arrival_ts=arrival_ts)


def zeek(
    *places: Place,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read logs of Zeek, tab-separated or JSON, plain or packed.

    A last line that is not whole, since Zeek is still writing it, is left out, and the run's notes say so; `strict`
    makes that an error.
    """
    from oop_engine.sources.flows import ZeekLogs

    check_places("zeek", places, example="conn.log.gz")
    source = ZeekLogs(opened(places), label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def nfdump(
    *places: str | Path,
    name: str = "",
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read the flow records of nfcapd files, as nfdump, which must be installed, prints them."""
    from oop_engine.sources.flows import NfdumpFiles

    check_places("nfdump", places, example="nfcapd.202611211200", takes="paths")
    source = NfdumpFiles([found for place in places for found in expand(place)], label=name)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def table(
    *places: Place,
    name: str = "",
    format: str | None = None,
    types: Mapping[str, str | pa.DataType] | None = None,
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read CSV, TSV, NDJSON, Parquet or Arrow files as one stream, the format told by the suffix or given.

    `types` overrules what a file says: {"srcIP": "ip", "ts": "timestamp"}. The first lines name the columns, and the
    first value of each decides its type; of one that has none in the first 64 MiB (of a stream: in what comes within a
    second) the type must be said if it is not text. Keys and columns that come later are left out and counted in the
    run's notes; `strict` makes them an error. Damage is an error always.
    """
    check_places("table", places, example="flows.csv")
    paths = [place for place in places if isinstance(place, (str, Path))]
    if len(paths) < len(places) > 1:
        raise PlanError("table reads a binary stream by itself; give it alone, or several files by their paths.")
    first = places[0]
    if not name:
        name = "standard input" if str(first) == "-" else called((Path(first) if isinstance(first, str) else first,))
    source = Files(name, paths if len(paths) > 1 else first, format, types, strict)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


class _Said(TypedDict):
    """What `read` says for files of any kind."""

    name: str
    punctuate: Promises
    slack: Amount | None
    on: str
    late: Late
    divert: Divert


def read(
    *places: Place,
    name: str = "",
    format: str | None = None,
    strict: bool = False,
    types: Mapping[str, str | pa.DataType] | None = None,
    columns: Sequence[str | flows.Element] = (),
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read files of any known kind: by suffix for tables, by content for captures, flow exports and logs of Zeek.

    `format` says it where neither does: "netflow" for a capture of export datagrams, "zeek" for a JSON log named
    .json, "pcap", "nfdump" or a format of tables. `types` are for tables, `columns` for flow exports, `strict` for
    all but files of nfdump, and `arrival_ts` for all but exports, which bring theirs; PlanError where files are of
    another kind. What only one kind knows besides, as the `ports` of exports, its own function takes.
    """
    check_places("read", places, example="capture.pcap")
    known = _kind(places, format)
    for option, given in {"strict": strict, "types": types, "columns": columns, "arrival_ts": arrival_ts}.items():
        if given and option not in _TAKES[known]:
            raise PlanError(_untaken(option, known, places[0]))
    said: _Said = {
        "name": name, "punctuate": punctuate, "slack": slack, "on": on, "late": late, "divert": divert,
    }  # fmt: skip
    match known:
        case "pcap":
            return pcap(*places, strict=strict, arrival_ts=arrival_ts, **said)
        case "netflow":
            return netflow(*places, columns=columns, strict=strict, **said)
        case "zeek":
            return zeek(*places, strict=strict, arrival_ts=arrival_ts, **said)
        case "nfdump":
            check_places("nfdump", places, takes="paths")
            return nfdump(*(place for place in places if isinstance(place, (str, Path))), arrival_ts=arrival_ts, **said)
        case _:
            return table(*places, format=format, types=types, strict=strict, arrival_ts=arrival_ts, **said)


def taken(places: Sequence[Place], format: str | None = None) -> tuple[str, ...]:
    """Name what `read` takes for these files and not for all: of "strict", "types", "columns", "arrival_ts"."""
    return _TAKES[_kind(places, format)]


def _untaken(option: str, kind: str, place: Place) -> str:
    """Say that files of a kind know nothing of an option, what they take, and which others know it."""
    file = f'"{place}"' if isinstance(place, (str, Path)) else "the stream"
    others = ", ".join(name for name, takes in _TAKES.items() if option in takes)
    return (
        f"read({option}=...): {file} is read as {kind}, which takes no {option}; that is for {others}.\n"
        f"  Leave it out; {kind} takes {', '.join((*_TAKES[kind], *_Said.__annotations__))}."
    )


def _kind(places: Sequence[Place], format: str | None) -> str:
    """Tell how files are read: as is said, else by the suffix of the first or by what is in it."""
    if format is not None:
        if format not in _TAKES:
            formats = (*KINDS, *FORMATS)
            hint = did_you_mean(str(format), formats)
            raise PlanError(f'read(format="{format}"): known are {", ".join(formats)}. {hint}')
        return format
    first = places[0]
    if not isinstance(first, (str, Path)) or str(first) == "-":
        return "pcap"
    suffixes = [s.lower() for s in Path(first).suffixes]
    while suffixes and suffixes[-1] in (".gz", ".zst", ".zstd"):
        suffixes.pop()
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    return kind_of(expand(first)[0]) or "pcap"
