"""A reading that begins at a position gives what the whole reading gives behind it, and reads little before that."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.drive.checkpoints.job import opened
from oop_engine.rewrite.passes import together
from oop_engine.sources.generator import packets
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Snapshot, Source
from oop_engine.sources.recording import write_pcap
from punctuation import Punctuation
from punctuation.schedule import Unfolding
from tests.capture_files import enhanced, interface, noise, section
from tests.examples import mostly_slow

TABLE = pa.table({"ts": [i + i * 7 % 50 for i in range(9000)], "v": [f"{i % 97} text" for i in range(9000)]})


def parquet(folder: Path) -> list[Path]:
    pq.write_table(TABLE.slice(0, 5000), folder / "a.parquet", row_group_size=1000)
    pq.write_table(TABLE.slice(5000), folder / "b.parquet", row_group_size=1500)
    return [folder / "a.parquet", folder / "b.parquet"]


def lines(folder: Path) -> list[Path]:
    arrow_csv.write_csv(TABLE, folder / "a.csv")
    return [folder / "a.csv"]


def marked_lines(folder: Path) -> list[Path]:
    (path,) = lines(folder)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    return [path, path]


def packed(folder: Path) -> list[Path]:
    (path,) = lines(folder)
    (folder / "a.csv.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    return [path, folder / "a.csv.gz", path]


def objects(folder: Path) -> list[Path]:
    (folder / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()))
    return [folder / "a.ndjson"]


def arrow(folder: Path) -> list[Path]:
    with pa.ipc.new_file(folder / "a.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=700)
    with pa.ipc.new_stream(folder / "b.arrows", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=700)
    return [folder / "a.arrow", folder / "b.arrows"]


def captures(folder: Path) -> list[Path]:
    write_pcap(packets(3000, rate=100, seed=1), folder / "a.pcap")
    write_pcap(packets(2000, rate=100, seed=2), folder / "b.pcap", nanosecond=True)
    return [folder / "a.pcap", folder / "b.pcap"]


def blocks(folder: Path) -> list[Path]:
    """Write two sections, the second with two interfaces of other clocks; the last one comes within the packets."""
    first = section() + interface() + b"".join(enhanced(n, data) for n, (_, data) in enumerate(noise(1500)))
    rest = b"".join(enhanced(10**9 + n, data, which=n % 2) for n, (_, data) in enumerate(noise(1500)))
    second = section() + interface(resolution=9) + interface() + rest
    more = interface(resolution=9) + b"".join(enhanced(n, data, which=2) for n, (_, data) in enumerate(noise(900)))
    (folder / "a.pcapng").write_bytes(first + second + more)
    return [folder / "a.pcapng"]


HEAD = "#separator \\x09\n#path\tconn\n#fields\tts\tid.orig_h\tv\n#types\ttime\taddr\tstring\n"


def logs(folder: Path) -> list[Path]:
    rows = [f"{1_700_000_000 + i}.5\t10.0.0.{i % 200}\tvalue {i}\n" for i in range(6000)]
    (folder / "a.log").write_text(HEAD + "".join(rows[:3000]) + "#close\n" + HEAD + "".join(rows[3000:]))
    (folder / "b.log").write_text(HEAD + "".join(rows[:2500]) + "1700000000.5\t10.")
    return [folder / "a.log", folder / "b.log"]


def log_objects(folder: Path) -> list[Path]:
    lines_ = (json.dumps({"ts": 1_700_000_000.5 + i, "id.orig_h": f"10.0.0.{i % 200}", "v": i}) for i in range(6000))
    (folder / "a.log").write_text("".join(f"{line}\n" for line in lines_))
    return [folder / "a.log"]


def packed_logs(folder: Path) -> list[Path]:
    (_, short) = logs(folder)
    (folder / "c.log.gz").write_bytes(gzip.compress(short.read_bytes(), 1))
    return [short, folder / "c.log.gz", short]


def _table(chunks: object, schema: pa.Schema) -> pa.Table:
    found = [chunk for chunk in chunks if isinstance(chunk, pa.RecordBatch)]  # pyright: ignore[reportGeneralTypeIssues]
    return pa.Table.from_batches(found, schema=schema).combine_chunks()


def _at(source: Source, taken: int, rows: int) -> Placing:
    """Return where a reading is after so many tuples."""
    placing = Placing("it")
    for chunk in placing.chunks(source.open(source.arrow.names, rows)):
        assert not isinstance(chunk, Punctuation | Snapshot)
        placing.took(chunk.slice(0, min(len(chunk), taken - placing.tuples)))
        if placing.tuples == taken:
            break
    return placing


MAKERS = [parquet, lines, marked_lines, packed, objects, arrow, captures, blocks, logs, log_objects, packed_logs]


@pytest.mark.parametrize("make", mostly_slow(MAKERS, every=3))
def test_a_reading_goes_on_at_any_position(
    make: Callable[[Path], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oop_engine.sources.text.PIECE", 1 << 13)
    source = oop.read(*make(tmp_path)).node.source  # pyright: ignore[reportAttributeAccessIssue]
    schema = source.arrow
    whole = _table(source.open(schema.names, 500).chunks(), schema)
    luck = random.Random(make.__name__)
    for taken in [1, whole.num_rows, *(luck.randint(1, whole.num_rows) for _ in range(12))]:
        position = json.loads(json.dumps(_at(source, taken, 500).position()))
        assert position["tuples"] == taken
        placing = Placing.of("it", position)
        rest = _table(placing.chunks(source.open(schema.names, 300)), schema)
        assert rest.equals(whole.slice(taken).combine_chunks()), (taken, position)
        # Of what has units, at most one and a batch are read again.
        assert make in (parquet, packed, arrow, packed_logs) or taken - position["at"] <= 1600, position


def test_exact_promises_go_on_without_the_row_groups_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So each row group is a chunk by itself.
    monkeypatch.setattr("oop_engine.drive.circuit.CHUNK_ROWS", 20_000)
    table = pa.table({"ts": [i + i * 7 % 50 for i in range(90_000)], "v": [i % 7 for i in range(90_000)]})
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, row_group_size=20_000)
    results = oop.read(path).window(range=1000).aggregate(oop.count(), oop.sum("v"), by="v")
    output = results.to(tmp_path / "out.parquet")
    plan = together([results.node])
    with opened(tmp_path / "job", plan, [output.sink]) as job:
        from oop_engine.drive.circuit import Circuit

        with Circuit(plan, 5000, crossed=lambda place, port, element: job.outputs[0](element)) as circuit:
            job.place(circuit)
            circuit.prepare()
            job.restore(circuit)
            pages = (page for chunk in circuit.open(0) for page in circuit.pages(0, chunk))
            for _ in range(10):
                circuit.give(0, 0, next(pages))
            job.commit(job.take(circuit))
            assert circuit.placings[0].at == 40_000
    output.run(checkpoint=tmp_path / "job")
    found = pq.read_table(tmp_path / "out.parquet")
    order = [("window_start", "ascending"), ("v", "ascending")]
    assert found.sort_by(order).to_pylist() == results.to_arrow().sort_by(order).to_pylist()


def test_a_schedule_leaves_out_whole_pieces_alone() -> None:
    import numpy as np

    def made() -> Unfolding:
        return Unfolding(np.array([3, 0, 2, 4]), np.array([1, 9, 5, 7]), step=1)

    whole, part = made(), made()
    for piece in ([3, 1, 4], [], [5, 6], [7, 7, 9, 8]):
        whole.feed(np.array(piece, np.int64))
    part.skip(3)
    part.feed(np.array([5, 6]))
    part.feed(np.array([7, 7, 9, 8]))
    for one, other in zip(whole.between(3, 9), part.between(3, 9), strict=True):
        assert one.tolist() == other.tolist()
    with pytest.raises(ValueError, match="no piece ends after 4"):
        made().skip(4)
