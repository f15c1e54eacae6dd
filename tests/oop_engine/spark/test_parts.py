"""The parts of a source have its tuples between them, in its order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.sources.files import Files
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.packets import Packets
from oop_engine.sources.protocol import Source
from oop_engine.spark import parts as module
from oop_engine.spark.parts import parts
from tests.oop_engine.spark.plans import batch
from tests.oop_engine.spark.test_on_spark import pages


def table(*sources: Source) -> pa.Table:
    """Read sources one after the other."""
    chunks = [c for s in sources for c in s.open(s.arrow.names, 1000).chunks() if isinstance(c, pa.RecordBatch)]
    return pa.Table.from_batches(chunks, sources[0].arrow).combine_chunks()


def check(source: Source, most: int) -> None:
    """Check that parts are the whole."""
    for count in (1, 2, 3, 50):
        found = parts(source, count)
        assert len(found) <= max(1, min(count, most))
        assert table(*found).equals(table(source))
    assert len(parts(source, 50)) == most


def test_record_batches_and_what_has_no_parts() -> None:
    rows = Rows("rows", tuple(batch(page) for page in pages(100)))
    check(rows, 6)
    once = Once("once", rows.arrow, lambda: iter(rows.batches))
    assert parts(once, 4) == (once,)


def test_row_groups_and_files(tmp_path: Path) -> None:
    whole = pa.Table.from_batches([batch(page) for page in pages(100)])
    pq.write_table(whole.slice(0, 60), tmp_path / "a.parquet", row_group_size=20)
    pq.write_table(whole.slice(60), tmp_path / "b.parquet", row_group_size=30)
    check(Files("rows", str(tmp_path / "*.parquet")), 5)
    for number in range(3):
        text = "ts,srcIP,n\n" + "".join(
            f"{i},10.0.0.{i},{'' if i % 2 else i}\n" for i in range(4 * number, 4 * number + 4)
        )
        (tmp_path / f"{number}.csv").write_text(text)
    check(Files("rows", str(tmp_path / "*.csv"), types={"srcIP": "ip"}), 3)


def test_parts_of_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import struct

    monkeypatch.setattr(module, "LEAST", 4000)
    for name in "ab":
        with (tmp_path / f"{name}.pcap").open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1))
            for i in range(300):
                file.write(struct.pack("<IIII", 1_795_255_200 + i, i, 40, 60 + i) + bytes([i % 251]) * 40)
    source = Packets((tmp_path / "a.pcap", tmp_path / "b.pcap"))
    assert len(parts(source, 6)) > 2
    assert table(*parts(source, 6)).equals(table(source))
