"""The commands serve a page, record a run and show the record; what cannot be is refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oop_engine.cli import commands
from oop_engine.page.record import Record

QUERY = "SELECT k, count(*) [RANGE 10, SLIDE 10, WA ts] FROM Main GROUP BY k"


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(commands, list(map(str, arguments)), prog_name="oop-engine")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "main.csv"
    path.write_text("ts,k\n" + "".join(f"{n},{n % 3}\n" for n in range(100)))
    return path


def test_a_query_records_its_run_and_serves_its_page(table: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.oop"
    done = cli("query", QUERY, "-s", f"Main={table}", "--record", record, "--page", "127.0.0.1:0")
    assert done.exit_code == 0, done.output
    assert "page: http://127.0.0.1:" in done.stderr
    kept = Record(record)
    assert kept.whole and kept.title.startswith("aggregate count(*) by k") and kept.times()
    assert '"state":"ended"' in kept.moment(len(kept.times()) - 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--page", "0.0.0.0:8080"], "other machines reach this address"),
        (["--page", "8080"], "ADDRESS:PORT"),
        (["--record", "{table}"], "is no record of a run"),
        (["--record", "{table}/x"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_lost(table: Path, options: list[str], said: str) -> None:
    before = table.read_bytes()
    done = cli("query", QUERY, "-s", f"Main={table}", *(option.format(table=table) for option in options))
    assert done.exit_code == 2 and said in done.stderr and done.stdout == ""
    assert table.read_bytes() == before


def test_a_file_that_is_no_record_is_refused(table: Path) -> None:
    done = cli("page", table)
    assert done.exit_code == 2 and "is no record of a run that this version reads" in done.stderr
    done = cli("page", table.with_name("nothing.oop"))
    assert done.exit_code == 2 and "cannot read" in done.stderr
