"""A reading of flow exports goes on inside a file, with the templates, sequences and promises that it had there."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.drive.checkpoints.job import opened
from oop_engine.drive.checkpoints.savepoint import taken as taken_at
from oop_engine.rewrite.passes import together
from oop_engine.sinks.disk import RealDisk
from oop_engine.sources.capture.supply import Stored
from oop_engine.sources.flows import FlowExports
from oop_engine.sources.live import Rules
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Snapshot
from operators.data.saved import decode_state, encode_state
from punctuation import Punctuation
from tests.capture_files import ether, ipv4, pcap
from tests.examples import mostly_slow
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    a_set,
    four,
    ipfix,
    ipfix_templates,
    number,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)

LAYOUT = template(256, [(8, 4), (1, 4), (152, 8), (153, 8)])
Row = tuple[str, object]


def payloads(many: int, seed: int = 1, kinds: tuple[str, ...] = ("ipfix", "v9", "v5")) -> list[bytes]:
    """Return datagrams of exporters; templates come seldom, some data before them, and some datagrams are lost."""
    luck, found = random.Random(seed), list[bytes]()
    for n in range(many):
        seconds, kind = NOW + n // 20, luck.choice(kinds)
        if luck.random() < 0.03:
            continue
        start = seconds * 1000 - luck.randint(0, 3000)
        times = number(start, 8) + number(start + 100, 8)
        records = b"".join(
            four(f"10.0.{luck.randint(0, 3)}.1") + number(n, 4) + times for _ in range(luck.randint(1, 4))
        )
        if kind == "ipfix":
            sets = [ipfix_templates(LAYOUT)] if n % 50 == 9 else []
            found.append(ipfix([*sets, a_set(256, records)], sequence=3 * n, seconds=seconds))
        elif kind == "v9":
            fields = template(300, [(8, 4), (1, 4)])
            data = a_set(300, b"".join(four("10.9.9.9") + number(n, 4) for _ in range(2)))
            found.append(v9([*([v9_templates(fields)] if n % 60 == 7 else []), data], sequence=n, seconds=seconds))
        else:
            found.append(v5([v5_record(octets=n)], sequence=n, seconds=seconds))
    return found


def capture(folder: Path, name: str = "a.pcap", many: int = 700, seed: int = 1) -> Path:
    udp = [struct.pack(">HHHH", 5000, 2055, 8 + len(p), 0) + p for p in payloads(many, seed)]
    frames = [((NOW * SECOND) + n * SECOND // 20, ether(ipv4(data, 17))) for n, data in enumerate(udp)]
    (folder / name).write_bytes(pcap(frames))
    return folder / name


def captures(folder: Path) -> list[Path]:
    return [capture(folder), capture(folder, "b.pcap", 200, 2)]


def stored(folder: Path) -> list[Path]:
    # Behind a datagram of NetFlow v9 another of them must stand.
    for name, kinds in (("a.ipfix", ("ipfix", "v5")), ("b.v9", ("v9",))):
        (folder / name).write_bytes(b"".join(payloads(400, 1, kinds)))
    return [folder / "a.ipfix", folder / "b.v9"]


def flat(chunks: object) -> list[Row]:
    """Return tuples and promises one by one."""
    found: list[Row] = []
    for chunk in chunks:  # pyright: ignore[reportGeneralTypeIssues]
        if isinstance(chunk, pa.RecordBatch):
            found += [("tuple", str(row)) for row in chunk.to_pylist()]
        else:
            found.append(("promise", str(chunk)))
    return found


def taken(source: FlowExports, tuples: int, promises: int) -> Placing:
    """Return where a reading is after so many tuples, and so many promises behind the last of them."""
    placing = Placing("it")
    for chunk in placing.chunks(source.open(source.arrow.names, 100)):
        assert not isinstance(chunk, Snapshot)
        if isinstance(chunk, Punctuation):
            if placing.tuples == tuples and placing.promises == promises:
                break
            placing.took(chunk)
            continue
        if placing.tuples == tuples:
            break
        assert isinstance(chunk, pa.RecordBatch)
        placing.took(chunk.slice(0, min(len(chunk), tuples - placing.tuples)))  # pyright: ignore[reportArgumentType]
    return placing


@pytest.mark.parametrize("rules", [None, Rules(active=0, inactive=0, settle=0)], ids=["plain", "promising"])
@pytest.mark.parametrize("make", mostly_slow([captures, stored], but=[stored]))
def test_a_reading_of_flows_goes_on_at_any_position(
    make: Callable[[Path], list[Path]], rules: Rules | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oop_engine.sources.flows.source.APART", 1 << 13)
    monkeypatch.setattr("oop_engine.sources.flows.source._SHARE", 0)
    monkeypatch.setattr("oop_engine.sources.flows.source._WALKED", 128)
    monkeypatch.setattr("oop_engine.sources.flows.captured._WALKED", 128)
    monkeypatch.setattr("oop_engine.sources.flows.stored._PIECE", 1 << 13)
    source = FlowExports(make(tmp_path), rules=rules)
    reader = source.open(source.arrow.names, 100)
    whole = flat(reader.chunks())
    kinds = [kind for kind, _ in whole]
    assert ("promise" in kinds) == (rules is not None) and kinds.count("tuple") > 800
    luck, marked = random.Random(5), 0
    for place in [1, len(whole), *(luck.randint(1, len(whole)) for _ in range(8))]:
        before = kinds[:place]
        promises = next((n for n, kind in enumerate(reversed(before)) if kind == "tuple"), 0)
        if "tuple" not in before:
            continue
        placing = taken(source, before.count("tuple"), promises)
        position = json.loads(json.dumps(placing.position()))
        again = Placing.of("it", position)
        again.state = None if placing.state is None else decode_state(encode_state(placing.state))
        marked += again.mark is not None
        going_on = source.open(source.arrow.names, 70)
        assert flat(again.chunks(going_on)) == whole[place:], (place, position)
        assert going_on.notes() == reader.notes()
    assert marked >= 7


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the bytes that are read of captures counted."""
    counts, read = [0], Stored._read  # pyright: ignore[reportPrivateUsage]

    def reading(self: Stored, start: int, there: int) -> bool:
        known = self.base + self.end
        more = read(self, start, there)
        counts[0] += self.base + self.end - min(known or start, self.base + self.end)
        return more

    monkeypatch.setattr(Stored, "_read", reading)
    return counts


