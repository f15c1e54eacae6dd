"""The table of a run shows what its view says, cut where the terminal is narrow, and no text steers the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.cli.live_table import shown
from oop_engine.drive.answers import answered
from oop_engine.drive.questions import Questions
from oop_engine.drive.synchronous import Run
from oop_engine.drive.view import view

SCHEMA = oop.Schema.of(ts="timestamp[s]", host="string")


@pytest.fixture
def run() -> Run:
    """Give a run that waits for a link of a hostile name."""
    fast = oop.rows(iter([(1, "a"), (62, "b"), (200, "a")]), SCHEMA, name="fast", punctuate=oop.ordered())
    slow = oop.rows(
        iter([(3, "a"), (4, "b"), (70, "b"), (71, "b")]), SCHEMA, name="[red]\x1b[31mslow", punctuate=oop.slack("90 s")
    )
    stream = oop.meld(fast, slow).window(range="1 min").aggregate(oop.count(), by="host")
    made = Run(stream.start(page_rows=1).plan, 1)
    next(iter(made))
    return made


def text(data: Any, before: Any = None, width: int = 160) -> str:
    console = Console(width=width, highlight=False, markup=False, emoji=False, force_terminal=False)
    with console.capture() as captured:
        console.print(shown(data, before, width))
    return captured.get()


def test_a_table_has_operators_sources_and_the_sentence(run: Run) -> None:
    data = json.loads(view(run.circuit, now=10**9).to_json())
    table = text(data)
    assert str(data["outputs"][0]["wait"]["text"]) in " ".join(table.split())
    for node in data["nodes"]:
        assert node["label"] in table
    assert "[red]\\x1b[31mslow" in table and "\x1b" not in table
    assert table.splitlines()[0].startswith(f"running  {sum(n['tuples_in'] for n in data['nodes'][:2])} tuples")


def test_rates_are_since_the_look_before(run: Run) -> None:
    data = json.loads(view(run.circuit, now=3 * 10**9).to_json())
    before = json.loads(json.dumps(data))
    before["at"] -= 2 * 10**9
    for node in before["nodes"]:
        node["tuples_in"] = 0
    read = sum(node["tuples_in"] for node in data["nodes"] if node["kind"] == "source")
    assert f"{read / 2:.0f} tuples/s" in text(data, before)


def test_a_narrow_terminal_cuts_labels_and_no_number(run: Run) -> None:
    data = json.loads(view(run.circuit, now=10**9).to_json())
    data["nodes"][0]["tuples_in"] = 123_456_789
    table = text(data, width=68)
    assert "123,456,789" in table and "…" in table
    assert max(map(len, table.splitlines())) <= 68


def test_a_run_that_has_not_begun_says_so() -> None:
    assert text(None).startswith("the run has not begun")


def test_the_command_prints_once_where_there_is_no_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    questions = Questions()
    with answered(questions):
        questions.watch(run.circuit)
        questions.close()
        shown = CliRunner().invoke(commands, ["top"])
        assert shown.exit_code == 0 and "meld of 2" in shown.stdout
        data = CliRunner().invoke(commands, ["top", "--json"])
        assert json.loads(data.stdout)["version"] == 1
    assert CliRunner().invoke(commands, ["top"]).exit_code == 2
