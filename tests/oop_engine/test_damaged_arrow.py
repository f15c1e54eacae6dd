"""Arrow data that were damaged are refused with their place; no byte of them can end the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sources.sound import sound
from tests.surviving import survive

FLIPS = 40
READS = """
import random, sys
import pyarrow as pa
import oop_engine as oop

query = (
    "SELECT COUNT(*) AS n, SUM(x) AS s FROM T [RANGE 10 seconds, SLIDE 10 seconds, WATTR ts] GROUP BY cat, k, large"
)
random.seed(7)
for path in sys.argv[2:]:
    whole = open(path, "rb").read()
    for _ in range(int(sys.argv[1])):
        place, bit = random.randrange(len(whole)), random.randrange(8)
        print(path, place, bit, flush=True)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        open(path, "wb").write(damaged)
        try:
            oop.query(query, T=oop.table(path, slack="1s", on="ts")).to_arrow()
            oop.table(path, slack="1s", on="ts").to_arrow().to_pylist()
        except oop.Error as error:
            print("refused", str(error).splitlines()[0])
print("whole")
"""


def table() -> pa.Table:
    n = 60
    return pa.table(
        {
            "ts": pa.array(np.arange(n) * 10**9).cast(pa.timestamp("ns", "UTC")),
            "k": pa.array(["a", "bé", None, "cccc"] * 15),
            "x": pa.array(np.arange(n), pa.int32(), mask=np.arange(n) % 7 == 0),
            "cat": pa.array(["u", "v", "w"] * 20).dictionary_encode(),
            "listed": pa.array([[1, 2], [], None] * 20),
            "large": pa.array(["x", "yy", "z"] * 20, pa.large_string()),
            "view": pa.array([b"x", b"y" * 25, b"z"] * 20, pa.binary_view()),
        }
    )


def test_no_flipped_bit_of_an_arrow_file_or_stream_ends_the_process(tmp_path: Path) -> None:
    paths: list[str] = []
    for codec in (None, "lz4"):
        for new in (pa.ipc.new_file, pa.ipc.new_stream):
            paths.append(str(tmp_path / f"{codec}_{new.__name__}.arrow"))
            options = pa.ipc.IpcWriteOptions(compression=codec)
            with new(paths[-1], table().schema, options=options) as writer:
                writer.write_table(table(), max_chunksize=30)
    told = survive(READS, str(FLIPS), *paths)
    assert told.endswith("whole\n") and told.count("refused") > FLIPS


def words(numbers: list[int]) -> pa.RecordBatch:
    """Give a batch whose dictionary has two words, and these numbers of words."""
    values = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(["a", "b"]), safe=False)
    return pa.RecordBatch.from_arrays([pa.array(range(len(numbers)), pa.int64()), values], ["ts", "k"])


def texts(offsets: list[int], letters: bytes, kind: pa.DataType) -> pa.RecordBatch:
    places = np.array(offsets, np.int64 if kind == pa.large_string() else np.int32)
    column = pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(places), pa.py_buffer(letters)])
    return pa.RecordBatch.from_arrays([column], ["k"])


def test_a_batch_that_lies_about_its_words_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    lies = words([0, 1, 7_000_000])
    with pa.ipc.new_file(tmp_path / "lies.arrow", lies.schema) as writer:
        writer.write_batch(lies)
    for stream in (
        oop.table(tmp_path / "lies.arrow", slack=1),
        oop.arrow(lies, slack=1),
        oop.arrow(iter([lies]), schema=lies.schema, slack=1),
    ):
        with pytest.raises(oop.TableError, match=r"record batch .*is damaged: .*7000000.*\n  Copy the data again"):
            stream.to_arrow()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_are_refused_exactly_where_arrow_refuses_them(kind: pa.DataType) -> None:
    letters = "aébc".encode()
    for offsets in ([0, 1, 3, 5], [0, 0, 1, 5], [1, 3, 3], [0, 2, 5], [0, 1, 2], [3, 1, 5], [0, 9, 5], [0, 5], [5, 5]):
        for data in (letters, b"abcde", b"ab\xffde"):
            batch = texts(offsets, data, kind)
            for each in (batch, batch.slice(1)):
                try:
                    each.validate(full=True)
                    wrong = False
                except pa.ArrowInvalid:
                    wrong = True
                try:
                    sound(each, "it")
                    refused = False
                except oop.TableError:
                    refused = True
                assert refused == wrong, (offsets, data, len(each))
