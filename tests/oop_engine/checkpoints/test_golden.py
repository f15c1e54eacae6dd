"""Checkpoints of the versions before are gone on from, with the results of a run that nobody stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.state import read
from oop_engine.sinks.disk import RealDisk
from tests.oop_engine.checkpoints.golden import FILES, FOLDER, checkpoints
from tests.oop_engine.checkpoints.scenarios import SCENARIOS, answer, found

ARCHIVES = sorted(FOLDER.glob("*.tar.gz"))


def test_there_are_checkpoints_of_this_version() -> None:
    """`python -m tests.oop_engine.checkpoints.golden` writes them at a release."""
    assert f"{oop.__version__}.tar.gz" in [archive.name for archive in ARCHIVES]


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def test_they_are_gone_on_from(archive: Path, tmp_path: Path) -> None:
    jobs = checkpoints(archive, tmp_path / "golden")
    assert len(jobs) > 15
    for name, job in jobs.items():
        last = last_of(job, RealDisk())
        outputs = last.body["outputs"]
        assert isinstance(outputs, list)
        assert not set(read(last).unread) & {n for n in last.states if "aggregate" in n}
        make, target = SCENARIOS[name]
        place = tmp_path / name
        place.mkdir()
        make(tmp_path / "golden" / FILES).to(place / target).run(checkpoint=place / "job", savepoint=str(job))
        rows, expected = found(name, place, RealDisk()), answer(name, tmp_path / "golden" / FILES)
        assert rows <= expected, name
        assert rows.total() == expected.total() - outputs[0]["rows"], name
