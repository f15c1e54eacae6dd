"""Streams of files, and of data that arrives by itself: every function returns a `Stream` and reads no more than it
must.

`oop_engine.api.promising` explains promises and late tuples. All functions take its parameters, with two exceptions:
`interface` promises by the clock and `slack`, and has no `punctuate` and no `on`; `netflow` adds no `arrival_ts`,
because flow exports bring that of their datagrams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, TypedDict, get_args

import pyarrow as pa

from oop_engine.api.promising import Arrival, Promises, from_source, promises_said
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Divert, Late
from oop_engine.plan.ticks import Amount, ticks_of
from oop_engine.sources.growing.listing import Order
from oop_engine.sources.inputs import FORMATS, SUFFIXES, OnError
from oop_engine.sources.kafka_places import KAFKA, is_kafka
from oop_engine.sources.kind import KINDS, kind_of
from oop_engine.sources.packets import Packets
from oop_engine.sources.paths import called, check_places, expand, opened
from oop_engine.sources.protocol import Source
from operators.errors import did_you_mean

if TYPE_CHECKING:
    import socket

    from oop_engine.sources import flows

Place: TypeAlias = "str | Path | BinaryIO"
Listen: TypeAlias = "str | socket.socket"
_TIME: Final = pa.field("ts", pa.timestamp("ns", "UTC"))
_OF_LINES: Final = ("encoding", "time_format")
TEXT_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "csv": ("delimiter", "decimal", *_OF_LINES),
    "tsv": ("delimiter", "decimal", *_OF_LINES),
    "ndjson": ("flatten", *_OF_LINES),
}
"""The options that say how lines are written, by the format of the files."""
_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "pcap": ("strict", "columns", "inner", "arrival_ts"),
    "netflow": ("strict", "columns"),
    "sflow_counters": ("strict", "arrival_ts"),
    "zeek": ("strict", "arrival_ts"),
    "nfdump": ("arrival_ts",),
    KAFKA: ("strict", "types"),
    **{name: ("strict", "types", "arrival_ts", "on_error", *TEXT_OPTIONS.get(name, ())) for name in FORMATS},
}
"""What `read` takes for files of some kinds only."""


def pcap(
    *places: Place,
    columns: Sequence[str] = (),
    inner: bool = False,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read captures as one stream of packets: pcap or pcapng, plain, gzip or zstd, recognised by content.

    - `places`: paths, patterns such as "*.pcap", "-" for standard input, or binary streams. A named pipe is read once.
    - `columns`: further attributes, which are decoded only where they are asked for, such as srcMAC, inner_vlan or
      mpls_label: `oop_engine.sources.capture.FURTHER_SCHEMA`.
    - `inner`: read the packets in tunnels (GRE, VXLAN, Geneve, GTP-U, IP in IP): attributes from IP on are those of the
      innermost packet, at most four tunnels deep. length, vlan, hardware addresses and labels stay those on the wire.
    - `name`: how plans and messages call the stream.
    - `strict`: make a cut or damaged file an error. By default it is read as far as possible, and the notes of the run
      say where it stopped.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    Attributes are ts, srcIP, destIP, srcPort, destPort, proto, length (bytes on the wire), flags and others:
    `oop_engine.sources.capture.PACKET_SCHEMA`. SourceError for a missing file, DecodeError for one that is no capture,
    SchemaError for a column that packets do not have.

    >>> oop.pcap("demos/captures/web.pcap.gz").aggregate(oop.count(), oop.sum("length")).to_arrow().to_pylist()
    [{'count': 4631, 'sum_length': 3738523}]
    """
    check_places("pcap", places, example="capture.pcap")
    source = Packets(opened(places), label=name, strict=strict, columns=columns, inner=inner)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def netflow(
    *places: Place,
    listen: Listen | Sequence[Listen] | None = None,
    columns: Sequence[str | flows.Element] = (),
    elements: str | Path | None = None,
    ports: Sequence[int] | int | None = None,
    allow: Sequence[str] | str | None = None,
    anyone: bool = False,
    buffer: int | None = None,
    sockets: int = 1,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    client_ca: str | Path | None = None,
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
    """Read flow exports (NetFlow v1, v5, v7 and v9, IPFIX, sFlow v5) from captures, files of datagrams, or sockets.

    What to read:

    - `places`: paths, patterns, "-" or binary streams; or else
    - `listen`: an address such as "127.0.0.1:2055", or several. Over UDP all protocols share it; exporters of IPFIX
      connect to "tcp://127.0.0.1:4739" and "tls://127.0.0.1:4740". A bound socket of UDP, or one of TCP that listens,
      may stand for an address. The run goes on until it is interrupted, `lasting` is over, or `most` datagrams or
      messages came.
    - `certificate`, `key`: files in PEM that TLS shows to exporters: the certificate with those that signed it, and its
      private key (left out where the first file has it). `client_ca`: exporters have to show a certificate that one in
      this file signed.
    - `sockets`: this many UDP sockets share each address (Linux), each with a receive buffer of its own. What one port
      of an exporter sends goes to one of them.
    - `allow`: networks that exporters may send from. To listen elsewhere than on loopback, give these, or
      `anyone=True`.
    - `ports`: UDP ports of the collectors in captures.
    - `columns`: further elements by their IANA names, beside those of `oop_engine.sources.flows.FLOW_SCHEMA`: ts and
      end_ts (start and end of the flow), srcIP, destIP, ports, bytes, packets, exporter, sampling and others.
    - `elements`: a file of elements of enterprises, whose names `columns` then may have: JSON, a list of objects with
      pen (the enterprise's number), id, name and type; or CSV with these four columns. Types are those of IPFIX.
    - `buffer`: bytes of receive buffer to ask for, for each UDP socket. The notes of the run say what the kernel gave,
      and what it dropped.
    - `shed`: if the run cannot keep up, take one of n datagrams by chance, and multiply `sampling` by n, so that sums
      over `bytes * sampling` stay right in expectation. Without it the kernel drops datagrams, and counts them.
    - `name`: how plans and messages call the stream.
    - `strict`: make damage an error; by default it is counted by exporter and reason, and noted.

    What is promised. A stream that listens makes its own promises on `on`: "ts", "end_ts" or both. Files are promised
    exactly, or with `progress="exporters"` as they were exported. `punctuate`, `slack`, `late` and `divert` are as in
    `oop.from_source`.

    - `by_exporter`: promise for each exporter separately, too.
    - `active`, `inactive`: timeouts of the exporters' flow caches. An exporter promises its clock less `inactive` +
      `scan`, on "ts" also less `active`. If they are neither given nor announced, they are learnt: the furthest that a
      record trailed its header counts. While an exporter was heard for less than four times that, twice as much does,
      and 15 s + `scan` at least. A replay of the same datagrams learns the same.
    - `scan`: how long an exporter may take to find an inactive flow.
    - `settle`: nothing is promised before this time has passed.
    - `lull`: an exporter that is silent for longer is assumed to be this far behind its clock; None waits for it.
    - `idle`: an exporter that is silent for longer is no longer waited for.
    - `correct_clocks`: correct times by the estimated skew of the exporter's clock.
    - `state`: a file that keeps promises, skews, timeouts and templates. A later run that names it goes on from there,
      and need not settle.

    Times of v9 that count from an uptime are up to a second early, because its header has whole seconds. PlanError when
    parameters do not go together; the message says which to leave out.

    >>> exports = oop.netflow("demos/captures/exports.pcap.gz")
    >>> sorted(exports.aggregate(oop.count(), by="exporter").to_arrow()["exporter"].to_pylist())
    ['192.0.2.1', '192.0.2.2', '192.0.2.3']
    >>> live = oop.netflow(listen="127.0.0.1:2055", lasting="1 hour", active="1 minute", inactive="15 s")
    >>> both = oop.netflow(listen=["127.0.0.1:2055", "tcp://127.0.0.1:4739"])
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
        raise PlanError("shed is for live streams; files are read no faster than they are processed.")
    if state is not None and (listen is None or others):
        raise PlanError(
            f'state="{state}" keeps the promises that exporters make while they are listened to;\n'
            "  files are read from their beginning, and with slack or punctuate exporters make no promises."
        )
    if certificate is None and (key is not None or client_ca is not None):
        raise PlanError("key and client_ca go with certificate, the file that TLS shows to exporters; name that, too.")
    if listen is None and (certificate is not None or sockets != 1):
        raise PlanError("certificate and sockets are for live streams; files are read as they are.")
    # Start-up: most streams are no flow exports.
    from oop_engine.sources.flows import FlowExports, read_elements
    from oop_engine.sources.live import BUFFER, Certificate, LiveFlows, Rules, Shedding

    def span(amount: Amount, what: str) -> int:
        return ticks_of(amount, _TIME, what=what)

    known = {} if elements is None else read_elements(elements)
    columns = [known.get(column, column) if isinstance(column, str) else column for column in columns]
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
            buffer=BUFFER if buffer is None else buffer, state=state, sockets=sockets,
            certificate=None if certificate is None else Certificate(certificate, key, client_ca),
            shedding=Shedding() if shed else None,
        )  # fmt: skip
    else:
        source = FlowExports(
            opened(places), columns=columns, ports=ports, allow=allow, label=name, strict=strict,
            rules=None if progress is None else rules, on=own, by_exporter=by_exporter,
        )  # fmt: skip
    return from_source(source, punctuate=punctuate, slack=slack, on=own[0], late=late, divert=divert)


def sflow_counters(
    *places: Place,
    listen: Listen | Sequence[Listen] | None = None,
    ports: Sequence[int] | int | None = None,
    allow: Sequence[str] | str | None = None,
    anyone: bool = False,
    buffer: int | None = None,
    sockets: int = 1,
    lasting: Amount | None = None,
    most: int | None = None,
    name: str = "",
    strict: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read the interface counters that agents of sFlow v5 send: a tuple an interface and sample.

    - `places`: captures of the datagrams, or files of datagrams end to end: paths, patterns, "-" or binary streams; or
    - `listen`: addresses that agents send to, such as "127.0.0.1:6343", or bound UDP sockets. The run goes on until it
      is interrupted, `lasting` is over, or `most` datagrams came. The stream then promises ts itself, and goes on
      from a checkpoint. `allow`, `anyone`, `buffer` and `sockets` are as in `oop.netflow`.
    - `ports`: UDP ports of the collectors in captures.
    - `name`: how plans and messages call the stream.
    - `strict`: make damage an error; by default it is counted and noted.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    Attributes are ts (when the datagram came; null in files of datagrams), exporter, if_index, if_speed (bits/s),
    if_status, in_bytes, out_bytes, and packets, discards and errors of both directions:
    `oop_engine.sources.flows.COUNTER_SCHEMA`. Counters count from when an agent began, so their maximum less their
    minimum is what a window saw, if it did not begin anew meanwhile. SourceError for a missing file.

    >>> oop.sflow_counters("demos/captures/exports.pcap.gz").schema.names[:5]
    ['ts', 'exporter', 'domain', 'sequence', 'uptime']
    """
    # Start-up: most streams are no counters.
    from oop_engine.sources.flows import InterfaceCounters

    if (listen is None) == (not places):
        raise PlanError(
            'sflow_counters needs at least one file, e.g. oop.sflow_counters("exports.pcap"), or where to listen,\n'
            '  e.g. oop.sflow_counters(listen="127.0.0.1:6343"); not both.'
        )
    if listen is not None:
        if slack is not None or promises_said(punctuate) or ports is not None or strict:
            raise PlanError(
                "sflow_counters(listen=...) promises ts by the clock, and knows its ports;\n"
                "  leave out slack, punctuate, ports and strict."
            )
        # Start-up: only live streams need sockets.
        from oop_engine.sources.flows.source import networks_of
        from oop_engine.sources.live import BUFFER, LiveCounters
        from oop_engine.sources.live.source import listening_places

        live = LiveCounters(
            listening_places(listen), allow=networks_of(allow), anyone=anyone,
            buffer=BUFFER if buffer is None else buffer, sockets=sockets, most=most, label=name,
            lasting=None if lasting is None else ticks_of(lasting, _TIME, what="lasting"),
        )  # fmt: skip
        return from_source(live, late=late, divert=divert, arrival_ts=arrival_ts)
    check_places("sflow_counters", places, example="exports.pcap")
    source = InterfaceCounters(opened(places), ports=ports, label=name, strict=strict)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def interface(
    interface: str,
    *,
    promiscuous: bool = False,
    columns: Sequence[str] = (),
    inner: bool = False,
    lasting: Amount | None = None,
    most: int | None = None,
    name: str = "",
    slack: Amount = "1s",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read the packets that a network interface sees from now on (Linux; needs the right to capture).

    - `interface`: such as "eth0" or "lo".
    - `promiscuous`: also read packets for other machines.
    - `columns`, `inner`: further attributes, and packets in tunnels, as `oop.pcap` has them.
    - `lasting`, `most`: end after this time, or this many packets; by default when the run is interrupted.
    - `name`: how plans and messages call the stream.
    - `slack`: how long a packet may take to get here. The stream promises the present time less this, also while
      nothing comes.
    - `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    Attributes are those of `oop.pcap`. The notes of the run count what the kernel dropped.

    >>> oop.interface("lo", lasting="10 s").schema.names[:3]
    ['ts', 'srcIP', 'destIP']
    """
    # Start-up: only live captures need sockets.
    from oop_engine.sources.live import Interface

    source = Interface(
        interface,
        slack=ticks_of(slack, _TIME, what="slack"),
        promiscuous=promiscuous,
        columns=tuple(columns),
        inner=inner,
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
    r"""Read logs of Zeek, tab-separated or JSON, plain or compressed.

    - `places`: paths, patterns, "-" for standard input, or binary streams.
    - `name`: how plans and messages call the stream.
    - `strict`: make an incomplete last line an error. By default it is left out, because Zeek may still be writing, and
      noted.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    >>> _ = Path("conn.json").write_text('{"ts": 1.5, "id.orig_h": "10.0.0.1", "orig_bytes": 5}\n')
    >>> oop.zeek("conn.json").project("ts", "srcIP").to_arrow()["srcIP"].to_pylist()
    ['10.0.0.1']
    """
    # Start-up: most streams are no flow records.
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
    """Read the flow records of nfcapd files by means of nfdump, which must be installed.

    - `places`: paths or patterns.
    - `name`: how plans and messages call the stream.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    >>> Path("nfcapd.202611211200").touch()
    >>> oop.nfdump("nfcapd.*", slack="5 minutes").schema.names[:3]
    ['ts', 'end_ts', 'srcIP']
    """
    # Start-up: most streams are no flow records.
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
    on_error: OnError = "stop",
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    time_format: str | None = None,
    flatten: bool = False,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    r"""Read CSV, TSV, NDJSON, Parquet or Arrow files as one stream.

    - `places`: paths, patterns, "-" for standard input, or one binary stream.
    - `name`: how plans and messages call the stream.
    - `format`: "csv", "tsv", "ndjson", "parquet" or "arrow"; by default the suffix decides.
    - `types`: column types that overrule the file's: {"srcIP": "ip", "ts": "timestamp"}.
    - `strict`: make columns that the first lines lack an error; by default they are left out, counted and noted.
    - `on_error`: "skip" leaves out the rest of a file that cannot be read on, and goes on with the next one; the notes
      of the run name and count these files. By default ("stop"), TableError ends the run.
    - `delimiter`, `decimal`: what stands between the cells of CSV and in its numbers: ";" and ",", say.
    - `encoding`: of text that is not UTF-8: "latin-1", "cp1252", "utf-16" and others that Python knows.
    - `time_format`: a format of strptime, such as "%m/%d/%Y %I:%M:%S %p"; %f is a fraction of a second. Columns of
      text that are written so all over the first lines are times. `types={"ts": "%m/%d/%Y"}` says it of one column.
    - `flatten`: make a column of each value in the objects of NDJSON: {"a": {"b": 1}} has the column a.b.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    The first lines name the columns, and the first value of each decides its type. A column without a value in the
    first 64 MiB (of a stream: in the first second) is text unless `types` names it. Damage is an error (TableError),
    unless `on_error` says otherwise.

    >>> _ = Path("flows.csv").write_text("ts,bytes\n1,5\n2,7\n")
    >>> oop.table("flows.csv", types={"bytes": "float"}).to_arrow().to_pylist()
    [{'ts': 1, 'bytes': 5.0}, {'ts': 2, 'bytes': 7.0}]
    """
    check_places("table", places, example="flows.csv")
    paths = [place for place in places if isinstance(place, (str, Path))]
    if len(paths) < len(places) > 1:
        raise PlanError("table reads a binary stream by itself; give it alone, or several files by their paths.")
    first = places[0]
    if not name:
        name = "standard input" if str(first) == "-" else called((Path(first) if isinstance(first, str) else first,))
    # Start-up: captures need no readers of tables.
    from oop_engine.sources.files import Files
    from oop_engine.sources.text_form import TextForm

    if on_error not in get_args(OnError):
        raise PlanError(f'table(on_error="{on_error}"): write "stop" or "skip".')
    form = TextForm(delimiter, decimal, encoding, time_format, flatten)
    source = Files(name, paths if len(paths) > 1 else first, format, types, strict, on_error, form=form)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


class _Said(TypedDict):
    """The parameters that `read` passes on for files of any kind."""

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
    inner: bool = False,
    on_error: OnError = "stop",
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    time_format: str | None = None,
    flatten: bool = False,
    follow: bool = False,
    order: Order = "name",
    checkpoint: str | Path | None = None,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Read files of any known kind: tables by suffix; captures, flow exports and Zeek logs by content; Kafka by URI.

    - `places`: paths, patterns, "-" for standard input, or binary streams. A topic of Kafka is
      "kafka://HOST:PORT/TOPIC?format=json" or format=arrow, with the options group=NAME, from=latest, until=end and
      config=FILE. It has the attribute `partition`, for `punctuate=oop.by_key("partition", slack="2s")`.
    - `name`: how plans and messages call the stream.
    - `format`: the kind, where neither suffix nor content shows it: "netflow" for a capture of export datagrams,
      "sflow_counters" for the interface counters in it, "zeek" for a JSON log named .json, "pcap", "nfdump", or a
      format of `oop.table`.
    - `types`, `on_error`: for tables only, see `oop.table`; so are `delimiter`, `decimal`, `encoding`, `time_format`
      and `flatten`, for those of lines. Of lines that are followed, on_error="skip" leaves out the damaged ones alone.
    - `columns`: for flow exports and captures, see `oop.netflow` and `oop.pcap`; `inner`: for captures only.
    - `follow`: read on what is written to files, and what files come, until the run is stopped. Places are then paths,
      patterns and folders, and the stream needs a promise, such as `slack`. Lines and packets are read as they are
      written, other files when they are complete. A file that is renamed is read on; one that is cut or replaced is
      read from its start, and counted. `order` says how new files are taken: by "name", or by "time", when they were
      written last. Logs that grow beside each other need `punctuate=oop.by_key(...)`, each with its own progress.
    - `checkpoint`: the folder that `run(checkpoint=...)` will have, for tables that are followed. A run that goes on
      takes the columns and types that the first run found, whatever today's first file shows.
    - `strict`: make damage an error; for all but nfdump.
    - `punctuate`, `slack`, `on`, `late`, `divert`: see `oop.from_source`; `arrival_ts`, too, but for flow exports,
      which bring theirs.

    PlanError when a parameter is for files of another kind. Parameters of one kind only, such as the `ports` of flow
    exports, are parameters of its own function.

    >>> oop.read("demos/captures/web.pcap.gz").aggregate(oop.count()).to_arrow().to_pylist()
    [{'count': 4631}]
    """
    check_places("read", places, example="capture.pcap")
    if order not in get_args(Order):
        raise PlanError(f'read(order="{order}"): write "name" or "time".')
    known = kind_read(places, format, follow=follow)
    if known == KAFKA and places[1:]:
        raise PlanError("read takes one topic of Kafka at a time; read each, and join their streams with oop.meld.")
    options = {
        "strict": strict, "types": types, "columns": columns, "inner": inner, "arrival_ts": arrival_ts,
        "on_error": on_error != "stop",
        "delimiter": delimiter, "decimal": decimal, "encoding": encoding, "time_format": time_format,
        "flatten": flatten,
    }  # fmt: skip
    for option, given in options.items():
        if given and option not in _TAKES[known]:
            raise PlanError(_untaken(option, known, places[0]))
    said: _Said = {
        "name": name, "punctuate": punctuate, "slack": slack, "on": on, "late": late, "divert": divert,
    }  # fmt: skip
    if follow:
        if on_error not in get_args(OnError):
            raise PlanError(f'read(on_error="{on_error}"): write "stop" or "skip".')
        # Start-up: most streams are read from files that do not grow.
        from oop_engine.api.following import Followed, followed

        how = Followed(
            known,
            order,
            strict,
            types,
            columns,
            delimiter,
            decimal,
            encoding,
            time_format,
            flatten,
            on_error,
            checkpoint,
        )
        source = followed(places, how, name)
        return from_source(
            source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts
        )
    if checkpoint is not None:
        raise PlanError(
            "read(checkpoint=...) is for files that grow, of which a run keeps the columns; add follow=True.\n"
            "  For other files leave it out: run(checkpoint=...) alone says where a run goes on."
        )
    match known:
        case "kafka":
            # Start-up: most streams are read from files.
            from oop_engine.sources.kafka import Kafka

            source = Kafka.named(str(places[0]), types=types, strict=strict, name=name)
            return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert)
        case "pcap":
            return pcap(*places, columns=_named(columns), inner=inner, strict=strict, arrival_ts=arrival_ts, **said)
        case "netflow":
            return netflow(*places, columns=columns, strict=strict, **said)
        case "zeek":
            return zeek(*places, strict=strict, arrival_ts=arrival_ts, **said)
        case "sflow_counters":
            return sflow_counters(*places, strict=strict, arrival_ts=arrival_ts, **said)
        case "nfdump":
            check_places("nfdump", places, takes="paths")
            return nfdump(*(place for place in places if isinstance(place, (str, Path))), arrival_ts=arrival_ts, **said)
        case _:
            return table(
                *places, format=format, types=types, strict=strict, on_error=on_error, arrival_ts=arrival_ts,
                delimiter=delimiter, decimal=decimal, encoding=encoding, time_format=time_format, flatten=flatten,
                **said,
            )  # fmt: skip


def taken(places: Sequence[Place], format: str | None = None, *, follow: bool = False) -> tuple[str, ...]:
    """Name what `read` takes for these files and not for all: of the options from "strict" to "flatten"."""
    return _TAKES[kind_read(places, format, follow=follow)]


def _named(columns: Sequence[str | flows.Element]) -> list[str]:
    """Return columns of packets, which have names alone."""
    for column in columns:
        if not isinstance(column, str):
            raise PlanError(f"columns={column!r}: captures of packets take names, such as srcMAC.")
    return [str(column) for column in columns]


def _untaken(option: str, kind: str, place: Place) -> str:
    """Say that files of a kind know nothing of an option, what they take, and which others know it."""
    file = f'"{place}"' if isinstance(place, (str, Path)) else "the stream"
    others = ", ".join(name for name, takes in _TAKES.items() if option in takes)
    return (
        f"read({option}=...): {file} is read as {kind}, which takes no {option}; that is for {others}.\n"
        f"  Leave it out; {kind} takes {', '.join((*_TAKES[kind], *_Said.__annotations__))}."
    )


def kind_read(places: Sequence[Place], format: str | None, *, follow: bool = False) -> str:
    """Return how files are read: as is said, else by the suffix of the first or by what is in it."""
    if format is not None:
        if format not in _TAKES or format == KAFKA:
            formats = (*KINDS, "sflow_counters", *FORMATS)
            hint = did_you_mean(str(format), formats)
            raise PlanError(f'read(format="{format}"): known are {", ".join(formats)}. {hint}')
        return format
    first = places[0]
    if is_kafka(first):
        return KAFKA
    if not isinstance(first, (str, Path)) or str(first) == "-":
        return "pcap"
    suffixes = [s.lower() for s in Path(first).suffixes]
    while suffixes and suffixes[-1] in (".gz", ".zst", ".zstd"):
        suffixes.pop()
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    if follow:
        # Start-up: most streams are read from files that do not grow.
        from oop_engine.api.following import kind_of_growing

        return kind_of_growing([Path(place) for place in places if isinstance(place, (str, Path))])
    return kind_of(expand(first)[0]) or "pcap"
