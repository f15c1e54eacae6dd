"""Parts of a capture give exactly the packets of the whole, whatever the payload looks like."""

from __future__ import annotations

import gzip
import struct
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.capture import Capture, walk
from oop_engine.sources.capture.formats import Classic
from oop_engine.sources.capture.splits import HEAD, Parted, PartedDamage, cut, parts
from tests.capture_files import FRAMES, SECOND, WHOLE, pcap
from tests.open_set import OPEN_SET

DEMO = Path(__file__).resolve().parents[2] / "demos" / "captures" / "web.pcap.gz"
COLUMNS = ["ts", "srcIP", "length", "caplen", "status"]


def parted(data: bytes, most: int) -> Parted:
    return Parted(Path("toy"), Classic.read(data[:HEAD]), len(data), most, opened=lambda: BytesIO(data))


def starts(data: bytes) -> list[int]:
    """Walk from the header, one record after the other; the places where whole records start."""
    order = ">" if data[:2] == b"\xa1\xb2" else "<"
    found, at = [], HEAD
    while at + 16 <= len(data):
        (kept,) = struct.unpack(order + "I", data[at + 8 : at + 12])
        if at + 16 + kept > len(data):
            break
        found.append(at)
        at += 16 + kept
    return found


def record_at(data: bytes, at: int) -> bytes:
    (kept,) = struct.unpack((">" if data[:2] == b"\xa1\xb2" else "<") + "I", data[at + 8 : at + 12])
    return data[at : at + 16 + kept]


