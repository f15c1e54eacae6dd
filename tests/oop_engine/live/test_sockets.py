"""Several sockets and several addresses are one stream: the answer is that of one socket."""

from __future__ import annotations

import random
import socket
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.live import LiveFlows
from oop_engine.sources.live.door import Door, _in_order
from tests.oop_engine.flows.exporter import plain, v5, v5_record
from tests.oop_engine.live.collector import AT_ONCE, Time, bound, collect, senders

HOSTS = tuple(f"127.0.0.{k}" for k in range(1, 21))
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux spreads datagrams over sockets")


def sent(seed: int) -> list[tuple[int, bytes]]:
    """Return datagrams of many exporters in a random order that keeps each one's own."""
    luck = random.Random(seed)
    turns = [k for k in range(len(HOSTS)) for _ in range(15)]
    luck.shuffle(turns)
    numbers = dict.fromkeys(range(len(HOSTS)), 0)
    found: list[tuple[int, bytes]] = []
    for k in turns:
        found.append((k, v5([v5_record(octets=1000 * k + numbers[k])], sequence=numbers[k])))
        numbers[k] += 1
    return found


@linux
@pytest.mark.parametrize("sockets", [1, 2, 5])
@pytest.mark.parametrize("addresses", [1, 2])
def test_the_answer_is_that_of_one_socket(sockets: int, addresses: int) -> None:
    load = sent(7)
    where = ["127.0.0.1:0", "127.0.0.2:0"][:addresses]
    source = LiveFlows(where, clock=Time(), rules=AT_ONCE, most=len(load), sockets=sockets, buffer=1 << 20)
    reader = source.open(source.arrow.names, 65_536)
    chunks = reader.chunks()
    next(chunks)
    assert reader.door is not None
    places = [(at.host, at.port) for at in reader.door.addresses]
    assert len(places) == addresses and len(reader.door.udp) == sockets * addresses
    one = bound()
    with senders(*HOSTS) as out:
        for k, payload in load:
            out[k].sendto(payload, places[k % addresses])
            out[k].sendto(payload, one.getsockname())
        rows = plain([chunk for chunk in chunks if isinstance(chunk, pa.RecordBatch)], source.arrow)
        twin = collect(one, most=len(load))
    key = ("exporter", "bytes")
    # The kernel stamps them when they come; the clock of the twin stands.
    assert sorted(rows, key=lambda row: [row[n] for n in key]) == sorted(
        twin.rows, key=lambda row: [row[n] for n in key]
    )
    for k in range(len(HOSTS)):
        own = [row["bytes"] for row in rows if row["bytes"] // 1000 == k]
        assert own == sorted(own) and len(own) == 15
    assert all((r.counters.lost, r.counters.reordered, r.counters.datagrams) == (0, 0, 15) for r in reader.exporters())


@given(st.lists(st.lists(st.integers(0, 20), max_size=8), min_size=2, max_size=4))
def test_datagrams_of_several_sockets_are_in_the_order_of_arrival(arrivals: list[list[int]]) -> None:
    """Those of each socket stay in their own, though the kernel's stamps may stray."""
    whole = Datagrams.of([b"%d" % k for k in range(sum(map(len, arrivals)))] or [b""])
    found, at = [], 0
    for k, one in enumerate(arrivals):
        count = len(one)
        found.append(
            Datagrams(
                whole.data, whole.offset[at : at + count], whole.length[at : at + count], np.array(one, np.int64),
                np.zeros(2 * count, np.uint64), np.full(count, k, np.int32),
            )
        )  # fmt: skip
        at += count
    merged = _in_order(found)
    for k, one in enumerate(arrivals):
        mine = merged.port == k
        assert merged.arrival[mine].tolist() == one
        assert merged.offset[mine].tolist() == found[k].offset.tolist()
    if all(one == sorted(one) for one in arrivals):
        assert merged.arrival.tolist() == sorted(n for one in arrivals for n in one)


@linux
@pytest.mark.parametrize("sockets", [1, 3])
def test_a_second_collector_does_not_share_the_address(sockets: int) -> None:
    first = LiveFlows("127.0.0.1:0", sockets=sockets).door()
    try:
        with pytest.raises(SourceError, match="ss -ulpn"):
            LiveFlows(str(first.address), sockets=sockets).door()
    finally:
        first.close()
    LiveFlows(str(first.address), sockets=sockets).door().close()


def test_what_waits_behind_a_full_share_of_any_socket_is_not_promised_beyond() -> None:
    """A share of the ring is full: what is older may wait in that socket, however new what others had is."""
    first, second = bound(), bound()
    door = Door.open(first, second)
    share = door.ring.slots // 2
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for _ in range(share + 1):
            out.sendto(b"x", first.getsockname())
        out.sendto(b"y", second.getsockname())
    found = door.receive(0)
    assert found is not None and found.datagrams is not None and len(found.datagrams) == share + 1
    assert found.more and found.behind == int(np.sort(found.datagrams.arrival)[-2])
    rest = door.receive(0)
    assert rest is not None and rest.behind is None and not rest.more and door.receive(0) is None
    door.close()


@pytest.mark.parametrize(
    ("listen", "says"), [([], "names no address"), (["127.0.0.1:5", "127.0.0.1:5"], "names 127.0.0.1:5 twice")]
)
def test_addresses_that_cannot_be_are_refused(listen: list[str], says: str) -> None:
    with pytest.raises(SourceError, match=says):
        LiveFlows(listen)
