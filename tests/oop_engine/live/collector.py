"""A collector under test: a socket that is bound before anybody sends, so that nothing has to be waited for."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pyarrow as pa

from oop_engine.sources.live import LiveFlows, LiveReader, Rules
from oop_engine.sources.live.exporters import SECOND
from punctuation import Punctuation
from tests.oop_engine.flows.exporter import NOW, plain

AT_ONCE = Rules(settle=0, trusted_after=1, lull=None)


@attrs.define
class Time:
    """A clock that stands until it is moved."""

    now: int = NOW * SECOND

    def __call__(self) -> int:
        return self.now


def bound(buffer: int = 8 << 20) -> socket.socket:
    """Bind a UDP socket on loopback to a free port."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.bind(("127.0.0.1", 0))
    return made


@contextmanager
def senders(*hosts: str) -> Iterator[list[socket.socket]]:
    """Open sockets that send from these addresses."""
    made = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in hosts]
    try:
        for one, host in zip(made, hosts, strict=True):
            one.bind((host, 0))
        yield made
    finally:
        for one in made:
            one.close()


def send(payloads: Sequence[bytes], to: socket.socket | tuple[str, int], host: str = "127.0.0.1") -> int:
    """Send datagrams from one socket; give its port."""
    where = to.getsockname() if isinstance(to, socket.socket) else to
    with senders(host) as (one,):
        for payload in payloads:
            one.sendto(payload, where)
        return int(one.getsockname()[1])


@attrs.frozen
class Collected:
    """What a reading gave."""

    rows: list[dict[str, Any]]
    promises: list[Punctuation]
    reader: LiveReader


def collect(listening: socket.socket, *, columns: Sequence[str] | None = None, **options: Any) -> Collected:
    """Read what waits at a socket, and what comes, to the end that the options say."""
    source = LiveFlows(listening, **{"clock": Time(), "rules": AT_ONCE, **options})
    names = source.arrow.names if columns is None else list(columns)
    reader = source.open(names, 65_536)
    batches: list[pa.RecordBatch] = []
    promises: list[Punctuation] = []
    for chunk in reader.chunks():
        if isinstance(chunk, pa.RecordBatch):
            chunk.validate(full=True)
            batches.append(chunk)
        else:
            assert isinstance(chunk, Punctuation)
            promises.append(chunk)
    schema = pa.schema([source.arrow.field(name) for name in source.arrow.names if name in names])
    return Collected(plain(batches, schema), promises, reader)
