"""Results of a checkpoint that failed come with the next one, once, whichever of the two a later run finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest

from oop_engine.sinks import sink_for
from oop_engine.sinks.committed import Committed, committed
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.outbox import Delivery, Outbox
from operators.data.page import Page
from operators.data.schema import Schema

SCHEMA = Schema.of(host="string", n="int64")
PAGE = Page.of_rows(SCHEMA, [(f"h{i % 3}", i) for i in range(9)])
Found = Callable[[], list[int]]


@attrs.define
class Server:
    """A server that keeps what it was sent."""

    place: str = "test://server"
    taken: list[int] = attrs.field(factory=list)
    epochs: list[int] = attrs.field(factory=list)

    def sender(self, schema: Schema, job: str | None = None) -> Server:
        return self

    def send(self, pages: Iterable[Page], delivery: Delivery | None = None) -> None:
        assert delivery is not None
        self.epochs.append(delivery.epoch)
        self.taken += [n for page in pages for n in page.column("n").to_pylist()]

    def close(self) -> None:
        return None


def parted(folder: Path) -> tuple[Callable[[], Committed], Found]:
    sink = sink_for(folder / "out", partition_by=["host"])

    def found() -> list[int]:
        files = (folder / "out").glob("host=*/*.parquet")
        return [n for file in files for n in pq.read_table(file, partitioning=None)["n"].to_pylist()]

    return lambda: committed(sink, SCHEMA, RealDisk()), found


def sent(folder: Path) -> tuple[Callable[[], Committed], Found]:
    server = Server()
    (folder / "job").mkdir()
    return lambda: Outbox(server, SCHEMA, RealDisk(), folder / "job" / "outbox"), lambda: server.taken


@pytest.mark.parametrize("kind", [parted, sent])
@pytest.mark.parametrize("ends", [1, 2, 3])
@pytest.mark.parametrize("empty", [0, 2])
def test_results_of_failed_checkpoints_are_there_once(
    kind: Callable[[Path], tuple[Callable[[], Committed], Found]], ends: int, empty: int, tmp_path: Path
) -> None:
    made, found = kind(tmp_path)
    first = made()
    first.begin(fresh := first.fresh())
    cuts = [fresh]
    for epoch in (1, 2, 3):
        if epoch > 1:
            first.take_back(cuts[-1])
        if epoch != empty:
            first(PAGE.slice(3 * epoch - 3, 3 * epoch))
        cuts.append(json.loads(json.dumps(first.cut(epoch, ended=False))))
        first.sync(cuts[-1])
    assert found() == []
    if ends == 3:
        first.publish(cuts[3])
    # It was killed here, and the checkpoint of that number is the one that counts.
    second = made()
    second.begin(cuts[ends])
    second.publish(cuts[ends])
    expected = [n for n in range(3 * ends) if empty == 0 or n // 3 + 1 != empty]
    assert sorted(found()) == expected
    assert cuts[ends]["rows"] == len(expected)
