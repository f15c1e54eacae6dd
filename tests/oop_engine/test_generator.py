"""Generated streams are the same for a seed, and have the disorder, shares, skew and lulls they were asked for."""

from __future__ import annotations

import dpkt
import numpy as np
import pyarrow as pa
import pytest

from oop_engine.sources.capture import Capture
from oop_engine.sources.generator import SECOND, START, Band, Blocks, packets
from oop_engine.sources.recording import write_parquet, write_pcap
from oop_engine.sources.tables import Table
from operators.data.page import Page
from operators.drive import drive
from operators.streams.input import Input
from punctuation import END, BlockEnd, Punctuation, Slack, low_watermarks

KINDS = {
    "ordered": {},
    "band": {"disorder": Band(SECOND // 2), "late_share": 0.3},
    "exponential": {"disorder": Band(SECOND, shape="exponential")},
    "blocks": {"disorder": Blocks(SECOND // 4)},
    "lulls": {"lulls": ((SECOND, 5 * SECOND), (8 * SECOND, SECOND)), "disorder": Band(SECOND)},
}


def table(n=100_000, **options) -> pa.Table:
    generated = packets(n, **{"rate": 50_000, "sources": 500, "arrival": True, **options})
    return pa.Table.from_batches(list(generated.batches()), schema=generated.schema)


def ticks(found: pa.Table, name: str) -> np.ndarray:
    return found[name].combine_chunks().view(pa.int64()).to_numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes_at_any_batch_size(kind):
    whole = table(**KINDS[kind]).combine_chunks()
    for size in (1000, 70_000):
        generated = packets(100_000, rate=50_000, sources=500, arrival=True, batch_rows=size, **KINDS[kind])
        batches = list(generated.batches())
        assert [len(b) for b in batches[:-1]] == [size] * (len(batches) - 1)
        assert pa.Table.from_batches(batches).combine_chunks().equals(whole)
    assert not table(seed=1, **KINDS[kind]).equals(whole)
    assert not table(link="Main2", **KINDS[kind]).equals(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_arrive_in_order_of_arrival_and_none_is_lost(kind):
    found = table(**KINDS[kind])
    assert found.num_rows == 100_000
    arrival = ticks(found, "arrival_ts")
    assert (np.diff(arrival) >= 0).all()
    assert (arrival >= ticks(found, "ts")).all()
    ordered = table(lulls=KINDS[kind].get("lulls", ()))
    np.testing.assert_array_equal(np.sort(ticks(found, "ts")), ticks(ordered, "ts"))


def test_band_disorder_is_a_band_around_the_line():
    ts = ticks(table(disorder=Band(SECOND // 2), late_share=0.2), "ts")
    lag = np.maximum.accumulate(ts) - ts
    assert 0.9 * SECOND / 2 < lag.max() <= SECOND // 2
    assert 0.15 < (lag > 0.01 * SECOND).mean() < 0.2
    ordered = ticks(table(), "ts")
    assert (np.diff(ordered) >= 0).all()
    assert START <= ordered[0] < START + SECOND // 50_000


def test_a_slack_of_the_band_loses_nothing_and_a_smaller_one_does():
    generated = packets(100_000, rate=50_000, disorder=Band(SECOND // 2))
    for slack, late in ((SECOND // 2, False), (SECOND // 4, True)):
        read = Input((Slack("ts", slack, step=SECOND // 10),))
        drive(read, [e for e in generated.elements() if isinstance(e, Page)])
        assert (read.statistics()["late"] > 0) is late


def test_blocks_ascend_and_are_shuffled_inside():
    ts = ticks(table(disorder=Blocks(SECOND // 4)), "ts")
    block = (ts - START) * 4 // SECOND
    assert (np.diff(block) >= 0).all()
    assert block[-1] == 7
    for number in range(8):
        inside = ts[block == number]
        assert abs(np.corrcoef(np.arange(len(inside)), inside)[0, 1]) < 0.05


def test_the_promise_at_each_block_s_end_is_true_and_as_high_as_it_can_be():
    elements = list(packets(100_000, rate=50_000, disorder=Blocks(SECOND // 4)).elements(page_rows=999))
    assert elements[-1] == END
    ts = np.concatenate([e.ticks("ts") for e in elements if isinstance(e, Page)])
    lwm = low_watermarks(ts)
    read, bounds = 0, []
    for element in elements[:-1]:
        if isinstance(element, Punctuation):
            bound = element.bound("ts")
            assert bound <= lwm[read - 1]
            assert ts[:read].max() < bound
            bounds.append(bound)
        else:
            read += len(element)
    assert bounds == [START + (k + 1) * SECOND // 4 for k in range(8)]
    # The punctuator of blocks knows a block's end one tuple later.
    punctuator = BlockEnd("ts", length=SECOND // 4, begin=START)
    assert punctuator.observe(ts)[1].tolist() == [START, *bounds[:-1]]


def test_sources_follow_the_bounded_zipf_law():
    found = table(200_000, sources=50, zipf=1.1)
    counts = np.sort(found["srcIP"].combine_chunks().value_counts().field("counts").to_numpy())[::-1]
    shares = np.arange(1, 51) ** -1.1
    np.testing.assert_allclose(counts / 200_000, shares / shares.sum(), rtol=0.12)
    assert len(table(200_000, sources=50, zipf=0.0)["srcIP"].unique()) == 50
    assert len(table(1000, sources=1)["srcIP"].unique()) == 1


def test_skew_moves_arrival_and_not_time():
    plain, skewed = table(disorder=Band(SECOND)), table(disorder=Band(SECOND), skew=7 * SECOND)
    np.testing.assert_array_equal(ticks(plain, "ts"), ticks(skewed, "ts"))
    np.testing.assert_array_equal(ticks(plain, "arrival_ts") + 7 * SECOND, ticks(skewed, "arrival_ts"))


def test_nothing_is_sent_in_a_lull():
    ts = ticks(table(lulls=((SECOND, 5 * SECOND),)), "ts") - START
    assert not ((ts > SECOND) & (ts < 6 * SECOND)).any()
    assert 6.9 * SECOND < ts.max() < 7 * SECOND
    assert np.diff(ts).max() >= 5 * SECOND


@pytest.mark.parametrize("nanosecond", [False, True])
def test_a_written_capture_is_one_that_others_read(tmp_path, nanosecond):
    generated = packets(3000, sources=20, disorder=Band(SECOND))
    path = tmp_path / "x.pcap"
    assert write_pcap(generated, path, nanosecond=nanosecond) == 3000
    made = pa.Table.from_batches(list(generated.batches()))
    expected = made.to_pylist()
    with open(path, "rb") as file:
        seen = list(dpkt.pcap.Reader(file))
    assert len(seen) == 3000
    for (_, data), row in zip(seen, expected, strict=True):
        ip = dpkt.ethernet.Ethernet(data).data
        assert (ip.src, ip.dst, ip.p) == (row["srcIP"][12:], row["destIP"][12:], row["proto"])
        assert (ip.data.sport, ip.data.dport) == (row["srcPort"], row["destPort"])
        assert len(data) == min(96, row["length"])
        checked = dpkt.in_cksum(bytes(data[14:34]))
        assert checked == 0, "the header's checksum is right"
        assert row["flags"] is None if ip.p == 17 else ip.data.flags == row["flags"]
    ours = pa.Table.from_batches(list(Capture(path, columns=generated.schema.names).batches()))
    kept = 1 if nanosecond else 1000
    np.testing.assert_array_equal(ticks(ours, "ts") // kept, ticks(made, "ts") // kept)
    assert ours["length"].to_pylist() == [row["length"] for row in expected]


def test_a_written_parquet_file_is_the_stream(tmp_path):
    generated = packets(5000, disorder=Blocks(SECOND // 100))
    assert write_parquet(generated, tmp_path / "x.parquet") == 5000
    read = Table(tmp_path / "x.parquet")
    assert read.schema.equals(generated.schema, check_metadata=True)
    assert pa.Table.from_batches(list(read.batches())).equals(pa.Table.from_batches(list(generated.batches())))


def test_an_empty_stream_is_only_its_end():
    for disorder in (None, Band(SECOND), Blocks(SECOND)):
        assert list(packets(0, disorder=disorder).elements()) == [END]
        assert list(packets(0, disorder=disorder).batches()) == []


@pytest.mark.parametrize("options", [{"n": -1}, {"rate": 0}, {"sources": 0}, {"late_share": 2}, {"batch_rows": 0}])
def test_numbers_out_of_range_are_refused_with_their_name(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        packets(**{"n": 1, **options})


def test_durations_are_text_or_nanoseconds():
    assert Band("2 s") == Band(2 * SECOND) and Blocks("1h30m") == Blocks(5400 * SECOND)
    said = packets(100, rate=10, skew="20 s", lulls=[("1 s", "5 s")])
    assert said == packets(100, rate=10, skew=20 * SECOND, lulls=((SECOND, 5 * SECOND),))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Band(-1), "'max' must be >= 0: -1"),
        (lambda: Band("2 parsecs"), 'unknown unit "parsecs"'),
        (lambda: Band("0.5 ns"), "no whole number of nanoseconds"),
        (lambda: Band(0.5), '0.5 is no duration; write text such as "2 s"'),
        (lambda: packets(1, lulls=[("1 s", -1)]), "neither negative"),
    ],
)
def test_what_is_no_duration_is_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()
