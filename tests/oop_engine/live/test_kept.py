"""What a collection knows of exporters outlives it: in a file that is whole at any time."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine import lock as lock_module
from oop_engine.lock import Lock
from oop_engine.sources.errors import SourceEnded, SourceError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.live import LiveFlows, Rules, kept
from oop_engine.sources.live.exporters import MINUTE, SECOND
from oop_engine.sources.live.kept import Kept, replace
from oop_engine.sources.live.progress import ExporterProgress
from operators.data.saved import decode_state, encode_state
from punctuation import Punctuation
from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    a_set,
    four,
    number,
    template,
    v5,
    v5_record,
    v9,
    v9_options,
    v9_templates,
)
from tests.oop_engine.live.collector import Collected, Time, bound, collect, send, senders

SURE = Rules(active=0, inactive=0, scan=0, settle=30 * SECOND, trusted_after=1, lull=None)


def flows(k: int, *, late: int = 0) -> bytes:
    """Give a datagram sent at second k, of a record of that second, or of `late` seconds earlier."""
    uptime = 1_000_000 + 1000 * k
    record = v5_record(first=uptime - 1000 * late, last=uptime - 1000 * late)
    return v5([record], sequence=k, seconds=NOW + k, uptime=uptime)


@pytest.fixture
def exporter() -> Iterator[socket.socket]:
    with senders("127.0.0.1") as (one,):
        yield one


def read(exporter: socket.socket, payloads: list[bytes], now: int, state: Path, **options: Any) -> Collected:
    """Collect datagrams that came at second `now`, from the port that an exporter keeps."""
    listening = bound()
    for payload in payloads:
        exporter.sendto(payload, listening.getsockname())
    clock = Time((NOW + now) * SECOND)
    return collect(listening, **{"most": len(payloads), "clock": clock, "rules": SURE, "state": state, **options})


def bounds(promises: list[Punctuation]) -> list[int | None]:
    return [None if (b := p.bound("ts")) is None else int(b) // SECOND - NOW for p in promises]


def told(state: Path, *seconds: int) -> ExporterProgress:
    """Give what is kept when an exporter was heard at these times."""
    progress = ExporterProgress(SURE)
    Kept(state).take_up(progress, FlowDecoder())
    assert [e.last // SECOND - NOW for e in progress.exporters] == list(seconds)
    return progress


def test_a_second_reading_goes_on_where_the_first_ended(exporter: socket.socket, tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = read(exporter, [flows(0)], 0, state)
    assert first.promises == [] and first.reader.notes() and told(state, 0).bound("ts") < 0
    second = read(exporter, [flows(40)], 40, state)
    assert bounds(second.promises) == [40] and told(state, 40).bound("ts") == (NOW + 40) * SECOND
    third = read(exporter, [flows(50, late=20), flows(51)], 51, state)
    assert bounds(third.promises) == [40, 51]
    (one,) = third.reader.exporters()
    assert (one.late, one.contradicted) == (1, 0)
    assert "resumed from" in third.reader.notes()[-1]
    assert "begin before 2025-06-15T15:07:31Z lack what came before it" in third.reader.notes()[-1]
    assert not any("lack" in note for note in first.reader.notes())
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_templates_are_kept_and_what_was_sent_while_nobody_listened_is_lost(
    exporter: socket.socket, tmp_path: Path
) -> None:
    state, record = tmp_path / "state", four("10.0.0.3") + number(3, 4)

    def sent(k: int, *sets: bytes) -> bytes:
        return v9([*sets, a_set(256, record)], sequence=k, seconds=NOW + k)

    read(exporter, [sent(0, v9_templates(template(256, [(8, 4), (1, 4)])))], 0, state)
    found = read(exporter, [sent(9), sent(10)], 10, state)
    (one,) = found.reader.exporters()
    assert [row["bytes"] for row in found.rows] == [3, 3]
    assert (one.counters.lost, one.counters.records, one.counters.held) == (8, 2, 0)


def test_nothing_is_promised_that_is_not_kept(exporter: socket.socket, tmp_path: Path) -> None:
    state = tmp_path / "state"
    read(exporter, [flows(0)], 0, state)
    listening = bound()
    exporter.sendto(flows(40), listening.getsockname())
    source = LiveFlows(listening, clock=Time((NOW + 40) * SECOND), rules=SURE, state=state)
    for chunk in source.open(source.arrow.names, 1000).chunks():
        if isinstance(chunk, Punctuation):
            # The collector dies here.
            assert told(state, 40).bound("ts") == chunk.bound("ts")
            break


def test_what_is_learnt_is_kept_though_nothing_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[int]()
    monkeypatch.setattr(kept, "replace", lambda path, content: written.append(1))
    keeping, progress = Kept(tmp_path / "state"), ExporterProgress(SURE)
    for now, latest, count in ((0, 0, 0), (20, 5, 1), (21, 6, 1), (31, 6, 2), (99, 6, 2), (100, 99, 3)):
        progress._latest = latest
        keeping.write_sometimes(progress, FlowDecoder(), now * SECOND)
        assert len(written) == count


def restarted(state: Path) -> FlowDecoder:
    """Give the decoder of a collector that begins with this file."""
    decoder = FlowDecoder()
    Kept(state).take_up(ExporterProgress(SURE), decoder)
    return decoder


A_LAYOUT, B_LAYOUT = [(1, 4), (2, 4)], [(2, 4), (1, 4)]


def taught(decoder: FlowDecoder, layout: list[tuple[int, int]], k: int, *, data: bool = True) -> list[tuple[int, int]]:
    """Send a template, and a record by it; give the bytes and packets that are read."""
    sets = [v9_templates(template(256, layout))] * bool(layout)  # type: ignore[arg-type]
    sets += [a_set(256, number(1000, 4) + number(1, 4))] * data
    sent = Datagrams.of([v9(sets, sequence=k)], exporters=[HERE], arrival=[(NOW + k) * SECOND])
    rows = [row for batch in decoder.decode(sent) for row in batch.to_pylist()]
    return [(row["bytes"], row["packets"]) for row in rows]


def test_a_template_that_was_changed_just_before_a_kill_is_in_the_file_with_the_promise_that_followed(
    tmp_path: Path,
) -> None:
    keeping, progress, decoder = Kept(tmp_path / "state"), ExporterProgress(SURE), FlowDecoder()
    keeping.write(progress, decoder, 0)
    for k, (layout, read_as) in enumerate([(A_LAYOUT, (1000, 1)), (B_LAYOUT, (1, 1000))]):
        assert taught(decoder, layout, k) == [read_as]
        keeping.write(progress, decoder, k * SECOND)
        assert taught(restarted(tmp_path / "state"), [], k + 1) == [read_as]


def test_a_template_that_was_changed_is_kept_soon_though_nothing_is_promised_and_one_sent_again_not_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping, progress, decoder = Kept(tmp_path / "state"), ExporterProgress(SURE), FlowDecoder()
    keeping.write(progress, decoder, 0)
    taught(decoder, A_LAYOUT, 0, data=False)
    keeping.write_sometimes(progress, decoder, kept.SOON)
    assert taught(restarted(tmp_path / "state"), [], 1) == [(1000, 1)]
    written = list[int]()
    monkeypatch.setattr(kept, "replace", lambda path, content: written.append(1))
    for k in range(1, 40):
        taught(decoder, A_LAYOUT, k, data=False)
        keeping.write_sometimes(progress, decoder, k * SECOND // 8)
    assert written == []
    for k in range(40, 60):
        # Who changes its templates all the time makes no more writing than that.
        taught(decoder, (A_LAYOUT, B_LAYOUT)[k % 2], k)
        keeping.write_sometimes(progress, decoder, 5 * SECOND + (k - 40) * kept.SOON // 4)
    assert len(written) == 5


def test_what_came_before_a_kill_is_not_lost_after_it_as_far_as_the_last_promise(tmp_path: Path) -> None:
    keeping, progress, decoder = Kept(tmp_path / "state"), ExporterProgress(SURE), FlowDecoder()
    for k in range(9):
        taught(decoder, A_LAYOUT if k == 0 else [], k)
        keeping.write(progress, decoder, k * SECOND)
    after = restarted(tmp_path / "state")
    taught(after, [], 11)
    assert [(c.lost, c.records) for c in after.exporters()] == [(2, 1)]


def announcing(layout: list[tuple[int, int]], *values: bytes) -> list[bytes]:
    return [v9_options(300, [(1, 4)], layout), a_set(300, number(0, 4) + b"".join(values))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sets",
    [
        announcing([(34, 4)], number(100, 4)),
        announcing([(48, 1), (50, 4)], number(5, 1), number(100, 4)),
        announcing([(36, 2), (37, 2)], number(60, 2), number(15, 2)),
        announcing([(160, 8)], number(NOW * 1000, 8)),
    ],
)
def test_what_options_tell_and_a_restart_forgets_is_new_once(sets: list[bytes]) -> None:
    decoder, moved = FlowDecoder(), list[int]()
    for k, sent in enumerate([sets[:1], sets[1:], sets[1:], sets, sets]):
        before = decoder.learnt
        one = Datagrams.of([v9(sent, sequence=k)], exporters=[HERE], arrival=[(NOW + k) * SECOND])
        list(decoder.decode(one))
        moved.append(decoder.learnt - before)
    assert [n > 0 for n in moved] == [True, True, False, False, False]
    before = decoder.learnt
    list(decoder.decode(Datagrams.of([v9([], sequence=0, uptime=0, seconds=NOW + 9)], exporters=[HERE])))
    assert decoder.exporters()[0].restarts == 1 and decoder.learnt > before


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    replace(state, b"first")
    replace(state, b"second")
    monkeypatch.setattr(kept.os, "fsync", no_space)
    with pytest.raises(SourceError, match="cannot be written: No space left"):
        Kept(state).write(ExporterProgress(SURE), FlowDecoder(), 0)
    assert state.read_bytes() == b"second" and list(tmp_path.iterdir()) == [state]


def test_a_disk_that_fills_up_ends_the_reading_after_what_has_arrived_and_nothing_more_is_promised(
    exporter: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    read(exporter, [flows(0)], 0, state)
    listening = bound()
    for k in range(40, 50):
        exporter.sendto(flows(k), listening.getsockname())
    clock = Time((NOW + 40) * SECOND)
    source = LiveFlows(listening, clock=clock, rules=SURE, state=state)
    given = list[Any]()
    with pytest.raises(SourceEnded, match=r'state=".*state" cannot be written: No space[^\0]*start again'):
        for chunk in source.open(source.arrow.names, 1000).chunks():
            given.append(chunk)
            if isinstance(chunk, Punctuation):
                # From now on the disk is full; more has arrived, and time goes on.
                monkeypatch.setattr(kept.os, "fsync", no_space)
                exporter.sendto(flows(60), listening.getsockname())
                clock.now += 60 * SECOND
    assert bounds([c for c in given if isinstance(c, Punctuation)]) == [49]
    assert sum(len(c) for c in given if not isinstance(c, Punctuation)) == 11
    assert told(state, 40).bound("ts") == (NOW + 49) * SECOND


def test_a_state_that_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept.os, "fsync", no_space)
    source = LiveFlows(listening := bound(), state=tmp_path / "state")
    send([flows(0)], listening)
    with pytest.raises(SourceError, match="cannot be written") as found:
        list(source.open(source.arrow.names, 1000).chunks())
    assert not isinstance(found.value, SourceEnded)


def test_a_second_collector_of_the_same_state_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = LiveFlows(bound(), state=state, lasting=1)
    reader = first.open(first.arrow.names, 1000)
    for _ in range(2):
        with pytest.raises(SourceError, match=f"is kept by another collector, the process {os.getpid()}, which"):
            LiveFlows("127.0.0.1:0", state=state).open(["ts"], 1000)
        assert not state.exists()
    other = LiveFlows("127.0.0.1:0", state=tmp_path / "other")
    other.open(other.arrow.names, 1000)
    list(reader.chunks())
    again = LiveFlows("127.0.0.1:0", state=state)
    assert again.open(again.arrow.names, 1000).resumed


def test_a_lock_ends_with_its_holder_however_it_ends(tmp_path: Path) -> None:
    held = Lock.beside(tmp_path / "state")
    del held
    gc.collect()
    with bound() as taken:
        source = LiveFlows(f"127.0.0.1:{taken.getsockname()[1]}", state=tmp_path / "state")
        reader = source.open(source.arrow.names, 1000)
        with pytest.raises(SourceError, match="cannot listen"):
            next(reader.chunks())
    again = Lock.beside(tmp_path / "state")
    assert (tmp_path / ".state.lock").read_text() == f"{os.getpid()}\n"
    again.release()
    assert not (tmp_path / ".state.lock").exists()


@pytest.mark.parametrize("linked", ["hard", "symbolic", "relative"])
def test_no_link_leads_around_the_lock_of_a_state(
    linked: str, exporter: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, other = tmp_path / "state", tmp_path / "other"
    read(exporter, [flows(0)], 0, state)
    if linked == "hard":
        other.hardlink_to(state)
    elif linked == "symbolic":
        other.symlink_to(state)
    else:
        monkeypatch.chdir(tmp_path)
        other = Path("state")
    first = Kept(state)
    first.lock()
    with pytest.raises(SourceError, match="is kept by another collector"):
        LiveFlows("127.0.0.1:0", state=other).open(["ts"], 1000)
    first.unlock()


def test_what_cannot_be_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".state.lock").mkdir()
    with pytest.raises(SourceError, match=r'its lock ".*\.state\.lock" cannot be opened: Is a directory'):
        Kept(tmp_path / "state").lock()
    monkeypatch.setattr(lock_module.fcntl, "flock", no_space)
    with pytest.raises(SourceError, match="cannot be locked: No space left on device; name a file on a disk of this"):
        Kept(tmp_path / "other").lock()


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("damage", [b"", b"hello", None])
def test_a_file_that_is_damaged_or_of_something_else_is_refused(
    damage: bytes | None, exporter: socket.socket, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    read(exporter, [flows(0)], 0, state)
    content = state.read_bytes()
    half = len(content) // 2
    state.write_bytes(content[:half] + b"!" + content[half + 1 :] if damage is None else damage)
    source = LiveFlows("127.0.0.1:0", state=state)
    with pytest.raises(SourceError, match="is not what a collector left") as found:
        source.open(source.arrow.names, 1000)
    assert str(state) in str(found.value) and "remove this one" in str(found.value)


def test_a_file_that_was_forged_is_refused_in_words_too(exporter: socket.socket, tmp_path: Path) -> None:
    state = tmp_path / "state"
    read(exporter, [flows(0)], 0, state)
    known = decode_state(state.read_bytes())
    for name, value in known.items():
        if not isinstance(value, pa.RecordBatch) or not len(value):
            continue
        nothing = [pa.nulls(len(value), field.type) for field in value.schema]
        forged = pa.RecordBatch.from_arrays(nothing, schema=value.schema)
        state.write_bytes(encode_state({**known, name: forged}))
        source = LiveFlows("127.0.0.1:0", state=state)
        with pytest.raises(SourceError, match="is not what a collector left"):
            source.open(source.arrow.names, 1000)


def test_a_state_is_of_what_is_live_and_promised_by_exporters(tmp_path: Path) -> None:
    with pytest.raises(oop.PlanError, match="keeps the promises that exporters make"):
        oop.netflow(listen="127.0.0.1:0", slack="5s", state=tmp_path / "state")
    with pytest.raises(oop.PlanError, match="keeps the promises that exporters make"):
        oop.netflow("exports.pcap", state=tmp_path / "state")


def test_skew_need_not_be_learnt_again(exporter: socket.socket, tmp_path: Path) -> None:
    state, rules = tmp_path / "state", Rules(settle=0, correct=True)
    ahead = [v5([v5_record()], sequence=k, seconds=NOW + k + 90) for k in range(3)]
    read(exporter, ahead, 2, state, rules=rules)
    hours = 3600 * 5
    found = read(exporter, [v5([v5_record()], sequence=9, seconds=NOW + hours + 90)], hours, state, rules=rules)
    (one,) = found.reader.exporters()
    assert one.state == "live" and one.offset == -90 * SECOND
    assert found.rows[0]["export_ts"] == (NOW + hours) * SECOND
    assert one.trails is not None and one.trails < MINUTE