def false_header(kept: int, order: str = "<") -> bytes:
    return struct.pack(order + "IIII", 1_700_000_000, 5, kept, kept)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Draw a capture whose payload is full of record headers, some of which chain over the packets that follow."""
    order = draw(st.sampled_from("<>"))
    records = []
    for k in range(draw(st.integers(1, 14))):
        pad = bytes(draw(st.integers(0, 7)))
        fake = b"".join(false_header(draw(st.integers(0, 60)), order) for _ in range(draw(st.integers(0, 2))))
        records.append((SECOND * (k + 1), (pad + fake)[:56]))
    data = pcap(records, order=order)
    return data[: max(HEAD, len(data) - draw(st.sampled_from([0, 0, 0, 1, 9, 20])))]


@given(hostile(), st.integers(72, 100))
def test_the_first_record_of_a_part_is_the_first_of_the_true_chain(data: bytes, most: int) -> None:
    known = starts(data)
    # Behind the last whole record one may be cut short; there, or at the end, a reading finds nothing more.
    behind = known[-1] + len(record_at(data, known[-1])) if known else HEAD
    reader = parted(data, most)
    for place in range(HEAD, len(data), 3):
        assert reader.first(place) == min(
            (s for s in known if s >= place), default=behind if behind >= place else len(data)
        )


@given(hostile(), st.integers(1, 90))
def test_parts_of_every_size_give_the_packets_of_the_whole(data: bytes, size: int) -> None:
    reader = parted(data, 72)
    pieces = cut(reader.path, HEAD, len(data), size) if len(data) > HEAD else []
    read = [
        row for part in pieces for batch in reader.batches(part, columns=["ts", "caplen"]) for row in batch.to_pylist()
    ]
    assert [row["caplen"] for row in read] == [len(record_at(data, s)) - 16 for s in starts(data)]


@given(hostile(), st.integers(1, 20), st.integers(0, 600), st.data())
def test_going_over_records_ends_where_a_walk_would(data: bytes, rows: int, most: int, draw: st.DataObject) -> None:
    reader, known = parted(data, 72), starts(data)
    low = draw.draw(st.sampled_from(known or [HEAD]))
    high = draw.draw(st.integers(low, max(low, len(data))))
    ends = [s + len(record_at(data, s)) for s in known if s >= low]
    whole = [end for end in ends if end <= high]
    fit = [end for end in whole if end - low <= most][:rows]
    at, count, why = reader.over(low, high, rows=rows, most=most)
    assert (at, count) == (fit[-1] if fit else low, len(fit))
    assert why == (walk.CUT if len(fit) == len(whole) and len(fit) < rows else walk.FULL)


def test_going_over_records_stops_at_damage_and_crosses_a_header_like_the_first() -> None:
    one = pcap([(SECOND * (k + 1), bytes(40)) for k in range(3)])
    for behind, found in ((one, 6), (bytes(16), 3), (pcap([(SECOND, bytes(4))], order=">"), 3)):
        at, count, why = parted(one + behind, 80).over(HEAD, len(one + behind), rows=99, most=1 << 20)
        assert (at, count) == (len(one + behind) if found == 6 else len(one), found)
        assert why == {6: walk.CUT, 3: walk.ZEROS if not any(behind) else walk.HEADER}[found]


def test_a_chain_of_false_records_all_through_the_file_is_not_followed() -> None:
    # Each packet holds a header whose record ends just before the next packet's: a second chain that never breaks.
    payload = bytes(8) + false_header(64 - 16) + bytes(24)
    data = pcap([(SECOND * (k + 1), payload) for k in range(200)])
    assert len(payload) == 48
    false = [HEAD + 64 * k + 16 + 8 for k in range(199)]
    assert all(struct.unpack("<I", data[f + 8 : f + 12]) == (48,) for f in false)  # the next false one
    reader = parted(data, 80)
    for place in (false[20], false[100], false[100] + 1, 64 * 150 + HEAD):
        assert reader.first(place) == HEAD + -(-(place - HEAD) // 64) * 64


def whole(path: Path) -> pa.Table:
    capture = Capture(path, columns=COLUMNS)
    return pa.Table.from_batches(capture.batches(), schema=capture.schema)


def in_parts(path: Path, size: int) -> pa.Table:
    reader = Parted.open(path)
    pieces = cut(path, HEAD, path.stat().st_size, size)
    batches = [batch for part in pieces for batch in reader.batches(part, columns=COLUMNS, batch_rows=700)]
    return pa.Table.from_batches(batches, schema=whole(path).schema)


def captures(tmp_path: Path) -> list[Path]:
    """The demo's packets twenty times over, and the classic captures among the real ones, where they are."""
    large = tmp_path / "web.pcap"
    data = gzip.decompress(DEMO.read_bytes())
    large.write_bytes(data[:HEAD] + data[HEAD:] * max(1, 3_000_000 // len(data)))
    return [large, *(p for p in sorted(OPEN_SET.rglob("*.pcap")) if parts(p, 64))]


@pytest.mark.parametrize("size", [333_333, 1_048_576, 1_500_000])
def test_real_captures_in_parts_are_the_same(tmp_path: Path, size: int) -> None:
    large = captures(tmp_path)[0]
    assert len(parts(large, size)) > 1
    assert in_parts(large, size).equals(whole(large))


def test_a_part_may_end_where_a_block_that_is_read_does(tmp_path: Path) -> None:
    path = tmp_path / "blocks.pcap"
    path.write_bytes(pcap([(SECOND * (k + 1), bytes(k % 89)) for k in range(40_000)]))
    expected = whole(path)
    for size in range((1 << 20) - 120, (1 << 20) + 120, 5):
        assert in_parts(path, size).equals(expected), size


def test_small_real_captures_in_parts_are_the_same_or_say_that_they_are_damaged(tmp_path: Path) -> None:
    for path in captures(tmp_path)[1:][:60]:
        for size in (path.stat().st_size // 7, path.stat().st_size // 2):
            try:
                read = in_parts(path, size)
            except PartedDamage:
                capture = Capture(path)
                for _ in capture.batches():
                    pass
                assert capture.notes
                continue
            assert read.equals(whole(path)), path


@pytest.mark.parametrize("kind", ["gz", "pcapng", "small"])
def test_what_is_read_as_a_whole_has_no_parts(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes({"gz": DEMO.read_bytes(), "pcapng": WHOLE["pcapng"] * 20, "small": WHOLE["pcap"]}[kind])
    assert parts(path, 10_000 if kind == "small" else 64) == []


def damaged(tmp_path: Path, middle: bytes) -> Path:
    records = [(SECOND * (k + 1), FRAMES[0]) for k in range(50)]
    path = tmp_path / "damaged.pcap"
    path.write_bytes(pcap(records) + middle + pcap(records)[HEAD:])
    return path


@pytest.mark.parametrize("middle", [b"\xff" * 16, bytes(16), pcap([], order=">"), pcap([], link=101)])
def test_damage_in_the_middle_fails_the_reading_and_says_how_to_read_the_file(tmp_path: Path, middle: bytes) -> None:
    path = damaged(tmp_path, middle)
    with pytest.raises(PartedDamage, match=r"at byte \d+, so parts .*\n .*splitBytes=0"):
        in_parts(path, 1_000)


def test_a_file_appended_to_one_alike_is_read_on(tmp_path: Path) -> None:
    path = damaged(tmp_path, pcap([]))
    assert in_parts(path, 900).equals(whole(path))
    assert whole(path).num_rows == 100


def test_damage_in_the_last_part_ends_it_as_it_ends_the_whole(tmp_path: Path) -> None:
    path = damaged(tmp_path, b"\xff" * 16)
    reader = Parted.open(path)
    (part,) = cut(path, HEAD, path.stat().st_size, 1 << 20)
    read = pa.Table.from_batches(reader.batches(part, columns=COLUMNS), schema=whole(path).schema)
    assert read.equals(whole(path))
    assert read.num_rows == 50
