"""Compile kernels ahead by small runs that between them need those of most queries.

A kernel is compiled for the types it is called with, so runs are what knows them. Each run is a program of its own, as
many at a time as there are cores; numba compiles one kernel at a time in a process. The first runs alone, for the
kernels that all others need.
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.api import windowing as w
from oop_engine.api.disorder import disorder
from oop_engine.api.in_memory import arrow, packets
from oop_engine.api.read import netflow, pcap, sflow_counters, table
from oop_engine.api.stream import Stream, meld, merge
from oop_engine.api.trigger import Trigger
from oop_engine.errors import PlanError
from oop_engine.language.translate import query
from oop_engine.plan.punctuate import by_key, slack, tuple_slack
from oop_engine.plan.strategies import variants
from operators import functions as f
from operators.kernels.compile import disk_cache as kept

TUPLES: Final = 400
_QUICK: Final = "SELECT srcIP, count(*), sum(len) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP"
_WHOLE: Final = "min({0}), max({0}), sum({0}), avg({0}), stddev({0}), minmax({0}), count_distinct({0})"
_BAGS: Final = (
    "median({0}), quantile({0}, 0.9), mode({0}), top_k({0}, 3), heavy_hitters({0}, 0.1), count(distinct {0}, srcIP)"
)
_ARRIVAL: Final = (
    "first({0}), last({0}), argmin({0}, destPort), argmax({0}, destPort), m4({0}, destPort), concat(word, ts)"
)
_GAPS: Final = "centre_of_mass({0}, destPort), mean_gap(length), gap_variation(ts), geometric_mean({0})"
_WINDOWS: Final = {
    "tumbling": "[RANGE 1 s, SLIDE 1 s, WA ts]",
    "sliding": "[RANGE 2 s, SLIDE 500 ms, WA ts]",
    "finely": "[RANGE 2 s, SLIDE 50 ms, WA ts]",
}
_GROUPS: Final = {"": "", "grouped": " GROUP BY srcIP", "by several": " GROUP BY srcIP, destPort, word"}


@attrs.frozen
class Warmed:
    """Report what `oop.warm` did.

    - `folder`: where the kernels are.
    - `before`, `after`: how many there were, and are now; each counts once for each combination of argument types.
    - `failed`: the runs that failed, by name, each with the last line that it wrote.

    >>> oop.Warmed(Path("kernels"), before=38, after=294).failed
    {}
    """

    folder: Path
    before: int
    after: int
    failed: Mapping[str, str] = attrs.field(factory=dict)


def warm(*, progress: Callable[[int, int], None] | bool | None = None, processes: int | None = None) -> Warmed:
    """Compile the kernels that most queries need ahead and keep them on disk, for images and CI.

    The first time takes minutes. Functions of your own and rare combinations of types compile when they are used.
    A wheel for one platform brings kernels for a class of processors; these are for this very one.
    PlanError where no folder keeps kernels.

    - `progress`: a function that is called with the number of runs that are done, and of all. True draws a bar on
      standard error; None, the default, draws it only on a terminal.
    - `processes`: how many runs go on at the same time, by default one for each core.

    >>> oop.warm(processes=2).failed  # doctest: +SKIP
    {}
    """
    folder = kept.lasting()
    if folder is None:
        raise PlanError(
            "kernels cannot be kept: no folder for them can be written, or compiling is turned off.\n"
            "  Name a folder that can be written with NUMBA_CACHE_DIR, and leave NUMBA_DISABLE_JIT out."
        )
    tell = progress if callable(progress) else _bar if progress or (progress is None and _is_terminal()) else None
    before, names, failed = kept.count(folder), list(runs()), dict[str, str]()
    most = max(1, processes or os.cpu_count() or 1)
    done, running = 0, dict[str, subprocess.Popen[str]]()
    try:
        while names or running:
            while names and len(running) < (most if done else 1):
                name = names.pop(0)
                running[name] = _start(name)
            name, ended = _first_ended(running)
            said = ended.communicate()[0]
            if ended.returncode:
                failed[name] = next(iter(said.strip().splitlines()[-1:]), f"exit status {ended.returncode}")
            done += 1
            if tell is not None:
                tell(done, done + len(names) + len(running))
    finally:
        for left in running.values():
            left.kill()
            left.communicate()
    return Warmed(folder, before, kept.count(folder), failed)


def runs() -> Mapping[str, Callable[[Path], Iterator[Stream]]]:
    """Return the runs by name; each makes its streams, with a folder for files."""
    found: dict[str, Callable[[Path], Iterator[Stream]]] = {"a first query": _first}
    for part in ("aggregates", "bags", "arrivals", "gaps"):
        for groups in _GROUPS:
            found[f"{part} {groups}".strip()] = lambda _, part=part, groups=groups: _functions(part, groups)
    for strategies in (
        "wid panes",
        "differential two_stacks",
        "slicing",
        "stacks",
        "adaptive",
        "buffer negative two_level",
    ):
        found[f"strategy {strategies}"] = lambda _, names=strategies: _strategies(names.split())
    found |= {
        "slices": _slices,
        "many groups": _many_groups,
        "ranks": _ranks,
        "joins": _joins,
        "rows": _rows,
        "early results": _early,
        "disorder": _disorder,
        "captures": _captures,
        "flows": _flows,
        "tables": _tables,
    }
    return found


def run(name: str) -> None:
    """Run one of the runs in this process."""
    with tempfile.TemporaryDirectory() as folder:
        for stream in runs()[name](Path(folder)):
            stream.run()


def _start(name: str) -> subprocess.Popen[str]:
    program = f"from oop_engine.warming import run; run({name!r})"
    root = str(Path(__file__).parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": path, kept.OWN: "1"}, cwd=root,
    )  # fmt: skip


def _first_ended(running: dict[str, subprocess.Popen[str]]) -> tuple[str, subprocess.Popen[str]]:
    """Wait until one has ended; take it out."""
    while True:
        for name, process in running.items():
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            return name, running.pop(name)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _bar(done: int, whole: int) -> None:
    """Draw a bar on standard error, and leave it when all is done."""
    filled = 30 * done // whole
    end = "\n" if done == whole else ""
    sys.stderr.write(f"\rcompiling kernels [{'#' * filled}{'.' * (30 - filled)}] {done} of {whole} runs{end}")
    sys.stderr.flush()


def _packets(seed: int = 1, **shape: Any) -> Stream:
    return packets(TUPLES, rate=100, seed=seed, sources=20, **shape)


def _worded() -> Stream:
    """Return packets with a column of text, one of floating values and one with nulls."""
    table = _packets().to_arrow()
    n = table.num_rows
    table = table.append_column("word", pa.array([f"w{i % 7}" for i in range(n)]))
    table = table.append_column("share", pa.array([i % 13 / 7 for i in range(n)]))
    table = table.append_column("some", pa.array([None if i % 5 == 0 else i for i in range(n)], pa.int64()))
    return arrow(table, name="Main", slack="1 s")


def _asked(text: str, **streams: Stream) -> Stream:
    return query(text, streams)


def _first(folder: Path) -> Iterator[Stream]:
    yield _asked(_QUICK, Main=pcap(_file(folder, "small.pcap", capture())))
    yield _asked(_QUICK, Main=_packets())


def _captures(folder: Path) -> Iterator[Stream]:
    path = _file(folder, "small.pcapng", newer_capture())
    yield _asked(_QUICK, Main=pcap(path))
    names = ("srcMAC", "dns_query", "tls_sni", "http_host", "rtp_seq", "tunnel")
    counts = ", ".join(f"count({name})" for name in names)
    yield _asked(f"SELECT {counts} [RANGE 1 minute, WA ts] FROM Main", Main=pcap(path, columns=names, inner=True))


def _file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _functions(part: str, groups: str) -> Iterator[Stream]:
    listed = {"aggregates": _WHOLE, "bags": _BAGS, "arrivals": _ARRIVAL, "gaps": _GAPS}[part]
    main = _worded()
    attributes = ("length", "share", "some", "ts") if part == "aggregates" else ("length", "share", "some")
    for window in _WINDOWS.values():
        for attribute in attributes:
            chosen = (
                "min(ts), max(ts), count_distinct(ts), minmax(ts)" if attribute == "ts" else listed.format(attribute)
            )
            yield _asked(f"SELECT count(*), {chosen} {window} FROM Main{_GROUPS[groups]}", Main=main)


def _strategies(strategies: Iterable[str]) -> Iterator[Stream]:
    main = _worded()
    whole = (f.count(), f.sum("length"), f.avg("some"))
    least = (*whole, f.min("length"), f.max("share"), f.min("ts"), f.sum("share"))
    for name in strategies:
        functions = whole if name in ("differential", "negative") else least
        if functions is least and name != "stacks":
            functions = (*least, f.stddev("share"))
        for slide in ("1 s", "500 ms", "20 ms"):
            windows = main.window(range="2 s", slide=slide, wattr="ts")
            for chosen in variants(name, size=16):
                wanted = whole if chosen.options.get("technique") == "subtract" else functions
                if name != "stacks" and chosen.options.get("store") != "eager":
                    yield windows.aggregate(*wanted, by="srcIP", strategy=chosen)
                    yield windows.aggregate(*wanted, by=("srcIP", "word"), strategy=chosen)
                yield windows.aggregate(*wanted, strategy=chosen)


def _slices(_: Path) -> Iterator[Stream]:
    main = _worded()
    windows = {"a": w.tumbling("1 s"), "b": w.sliding("3 s", "500 ms"), "c": w.session("20 ms")}
    functions = (f.count(), f.sum("length"), f.max("share"), f.median("length"))
    for by in ((), "srcIP", ("srcIP", "word")):
        yield main.windows(windows).aggregate(*functions, by=by)
        yield main.window(w.session("20 ms")).aggregate(*functions, by=by)
        yield main.window(w.session("20 ms")).aggregate(*functions, by=by, lateness="1 s")
        yield main.window(w.band("1795255201 s", "2 s")).aggregate(*functions, by=by)


def _many_groups(_: Path) -> Iterator[Stream]:
    groups, seconds = 2000, 6
    ticks = np.repeat(np.arange(seconds), groups)
    table = pa.table({"ts": ticks, "k": np.tile(np.arange(groups), seconds), "length": ticks})
    for size in (1, 3):
        windows = arrow(table, name="Many", slack=0).window(size, slide=1)
        yield windows.aggregate(f.count(), f.sum("length"), f.avg("length"), by="k")
    yield arrow(table, name="Many", slack=0).window(1).aggregate(f.max("length"), by="k")


def _ranks(_: Path) -> Iterator[Stream]:
    main = _worded()
    windows = (
        w.counted(50), w.counted(50, slide=10), w.latest(20, every="1 s"), w.slide_by_tuple("1 s"),
        w.slide_by_rows("1 s", 5), w.slide_by_rank("1 s", 5),
    )  # fmt: skip
    for window in windows:
        for by in ((), "srcIP"):
            yield main.window(window).aggregate(f.count(), f.sum("length"), f.max("share"), by=by)


def _joins(_: Path) -> Iterator[Stream]:
    one, other = _packets(), _packets(2)
    for on in ("A.srcIP = B.srcIP", "A.destPort = B.destPort"):
        for window in ("[RANGE 1 s, SLIDE 1 s, WA ts]", "[RANGE 1 s, WA ts]"):
            text = f"SELECT A.srcIP, B.length FROM A {window}, B {window} WHERE {on}"
            yield _asked(text, A=one, B=other)


def _rows(_: Path) -> Iterator[Stream]:
    main = _worded()
    yield main.filter("length > 100 AND some IS NOT NULL").derive(bits="length * 8")
    yield main.distinct("srcIP", "destPort")
    yield main.distinct("word")
    yield main.number()
    yield main.spread("length", step="100 ms", end="ts", into="pane")
    yield main.reorder(on="ts", slack="1 s")
    yield meld(_packets(), _packets(2, skew="1 s"))
    yield merge(_packets(), _packets(2), on="ts")


def _early(_: Path) -> Iterator[Stream]:
    for refine in ("ACCUMULATE", "DISCARD", "RETRACT"):
        window = f"[RANGE 2 s, SLIDE 1 s, WA ts, EARLY 500 ms {refine}]"
        yield _asked(f"SELECT srcIP, count(*), sum(length) {window} FROM Main GROUP BY srcIP", Main=_packets())
    yield _packets().window("2 s").aggregate(f.count(), by="srcIP", early=Trigger.rows(10))
    yield _packets().window(w.session("200 ms")).aggregate(f.count(), by="srcIP", early="500 ms")
    yield _packets().window(w.session("200 ms")).aggregate(f.count(), by="srcIP", early=Trigger.rows(10))
    yield _packets().window(range="ALL", slide="1 s").aggregate(f.count(), by="srcIP", early=Trigger.rows(10))


def _disorder(_: Path) -> Iterator[Stream]:
    disorder(_packets())
    disorder(_packets(), by="srcIP")
    yield _packets(punctuate=tuple_slack(10))
    yield _packets(punctuate=by_key("srcIP", "1 s"))
    yield _packets(punctuate=slack("auto"))


def _flows(folder: Path) -> Iterator[Stream]:
    text = "SELECT srcIP, count(*), sum(bytes) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP"
    for name, datagrams in exports().items():
        yield _asked(text, Main=netflow(_file(folder, name, datagrams), slack="1 minute", on="ts"))
    counters = sflow_counters(_file(folder, "counters", _captured([_over_ip(17, 0, _counters())])))
    yield _asked("SELECT max(in_bytes) [RANGE 1 minute, WA ts] FROM Main", Main=counters)


def _tables(folder: Path) -> Iterator[Stream]:
    main = _packets()
    for suffix in ("csv", "ndjson", "parquet", "arrow"):
        path = folder / f"main.{suffix}"
        main.to(path).run()
        read = table(path, slack="1 s")
        yield _asked(_QUICK.replace("len)", "length)"), Main=read)


def capture() -> bytes:
    """Return a small capture in the format of libpcap: TCP, UDP and ICMP over IPv4, TCP over IPv6."""
    return _captured(_frames())


def _captured(frames: Iterable[bytes]) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    records = (struct.pack("<IIII", 1_700_000_000 + i, 0, len(data), len(data)) + data for i, data in enumerate(frames))
    return head + b"".join(records)


def newer_capture() -> bytes:
    """Return the same packets in the format pcapng."""
    blocks = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", 1, 0, 65_535)),
    ]
    for i, data in enumerate(_frames()):
        high, low = divmod((1_700_000_000 + i) * 1_000_000, 2**32)
        body = struct.pack("<IIIII", 0, high, low, len(data), len(data)) + data + bytes(-len(data) % 4)
        blocks.append(_block(6, body))
    return b"".join(blocks)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _frames() -> Iterator[bytes]:
    for i in range(TUPLES):
        protocol = (6, 17, 1, 6)[i % 4]
        inner = struct.pack(">HH", 1024 + i % 9, 80) + bytes(16)
        if i % 4 == 3:
            packet = struct.pack(">IHBB", 6 << 28, len(inner), protocol, 64) + bytes(15) + bytes([i % 7]) + bytes(16)
            yield b"\0" * 12 + b"\x86\xdd" + packet + inner
        else:
            yield _over_ip(protocol, i, inner)


def _over_ip(protocol: int, number: int, inner: bytes) -> bytes:
    """Return a frame of Ethernet with a packet of IPv4."""
    packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), number % 65_536, 0, 64, protocol, 0)
    return b"\0" * 12 + b"\x08\x00" + packet + bytes([10, 0, 0, number % 11, 10, 0, 1, 1]) + inner


def exports() -> Mapping[str, bytes]:
    """Return files of flow exports by format: datagrams end to end, but captured ones of sFlow, which have no time."""
    make = {"v5": _netflow_5, "v9": _netflow_9, "ipfix": _ipfix}
    sent = (struct.pack(">HHHH", 6343, 6343, 8 + len(data), 0) + data for data in map(_sflow, range(8)))
    stored = {name: b"".join(map(one, range(8))) for name, one in make.items()}
    return stored | {"sflow": _captured(_over_ip(17, i, data) for i, data in enumerate(sent))}


def _counters() -> bytes:
    """Return a datagram of sFlow with the counters of an interface."""
    sample = struct.pack(">IIIII", 1, 7, 1, 1, 88) + bytes(88)
    message = struct.pack(">II4sIIIIII", 5, 1, bytes(4), 0, 1, 1, 1, 2, len(sample)) + sample
    return struct.pack(">HHHH", 6343, 6343, 8 + len(message), 0) + message


_FLOW: Final = {8: 4, 12: 4, 7: 2, 11: 2, 4: 1, 2: 4, 1: 4}
"""Elements of a flow by their numbers, with their bytes: addresses, ports, protocol, packets, bytes."""


def _flow(number: int) -> bytes:
    return bytes([10, 0, 0, number, 10, 0, 1, 1]) + struct.pack(">HHBII", 1024, 80, 6, 5, 500)


def _fields(more: Mapping[int, int]) -> bytes:
    return b"".join(struct.pack(">HH", *field) for field in {**_FLOW, **more}.items())


def _set(number: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(">HH", number, 4 + len(body)) + body


def _netflow_5(i: int) -> bytes:
    head = struct.pack(">HHIIIIBBH", 5, 2, 60_000, 1_700_000_000 + 10 * i, 0, 2 * i, 0, 0, 0)
    record = struct.pack(
        ">4s4s4sHHIIIIHHBBBBHHBBH", bytes([10, 0, 0, i]), bytes(4), bytes(4), 1, 2, 5, 500, 1_000, 2_000, 1024, 80,
        0, 16, 6, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
    return head + 2 * record


def _netflow_9(i: int) -> bytes:
    template = struct.pack(">HH", 256, len(_FLOW) + 2) + _fields({22: 4, 21: 4})
    flow = _flow(i) + struct.pack(">II", 1_000, 2_000)
    head = struct.pack(">HHIIII", 9, 3, 60_000, 1_700_000_000 + 10 * i, i, 0)
    return head + _set(0, template) + _set(256, 2 * flow)


def _ipfix(i: int) -> bytes:
    now = 1_700_000_000 + 10 * i
    template = struct.pack(">HH", 256, len(_FLOW) + 2) + _fields({152: 8, 153: 8})
    flow = _flow(i) + struct.pack(">QQ", now * 1_000 - 2_000, now * 1_000 - 1_000)
    sets = _set(2, template) + _set(256, 2 * flow)
    return struct.pack(">HHIII", 10, 16 + len(sets), now, 2 * i, 0) + sets


def _sflow(i: int) -> bytes:
    frame = _over_ip(6, i, struct.pack(">HH", 1024, 80) + bytes(16))
    raw = struct.pack(">IIII", 1, 100, 4, len(frame)) + frame + bytes(-len(frame) % 4)
    sample = struct.pack(">IIIIIIII", i, 1, 100, 100 * i, 0, 1, 2, 1) + struct.pack(">II", 1, len(raw)) + raw
    head = struct.pack(">II4sIIII", 5, 1, bytes([10, 9, 9, 9]), 0, i, 60_000 + 10_000 * i, 1)
    return head + struct.pack(">II", 1, len(sample)) + sample


def sentence(warmed: Warmed, seconds: float) -> str:
    """Say what was done, for the command."""
    new = warmed.after - warmed.before
    how = f"{new} kernel{'s' * (new != 1)} compiled in {seconds:.0f} s" if new else "these kernels were there"
    return f"{how}; {warmed.after} are in {shlex.quote(str(warmed.folder))}"
