"""An action gets every event in order; a slow one holds nothing, and what it misses is counted."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from threading import Event

import click
import pytest
from click.testing import CliRunner

from oop_engine.cli import commands
from oop_engine.cli.acting import Actions, command_of


def test_events_that_come_while_too_many_wait_are_left_out_and_counted() -> None:
    begun, go_on, seen = Event(), Event(), list[str]()

    def act(event: str) -> str:
        begun.set()
        assert go_on.wait(60)
        seen.append(event)
        return "exit status 3" if event == "b" else ""

    actions = Actions(act, most=2)
    actions.put("a")
    assert begun.wait(60)
    for event in "bcde":
        actions.put(event)
    go_on.set()
    actions.close(60)
    assert seen == ["a", "b", "c"]
    assert list(actions.notes()) == [
        "note: the command of --on-alert failed for 1 event, the last time by exit status 3.",
        "note: 2 events came faster than the command of --on-alert, which did not get them.",
    ]


def test_at_the_end_a_run_waits_for_a_time_alone_and_counts_what_is_left() -> None:
    begun, never = Event(), Event()
    actions = Actions(lambda event: str(begun.set() or never.wait(60)), most=5)
    actions.put("a")
    assert begun.wait(60)
    actions.put("b")
    actions.put("c")
    actions.close(0)
    assert actions.left_out == 2
    never.set()


def test_a_command_gets_each_event_as_json_and_no_shell_sees_it(tmp_path: Path) -> None:
    program = tmp_path / "note.py"
    program.write_text("import sys; open(sys.argv[1], 'a').write(sys.stdin.read()); sys.exit(len(sys.argv) > 2)")
    action = shlex.join([sys.executable, str(program), str(tmp_path / "$(seen)")])
    asked = ["detect", "vertical_scan", "--ports", "2", "--range", "10 s", "demos/captures/web.pcap.gz"]
    done = CliRunner().invoke(commands, [*asked, "--json", "--on-alert", action], prog_name="oop-engine")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "$(seen)").read_text() == done.stdout
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["open", "close"]
    assert command_of(f"{action} fails")("{}") == "exit status 1"


def test_what_is_no_program_is_refused_before_anything_is_read() -> None:
    with pytest.raises(click.UsageError, match='there is no program "nothing-of-this-name"'):
        command_of("nothing-of-this-name --now")
    with pytest.raises(click.UsageError, match="is no command: No closing quotation"):
        command_of("logger 'a")
