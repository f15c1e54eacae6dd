"""What an interface sees comes as from a capture of it; a promise comes even while nothing does."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sources.capture import PACKET_SCHEMA
from oop_engine.sources.capture.rows import Rows
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceError
from oop_engine.sources.live.blocks import walk_block
from oop_engine.sources.live.exporters import SECOND
from oop_engine.sources.live.interface import Interface, InterfaceReader, tagged
from punctuation import Punctuation
from tests.oop_engine.live.collector import bound


def permitted() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError):
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
        return True
    return False


needs_the_right = pytest.mark.skipif(not permitted(), reason="this process may not open packet sockets (CAP_NET_RAW)")


@needs_the_right
def test_packets_on_loopback_are_seen_once_with_the_columns_of_a_capture() -> None:
    with bound() as target, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))

        def opened(reader: InterfaceReader) -> None:
            for size in range(200):
                sender.sendto(bytes(size), target.getsockname())

        source = Interface("lo", lasting=SECOND // 4, opened=opened)
        reader = source.open(PACKET_SCHEMA.names, 1000)
        rows = []
        for chunk in reader.chunks():
            if isinstance(chunk, pa.RecordBatch):
                chunk.validate(full=True)
                assert chunk.schema.equals(PACKET_SCHEMA)
                rows += [r for r in chunk.to_pylist() if r["destPort"] == target.getsockname()[1]]
        assert [r["payload_length"] for r in rows] == list(range(200))
        assert all(r["srcPort"] == sender.getsockname()[1] and r["proto"] == 17 and r["status"] == 0 for r in rows)
        assert all(r["length"] == r["payload_length"] + 42 for r in rows)
        assert reader.notes()[0].startswith("interface lo: ")


@needs_the_right
def test_a_query_over_an_interface_counts_what_was_sent() -> None:
    with bound() as target, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        port = target.getsockname()[1]

        def opened(reader: InterfaceReader) -> None:
            for _ in range(300):
                sender.sendto(bytes(100), target.getsockname())

        source = Interface("lo", lasting=SECOND // 2, opened=opened)
        stream = oop.from_source(source).filter(f"destPort = {port}")
        outcome = stream.window(range="1 hour", wattr="ts").aggregate(oop.count()).run()
        assert sum(outcome.table["count"].to_pylist()) == 300
        assert outcome.statistics.late == 0


@needs_the_right
def test_an_interface_promises_the_time_less_its_slack_as_finely_as_it_is_told() -> None:
    reader = Interface("lo", slack=2 * SECOND).open(["ts"], 100)
    assert reader.describe({"ts": Grain(SECOND)}) and not reader.describe({"bytes": Grain()})
    chunks = reader.chunks()
    first = next(chunk for chunk in chunks if isinstance(chunk, Punctuation))
    bound_ = first.bound("ts")
    assert isinstance(bound_, int) and bound_ % SECOND == 0
    reader.poll()
    second = next(chunk for chunk in chunks if isinstance(chunk, Punctuation))
    assert second.bound("ts") > bound_  # type: ignore[operator]
    reader.stop()
    list(chunks)


def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("interfaces are read on Linux only")
    with pytest.raises(SourceError, match=r'no interface "nowhere0"; there are .*lo'):
        oop.interface("nowhere0").run()


def test_without_the_right_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("oop_engine.sources.live.packet_ring.socket.socket", refused)
    chunks = Interface("lo").open(["ts"], 1).chunks()
    with pytest.raises(SourceError, match="CAP_NET_RAW"):
        next(chunks)


def packet(size: int, *, step: int, seconds: int, tag: int | None = None) -> bytes:
    head = struct.pack(
        "<IIIIIIHHIIHH", step, seconds, 5, size, size + 10, 0 if tag is None else 0x10, 64, 78, 0, tag or 0, 0, 0
    )
    return head.ljust(64, b"\0") + bytes(size)


@pytest.mark.parametrize(
    ("steps", "count", "seen"),
    [((128, 128), 3, 3), ((128, 128), 2, 2), ((0, 128), 3, 1), ((4, 0), 3, 1), ((4096, 0), 3, 1), ((128, 4000), 3, 2)],
)
def test_a_block_is_walked_as_far_as_it_makes_sense(steps: tuple[int, int], count: int, seen: int) -> None:
    packets = [packet(40, step=steps[0], seconds=1), packet(60, step=steps[1], seconds=2, tag=0x2007)]
    block = struct.pack("<IIIIII", 1, 48, 1, count, 48, 0).ljust(48, b"\0")
    block += b"".join(p.ljust(128, b"\0") for p in [*packets, packet(20, step=0, seconds=3)])
    words = np.frombuffer(block.ljust(1024, b"\0"), np.uint32)
    rows, vlan = Rows.empty(8), np.empty(8, np.int32)
    found = walk_block(
        words, 0, 1024, 1, rows.offset, rows.ts, rows.caplen, rows.length, rows.interface, rows.link, vlan
    )
    assert found == seen
    assert rows.offset[:found].tolist() == [112, 240, 368][:seen]
    assert rows.ts[:found].tolist() == [k * SECOND + 5 for k in (1, 2, 3)][:seen]
    assert rows.caplen[:found].tolist() == [40, 60, 20][:seen] and vlan[:found].tolist() == [-1, 7, -1][:seen]


def test_a_tag_that_the_kernel_took_off_stands_before_those_left_in_the_frame() -> None:
    names = ["vlan", "inner_vlan", "vlan_count"]
    in_frame = [(None, None, 0), (7, None, 1), (7, 8, 2), (7, 8, 255)]
    columns = [[row[place] for row in in_frame * 2] for place in range(3)]
    schema = pa.schema([(name, kind) for name, kind in zip(names, (pa.uint16(), pa.uint16(), pa.uint8()), strict=True)])
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    tags = np.array([5, 5, 0, 5, -1, -1, -1, -1], np.int32)
    found = tagged(batch, tags)
    assert found.schema == schema
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (5, None, 1), (5, 7, 2), (0, 7, 3), (5, 7, 255), *in_frame,
    ]  # fmt: skip
    assert tagged(batch.select(["vlan"]), tags)["vlan"].to_pylist() == [5, 5, 0, 5, None, 7, 7, 7]
