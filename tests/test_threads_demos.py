"""Each demo of a thread says who holds its window, in the process of the tests; the table beside them lists all."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

THREADS = Path(__file__).parents[1] / "demos" / "threads"
SAID = {
    "filtered_out": ("2 windows", "waits for numbers"),
    "from_the_future": ("1 windows came out, 0 tuples were late", "waits for sensor"),
    "idle_subtask": ("0 windows", "waits for shard 1, which"),
    "late_in_bounds": ("1 windows came out, 1 tuples were late", "waits for flows"),
    "never_any": ("0 windows", "waits for http, which has promised nothing"),
    "nothing_new": ("2 windows", "no tuple is in an open window"),
    "open_session": ("1 windows", "of host EFGH waits for events"),
    "quiet_stream": ("1 windows", "waits for topic"),
    "two_speeds": ("1 windows", "waits for views"),
    "whole_window": ("0 windows", "12:20:00"),
}
"""What each demo prints, in order: how many windows came out, and who holds the next."""


@pytest.mark.parametrize("name", SAID)
def test_a_demo_of_a_thread_names_the_holder(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(THREADS))
    runpy.run_path(str(THREADS / f"{name}.py"))
    printed = capsys.readouterr().out
    came_out, holder = SAID[name]
    assert came_out in printed.splitlines()[0] and holder in printed.splitlines()[1]


def test_each_demo_of_a_thread_cites_it_as_the_table_does() -> None:
    table = (THREADS / "README.md").read_text()
    assert set(SAID) == {path.stem for path in THREADS.glob("*.py")} - {"held"}
    for name in SAID:
        text = (THREADS / f"{name}.py").read_text()
        (thread,) = re.findall(r"https://github\.com/\S+", text)
        assert f"[{name}.py]({name}.py)" in table and f"({thread})" in table
        assert len(text.splitlines()) <= 40 and "\nElsewhere: " in text
