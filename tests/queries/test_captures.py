"""On captures of others, counts per source and ten seconds are those that another tool gives."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import numba
import pytest

from oop_engine.api.stream import Stream
from oop_engine.language.translate import query
from oop_engine.plan.graph import source_node
from oop_engine.sources.packets import Packets
from tests.open_set import OPEN_SET, with_open_set
from tests.queries.streams import SECOND, plain

TEXT = "SELECT srcIP, count(*), sum(len) [RANGE TUMBLING 10 s, WA ts] FROM Main GROUP BY srcIP"
SMALL = 300_000 if numba.config.DISABLE_JIT else 1 << 40


def truths() -> list[Path]:
    """Give the files of counts there are."""
    if not OPEN_SET.is_dir():
        return []
    return [*sorted((OPEN_SET / "truth/per10s").glob("*.csv.gz")), OPEN_SET / "own/s1.per10s.csv.gz"]


def capture(truth: Path) -> Path:
    """Give the capture that was counted."""
    if truth.name == "s1.per10s.csv.gz":
        return OPEN_SET / "own/s1.pcap.zst"
    return OPEN_SET / "traffic" / truth.name.removesuffix(".csv.gz")


@with_open_set
@pytest.mark.parametrize("truth", truths(), ids=lambda truth: truth.name)
def test_counts_per_source_and_ten_seconds(truth: Path) -> None:
    path = capture(truth)
    if path.stat().st_size > SMALL:
        pytest.skip("with the JIT off only small captures are read")
    expected: Counter[tuple[int, str, int, int]] = Counter()
    for row in csv.DictReader(gzip.decompress(truth.read_bytes()).decode().splitlines()):
        expected[int(row["window_start"]), row["src"], int(row["packets"]), int(row["frame_bytes"])] += 1
    result = query(TEXT, Main=Stream(source_node(Packets((path,)))))
    found: Counter[tuple[int, str, int, int]] = Counter()
    for page in result:
        for line in page.plain_rows():
            source, packets, length, _, start, _ = plain(line)
            assert isinstance(start, int) and isinstance(packets, int) and isinstance(length, int)
            found[start // SECOND, str(source or ""), packets, length] += 1
    assert found == expected
