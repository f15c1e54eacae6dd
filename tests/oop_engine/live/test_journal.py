"""A journal gives back what was written to it, as far as that is whole, and says where something is lacking."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import attrs
import numpy as np
import pytest

from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sources import journal as journal_module
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.journal import Journal
from oop_engine.sources.live.steps import Step
from tests.oop_engine.checkpoints.simulated_disk import Crash, SimulatedDisk
from tests.oop_engine.flows.exporter import HERE, address

FOLDER = Path("/job/journal/flows")


def begun(disk: SimulatedDisk | RealDisk, folder: Path = FOLDER, every: int = 0) -> tuple[Journal, list[bytes | None]]:
    """Return a journal that is ready to be written, and what it had."""
    made = Journal(folder, disk, every)
    return made, list(made.records(1, 0))


def test_records_come_back_in_order_over_segments() -> None:
    disk = SimulatedDisk()
    made, _ = begun(disk)
    for run in range(3):
        made, found = begun(disk)
        parts = [[b"%d %d" % (r, k) for k in range(4)] for r in range(run)]
        # Nobody knows what came after the last record of a run that did not end.
        assert found == [record for k, part in enumerate(parts) for record in ([None] if k else []) + part]
        for k in range(4):
            if k == 2:
                made.cut()
            made.append(b"%d %d" % (run, k), k, 1)
    assert made.segments == [1, 2, 3, 4, 5, 6]
    made.covered(5)
    assert list(Journal(FOLDER, disk).records(5, 0)) == [b"2 0", b"2 1", b"2 2", b"2 3"]


@pytest.mark.parametrize("seed", range(40))
def test_of_a_machine_that_dies_all_is_there_that_was_synced_and_nothing_else(seed: int) -> None:
    disk, written, synced = SimulatedDisk(seed=seed, dies_at=5 + seed), list[bytes](), 0
    made, _ = begun(disk, every=2)
    try:
        for k in range(100):
            if k % 7 == 6:
                made.cut()
            written.append(bytes([k]) * (k + 1))
            made.append(written[-1], k, 1)
            synced = len(written) if made.since is None else synced
    except Crash:
        disk.crash()
    _, found = begun(disk)
    if None in found:
        found = found[: found.index(None)]
    assert found == written[: len(found)] and len(found) >= synced


def test_a_place_in_a_segment_is_that_of_the_next_record() -> None:
    disk = SimulatedDisk()
    made, _ = begun(disk)
    for k in range(6):
        made.append(b"%d" % k, k, 1)
    reading = Journal(FOLDER, disk)
    found = reading.records(1, 0)
    assert [next(found) for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    assert list(Journal(FOLDER, disk).records(reading.number, reading.offset)) == [b"4", b"5"]


@pytest.mark.parametrize("flip", [True, False])
def test_every_byte_that_is_damaged_or_cut_is_found(flip: bool, tmp_path: Path) -> None:
    made, _ = begun(RealDisk(), tmp_path / "journal" / "flows")
    written = [bytes([k]) * 5 for k in range(4)]
    for record in written:
        made.append(record, 0, 1)
    path = made.path(1)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + (bytes([whole[place] ^ 4]) + whole[place + 1 :] if flip else b""))
        again, found = begun(RealDisk(), tmp_path / "journal" / "flows")
        assert found == written[: len(found)] and len(found) < 4
        assert again.cut_off > 0 or not flip
        assert begun(RealDisk(), tmp_path / "journal" / "flows")[1] == found


def test_what_is_lacking_between_segments_shows_each_time() -> None:
    disk = SimulatedDisk()
    made, _ = begun(disk)
    for k in range(4):
        made.append(b"%d" % k, k, 1)
        made.cut()
    second = made.path(2)
    content = disk.read(second)
    assert content is not None
    disk.write(second, content[:-9])
    for _ in range(2):
        assert list(Journal(FOLDER, disk).records(1, 0)) == [b"0", None, b"2", b"3"]
    disk.remove(second)
    assert list(Journal(FOLDER, disk).records(1, 0)) == [b"0", None, b"2", b"3"]


@attrs.define(eq=False)
class Limited(SimulatedDisk):
    """A disk that is full for a while."""

    full: bool = False

    def _step(self) -> None:
        if self.full:
            raise WriteFailed("no space left on device.\n  Make room.")
        super()._step()


def test_a_disk_that_is_full_is_told_and_counted_and_written_again() -> None:
    disk = Limited()
    made, _ = begun(disk)
    made.append(b"one", 0, 3)
    disk.full = True
    for k in range(3):
        made.append(b"lost", k, 2)
    assert made.failure == "no space left on device" and made.missed == 6
    assert (
        "6 datagrams are not in the journal, because it could not be written, and none is written now" in made.notes()
    )
    disk.full = False
    made.append(b"still lost", 5, 1)
    assert made.cut() == 2 and made.recover() and not made.recover()
    made.append(b"two", 6, 1)
    assert (made.failure, made.missed) == ("", 7) and made.notes()[0].endswith("could not be written")
    assert begun(disk)[1] == [b"one", None, b"two"]


def test_zeros_at_the_end_of_a_record_are_no_end_of_a_segment() -> None:
    disk = SimulatedDisk()
    begun(disk)[0].append(bytes(20), 0, 1)
    made, found = begun(disk)
    made.append(bytes(20), 0, 1)
    assert found == [bytes(20)] and begun(disk)[1] == [bytes(20), None, bytes(20)]


def test_a_long_segment_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "LONG", 60)
    disk = SimulatedDisk()
    made, _ = begun(disk, every=1000)
    for k in range(9):
        made.append(b"%d" % k, k, 1)
    assert len(made.segments) == 2 and made.append(b"9", 2000, 1) is None
    disk.crash()
    assert begun(disk)[1] == [b"%d" % k for k in range(10)]


@pytest.mark.parametrize("many", [0, 1, 5])
def test_a_step_is_written_and_read(many: int) -> None:
    luck = random.Random(many)
    payloads = [luck.randbytes(luck.randint(0, 90)) for _ in range(many)]
    whence = [(address(f"192.0.2.{k}"), 7 + k) for k in range(many)]
    sent = Datagrams.of(payloads, arrival=[k << 40 for k in range(many)], exporters=whence) if many else None
    over = tuple((address(f"192.0.2.{k}"), 65_536 + k) for k in range(many // 2))
    step = Step(1 << 60, sent, 7 << 40 if many > 1 else None, 0.25, many == 0, True, many == 5, over)
    read = Step.decoded(step.encoded())
    assert _plain(read) == _plain(step)
    assert (read.datagrams is None) == (many == 0)
    if read.datagrams is not None and sent is not None:
        for name in ("length", "arrival", "address", "port"):
            assert np.array_equal(getattr(read.datagrams, name), getattr(sent, name))
        data = read.datagrams.data.tobytes()
        places = zip(read.datagrams.offset.tolist(), read.datagrams.length.tolist(), strict=True)
        assert [data[at : at + length] for at, length in places] == payloads


def _plain(step: Step) -> tuple[object, ...]:
    return step.now, step.behind, step.filled, step.last, step.polled, step.began, step.closed


def test_a_step_of_the_version_before_is_read() -> None:
    """It knew of one socket, behind whose newest datagram older ones might wait, and of no connections."""
    head = struct.pack("<2B2xIqd", 1, 2 | 8, 2, 1 << 60, 0.5)
    arrays = [(np.int64, [5, 9]), (np.uint64, [0, 1, 0, 2]), (np.int32, [7, 8]), (np.int32, [1, 2])]
    read = Step.decoded(head + b"".join(np.array(values, kind).tobytes() for kind, values in arrays) + b"abb")
    assert _plain(read) == (1 << 60, 9, 0.5, False, True, False, ())
    assert read.datagrams is not None and read.datagrams.data.tobytes() == b"abb"
    assert read.datagrams.port.tolist() == [7, 8] and read.datagrams.arrival.tolist() == [5, 9]


def test_a_record_of_another_version_is_refused() -> None:
    content = Step(5, Datagrams.of([b"x"], exporters=[HERE])).encoded()
    for other in (b"\x03" + content[1:], b""):
        with pytest.raises(SourceError, match="this engine reads 01 and 02"):
            Step.decoded(other)
