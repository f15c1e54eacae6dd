"""The state of a job reads as tables, without its program, also while it runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.prototype import prototype
from oop_engine.drive.checkpoints.query import described, names
from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.state import JobState, read
from oop_engine.drive.checkpoints.store import CURRENT, Checkpoint
from oop_engine.plan.graph import OperatorNode
from oop_engine.rewrite.demand import pruned
from oop_engine.rewrite.passes import together
from oop_engine.sinks.disk import RealDisk
from operators.data.page import Page
from operators.drive import drive
from operators.fresh import fresh
from operators.overflow import overflows
from operators.protocol import Operator
from operators.window_aggregate.results import STOP
from punctuation import END
from tests.oop_engine.checkpoints.scenarios import LIMITS, SCENARIOS, Make, crashed, sliding

PLACE = Path("/simulated")


def cut(name: str, files: Path, *, dies_at: int = 100) -> Checkpoint:
    """Return the last checkpoint of a scenario that died."""
    return last_of(PLACE / "job", crashed(name, files, PLACE, dies_at=dies_at))


def rows(table: pa.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - {"joined", "outer join", "tumbling join", *LIMITS}))
def test_operators_are_made_again_as_the_program_makes_them(name: str, files: Path) -> None:
    checkpoint = cut(name, files)
    found, plan = read(checkpoint), pruned(together([SCENARIOS[name][0](files).node]))
    query: Any = checkpoint.body["query"]
    assert not found.unread
    for label, node in zip(names(plan), plan.nodes, strict=True):
        if not isinstance(node, OperatorNode):
            continue
        made = prototype(query[label]["operator"])
        assert made is not None and repr(_public(made)) == repr(_public(node.operator))
        operator = fresh(node.operator)
        operator.restore(checkpoint.states[label].decoded())
        for overflow in overflows(operator):
            overflow.forgiving = True
        pages = [e for e in drive(operator, [END]) if isinstance(e, Page) and len(e)]
        if pages and STOP in pages[0].schema:
            assert rows(found.windows[label]) == rows(pa.Table.from_batches([page.batch for page in pages]))
        else:
            assert label not in found.windows


def _public(operator: Operator) -> dict[str, object]:
    """Return what an operator is made of."""
    kind = type(operator)
    assert attrs.has(kind)
    names = [field.name for field in attrs.fields(kind) if field.init and not field.name.startswith("_")]
    return {name: getattr(operator, name) for name in names if name not in ("overflow", "wanted")}


@pytest.mark.parametrize("dies_at", [60, 80, 100, 130])
def test_open_windows_have_what_was_read_of_them(dies_at: int, files: Path) -> None:
    """Those of the first tuples, as far as they were read, but for the windows that were given already."""
    found = read(cut("sliding", files, dies_at=dies_at))
    taken = found.sources.column("tuples")[0].as_py()
    promised = {row["attribute"]: row["below"] for row in found.promises.to_pylist()}
    table = sliding(files)
    first = oop.arrow(oop.read(files / "rows.parquet").to_arrow().slice(0, taken))
    whole = first.window(range=40, slide=10).aggregate(oop.count(), oop.sum("v"), oop.median("v"), by="k").to_arrow()
    open_ = [row for row in whole.to_pylist() if row["window_end"] >= promised["window_end"]]
    (windows,) = found.windows.values()
    assert windows.schema.names == table.schema.names and len(open_) > 0
    assert rows(windows) == Counter(repr(sorted(row.items())) for row in open_)
    assert rows(found.results)[repr([("path", str(PLACE / "out.parquet")), ("rows", whole.num_rows - len(open_))])] == 1
    # Fewer are the first of them.
    few = read(cut("sliding", files, dies_at=dies_at), most=3).windows
    assert [table.to_pylist() for table in few.values()] == [windows.slice(0, 3).to_pylist()]


def stopped(make: Make, folder: Path) -> JobState:
    """Run until the rows break off, and return the state of the last checkpoint."""
    output = make(folder).to(folder / "out.csv")
    with pytest.raises(ZeroDivisionError):
        output.run(checkpoint=folder / "job", every=0.01)
    return oop.state(folder / "job")


@attrs.define
class Breaking:
    """Packets that break off, once a checkpoint after the first has some of them."""

    job: Path
    at: int = 0

    def seek(self, position: int) -> None:
        self.at = position

    def __iter__(self) -> Breaking:
        return self

    def __next__(self) -> tuple[int, str, int]:
        self.at += 1
        over = self.at > 60_000 and self.at % 1_000 == 0 and len(list((self.job / "ckpt").iterdir())) > 2
        return 10_000 * self.at, f"10.0.0.{self.at % 3}", self.at // (0 if over else 1)


SCHEMA = oop.Schema.of(ts=pa.timestamp("ns"), ip="ip", v="int64")


def addresses(folder: Path, name: str = "auto") -> Stream:
    stream = oop.rows(Breaking(folder / "job"), SCHEMA, slack="10 ns")
    return stream.window(range="100 us").aggregate(oop.count(), oop.max("v"), by="ip", strategy=name)


@pytest.mark.parametrize("strategy", ["auto", "two_level"])
def test_groups_and_bounds_read_as_people_read_them(tmp_path: Path, strategy: str) -> None:
    found = stopped(lambda folder: addresses(folder, strategy), tmp_path)
    taken = found.sources.column("tuples")[0].as_py()
    assert 0 < taken < 60_000 and not found.ended
    (windows,) = found.windows.values()
    assert {*windows.column("ip").to_pylist()} <= {"10.0.0.0", "10.0.0.1", "10.0.0.2"}
    assert max(windows.column("max_v").to_pylist()) == taken
    (bound,) = [row for row in found.promises.to_pylist() if row["source"] and row["attribute"] == "ts"]
    assert re.fullmatch(r"1970-01-01T00:00:00\.\d+Z", bound["text"])
    assert 0 <= 10_000 * taken - 10 - bound["below"] < 100_000
    given = bound["below"] // 10_000 - 1
    assert sum(windows.column("count").to_pylist()) == taken - given
    counters = {(row["operator"], row["counter"]): row["value"] for row in found.counters.to_pylist()}
    assert counters[found.sources.column("source")[0].as_py(), "late"] == 0


def test_a_function_in_python_is_told_and_not_guessed(tmp_path: Path) -> None:
    def make(folder: Path) -> Stream:
        total = oop.user_aggregate(
            "total", lambda x: x, lambda a, b: a + b, arguments="v", identity=0, output=pa.int64(),
            interpreted=True,
        )  # fmt: skip
        return oop.rows(Breaking(folder / "job"), SCHEMA, slack="10 ns").window(range="100 us").aggregate(total)

    found = stopped(make, tmp_path)
    assert not found.windows
    ((name, why),) = found.unread.items()
    assert "total" in name and why
    assert {row["operator"]: row["state_tuples"] for row in found.operators.to_pylist()}[name] > 0
    shown = CliRunner().invoke(commands, ["job", "show", str(tmp_path / "job"), "--windows", "2"])
    assert shown.exit_code == 0 and f"not shown: {name}" in shown.stdout


def test_only_classes_of_operators_are_made() -> None:
    assert prototype({"is": "operators.functions.count.Count", "argument": None}) is None  # no operator
    assert prototype({"is": "operators.rows.number.Number", "name": "n"}) is not None
    for name in ("subprocess.Popen", "operators.lazy.sys.modules", "operators.rows.number.attrs", "operators.rows.X"):
        assert prototype({"is": name, "args": "true"}) is None


def test_job_show_prints_the_first_open_windows(tmp_path: Path) -> None:
    stopped(addresses, tmp_path)
    shown = CliRunner().invoke(commands, ["job", "show", str(tmp_path / "job"), "--windows", "2"])
    assert shown.exit_code == 0, shown.output
    _, _, table = shown.stdout.partition("\nopen in ")
    lines = table.splitlines()
    assert lines[0].startswith("aggregate count(*), max(v) by ip") and len(lines) == 4
    assert lines[1].split() == ["ip", "count", "max_v", "wid", "window_start", "window_end"]
    assert lines[2].startswith("10.0.0.")


@attrs.define
class Overtaken(RealDisk):
    """A disk on which a run goes on while its job is read: the files that CURRENT named are gone once."""

    job: Path
    later: bytes
    read_: int = 0

    def read(self, path: Path) -> bytes | None:
        found = super().read(path)
        if path.name == CURRENT:
            self.read_ += 1
            if self.read_ == 2:
                (self.job / CURRENT).write_bytes(self.later)
        return found


def test_a_job_is_read_while_it_goes_on(tmp_path: Path) -> None:
    stopped(addresses, tmp_path)
    job = tmp_path / "job"
    later = (job / CURRENT).read_bytes()
    # The first of a job has no files yet.
    commits = (path.read_bytes() for path in sorted(job.glob("ckpt/*/COMMIT")))
    old = next(commit for commit in commits if b'"file": "' in commit)
    (job / CURRENT).write_bytes(old.replace(b'"file": "', b'"file": "gone-'))
    disk = Overtaken(job, later)
    assert last_of(job, disk).epoch == oop.state(job).epoch and disk.read_ >= 3


def test_where_no_job_is_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(oop.CheckpointError, match="no folder of a job"):
        oop.state(tmp_path)


def test_the_description_of_a_query_is_enough_for_two_levels(files: Path) -> None:
    stream = (
        oop.pcap(files / "packets.pcap").window(range="1 s").aggregate(oop.count(), by="srcIP", strategy="two_level")
    )
    query = described(pruned(together([stream.node])))
    operators = [node["operator"] for node in query.values() if isinstance(node, dict) and "operator" in node]
    assert len(operators) > 2 and all(prototype(operator) is not None for operator in operators)
