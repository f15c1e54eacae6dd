"""A run begins from a savepoint with a changed query: what means the same goes on exactly; nothing is lost unseen."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio
from click.testing import CliRunner, Result

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.job import Job
from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.savepoint import taken
from oop_engine.drive.checkpoints.store import CURRENT, Checkpoint, Store
from oop_engine.drive.outcome import marked, shedding_of
from oop_engine.drive.runtime import run_plan
from oop_engine.errors import CheckpointError
from oop_engine.plan.graph import Node, SourceNode
from oop_engine.rewrite.passes import together
from oop_engine.sinks import Csv
from oop_engine.sinks.disk import RealDisk
from operators.functions.protocol import AggregateFunction
from tests.examples import mostly_slow
from tests.oop_engine.checkpoints.scenarios import (
    FEW,
    LIMITS,
    SCENARIOS,
    Steps,
    answer,
    crashed,
    data,
    found,
    limit_of,
    run,
    run_job,
)
from tests.oop_engine.checkpoints.simulated_disk import Crash, SimulatedDisk
from tests.oop_engine.schedules import scheduled

PLACE = Path("/simulated")


def killed(name: str, files: Path, *, dies_at: int = 100) -> SimulatedDisk:
    """Run a scenario until it is killed, and keep its last checkpoint as a savepoint."""
    disk = crashed(name, files, PLACE, dies_at=dies_at)
    disk.dies_at = None
    taken(PLACE / "job", "kept", disk)
    return disk


def source_of(node: Node) -> SourceNode:
    while not isinstance(node, SourceNode):
        node = node.inputs[0]
    return node


def go_on(nodes: list[Node], targets: list[str], disk: SimulatedDisk, *, drop: tuple[str, ...] = ()) -> Job:
    """Run outputs from the savepoint to their end, or until the disk dies."""
    plan = together(nodes)
    sinks = [Stream(node).to(PLACE / target).sink for node, target in zip(nodes, targets, strict=True)]
    job = Job.begin(PLACE / "job", plan, sinks, every=0.02, disk=disk, savepoint="kept", drop_state=drop)

    run_job(plan, job, seed=4)
    return job


def crowded_twice(name: str, files: Path, disk: SimulatedDisk, *, savepoint: str | None, changed: bool) -> Counter[str]:
    """Run the query of a limit beside another over the same source, which may have changed; return the lines of it."""
    stream = SCENARIOS[name][0](files)
    other = Stream(source_of(stream.node)).window(range=70 if changed else 50).aggregate(oop.max("v"), by="k")
    plan, limit = together([stream.node, other.node]), limit_of(name)
    markings = [shedding_of(limit, plan, number, node) for number, node in enumerate((stream.node, other.node))]
    schemas = [n.schema if m is None else m.schema for n, m in zip(plan.outputs, markings, strict=True)]
    targets = ("one.csv", "changed.csv" if changed else "other.csv")
    sinks = [Stream(node).to(PLACE / to).sink for node, to in zip(plan.outputs, targets, strict=True)]
    drop = ("aggregate max(v) by k",) if changed else ()
    job = Job.begin(
        PLACE / "job", plan, sinks, every=0.02, disk=disk, schemas=schemas, savepoint=savepoint, drop_state=drop
    )
    marks = [marked(m, output) for m, output in zip(markings, job.outputs, strict=True)]

    async def main() -> None:
        await run_plan(plan, marks, page_rows=40, waiting=False, job=job, limit=limit)

    with scheduled(4):
        trio.run(main, clock=Steps())
    return Counter((disk.read(PLACE / "one.csv") or b"").decode().splitlines())


@pytest.mark.parametrize("name", LIMITS)
def test_a_changed_query_takes_over_what_a_limit_put_aside(name: str, tmp_path: Path) -> None:
    """Parts on disk, and which groups were refused, are in the savepoint."""
    data(files := tmp_path, FEW)
    expected = crowded_twice(name, files, SimulatedDisk(seed=1), savepoint=None, changed=False)
    disk = SimulatedDisk(seed=1, dies_at=90)
    with pytest.raises(Crash):
        crowded_twice(name, files, disk, savepoint=None, changed=False)
    disk.crash()
    taken(PLACE / "job", "kept", disk)
    assert crowded_twice(name, files, disk, savepoint="kept", changed=True) == expected
    assert "dropped: aggregate max(v) by k" in str(last_of(PLACE / "job", disk).body["from"])


@pytest.mark.parametrize("name", mostly_slow(sorted(set(SCENARIOS) - {"no window", *LIMITS}), every=3))
def test_the_same_query_goes_on_from_a_savepoint(name: str, files: Path) -> None:
    make, target = SCENARIOS[name]
    disk = killed(name, files, dies_at=70)
    job = go_on([make(files).node], [target], disk)
    assert found(name, PLACE, disk) == answer(name, files)
    assert job.resumed and "new:" not in str(job.last.body["from"])


GUARDED = {"sessions", "revisions", "latest", "every fifth tuple"}
"""Here another reader of late tuples makes the plan put a guard between."""


@pytest.mark.parametrize("name", mostly_slow(sorted(set(SCENARIOS) - {"distinct", "no window", *LIMITS}), every=3))
def test_a_query_with_a_further_output_goes_on_exactly(name: str, files: Path) -> None:
    """The other output brings more columns to all parts, and promises at other steps."""
    make, target = SCENARIOS[name]
    disk = killed(name, files, dies_at=70)
    stream = make(files)
    source = source_of(stream.node)
    first = source.schema.names[0]
    further = Stream(source).filter(oop.Column(first) >= oop.Column(first))
    nodes: list[Node] = [stream.node, further.node]
    if name in GUARDED:
        with pytest.raises(CheckpointError, match="what it reads is not what it was"):
            go_on(nodes, [target, "further.csv"], disk)
        return
    kept: Any = last_of(PLACE / "job", disk).body["nodes"]
    position = kept[source.label]["position"]["tuples"]
    job = go_on(nodes, [target, "further.csv"], disk)
    assert found(name, PLACE, disk) == answer(name, files)
    assert f"filter {first} >= {first}" in str(job.last.body["from"]).partition("new: ")[2]
    lines = (disk.read(PLACE / "further.csv") or b"").decode().splitlines()[1:]
    table = Stream(source).to_arrow()
    if source.label == "rows.parquet":
        assert Counter(lines) == Counter(csv(table.slice(position)))
    else:  # late ones are left out, and addresses are text in a table
        assert 0 < len(lines) <= 1200 - position


def csv(table: pa.Table) -> list[str]:
    """Return the lines of a table."""
    encoder, stream = Csv(), oop.arrow(table)
    text = encoder.open(stream.schema) + b"".join(encoder.write(page) for page in stream)
    return text.decode().splitlines()[1:]


@pytest.mark.parametrize("seed", range(8))
def test_a_run_from_a_savepoint_that_dies_goes_on_when_it_is_run_again(seed: int, files: Path) -> None:
    disk = killed("sliding", files, dies_at=60)
    make, target = SCENARIOS["sliding"]
    for attempt in range(3):
        stream = make(files)
        further = Stream(source_of(stream.node)).window(range=25).aggregate(oop.max("v"), by="k")
        disk.dies_at = disk.operations + 5 + 9 * seed if attempt < 2 else None
        try:
            go_on([stream.node, further.node], [target, "further.ndjson"], disk)
        except Crash:
            disk.crash()
    assert found("sliding", PLACE, disk) == answer("sliding", files)


def summed(files: Path, size: int = 40, least: int = -1, *functions: AggregateFunction) -> list[Node]:
    rows = Stream(source_of(oop.read(files / "rows.parquet").node))
    one = rows.filter(oop.Column("v") > least).window(range=size).aggregate(oop.sum("v"), *functions, by="k")
    return [one.node, rows.window(range=30).aggregate(oop.max("v"), by="k").node]


def half_way(files: Path) -> SimulatedDisk:
    """Run two aggregates over one source until the run is killed; the last checkpoint becomes a savepoint."""
    disk = SimulatedDisk(seed=2)
    plan = together(summed(files))
    sinks = [Stream(node).to(PLACE / name).sink for node, name in zip(plan.outputs, ("a.csv", "b.csv"), strict=True)]
    job = Job.begin(PLACE / "job", plan, sinks, every=0.02, disk=disk)
    disk.dies_at = 130
    with pytest.raises(Crash):
        run_job(plan, job, seed=4)
    disk.crash()
    taken(PLACE / "job", "kept", disk)
    return disk


def test_what_would_be_lost_is_listed_and_can_be_let_go_of(files: Path) -> None:
    disk = half_way(files)
    changed = summed(files, 50)
    with pytest.raises(CheckpointError) as refused:
        go_on(changed, ["c.csv", "b.csv"], disk)
    assert '"aggregate sum(v) by k"' in str(refused.value) and "partial results are held" in str(refused.value)
    assert "max(v)" not in str(refused.value)
    with pytest.raises(CheckpointError, match="no part of the savepoint"):
        go_on(changed, ["c.csv", "b.csv"], disk, drop=("aggregate sum(v)",))
    job = go_on(changed, ["c.csv", "b.csv"], disk, drop=("aggregate sum(v) by k",))
    assert "dropped: aggregate sum(v) by k" in str(job.last.body["from"])
    expected = Stream(summed(files)[1]).to_arrow()
    assert sorted((disk.read(PLACE / "b.csv") or b"").decode().splitlines()[1:]) == sorted(csv(expected))


def test_a_condition_before_an_aggregate_is_part_of_what_it_means(files: Path) -> None:
    disk = half_way(files)
    with pytest.raises(CheckpointError, match="what it reads is not what it was"):
        go_on(summed(files, 40, 50), ["c.csv", "b.csv"], disk)


def named(files: Path, names: list[str]) -> list[Node]:
    table = {"k": list(range(5)), "name": names}
    stream = oop.read(files / "rows.parquet").lookup(table, "k", name="names")
    return [stream.window(range=40).aggregate(oop.count(), by="name").node]


def test_a_table_that_changed_is_named_and_what_it_filled_can_be_let_go_of(files: Path) -> None:
    disk, aggregate = SimulatedDisk(seed=2), "aggregate count(*) by name"
    plan = together(named(files, [*"abcde"]))
    job = Job.begin(PLACE / "job", plan, [Stream(plan.outputs[0]).to(PLACE / "a.csv").sink], every=0.02, disk=disk)
    disk.dies_at = 70
    with pytest.raises(Crash):
        run_job(plan, job, seed=4)
    disk.crash()
    taken(PLACE / "job", "kept", disk)
    changed = named(files, [*"abcdz"])
    with pytest.raises(CheckpointError) as refused:
        go_on(changed, ["a.csv"], disk)
    assert f'"{aggregate}"' in str(refused.value)
    assert '"lookup names on k": its table has another content than it had' in str(refused.value)
    job = go_on(changed, ["a.csv"], disk, drop=(aggregate,))
    assert f"dropped: {aggregate}" in str(job.last.body["from"])
    lines = (disk.read(PLACE / "a.csv") or b"").decode().splitlines()
    assert any("z" in line for line in lines) and any(",d" in line or "d," in line for line in lines)


def test_results_with_other_columns_need_another_place(files: Path) -> None:
    disk = half_way(files)
    with pytest.raises(CheckpointError, match="other columns"):
        go_on(
            summed(files, 40, -1, oop.count()), ["a.csv", "b.csv"], disk, drop=("aggregate sum(v) by k",)
        )  # fmt: skip


def test_results_that_came_after_the_savepoint_do_not_come_again(files: Path) -> None:
    disk = half_way(files)
    go_on(summed(files), ["a.csv", "b.csv"], disk)
    store = Store(PLACE / "job", disk)
    old = store.savepoint("kept")
    store.keep("older", Checkpoint(old.epoch, old.body, old.states))
    plan = together(summed(files))
    sinks = [Stream(node).to(PLACE / name).sink for node, name in zip(plan.outputs, ("a.csv", "b.csv"), strict=True)]
    with pytest.raises(CheckpointError, match="results that came after the savepoint"):
        Job.begin(PLACE / "job", plan, sinks, disk=disk, savepoint="older")
    other = [Stream(node).to(PLACE / name).sink for node, name in zip(plan.outputs, ("c.csv", "d.csv"), strict=True)]
    assert Job.begin(PLACE / "job", plan, other, disk=disk, savepoint="older").ended is None


QUERY = "SELECT v, count(*) [RANGE 100, WA ts] FROM Main GROUP BY v"


def query(text: str, *options: str) -> Result:
    return CliRunner().invoke(commands, ["query", text, "-s", "Main=rows.csv", *options])


class Stopping(RealDisk):
    """A disk whose machine stops before the third commit."""

    commits = 0

    def rename(self, old: Path, new: Path) -> None:
        self.commits += new.name == CURRENT
        if self.commits == 3:
            raise Crash
        super().rename(old, new)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a job that was stopped, and a savepoint of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("ts,v\n" + "".join(f"{i},{i % 7}\n" for i in range(30_000)))

    stream = oop.query(QUERY, Main=oop.read("rows.csv", slack=1))
    plan = together([stream.node])
    job = Job.begin(tmp_path / "job", plan, [stream.to("out.csv").sink], every=0.02, disk=Stopping())
    with pytest.raises(Crash):
        run_job(plan, job, seed=4, page_rows=500)
    kept = CliRunner().invoke(commands, ["job", "savepoint", "job", "before"])
    assert kept.exit_code == 0 and kept.stdout.startswith("savepoint before: checkpoint 1 of "), kept.output
    return tmp_path


def test_a_savepoint_of_a_job_that_ended_is_refused(files: Path) -> None:
    disk = killed("no window", files, dies_at=200)
    with pytest.raises(CheckpointError, match="had ended"):
        go_on([SCENARIOS["no window"][0](files).node], ["out.parquet"], disk)


def lines_of(path: str) -> list[str]:
    return sorted(Path(path).read_text().splitlines())


def test_the_command_begins_from_a_savepoint_and_then_goes_on(there: Path) -> None:
    listed = CliRunner().invoke(commands, ["job", "list", "."])
    assert listed.exit_code == 0 and len(listed.stdout.splitlines()) == 2, listed.output
    assert re.search(r"^job  checkpoint 1 of .* UTC, [\d,]+ tuples$", listed.stdout, re.M)
    assert re.search(r"^  savepoint before  checkpoint 1 of", listed.stdout, re.M)
    options = ("--slack", "1", "--checkpoint", "job", "--from", "before", "--to")
    first = query(QUERY, *options, "out.csv")
    assert first.exit_code == 0 and 'going on from savepoint "before"' in first.stderr, first.output
    again = query(QUERY, *options, "out.csv")
    assert again.exit_code == 0 and "nothing was read or written now" in again.stderr, again.output
    assert query(QUERY, "--slack", "1", "--to", "whole.csv").exit_code == 0
    assert lines_of("out.csv") == lines_of("whole.csv")


def test_the_command_lists_what_would_be_lost(there: Path) -> None:
    options = ("--slack", "1", "--checkpoint", "job", "--from", "before", "--to", "new.csv")
    wider = QUERY.replace("100", "200")
    refused = query(wider, *options)
    assert refused.exit_code == 2 and "partial results are held" in refused.stderr, refused.output
    (flag,) = re.findall(r'--drop-state "(.+)"', refused.stderr)
    assert query(wider, *options, "--drop-state", flag).exit_code == 0


def test_another_job_begins_from_the_folder_of_a_savepoint(there: Path) -> None:
    for number, place in enumerate(("job", "job/savepoints/before")):
        options = (
            "--slack",
            "1",
            "--checkpoint",
            f"other{number}",
            "--from",
            f"./{place}",
            "--to",
            f"other{number}.csv",
        )
        begun = query(QUERY, *options)
        assert begun.exit_code == 0, begun.output
    assert Path("other0.csv").read_text() == Path("other1.csv").read_text()
    assert 1 < len(lines_of("other0.csv")) < 7 * 300


def test_names_of_savepoints_are_checked(there: Path) -> None:
    def job(*arguments: str) -> Result:
        return CliRunner().invoke(commands, ["job", *arguments])

    assert "already" in job("savepoint", "job", "before").stderr
    assert "no name of a savepoint" in job("savepoint", "job", "../x").stderr
    assert job("list", "empty").exit_code == 2
    unknown = query(QUERY, "--slack", "1", "--checkpoint", "job", "--from", "befor", "--to", "out.csv")
    assert unknown.exit_code == 2 and 'Did you mean "before"?' in unknown.stderr
    assert "with --checkpoint" in query(QUERY, "--slack", "1", "--to", "out.csv", "--from", "before").stderr
    output = oop.query(QUERY, Main=oop.read("rows.csv", slack=1)).to("out.csv")
    with pytest.raises(oop.PlanError, match="with a checkpoint"):
        output.run(savepoint="before")
    with pytest.raises(oop.CheckpointError, match="from a savepoint"):
        output.run(checkpoint="job", drop_state=("x",))


def test_a_damaged_savepoint_is_named(there: Path) -> None:
    (path,) = [path for path in Path("job/savepoints/before").glob("*.state") if "count" in path.name]
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"?" + content[51:])
    refused = query(QUERY, "--slack", "1", "--checkpoint", "job", "--from", "before", "--to", "out.csv")
    assert refused.exit_code == 2 and path.name in refused.stderr and "damaged" in refused.stderr
    # What a run that died left of one is written anew.
    again = CliRunner().invoke(commands, ["job", "savepoint", "job", "before"])
    assert again.exit_code == 0 and path.read_bytes() == content


def test_the_machine_dies_while_a_savepoint_is_made(files: Path) -> None:
    for dies_at in range(1, 40):
        disk = SimulatedDisk(seed=dies_at, dies_at=100)
        with pytest.raises(Crash):
            run("sliding", files, PLACE, seed=1, disk=disk, every=0.02)
        disk.crash()
        disk.dies_at = disk.operations + dies_at
        try:
            taken(PLACE / "job", "kept", disk)
        except Crash:
            disk.crash()
            with suppress(CheckpointError):  # all but its name was durable
                taken(PLACE / "job", "kept", disk)
            assert Store(PLACE / "job", disk).savepoint("kept").epoch == last_of(PLACE / "job", disk).epoch
        else:
            assert dies_at > 10
            return
    raise AssertionError("it takes more operations than that")
