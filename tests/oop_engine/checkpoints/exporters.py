"""Exporters of all protocols that send the same again, record by record: what came of it tells what was lost."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.sources.live import LiveFlows, LiveReader, Rules
from oop_engine.sources.live.exporters import SECOND
from tests.oop_engine.flows.exporter import (
    NOW,
    a_set,
    four,
    ipfix,
    ipfix_templates,
    number,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)

PROTOCOLS: Final = (5, 9, 10)
RECORDS: Final = 3
"""Records of a datagram."""
RULES: Final = Rules(active=0, inactive=0, scan=0, settle=0, trusted_after=1, lull=None)
_TEMPLATE: Final = template(256, [(152, 8), (153, 8), (8, 4), (1, 4)])
_TOLD: Final = 4
"""Each datagram of this number has the template, and the first few have: data that wait for it would be late."""
_FEW: Final = 12
Record: TypeAlias = tuple[str, int, int]
"""Exporter, number and second."""
Window: TypeAlias = tuple[int, str]
"""The second in which a window begins, and the exporter."""


def host(protocol: int) -> str:
    """Return the address that an exporter sends from."""
    return f"127.0.0.{protocol}"


def datagram(protocol: int, k: int, second: int, *, told: bool = False) -> bytes:
    """Return the k-th datagram of an exporter, sent at a second; its records have the numbers from RECORDS * k on.

    It has the template if that is to be `told`, or is due.
    """
    numbers = range(RECORDS * k, RECORDS * (k + 1))
    if protocol == 5:
        uptime = 1_000_000 + 1000 * (second - NOW) & 0xFFFFFFFF
        records = [v5_record(octets=n, first=uptime, last=uptime) for n in numbers]
        return v5(records, sequence=RECORDS * k, seconds=second, uptime=uptime)
    with_template = told or k < _FEW or k % _TOLD == 0
    data = b"".join(number(second * 1000, 8) * 2 + four("10.0.0.1") + number(n, 4) for n in numbers)
    if protocol == 9:
        told = [v9_templates(_TEMPLATE)] if with_template else []
        return v9([*told, a_set(256, data)], sequence=k, seconds=second, uptime=1000 * (second - NOW + 1000))
    told = [ipfix_templates(_TEMPLATE)] if with_template else []
    return ipfix([*told, a_set(256, data)], sequence=RECORDS * k, seconds=second)


@attrs.define
class Script:
    """A clock that has an exporter send a datagram each time it is looked at, and goes on by a second in between.

    After the last of them it stops the reading. Datagrams that are sent while nobody listens are `skipped`.
    """

    many: int
    out: dict[int, socket.socket]
    to: tuple[str, int] | None = None
    reader: LiveReader | None = None
    sent: list[tuple[int, int, int]] = attrs.field(factory=list)
    """Protocol, number and second of the datagrams that were sent."""
    second: int = NOW
    _number: dict[int, int] = attrs.field(factory=lambda: dict.fromkeys(PROTOCOLS, 0))

    def __call__(self) -> int:
        if self.to is not None and self.reader is not None:
            if len(self.sent) < self.many:
                self._send(self.to)
            else:
                self.reader.stop()
        return self.second * SECOND

    def _send(self, to: tuple[str, int] | None) -> None:
        protocol = PROTOCOLS[len(self.sent) % len(PROTOCOLS)]
        k = self._number[protocol]
        self._number[protocol] += 1
        self.second += 1
        self.sent.append((protocol, k, self.second))
        if to is not None:
            self.out[protocol].sendto(self.payload(protocol, k), to)

    def payload(self, protocol: int, k: int) -> bytes:
        """Return the k-th datagram of an exporter."""
        return datagram(protocol, k, self.second)

    def down(self, datagrams: int) -> None:
        """Let so many datagrams be sent while nobody listens."""
        self.to = self.reader = None
        for _ in range(min(datagrams, self.many - len(self.sent))):
            self._send(None)

    def stream(self, listening: socket.socket, readers: list[LiveReader]) -> Stream:
        """Return what comes to a socket, with this clock; what it sends begins when the reading has begun."""

        def opened(reader: LiveReader) -> None:
            readers.append(reader)
            self.reader, self.to = reader, listening.getsockname()

        return self.read(listening, opened)

    def read(self, listening: socket.socket, opened: Callable[[Any], None]) -> Stream:
        """Return the stream of a socket, whose reader is told of when it listens."""
        return oop.from_source(LiveFlows(listening, clock=self, rules=RULES, label="Flows", opened=opened))


def outputs(stream: Stream, place: Any, length: int = 10) -> list[oop.Output]:
    """Return the records one by one, and windows of so many seconds: each tells what the other should have."""
    windows = stream.window(range=f"{length} s", wattr="ts").aggregate(oop.count(), oop.sum("bytes"), by="exporter")
    return [stream.project("exporter", "bytes", "ts").to(place / "rows.parquet"), windows.to(place / "windows.parquet")]


def numbers_of(sent: Sequence[tuple[int, int, int]]) -> Counter[Record]:
    """Return exporter, number and second of the records of datagrams."""
    return Counter(
        (host(protocol), n, second) for protocol, k, second in sent for n in range(RECORDS * k, RECORDS * (k + 1))
    )


def records_in(table: pa.Table) -> Counter[Record]:
    """Return the records of the first output."""
    return Counter((row["exporter"], row["bytes"], int(row["ts"].timestamp())) for row in table.to_pylist())


def windows_in(table: pa.Table) -> dict[Window, tuple[int, int]]:
    """Return the windows of the second output, none of which may be there twice."""
    found = [
        ((int(r["window_start"].timestamp()), r["exporter"]), (r["count"], r["sum_bytes"])) for r in table.to_pylist()
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def windows_of(records: Counter[Record], length: int = 10) -> dict[Window, tuple[int, int]]:
    """Return the naive answer: of each window and exporter how many records it has, and the sum of their numbers."""
    found: dict[Window, tuple[int, int]] = {}
    for (exporter, n, second), times in records.items():
        key = second // length * length, exporter
        count, total = found.get(key, (0, 0))
        found[key] = count + times, total + times * n
    return found


def lacking(records: Counter[Record], sent: Counter[Record], lost: Mapping[str, int]) -> Counter[Record]:
    """Return what is lacking; AssertionError where it is not counted, or where something came twice or from nowhere.

    Of an exporter that nobody had heard before, nobody knows what it sent.
    """
    assert not records - sent
    missing = sent - records
    first = {who: min(n for other, n, _ in records if other == who) for who in map(host, PROTOCOLS)}
    told = Counter(who for who, n, _ in missing.elements() if n > first[who])
    assert lost == (counted := {who: told[who] for who in first}), (lost, counted, first)
    return missing


def lost_of(reader: LiveReader) -> dict[str, int]:
    """Return of each exporter how many records its sequence numbers say are lost."""
    unit = {5: 1, 9: RECORDS, 10: 1}
    return {report.who: report.counters.lost * unit[report.counters.version] for report in reader.exporters()}
