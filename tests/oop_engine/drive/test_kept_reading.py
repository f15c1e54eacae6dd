"""What is text or packed is read once for its times and its tuples; the results are those of reading it twice."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.drive import circuit, kept_reading
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.kept_reading import KeptReading
from oop_engine.drive.limit import FileShelf
from oop_engine.errors import MemoryLimitError
from oop_engine.plan.graph import SourceNode
from oop_engine.sources.capture import Capture
from oop_engine.sources.files import FileReader
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import Reading
from operators.data.page import Int64s
from operators.pace import Pace
from punctuation import NO_TIME

WEB = Path(__file__).parents[3] / "demos" / "captures" / "web.pcap.gz"


def lines(path: Path, rows: int = 5_000) -> Path:
    """Write a table of which times go back and forth, and one row in fifty has none."""
    random = np.random.default_rng(5)
    ts = np.arange(rows) * 10 + random.integers(-400, 400, rows)
    texts = ["" if i % 50 == 3 else str(t) for i, t in enumerate(ts.tolist())]
    path.write_text("ts,k,text\n" + "".join(f"{t},{i % 7},name {i % 11}\n" for i, t in enumerate(texts)))
    return path


def results(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".csv":
        windows = oop.read(str(path)).window(range=1_000, slide=500, wattr="ts")
        found = windows.aggregate(oop.count(), texts=oop.count_distinct("text"), by="k").to_arrow()
    else:
        found = (
            oop.pcap(path).window(range="5 s").aggregate(oop.count(), bytes=oop.sum("length"), by="srcIP").to_arrow()
        )
    return sorted(found.to_pylist(), key=str)


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[int]:
    """Count how often a method of a class is called."""
    calls, method = list[int](), getattr(owner, name)

    def counting(self: object, *arguments: object, **options: object) -> object:
        calls.append(1)
        return method(self, *arguments, **options)

    monkeypatch.setattr(owner, name, counting)
    return calls


def twice(self: Circuit, place: int, node: SourceNode, attribute: str, pace: Pace) -> object:
    """Read a source ahead for one attribute alone, as those that are not laborious are."""
    return self._scheduled(node.source.values(attribute), pace)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("kind", ["csv", "pcap.gz"])
@pytest.mark.parametrize("where", ["memory", "disk", "both", "too large", "no room"])
def test_results_are_those_of_reading_twice(
    kind: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines(tmp_path / "table.csv") if kind == "csv" else WEB
    monkeypatch.setattr(circuit, "CHUNK_ROWS", 700)
    with monkeypatch.context() as before:
        before.setattr(Circuit, "_read_ahead", twice)
        expected = results(path)
    if where != "memory":
        monkeypatch.setattr(circuit, "IN_MEMORY", 40_000 if where == "both" else 0)
    if where == "too large":
        monkeypatch.setattr(kept_reading, "ON_DISK", 30_000)
    if where == "no room":

        def full(self: FileShelf, name: str, piece: bytes) -> None:
            raise MemoryLimitError("no room")

        monkeypatch.setattr(FileShelf, "add", full)
    added = counted(monkeypatch, FileShelf, "add")
    assert results(path) == expected and len(expected) > 30
    assert bool(added) == (where != "memory")


def test_a_packed_capture_is_unpacked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, times = counted(monkeypatch, Capture, "batches"), counted(monkeypatch, Capture, "times")
    oop.pcap(WEB).window(range="5 s").aggregate(oop.count()).to_arrow()
    assert (len(batches), len(times)) == (1, 0)


def test_a_capture_that_is_not_packed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "web.pcap"
    plain.write_bytes(gzip.decompress(WEB.read_bytes()))
    times = counted(monkeypatch, Capture, "times")
    oop.pcap(plain).window(range="5 s").aggregate(oop.count()).to_arrow()
    assert len(times) == 1


def test_windows_over_two_attributes_read_a_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i // 2 * 3}\n" for i in range(1_000)))
    table, chunks = oop.read(str(path)), counted(monkeypatch, FileReader, "chunks")
    counts = [table.window(range=100, wattr=name).aggregate(oop.count()).project("count") for name in ("a", "b")]
    assert sum(oop.meld(*counts).to_arrow()["count"].to_pylist()) == 2_000
    assert len(chunks) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_a_capture_that_is_cut_gives_and_tells_what_it_did(
    strict: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = tmp_path / "cut.pcap.gz"
    cut.write_bytes(WEB.read_bytes()[:-5_000])

    def outcome() -> tuple[object, list[object]]:
        given: list[object] = []
        windows = oop.pcap(cut, strict=strict).window(range="5 s").aggregate(oop.count(), by="srcIP")
        try:
            told: object = windows.to(lambda page: given.extend(page.batch.to_pylist())).run().notes
        except oop.Error as error:
            told = str(error)
        return told, sorted(given, key=str)

    monkeypatch.setattr(circuit, "CHUNK_ROWS", 500)
    now = outcome()
    monkeypatch.setattr(Circuit, "_read_ahead", twice)
    assert now == outcome() and "truncated" in str(now[0]) and len(now[1]) > 10


class Listed(Reading):
    """A reading of some batches."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.given = chunks

    def chunks(self) -> Iterator[Chunk]:
        yield from self.given

    def progress(self) -> tuple[int, int | None]:
        return 0, 900


@pytest.mark.parametrize("room", [0, 50, 10**6])
def test_tuples_come_back_in_their_order_and_are_let_go(room: int) -> None:
    numbers = pa.array([5, None, 7, 1, 2, 9])
    batches = [pa.record_batch({"ts": numbers.slice(at, 2), "k": pa.array(["a", None])}) for at in (0, 2, 4)]
    shelf = FileShelf()
    kept = KeptReading(Listed([*batches]), shelf, room)
    ahead: Callable[[Iterator[Int64s]], list[int]] = lambda pieces: np.concatenate([*pieces]).tolist()  # noqa: E731
    assert ahead(kept.ahead("ts")) == [5, NO_TIME, 7, 1, 2, 9] and kept.whole
    assert ahead(kept.values("ts")) == [5, NO_TIME, 7, 1, 2, 9]
    assert kept.progress() == (0, 900)
    chunks = kept.chunks()
    assert next(chunks) == batches[0] and kept.progress() == (300, 900)
    assert [*chunks] == batches[1:] and kept.progress() == (900, 900)
    assert [*kept.values("ts")] == [], "they are let go"
    shelf.close()


def test_a_reading_that_was_not_gone_through_is_not_whole_and_can_be_let_go() -> None:
    batch, shelf = pa.record_batch({"ts": [1, 2]}), FileShelf()
    kept = KeptReading(Listed([batch, batch]), shelf, room=0)
    next(kept.ahead("ts"))
    assert not kept.whole and [len(values) for values in kept.values("ts")] == [2]
    kept.drop()
    assert [*kept.values("ts")] == []
    with pytest.raises(KeyError):
        shelf.pieces("1")
