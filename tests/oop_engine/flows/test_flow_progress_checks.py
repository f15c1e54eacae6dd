"""What exporters promise in a file is looked at by the clock of the datagrams, whatever else the file holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.flows import FLOW_SCHEMA, Datagrams, FlowDecoder, FlowExports
from oop_engine.sources.flows.progress_checks import OFTEN, SELDOM, Look, ProgressChecks
from oop_engine.sources.flows.source import FlowReader
from oop_engine.sources.live import Rules
from oop_engine.sources.live import source as live
from oop_engine.sources.live.hearing import Hearing
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.protocol import Chunk
from operators.data.page import Int64s
from punctuation import NO_TIME, GroupPromise, Punctuation
from tests.capture_files import ether, ipv4, pcap
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    a_set,
    address,
    four,
    ipfix,
    ipfix_templates,
    number,
    sflow,
    template,
    v5,
    v5_record,
    v9,
)

LAYOUT = template(256, [(8, 4), (1, 4), (152, 8), (153, 8)])
MILLI = SECOND // 1000


@attrs.frozen
class Sent:
    """A datagram of an exporter: when it came, ms since NOW, how far ahead its header is, and its flows' (start, end),
    ms before it was sent.
    """

    exporter: int
    came: int
    ahead: int
    flows: tuple[tuple[int, int], ...]
    port: int = 5000

    @property
    def payload(self) -> bytes:
        sent = NOW * 1000 + self.came + self.ahead
        records = b"".join(
            four("10.0.0.1") + number(7, 4) + number(sent - start, 8) + number(sent - end, 8)
            for start, end in self.flows
        )
        sets = [ipfix_templates(LAYOUT), *([a_set(256, records)] if records else [])]
        return ipfix(sets, seconds=sent // 1000, domain=self.exporter)

    @property
    def whence(self) -> tuple[bytes, int]:
        return address(f"192.0.2.{self.exporter}"), self.port


def block_of(sent: Sequence[Sent]) -> Datagrams:
    made = Datagrams.of(
        [one.payload for one in sent],
        arrival=[NOW * SECOND + one.came * MILLI for one in sent],
        exporters=[one.whence for one in sent],
    )
    return attrs.evolve(made, data=made.data.copy())


@attrs.define
class Reading:
    """What was promised before each datagram, as far as it counts: the highest bounds by attribute and exporter."""

    progress: ExporterProgress
    decoder: FlowDecoder
    bounds: dict[tuple[str, object], int] = attrs.field(factory=dict)
    before: list[dict[tuple[str, object], int]] = attrs.field(factory=list)

    @classmethod
    def of(cls, rules: Rules, step: int | None) -> Reading:
        progress = ExporterProgress(rules, ("ts", "end_ts"), by_exporter=True)
        progress.describe({"ts": Grain(step), "end_ts": Grain(step)})
        hearing = Hearing(progress)
        decoder = FlowDecoder(["ts", "end_ts"], heard=hearing)
        hearing.sessions = decoder.sessions
        return cls(progress, decoder)

    def look(self, now: int) -> None:
        self.say(self.progress.elapse(now))

    def say(self, promises: Sequence[Punctuation]) -> None:
        for promise in promises:
            group = GroupPromise.of(promise)
            if group is None:
                (name,) = promise.attributes
                self._rise((name, None), int(str(promise.bound(name))))
            else:
                for key in group.keys:
                    self._rise((str(group.shape[1]), key), int(str(group.bound)))

    def _rise(self, of: tuple[str, object], bound: int) -> None:
        self.bounds[of] = max(bound, self.bounds.get(of, bound))

    def follow(self, looks: Iterator[Look]) -> None:
        for times, datagrams in looks:
            for now in times:
                self.look(now)
            self.hear(datagrams)

    def hear(self, datagrams: Datagrams) -> None:
        all_of_it = {(name, key): self.bounds.get((name, None)) for name, key in self.bounds}
        more = {of: bound for of, bound in self.bounds.items() if of[1] is None or bound > (all_of_it[of] or NO_TIME)}
        self.before += [more] * len(datagrams)
        list(self.decoder.decode(datagrams))


flows = st.lists(
    st.tuples(st.integers(0, 9000), st.integers(0, 9000)).map(lambda ends: (max(ends), min(ends))), max_size=2
).map(tuple)
gaps = st.one_of(st.integers(0, 120), st.integers(0, 3000), st.integers(-300, 12_000))


@st.composite
def exports(draw: st.DrawFn) -> list[Sent]:
    came, found = 0, list[Sent]()
    ahead = draw(st.lists(st.integers(-9000, 9000), min_size=3, max_size=3))
    for _ in range(draw(st.integers(1, 10))):
        came += draw(gaps)
        who = draw(st.integers(1, 3))
        # Another port may be another exporter behind the same address, or the same that began anew.
        port = draw(st.sampled_from([5000, 5000, 5001]))
        found.append(Sent(who, came, ahead[who - 1], draw(flows), port))
    return found


spans = st.sampled_from([0, SECOND, 5 * SECOND])
rules = st.builds(
    Rules, active=st.one_of(st.none(), spans), inactive=st.one_of(st.none(), spans), scan=spans, settle=spans,
    lull=st.one_of(st.none(), spans), idle=st.sampled_from([2 * SECOND, 9 * SECOND]), correct=st.booleans(),
    trusted_after=st.sampled_from([1, 2]),
)  # fmt: skip


@given(exports(), rules, st.sampled_from([None, SECOND, 7 * SECOND]), st.data())
def test_few_looks_tell_what_a_look_at_every_tick_does(
    sent: list[Sent], rules: Rules, step: int | None, data: st.DataObject
) -> None:
    naive, found = Reading.of(rules, step), Reading.of(rules, step)
    every = min(max(OFTEN, (step or 0) // 20), SELDOM)
    latest = reached = sent[0].came * MILLI + NOW * SECOND
    between: list[Sent] = []
    for one in sent:
        reached = max(reached, one.came * MILLI + NOW * SECOND)
        if reached // every > latest // every:
            # What comes between two looks is heard together, as it is from a socket.
            naive.hear(block_of(between))
            between = []
            for tick in range(latest // every + 1, reached // every + 1):
                naive.look(tick * every)
        latest = reached
        between.append(one)
    naive.hear(block_of(between))

    looks = ProgressChecks(found.progress)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=3)))
    for at, to in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        block = block_of(sent[at:to])
        found.follow(looks.cut(block))
        # A block is good until the next is asked for.
        block.data[:], block.offset[:], block.arrival[:] = 255, 0, 0
    found.follow(looks.rest())
    assert found.before == naive.before
    told = (found.progress.late, found.progress.contradicted)
    assert told == (naive.progress.late, naive.progress.contradicted)


def test_where_it_is_looked_hangs_on_the_clock_and_on_what_is_asked() -> None:
    progress = ExporterProgress(Rules(), ("ts", "end_ts"))
    looks = ProgressChecks(progress)
    assert looks.every == OFTEN == live._OFTEN
    for step, every in ((None, OFTEN), (OFTEN, OFTEN), (4 * SECOND, SECOND // 5), (3600 * SECOND, SELDOM)):
        progress.describe({"ts": Grain(step)})
        assert looks.every == every
    progress.describe({"end_ts": Grain(2 * SECOND)})
    assert looks.every == SECOND // 10
    assert list(looks.cut(Datagrams.of([]))) == []


def flow_capture(sent: Sequence[Sent], noise: int) -> bytes:
    """Give a capture of datagrams, with so many packets of others behind each."""
    frames: list[tuple[int, bytes]] = []
    other = ether(ipv4(b"\0\x35\0\x35\0\x0c\0\0abcd", 17))
    for one in sent:
        payload = one.payload
        udp = (5000).to_bytes(2, "big") + (2055).to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + b"\0\0"
        came = NOW * SECOND + one.came * MILLI
        frames.append((came, ether(ipv4(udp + payload, 17))))
        frames += [(came, other)] * noise
    return pcap(frames)


SILENT = [Sent(1, 500 * k, 0, ((1500, 500),)) for k in range(60)] + [
    Sent(2, 500 * k + 100, 0, ((1500, 500),)) for k in (*range(20), *range(44, 60))
]
"""Two exporters, one of which is silent for 12 seconds, and then sends a record of before."""
BEHIND = [*SILENT, Sent(2, 22_000, 0, ((11_000, 11_000),))]


@pytest.mark.parametrize("noise", [0, 3, 400])
def test_other_packets_in_a_capture_change_nothing(tmp_path: Path, noise: int) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(flow_capture(sorted(BEHIND, key=lambda one: one.came), noise))
    exports = oop.netflow(
        path, progress="exporters", active="1 s", inactive="1 s", scan="0 s", settle="0 s", lull="3 s"
    )
    outcome = exports.window(range="1 s", wattr="ts").aggregate(oop.count()).run()
    assert (outcome.statistics.tuples, outcome.statistics.late) == (97, 1)
    assert sum(outcome.table["count"].to_pylist()) == 96


def chunks(path: Path, batch_rows: int, step: int) -> tuple[FlowReader, Iterator[Chunk]]:
    rules = Rules(active=SECOND, inactive=SECOND, scan=0, settle=0)
    reader = FlowExports([path], rules=rules).open(["ts", "bytes"], batch_rows)
    assert reader.describe({"ts": Grain(step)})
    return reader, iter(reader.chunks())


def test_records_between_two_promises_come_as_one_batch(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(flow_capture(SILENT[:60], 0))
    _, found = chunks(path, 65_536, 10 * SECOND)
    told = [len(chunk) if isinstance(chunk, pa.RecordBatch) else chunk.bound("ts") for chunk in found]
    # NOW is a multiple of ten seconds. Both timeouts are a second, so [ts < NOW + 10 s] is true once a header says 12.
    start = NOW * SECOND
    expected = [3, start - 10 * SECOND, 2, start, 20, start + 10 * SECOND, 20, start + 20 * SECOND, 14, 1]
    # The last waits for what comes with it, up to the end.
    assert told == expected
    _, found = chunks(path, 7, 10 * SECOND)
    assert max(len(chunk) for chunk in found if isinstance(chunk, pa.RecordBatch)) == 7


def test_who_asks_how_far_the_file_is_hears_it_behind_the_next_records(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(flow_capture(SILENT[:60], 0))
    reader, found = chunks(path, 65_536, 10 * SECOND)
    for chunk in found:
        if isinstance(chunk, Punctuation):
            break
    reader.poll()
    batch, said = next(found), next(found)
    assert isinstance(batch, pa.RecordBatch) and isinstance(said, Punctuation)
    # The header of the second at 1.5 s.
    assert said.bound("ts") == (NOW + 1 - 2) * SECOND


def came(payloads: Sequence[bytes], arrival: list[int] | None = None) -> Int64s:
    from oop_engine.sources.flows import progress_checks as looks

    return looks._came(Datagrams.of(list(payloads), arrival=arrival))


def test_what_was_not_captured_is_dated_by_its_header() -> None:
    payloads = [
        v5([v5_record()], seconds=NOW + 1), v9([], seconds=NOW + 2), ipfix([], seconds=NOW + 3), sflow([]),
        b"\0\x05\0\1", b"", ipfix([], seconds=7), b"\0\x07" + bytes(30),
    ]  # fmt: skip
    known = [(NOW + k) * SECOND for k in (1, 2, 3)] + [NO_TIME] * 5
    assert came(payloads).tolist() == known
    assert came(payloads, [NO_TIME, *[9] * 7]).tolist() == [known[0], *[9] * 7]
    assert came([b"\0"]).tolist() == [NO_TIME]
    assert came([]).tolist() == np.zeros(0, np.int64).tolist()


def test_messages_end_to_end_are_promised_by_the_times_they_were_sent(tmp_path: Path) -> None:
    path = tmp_path / "x.ipfix"
    path.write_bytes(b"".join(one.payload for one in SILENT[:60]))
    reader = FlowExports([path], rules=Rules(active=SECOND, inactive=SECOND, scan=0, settle=0)).open(
        ["ts", "bytes"], 65_536
    )
    reader.describe({"ts": Grain(SECOND)})
    bounds = [
        int(str(chunk.bound("ts"))) // SECOND - NOW for chunk in reader.chunks() if isinstance(chunk, Punctuation)
    ]
    assert bounds == list(range(bounds[0], 27)) and len(bounds) > 20
    assert FLOW_SCHEMA.field("ts").type == pa.timestamp("ns", "UTC")
