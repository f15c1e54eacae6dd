"""What a collector cannot take in time is sampled: what is kept says what it stands for, and all is accounted for."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.plan import Plan
from oop_engine.runtime import run_to_end
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.flows.parts import Parts
from oop_engine.sources.flows.sample import Sample
from oop_engine.sources.live import LiveFlows, Shedding
from oop_engine.sources.live.hearing import Hearing
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.shedding import Shedder
from operators.page import Page
from operators.protocol import Element
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
        kept = [shedder.choose(100, 1.0) for _ in range(4)]
        parts = zip(kept, np.split(octets, 4), strict=True)
        estimates.append(sum(float(part[s.kept].sum()) * s.rate for s, part in parts if s is not None))
    error = float(np.std(estimates)) / len(estimates) ** 0.5
    assert abs(float(np.mean(estimates)) - octets.sum()) < 4 * error < 0.05 * octets.sum()


def test_more_is_left_out_while_the_buffer_fills_and_nothing_when_it_is_empty() -> None:
    shedder = Shedder(Shedding(above=0.5, below=0.1, most=8))
    rates = []
    for filled in (0.0, 0.4, 0.5, 0.6, 1.0, 1.0, 0.3, 0.09, 0.05, 0.0, 0.0, 0.7, 0.0, 0.0):
        sample = shedder.choose(10, filled)
        rates.append(1 if sample is None else sample.rate)
    assert rates == [1, 1, 2, 4, 8, 8, 8, 4, 2, 1, 1, 4, 2, 1] and shedder.highest == 8
    full = Shedder(Shedding())
    assert [s.rate for s in (full.choose(1, 1.0), full.choose(1, 1.0), full.choose(1, 1.0)) if s] == [16, 64, 64]
    again = Shedder(Shedding(above=0.5, below=0.1, most=8))
    assert [again.choose(10, 1.0) is None for _ in range(3)] == [False] * 3
    one, other = Shedder(ALWAYS).choose(1000, 1.0), Shedder(ALWAYS).choose(1000, 1.0)
    assert one is not None and other is not None and one.kept.tolist() == other.kept.tolist()


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
    assert {row["sampling"] for row in found.rows} <= {1, 2, 4, 8, 16}
    assert any("left out under load" in note for note in found.reader.notes())


def test_promises_are_the_same_whatever_is_left_out() -> None:
    payloads = [flows(k) for k in range(400)]
    heard: list[list[object]] = []
    for shedding in (None, ALWAYS):
        listening = bound()
        send(payloads, listening)
        rules = attrs.evolve(AT_ONCE, active=0, inactive=0, scan=0)
        found = collect(listening, most=400, rules=rules, shedding=shedding)
        (exporter,) = found.reader.exporting.exporters
        heard.append([*map(str, found.promises), exporter.datagrams, exporter.last, exporter.skew])
        assert len(found.rows) == 400 if shedding is None else 40 < len(found.rows) < 180
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
