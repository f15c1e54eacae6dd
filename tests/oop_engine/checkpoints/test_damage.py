"""What is damaged of a checkpoint is found out, and never taken up: an older one is, or the run is refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from oop_engine.drive.checkpoints.store import Checkpoint, Store
from oop_engine.errors import CheckpointError
from oop_engine.sinks.disk import RealDisk
from operators.data.saved import Saved
from operators.protocol import Outside

BODY = {"query": {}, "outputs": []}


def _parts(epoch: int) -> dict[str, bytes]:
    """Return what of a state is outside of memory."""
    return {"first": bytes([epoch]) * 300, "empty": b"", "last": bytes(100)}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Make a job with two checkpoints."""
    store = Store(tmp_path / "job", RealDisk())
    store.begin()
    store.commit(Checkpoint(0, BODY, {}))
    for epoch in (1, 2):
        parts = {name: Outside(len(part), partial(bytes, part)) for name, part in _parts(epoch).items()}
        states = {"sum of a/b": Saved(bytes(range(epoch, 200)), parts), "": Saved(b"x")}
        store.commit(Checkpoint(epoch, {**BODY, "n": epoch}, states))
    return tmp_path / "job"


def read(folder: Path, *, overtaken: bool = False) -> Checkpoint | None:
    return Store(folder, RealDisk()).read(lambda found: overtaken)


def test_what_was_committed_last_is_read(job: Path) -> None:
    found = read(job)
    assert found is not None and found.epoch == 2 and found.body["n"] == 2
    assert {name: state.encoded for name, state in found.states.items()} == {
        "sum of a/b": bytes(range(2, 200)),
        "": b"x",
    }
    assert {name: part.read() for name, part in found.states["sum of a/b"].outside.items()} == _parts(2)
    assert found.size("sum of a/b") == 198 + 400 and found.size("") == 1


def _damaged(content: bytes) -> Iterator[bytes]:
    """Yield a file with a bit of each region flipped, cut at each, and emptied."""
    for place in range(0, len(content), max(1, len(content) // 60)):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
        yield content[:place]


@pytest.mark.parametrize(
    "name",
    [
        "CURRENT",
        *(f"ckpt/00000002/{file}" for file in ("000-sum-of-a-b.state", "000-sum-of-a-b.parts", "001-part.state")),
    ],
)
def test_every_region_of_a_checkpoint_is_guarded(job: Path, name: str) -> None:
    whole = (job / name).read_bytes()
    for damaged in _damaged(whole):
        (job / name).write_bytes(damaged)
        found = read(job)
        assert found is not None
        # The copy of the commit is whole, so the checkpoint is where only CURRENT is damaged.
        assert found.epoch == (2 if name == "CURRENT" else 1)
        assert found.body["n"] == found.epoch
        if name != "CURRENT":
            with pytest.raises(CheckpointError, match="damaged") as refused:
                read(job, overtaken=True)
            assert Path(name).name in str(refused.value) and "results that came after" in str(refused.value)


def test_a_missing_file_is_named(job: Path) -> None:
    (job / "ckpt/00000002/000-sum-of-a-b.state").unlink()
    with pytest.raises(CheckpointError, match=r"000-sum-of-a-b\.state\" is missing"):
        read(job, overtaken=True)


def test_where_nothing_is_whole_the_run_is_refused(job: Path) -> None:
    for commit in [job / "CURRENT", *job.glob("ckpt/*/COMMIT")]:
        commit.write_bytes(commit.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="no checkpoint before it is whole"):
        read(job)


def test_another_version_is_refused(job: Path) -> None:
    for commit in [job / "CURRENT", *job.glob("ckpt/*/COMMIT")]:
        commit.write_bytes(commit.read_bytes().replace(b"job 1\n", b"job 9\n"))
    with pytest.raises(CheckpointError, match="format version 9; this engine reads version 1"):
        read(job)


def test_a_job_whose_first_commit_was_not_made_is_new(job: Path) -> None:
    (job / "CURRENT").unlink()
    for epoch in ("00000001", "00000002"):
        shutil.rmtree(job / "ckpt" / epoch)
    (job / "ckpt/00000000/COMMIT").write_bytes(b"oop-eng")
    assert read(job) is None


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"mine\.txt"):
        Store(tmp_path, RealDisk()).begin()


def test_the_last_three_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "job", RealDisk())
    store.begin()
    for epoch in range(6):
        store.commit(Checkpoint(epoch, BODY, {"a": Saved(b"1")}))
        store.tidy(epoch)
    assert sorted(p.name for p in (tmp_path / "job/ckpt").iterdir()) == ["00000003", "00000004", "00000005"]
