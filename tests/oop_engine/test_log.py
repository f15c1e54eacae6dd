"""What commands tell on standard error is an object a line where programs read it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oop_engine.cli import commands
from oop_engine.cli.showing import _say
from oop_engine.drive.growth import Growth
from oop_engine.drive.meter import OperatorStatistics

QUERY = "SELECT v, count(*) [RANGE 100, WA ts] FROM Main GROUP BY v"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("ts,v\n" + "".join(f"{i},{i % 7}\n" for i in range(300)))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments)


def events(result: Result) -> list[dict[str, Any]]:
    """Return what was told; each line is an event."""
    found = [json.loads(line) for line in result.stderr.splitlines()]
    for event in found:
        assert list(event) == ["time", "level", "message"]
        assert event["time"].endswith("Z") and datetime.fromisoformat(event["time"])
    return found


def test_a_run_tells_its_events(there: Path) -> None:
    done = run("query", QUERY, "-s", "Main=rows.csv", "--to", "out.csv", "--log", "json", "--stats")
    assert done.exit_code == 0, done.stderr
    told = events(done)
    assert {event["level"] for event in told} == {"info"}
    assert any("300 tuples read" in event["message"] and "\n" in event["message"] for event in told)


def test_an_error_is_one_event(there: Path) -> None:
    for query, code, part in ((QUERY, 2, "rows.txt"), ("SELECT", 2, "LanguageError")):
        (event,) = events(run("query", query, "-s", "Main=rows.txt", "--log", "json"))
        assert event["level"] == "error" and part in event["message"]
        assert run("query", query, "-s", "Main=rows.txt").exit_code == code


def test_what_is_wrong_with_options_is_one_event_too(there: Path) -> None:
    (event,) = events(run("collect", "--log", "json", "--netflow", "127.0.0.1:0", "--journal"))
    assert event["level"] == "error" and "add --checkpoint DIR" in event["message"]
    refused = run("collect", "--log", "json", "--netflow", "127.0.0.1:0", "--nonsense")
    assert refused.exit_code == 2 and "--nonsense" in events(refused)[0]["message"]


def test_names_of_files_do_not_leave_their_line(there: Path) -> None:
    name = "a\n\x1b[31m{}.csv"
    (event,) = events(run("query", QUERY, "--log", "json", "-s", f"Main={name}"))
    assert event["level"] == "error" and "31m" in event["message"]


def test_without_the_option_it_is_text_again(there: Path) -> None:
    run("query", QUERY, "-s", "Main=rows.csv", "--log", "json")
    assert "300 tuples read" in run("query", QUERY, "-s", "Main=rows.csv").stderr.splitlines()[-2]


def test_what_grows_is_an_event_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oop_engine.messages._log", "json")
    operators = [
        OperatorStatistics(name, 9, 0, 0, 0, {}, {}, {"state_bytes": 9_000, "groups": 3}) for name in ("count", "max")
    ]
    _say(Growth(memory=10_000).look(operators, 1.0), None)
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["level"] for event in found] == ["warning", "warning"]
    assert [event["message"].split(" (")[0] for event in found] == ["count holds 9.0 kB", "max holds 9.0 kB"]
