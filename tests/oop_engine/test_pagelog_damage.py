"""What a page log gives is what was written: of what was damaged since, the file, page and place are told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.pagelog import PageLog, PageLogSink
from operators.data.page import Page

SCHEMA = oop.Schema.of(ts=pa.int64(), name=pa.string(), load=pa.float64())


def written(folder: Path, pages: int = 4, tuples: int = 3000) -> PageLog:
    with PageLogSink(folder).opened(SCHEMA) as deliver:
        for k in range(pages):
            times = list(range(k * tuples, (k + 1) * tuples))
            deliver(Page.of(SCHEMA, {"ts": times, "name": [f"é{t % 9}" for t in times], "load": np.array(times) * 0.5}))
    return PageLog(folder)


def table(log: PageLog) -> pa.Table:
    batches = [batch for epoch in log.epochs() for segment in epoch for batch in log.read(segment)]
    return pa.Table.from_batches(batches, log.schema())


def test_every_flipped_bit_is_refused_with_the_file_and_where_in_it(tmp_path: Path) -> None:
    log = written(tmp_path / "log")
    whole = table(log)
    draw = np.random.default_rng(3)
    for path in sorted(p for p in (tmp_path / "log").rglob("*.*") if p.is_file()):
        sound = path.read_bytes()
        for place in draw.integers(0, len(sound), 70):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << int(draw.integers(8))
            path.write_bytes(damaged)
            try:
                assert table(log).equals(whole), (path.name, place)
                # A space of JSON, or the name of a key that says what is checked.
                assert path.suffix == ".json", (path.name, place)
            except SinkError as error:
                assert "\n  Copy it again" in str(error)
                if path.parent.name == "segments":
                    found = re.search(
                        rf'{path.name}" is damaged: .* in bytes ([\d,]+) to ([\d,]+): the che', str(error)
                    )
                    assert found is not None, error
                    first, last = (int(text.replace(",", "")) for text in found.groups())
                    assert first <= place <= last and last - first < 300_000
        path.write_bytes(sound)
    assert table(log).equals(whole)


def test_a_cut_or_missing_segment_is_told(tmp_path: Path) -> None:
    log = written(tmp_path / "log")
    (segment,) = (tmp_path / "log" / "segments").iterdir()
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes()[:-7])
    with pytest.raises(SinkError, match=rf"it has {size - 7:,} bytes, and {size:,} were written"):
        table(log)
    segment.unlink()
    with pytest.raises(SinkError, match=f'lacks the file "{segment.name}"'):
        table(log)


def test_a_log_of_an_earlier_version_is_checked_by_its_digest(tmp_path: Path) -> None:
    log = written(tmp_path / "log", pages=1)
    whole = table(log)
    (epoch,) = (tmp_path / "log" / "epochs").iterdir()
    told = json.loads(epoch.read_bytes())
    for segment in told["segments"]:
        del segment["sums"]
    epoch.write_text(json.dumps({"segments": told["segments"]}))
    assert table(log).equals(whole)
    (segment,) = (tmp_path / "log" / "segments").iterdir()
    data = bytearray(segment.read_bytes())
    place = data.index((1234).to_bytes(8, "little"))
    data[place] ^= 2
    segment.write_bytes(data)
    with pytest.raises(SinkError, match="its rows are not those that were written"):
        table(log)
