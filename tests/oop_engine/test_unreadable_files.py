"""A file that cannot be read on ends the run, or its rest is left out, counted and named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands

ROWS = 30_000


def lines(start: int) -> bytes:
    return b"ts,v\n" + b"".join(b"%d,%d\n" % (ts, ts % 7) for ts in range(start, start + ROWS))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make three files of lines, packed, of which the second is cut in the middle."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        packed = gzip.compress(lines(number * ROWS), mtime=0)
        Path(f"{number}.csv.gz").write_bytes(packed[: len(packed) // 2] if number == 1 else packed)
    return tmp_path


def per_window(**options: object) -> oop.Stream:
    rows = oop.table("*.csv.gz", name="rows", **options)  # pyright: ignore[reportArgumentType]
    return rows.window(range=1000).aggregate(oop.count())


def test_by_default_it_ends_the_run(folder: Path) -> None:
    with pytest.raises(oop.TableError, match=r"1\.csv\.gz: the gzip data are cut"):
        per_window().to_arrow()


@pytest.mark.parametrize("promised", [{}, {"slack": 5}], ids=["read ahead", "slack"])
def test_the_rest_of_it_is_left_out_and_all_others_are_whole(folder: Path, promised: dict[str, int]) -> None:
    outcome = per_window(on_error="skip", **promised).run()
    counts = dict(zip(*(outcome.table[name].to_pylist() for name in ("window_start", "count")), strict=True))
    whole = [start for start, count in counts.items() if count == 1000]
    assert {*range(0, ROWS, 1000), *range(2 * ROWS, 3 * ROWS, 1000)} <= {*whole}
    assert 2 * ROWS < sum(counts.values()) < 3 * ROWS
    cut, counted = outcome.statistics.notes[-2:]
    assert cut.startswith("1.csv.gz: ") and cut.endswith("the rest of this file was left out")
    assert f"after {sum(counts.values()) - 2 * ROWS:,} rows" in cut
    assert counted == "1 of 3 files could not be read to the end; windows of their times may lack rows"


def test_a_value_that_does_not_fit_and_a_file_that_is_none_are_left_out(folder: Path) -> None:
    Path("1.csv.gz").write_bytes(gzip.compress(lines(ROWS) + b"x,y\n"))
    Path("3.csv.gz").write_bytes(b"\x1f\x8b nothing of the kind")
    outcome = per_window(on_error="skip").run()
    assert 2 * ROWS <= sum(outcome.table["count"].to_pylist()) <= 3 * ROWS
    assert any("1.csv.gz" in note for note in outcome.statistics.notes)
    assert any("3.csv.gz" in note and "after 0 rows" in note for note in outcome.statistics.notes)
    assert outcome.statistics.notes[-1].startswith("2 of 4 files could not")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_other_formats_are_left_out_from_their_damage_on(suffix: str, tmp_path: Path) -> None:
    for number in range(3):
        table = pa.table({"ts": range(number * ROWS, (number + 1) * ROWS), "v": range(ROWS)})
        path = tmp_path / f"{number}.{suffix}"
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=5000, compression="gzip")
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, 5000)
    damaged = tmp_path / f"1.{suffix}"
    content = damaged.read_bytes()
    middle = len(content) // 2
    damaged.write_bytes(
        content[:middle] + b"\xff" * 3000 + content[middle + 3000 :] if suffix == "parquet" else content[:middle]
    )
    rows = oop.table(tmp_path / f"*.{suffix}", name="rows", on_error="skip")
    outcome = rows.window(range=1000).aggregate(oop.count(), oop.max("v")).run()
    assert 2 * ROWS <= sum(outcome.table["count"].to_pylist()) < 3 * ROWS
    assert outcome.table["window_start"].to_pylist()[-1] == 3 * ROWS - 1000
    assert outcome.statistics.notes[-1].startswith("1 of 3 files could not")


def test_a_run_that_goes_on_behind_it_gives_the_same(folder: Path) -> None:
    """It is stopped in the last file."""
    expected = per_window(on_error="skip", slack=5).to_arrow()

    def output() -> oop.Output:
        return per_window(on_error="skip", slack=5).to("out.parquet")

    oop.run_outputs([output()], checkpoint="job", every="1 hour", watch=lambda c: c.progress(0)[0] > 0)
    oop.run_outputs([output()], checkpoint="job")
    assert pq.read_table("out.parquet")["count"].to_pylist() == expected["count"].to_pylist()


def test_the_command_says_what_was_left_out_even_if_it_is_to_be_quiet(folder: Path) -> None:
    query = ["query", "SELECT count(*) [RANGE 1000, WA ts] FROM Main", "-s", "Main=*.csv.gz", "--to", "out.csv", "-q"]
    ended = CliRunner().invoke(commands, query)
    assert ended.exit_code == 2 and "1.csv.gz" in ended.stderr and not Path("out.csv").exists()
    skipped = CliRunner().invoke(commands, [*query, "--on-error", "skip"])
    assert skipped.exit_code == 0, skipped.stderr
    assert "1 of 3 files could not be read to the end" in skipped.stderr


def test_it_is_for_tables_and_one_of_two_words(folder: Path) -> None:
    with pytest.raises(oop.PlanError, match='write "stop" or "skip"'):
        oop.table("0.csv.gz", on_error="ignore")  # pyright: ignore[reportArgumentType]
    with pytest.raises(oop.PlanError, match="takes no on_error"):
        oop.read("0.csv.gz", format="pcap", on_error="skip")