def read_to_nine_tenths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, oop.Stream]:
    """Read a capture until a checkpoint near its end, and stop; return it, and the stream of results."""
    monkeypatch.setattr("oop_engine.sources.flows.source.APART", 1 << 14)
    monkeypatch.setattr("oop_engine.sources.flows.source._SHARE", 0)
    monkeypatch.setattr("oop_engine.sources.flows.source._WALKED", 256)
    monkeypatch.setattr("oop_engine.sources.capture.supply._BLOCK", 1 << 14)
    path = capture(folder, many=4000)
    results = sums(path)
    output = results.to(folder / "out.parquet")
    plan = together([output.stream.node])
    with opened(folder / "job", plan, [output.sink]) as job:
        from oop_engine.drive.circuit import Circuit

        with Circuit(plan, 500, crossed=lambda place, port, element: job.outputs[0](element)) as circuit:
            job.place(circuit)
            circuit.prepare()
            job.restore(circuit)
            chunks = circuit.open(0)
            while circuit.progress(0)[0] < 0.9 * path.stat().st_size:
                for page in circuit.pages(0, next(chunks)):
                    circuit.give(0, 0, page)
            job.commit(job.take(circuit))
    return path, results


def sums(path: Path) -> oop.Stream:
    return oop.netflow(path).window(range="10 s").aggregate(oop.count(), oop.sum("bytes"), by="srcIP")


def test_a_changed_query_knows_the_templates_of_its_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no more again than the same query, and its further output begins where the savepoint was."""
    path, results = read_to_nine_tenths(tmp_path, monkeypatch)
    taken_at(tmp_path / "job", "before", RealDisk())
    flows = oop.netflow(path)
    same = flows.window(range="10 s").aggregate(oop.count(), oop.sum("bytes"), by="srcIP")
    further = flows.window(range="20 s").aggregate(oop.max("packets"), by="destIP")
    counts = counted(monkeypatch)
    oop.run_outputs(
        [same.to(tmp_path / "out.parquet"), further.to(tmp_path / "further.csv")],
        checkpoint=tmp_path / "job", savepoint="before",
    )  # fmt: skip
    assert counts[0] < 0.15 * path.stat().st_size, f"{counts[0]:,} of {path.stat().st_size:,} bytes"
    order = [("window_start", "ascending"), ("srcIP", "ascending")]
    found = pq.read_table(tmp_path / "out.parquet").sort_by(order).to_pylist()
    assert found == results.to_arrow().sort_by(order).to_pylist()
    assert len((tmp_path / "further.csv").read_text().splitlines()) > 2


def test_a_run_that_goes_on_reads_the_last_interval_of_a_capture_again_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, results = read_to_nine_tenths(tmp_path, monkeypatch)
    output = results.to(tmp_path / "out.parquet")
    counts = counted(monkeypatch)
    output.run(checkpoint=tmp_path / "job")
    assert counts[0] < 0.15 * path.stat().st_size, f"{counts[0]:,} of {path.stat().st_size:,} bytes"
    found = pq.read_table(tmp_path / "out.parquet")
    order = [("window_start", "ascending"), ("srcIP", "ascending")]
    assert found.sort_by(order).to_pylist() == results.to_arrow().sort_by(order).to_pylist()


def test_what_was_learnt_and_does_not_fit_is_refused(tmp_path: Path) -> None:
    source = FlowExports([capture(tmp_path, many=200)])
    placing = Placing("it", 5, 0, {"file": 0, "place": None, "told": []}, 5)
    placing.state = {"decoder.table": 7}
    with pytest.raises(oop.CheckpointError, match="templates and exporters cannot be taken up"):
        next(placing.chunks(source.open(source.arrow.names, 100)))
