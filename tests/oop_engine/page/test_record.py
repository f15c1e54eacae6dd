"""A record gives back what a run was at, moment by moment, also of a file that ends early; damage is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.page.address import Address
from oop_engine.page.asgi import App
from oop_engine.page.record import MAGIC, Record, Recorder
from oop_engine.page.serving import TrioWaits
from oop_engine.plan.graph import Plan
from oop_engine.sources.errors import TableError
from tests.oop_engine.page.test_page import asked

LESSON = Path(__file__).parents[3] / "demos" / "skew_and_lull.oop"
SCHEMA = oop.Schema.of(ts="int64", k="string")


def recorded(path: Path, *, title: str = "") -> list[str]:
    """Record a run whose windows are held by a slack, and give the bounds of its source after each tuple."""
    rows = [(5 * n, "a" if n % 2 else "b") for n in range(32)]
    stream = oop.rows(iter(rows), SCHEMA, name="link", punctuate=oop.slack(20))
    plan = Plan((stream.window(range=10).aggregate(oop.count(), by="k").node,))
    run, now = Run(plan, 1), 0.0
    bounds: list[str] = []
    with Recorder(path, plan, title, clock=lambda: now) as recorder:
        for _ in run:
            now += 1.0
            recorder.watch(run.circuit)
            # Too soon for another moment.
            recorder.watch(run.circuit)
            if (bound := run.circuit.meters[0].lwm.get("ts")) is not None and str(bound) not in bounds:
                bounds.append(str(bound))
    return bounds


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the bytes of a record."""
    path = tmp_path_factory.mktemp("record") / "run.oop"
    recorded(path)
    return path.read_bytes()


def bounds_of(record: Record) -> list[str]:
    """Give the bounds of the source in a record, each once, in order."""
    views = [json.loads(record.moment(number)) for number in range(len(record.times()))]
    found = [view["sources"][0]["promised"]["text"] for view in views if view["sources"][0]["promised"]]
    return list(dict.fromkeys(found))


def test_a_record_has_each_promise_and_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.oop"
    bounds = recorded(path, title="a \x1b title")
    record = Record(path)
    assert record.whole and record.title == "a \\x1b title"
    assert bounds_of(record) == bounds and len(bounds) > 8
    assert record.times() == sorted(record.times()) and len(record.times()) > 16
    last = json.loads(record.moment(len(record.times()) - 1))
    assert last["state"] == "ended" and last["version"] == 1
    assert [box["label"] for box in record.outlined["boxes"]][-1] == "results"


def test_a_file_that_ends_early_is_read_up_to_there(tmp_path: Path, written: bytes) -> None:
    path, cut = tmp_path / "run.oop", tmp_path / "cut.oop"
    path.write_bytes(written)
    every = [Record(path).moment(number) for number in range(len(Record(path).times()))]
    lengths = set[int]()
    for size in range(len(written) - 1, len(MAGIC), -61):
        cut.write_bytes(written[:size])
        try:
            record = Record(cut)
        except TableError as error:
            assert "before the plan" in str(error)
            lengths.add(-1)
            continue
        found = [record.moment(number) for number in range(len(record.times()))]
        assert found == every[: len(found)]
        lengths.add(len(found))
    assert {-1, 0, 16} <= lengths


def test_damage_is_said_with_its_place(tmp_path: Path, written: bytes) -> None:
    path, data = tmp_path / "run.oop", bytearray(written)
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TableError, match="damaged in the block at byte"):
        Record(path)
    path.write_bytes(b"ts,k\n1,a\n")
    with pytest.raises(TableError, match="no record of a run"):
        Record(path)


def test_a_file_that_is_no_record_is_not_written_over(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_text("ts,k\n1,a\n")
    with pytest.raises(PlanError, match="is no record of a run"):
        recorded(path)
    assert path.read_text() == "ts,k\n1,a\n"
    path.write_bytes(written)
    recorded(path)
    with pytest.raises(PlanError, match="cannot be written"):
        recorded(tmp_path / "nowhere" / "run.oop")
    with pytest.raises(PlanError, match="cannot read"):
        Record(tmp_path / "nowhere.oop")


def test_the_page_of_a_record_has_its_moments_and_says_which_there_are() -> None:
    record = Record(LESSON)
    served = App(Address.of("127.0.0.1:8080"), record.title, record.outlined, record, TrioWaits())
    plan = json.loads(asked(served, "/plan")[2])
    assert not plan["live"] and not plan["results"] and len(plan["times"]) == len(record.times())
    assert json.loads(asked(served, "/moment?number=3")[2]) == json.loads(record.moment(3))
    for wrong in ("/moment?number=100000", "/moment?number=-1", "/moment?number=x", "/events"):
        assert asked(served, wrong)[0] == 404


def test_the_lesson_shows_skew_and_then_a_lull() -> None:
    """The file in demos is what `oop-engine demo --record` wrote; it reads as this version writes."""
    record = Record(LESSON)
    assert record.whole and LESSON.stat().st_size < 200_000
    views = [json.loads(record.moment(number)) for number in range(len(record.times()))]
    causes = [(wait["holder"], wait["cause"]) for view in views if (wait := view["outputs"][0]["wait"])]
    # In the first moments, no packet has come of any.
    later = causes[causes.index(("Main2", "behind")) :]
    assert ("Control", "silent") in later
    assert views[-1]["state"] == "ended"
