"""The lessons in demos are what docs/lessons.py writes today, and they show what they are to teach."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from oop_engine.page.record import Record

ROOT = Path(__file__).parents[3]
LESSONS = ("slack_and_punctuation", "joint_promises")


def views(path: Path) -> list[dict[str, Any]]:
    record = Record(path)
    assert record.whole
    return [json.loads(record.moment(number)) for number in range(len(record.times()))]


def shape(view: dict[str, Any]) -> object:
    """Give all of a view but the words of its sentences, which may be put better."""
    waits = [output["wait"] for output in view["outputs"]]
    return view["at"], view["nodes"], view["sources"], [(wait["cause"], wait["holder"]) for wait in waits]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_what_its_script_writes(name: str, tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "lessons.py"))
    assert sorted(script["LESSONS"]) == sorted(LESSONS)
    script["write"](script["LESSONS"][name](), tmp_path / "run.oop")
    there = ROOT / "demos" / f"{name}.oop"
    found, kept = ([shape(view) for view in views(path)] for path in (tmp_path / "run.oop", there))
    assert found == kept, "write it anew: python docs/lessons.py"
    assert there.stat().st_size < 80_000


def released(name: str) -> list[tuple[int, int]]:
    """Give what both outputs of a lesson have released, moment by moment."""
    return [tuple(output["tuples"] for output in view["outputs"]) for view in views(ROOT / "demos" / f"{name}.oop")]


def test_by_slack_each_window_waits_and_by_punctuation_one_whose_tuple_is_missing() -> None:
    counts = released("slack_and_punctuation")
    assert all(slack <= sent <= slack + 1 for slack, sent in counts) and counts[-1] == (8, 8)
    assert sum(sent > slack for slack, sent in counts) > len(counts) / 4
    waits = [view["outputs"][0]["wait"] for view in views(ROOT / "demos" / "slack_and_punctuation.oop")]
    assert sum((wait["cause"], wait["holder"]) == ("slack", "by slack") for wait in waits) > len(waits) / 2


def test_by_the_later_time_pairs_are_released_a_window_before_those_by_one_time() -> None:
    counts = released("joint_promises")
    assert all(one <= later <= one + 1 for one, later in counts) and counts[-1] == (8, 8)
    assert sum(later > one for one, later in counts) > len(counts) / 2
