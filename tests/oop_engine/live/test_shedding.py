"""What a collector cannot take in time is sampled: what is kept says what it stands for, and all is accounted for."""

from __future__ import annotations

import random

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.runtime import run_to_end
from oop_engine.plan.graph import Plan
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.flows.parts import Parts
from oop_engine.sources.flows.sample import Sample
from oop_engine.sources.live import LiveFlows, Shedding
from oop_engine.sources.live.hearing import Hearing
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.shedding import Shedder
from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.protocol import Element
from tests.examples import mostly_slow
from tests.oop_engine.flows.exporter import (
    NOW,
    a_set,
    flow_sample,
    four,
    header_record,
    ipfix,
    ipfix_templates,
    number,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)
from tests.oop_engine.live.collector import AT_ONCE, bound, collect, send

TENTH = 100_000_000
"""Nanoseconds after which a shedder may change its mind."""
ALWAYS = Shedding(above=0.0, below=0.0, most=4)
"""One of four is kept at once, whether there is any need or not."""


def flows(k: int, count: int = 1) -> bytes:
    return v5([v5_record(octets=100 + k)] * count, sequence=k * count, seconds=NOW + k // 8)


def mixed(k: int) -> bytes:
    """Give datagrams of all protocols by turns, templates among them; the k-th counts k bytes."""
    match k % 4:
        case 0:
            return flows(k, 1 + k % 3)
        case 1:
            what = [v9_templates(template(256, [(8, 4), (1, 4)]))] if k % 8 == 1 else []
            return v9([*what, a_set(256, (four("10.0.0.3") + number(k, 4)) * (1 + k % 3))], sequence=k // 4)
        case 2:
            layout = template(257, [(8, 4), (1, 4), (152, 8)])
            row = four("10.0.0.4") + number(k, 4) + number((NOW + k) * 1000, 8)
            return ipfix([ipfix_templates(layout), a_set(257, row)], sequence=k // 4)
        case _:
            return sflow([flow_sample([header_record(bytes(64))])], sequence=k // 4)


def rows_of(payloads: list[bytes], sample: Sample | None, decoder: FlowDecoder) -> list[dict[str, object]]:
    batches = decoder.decode(Datagrams.of(payloads, exporters=[(bytes(16), 1)] * len(payloads)), sample)
    return [row for batch in batches for row in batch.to_pylist()]


@given(st.lists(st.booleans(), min_size=24, max_size=24), st.integers(2, 64))
def test_kept_records_are_as_without_a_sample_but_for_what_they_stand_for(kept: list[bool], rate: int) -> None:
    payloads = [mixed(k) for k in range(24)]
    whole, sampled = FlowDecoder(), FlowDecoder()
    each = [rows_of([payload], None, whole) for payload in payloads]
    found = rows_of(payloads, Sample(np.array(kept), rate), sampled)
    expected = [row for rows, keep in zip(each, kept, strict=True) if keep for row in rows]
    assert found == [{**row, "sampling": row["sampling"] * rate} for row in expected]  # type: ignore[operator]
    (told,), (all_of_it,) = ([sum_up(d)] for d in (sampled, whole))
    assert told["shed"] == sum(len(rows) for rows, keep in zip(each, kept, strict=True) if not keep)
    assert {**told, "shed": 0} == all_of_it


def sum_up(decoder: FlowDecoder) -> dict[str, int]:
    """Add up what was counted of all exporters."""
    names = ("datagrams", "records", "templates", "lost", "reordered", "duplicated", "no_template", "held", "shed")
    return {name: sum(getattr(c, name) for c in decoder.exporters()) for name in names}


def test_the_sum_over_what_is_kept_is_right_in_expectation() -> None:
    octets = np.random.default_rng(5).pareto(1.5, 400) * 1000
    estimates = []
    for seed in range(2000):
        shedder = Shedder(attrs.evolve(ALWAYS, seed=seed, most=8))
        kept = [shedder.choose(100, filled, k * TENTH, idle=False) for k, filled in enumerate((0.3, 0.4, 0.5, 1.0))]
        parts = zip(kept, np.split(octets, 4), strict=True)
        estimates.append(sum(float((part * s.rates)[s.kept].sum()) for s, part in parts if s is not None))
    error = float(np.std(estimates)) / len(estimates) ** 0.5
    assert abs(float(np.mean(estimates)) - octets.sum()) < 4 * error < 0.05 * octets.sum()


def rates(shedder: Shedder, looks: list[tuple[float, bool]], every: int = TENTH) -> list[float]:
    """Look at a buffer that is filled so far, and was found empty or not, so often; give the rates, rounded."""
    found = list[float]()
    for k, (filled, idle) in enumerate(looks, 1):
        shedder.choose(10, filled, k * every, idle=idle)
        found.append(round(shedder.rate, 2))
    return found


def test_more_is_left_out_while_the_buffer_fills_and_nothing_when_it_is_empty() -> None:
    shedder = Shedder(Shedding(above=0.5, below=0.1, most=8))
    filling = [(0.0, False), (0.4, False), (0.5, False), (0.75, False), (1.0, False), (1.0, False), (1.0, False)]
    assert rates(shedder, filling) == [1, 1, 1.19, 1.83, 3.67, 7.34, 8] and shedder.highest == 8
    emptied = [(0.7, False), (0.3, False), (0.09, False), (0.0, True), (0.0, True), (0.0, True), (0.0, True)]
    # While it empties, that is seen to the end.
    assert rates(shedder, emptied) == [8, 8, 7.34, 3.67, 1.83, 1, 1]
    assert rates(Shedder(Shedding()), [(1.0, False)] * 4) == [2, 4, 8, 16]
    one, other = (Shedder(ALWAYS).choose(1000, 1.0, 0, idle=False) for _ in range(2))
    assert one is not None and other is not None and one.kept.tolist() == other.kept.tolist()


def test_nothing_is_left_out_by_who_keeps_up_however_full_a_small_buffer_is_at_each_look() -> None:
    shedder = Shedder(Shedding())
    assert rates(shedder, [(0.9, True)] * 50) == [1.0] * 50 and shedder.shed == 0
    # A thousand looks within a tenth of a second are as one.
    assert rates(Shedder(Shedding()), [(0.5, False)] * 99, TENTH // 100)[-1] == 1.41


@pytest.mark.parametrize("room", [100, 1000, 100_000])
@pytest.mark.parametrize("load", mostly_slow([0.5, 0.95, 1.15, 2.0, 8.0], but=[0.95, 2.0]))
def test_about_as_much_is_kept_as_can_be_taken(load: float, room: int) -> None:
    """A collector can take 10,000 datagrams a second, or look over 50 times as many, in steps of 1 ms at least."""
    shedder, waiting, dropped, kept, came, idle = Shedder(Shedding()), 0.0, 0.0, 0, 0.0, False
    due, now, seconds = 0.0, 0, 60
    while now < seconds * 10 * TENTH:
        # What comes while the last ones were taken in.
        step = max(due, 0.001)
        idle |= due < 0.001
        now, came = now + int(step * 10 * TENTH), came + step * 10_000 * load
        dropped += max(0.0, waiting + step * 10_000 * load - room)
        waiting = min(float(room), waiting + step * 10_000 * load)
        many = min(512, int(waiting))
        sample = shedder.choose(many, waiting / room, now, idle=idle)
        taken = many if sample is None else int(np.count_nonzero(sample.kept))
        kept, waiting = kept + taken, waiting - many
        due, idle = taken / 10_000 + (many - taken) / 500_000, False
    can = min(1.0, (1 - load / 50) / load / (1 - 1 / 50)) if load > 1 else 1.0
    least = {100: 0.5, 1000: 0.85, 100_000: 0.95}[room]
    assert least * can <= kept / came <= can + 0.02 and dropped / came < 0.1


@pytest.mark.parametrize("wrong", [{"above": 1.5}, {"below": -0.1}, {"most": 0}])
def test_rules_of_shedding_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Shedding(**wrong)  # type: ignore[arg-type]


def test_kept_and_shed_and_dropped_are_what_was_sent() -> None:
    listening = bound(buffer=40_000)
    sent = 2000
    send([flows(k, 2) for k in range(sent)], listening)
    found = collect(listening, most=sent, buffer=40_000, shedding=Shedding(above=0.1, below=0.0, most=16))
    assert found.reader.door is not None and found.reader.shedder is not None
    door, (one,) = found.reader.door, found.reader.exporters()
    kept = {row["bytes"] for row in found.rows}
    assert len(kept) + found.reader.shedder.shed + door.dropped == sent and door.dropped > 0
    assert found.reader.shedder.shed > 0 and len(found.rows) + one.counters.shed == one.counters.records
    assert one.counters.records == 2 * door.received
    assert {row["sampling"] for row in found.rows} <= set(range(1, 17))
    assert any("left out under load" in note for note in found.reader.notes())


def test_promises_are_the_same_whatever_is_left_out() -> None:
    payloads = [flows(k) for k in range(400)]
    heard: list[list[object]] = []
    for shedding in (None, ALWAYS):
        # They take three quarters of it.
        listening = bound(buffer=200_000)
        send(payloads, listening)
        rules = attrs.evolve(AT_ONCE, active=0, inactive=0, scan=0)
        found = collect(listening, most=400, rules=rules, shedding=shedding, buffer=200_000)
        (exporter,) = found.reader.exporting.exporters
        heard.append([*map(str, found.promises), exporter.datagrams, exporter.last, exporter.skew])
        assert len(found.rows) == 400 if shedding is None else 100 < len(found.rows) < 350
    assert heard[0] == heard[1]


def test_who_is_left_out_altogether_is_heard_all_the_same() -> None:
    progress = ExporterProgress(AT_ONCE, ("ts",))
    hearing = Hearing(progress)
    decoder = FlowDecoder(heard=hearing)
    hearing.sessions = decoder.sessions
    assert rows_of([flows(k) for k in range(3)], Sample(np.zeros(3, np.bool_), 8), decoder) == []
    (exporter,) = progress.exporters
    assert exporter.datagrams == 3 and exporter.trailing == {} and decoder.exporters()[0].shed == 3
    batch = pa.RecordBatch.from_pylist([], decoder.schema)
    none = np.zeros(0, np.int64)
    assert hearing(batch, Parts(none, none, none, none, none, none > 0)) is batch


def total(query: str, *, shed: bool) -> int:
    """Run a query over 300 datagrams that came before it began; give the sum of its column n."""
    with bound() as listening:
        send([flows(k) for k in range(300)], listening)
        stream = oop.query(query, {"Flows": oop.netflow(listen=listening, most=300, settle="0s", shed=shed)})
        found: list[int] = []

        def take(element: Element) -> None:
            if isinstance(element, Page):
                found.extend(element["n"].tolist())

        run_to_end(Plan((stream.node,)), (take,))
    return sum(found)


def test_a_query_must_read_what_its_records_stand_for() -> None:
    with pytest.raises(SourceError, match=r"(?s)nothing reads sampling.*sum\(bytes \* sampling\)"):
        total("SELECT sum(bytes) AS n [RANGE 1 hour, WA ts] FROM Flows", shed=True)
    sampled = "SELECT sum(bytes * sampling) AS n [RANGE 1 hour, WA ts] FROM Flows"
    assert total(sampled, shed=True) == total(sampled, shed=False) == sum(100 + k for k in range(300))
    with pytest.raises(oop.PlanError, match="files are read no faster"):
        oop.netflow("exports.pcap", shed=True)
    source = LiveFlows("127.0.0.1:0", shedding=Shedding())
    with pytest.raises(SourceError, match="which tells n"):
        source.open(["ts", "bytes"], 1000)


def test_saved_anywhere_it_chooses_as_if_nothing_had_been() -> None:
    luck = random.Random(2)
    looks = [(luck.randint(1, 40), luck.random(), luck.random() < 0.2) for _ in range(200)]

    def chosen(shedder: Shedder, part: range) -> list[tuple[list[bool], list[int]] | None]:
        found = [shedder.choose(looks[k][0], looks[k][1], k * 10**8, idle=looks[k][2]) for k in part]
        return [None if one is None else (one.kept.tolist(), np.asarray(one.rates).tolist()) for one in found]

    whole = Shedder(Shedding())
    expected = chosen(whole, range(200))
    assert whole.shed > 500
    for cut in (0, 1, 77, 150):
        before, after = Shedder(Shedding()), Shedder(Shedding(seed=9))
        assert chosen(before, range(cut)) == expected[:cut]
        after.restore(decode_state(encode_state(before.state())))
        assert chosen(after, range(cut, 200)) == expected[cut:]
        assert after.state() == whole.state()
