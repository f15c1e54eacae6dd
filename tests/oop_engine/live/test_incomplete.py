"""A collection that is stopped or killed loses what waits in open windows, and says so of every row and in numbers."""

from __future__ import annotations

import csv
import gzip
import itertools
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli.collecting import Collection, collect
from oop_engine.cli.showing import Wishes
from oop_engine.drive.incomplete import marking_of
from oop_engine.language import parse
from oop_engine.language.syntax import Query
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.live import ExporterProgress, LiveFlows, Rules
from oop_engine.sources.live.exporters import SECOND
from oop_engine.sources.live.kept import Kept
from oop_engine.sources.live.unreleased import Unreleased, Waiting
from punctuation import NO_TIME
from tests.oop_engine.flows.exporter import NOW, v5, v5_record
from tests.oop_engine.live.collector import bound, senders

QUERY = "SELECT count(*) AS n [RANGE 10 seconds, WA ts] FROM Flows"
RULES = Rules(active=0, inactive=0, scan=0, settle=0, trusted_after=1, lull=None)


def flows(k: int, count: int = 2) -> bytes:
    """Give a datagram of so many records of second k, sent then."""
    uptime = 1_000_000 + 1000 * k
    return v5([v5_record(first=uptime, last=uptime)] * count, sequence=k * count, seconds=NOW + k, uptime=uptime)


@attrs.define
class Conductor:
    """A clock that sends a datagram and goes on to its second each time a reading looks at it, and then stops it."""

    out: socket.socket
    to: tuple[str, int]
    began: int
    seconds: Sequence[int]
    stops: bool
    looks: int = 0

    def __call__(self) -> int:
        self.looks += 1
        # The first two looks are before anything is read.
        place = self.looks - 3
        if 0 <= place < len(self.seconds):
            self.out.sendto(flows(self.seconds[place]), self.to)
        if self.stops and place == len(self.seconds):
            os.kill(os.getpid(), signal.SIGINT)
        now = self.began if place < 0 else self.seconds[min(place, len(self.seconds) - 1)]
        return (NOW + now) * SECOND


@attrs.frozen(kw_only=True)
class Conducted(Collection):
    """A collection by the clock of a conductor."""

    clock: Conductor

    def stream(self, parsed: Query) -> Stream:
        return oop.from_source(
            LiveFlows(self.listen, rules=RULES, state=self.state, clock=self.clock, most=self.most, label="Flows")  # type: ignore[arg-type]
        )


@attrs.frozen
class Exporter:
    """One that sends from one port, whoever listens."""

    out: socket.socket
    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def run(
        self, *seconds: int, began: int, stops: bool = True, query: str = QUERY, open_ones: str | None = None
    ) -> None:
        """Collect records of these seconds, and be stopped, or come to the end."""
        with bound() as listening:
            clock = Conductor(self.out, listening.getsockname(), began, seconds, stops)
            most = None if stops else len(seconds)
            collection = Conducted(listening, state=str(self.state), clock=clock, most=most)
            so_far = None if open_ones is None else str(self.folder / open_ones)
            collect(query, collection, Wishes(str(self.folder / "out.csv"), partial=so_far))

    def rows(self) -> list[tuple[int, int, str]]:
        """Give the windows that there are results of: second, records, whether it is incomplete."""
        with (self.folder / "out.csv").open() as file:
            return [(second(row["window_start"]), int(row["n"]), row["incomplete"]) for row in csv.DictReader(file)]


def second(text: str) -> int:
    """Give a time as a second of these tests."""
    return int((np.datetime64(text.rstrip("Z")) - np.datetime64(NOW, "s")) / np.timedelta64(1, "s"))


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Exporter]:
    with senders("127.0.0.1") as (one,):
        yield Exporter(one, tmp_path)


def test_windows_that_lack_something_say_so_and_others_do_not(
    exporter: Exporter, capsys: pytest.CaptureFixture[str]
) -> None:
    exporter.run(5, 15, 25, 35, 44, began=2)
    assert exporter.rows() == [(0, 2, "true"), (10, 2, "false"), (20, 2, "false"), (30, 2, "false")]
    assert "2 records that were received are in no result, because their windows were open" in capsys.readouterr().err
    exporter.run(57, 63, 75, 85, began=55, stops=False)
    assert exporter.rows()[4:] == [(50, 2, "true"), (60, 2, "false"), (70, 2, "false"), (80, 2, "true")]
    assert "; 2 records that were received before are in no result" in capsys.readouterr().err
    exporter.run(95, 105, 115, began=90)
    assert exporter.rows()[8:] == [(90, 2, "true"), (100, 2, "false")]
    said = capsys.readouterr().err
    assert "; 2 records that were received before" in said and ": 2 records that were received are in no" in said


PERSISTENT = ("fsync", "replace", "rename", "link", "write", "unlink", "ftruncate")


def killed_at(number: int, act: Callable[[], None]) -> bool:
    """Do something in a process that is killed before its n-th persistent operation; tell whether that came."""
    child = os.fork()
    if child == 0:
        count = 0

        def counting(operation: Callable[..., object]) -> Callable[..., object]:
            def counted(*arguments: object, **options: object) -> object:
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return operation(*arguments, **options)

            return counted

        try:
            for name in PERSISTENT:
                setattr(os, name, counting(getattr(os, name)))
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 2)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def promised(state: Path) -> int:
    """Give the second up to which a state says that results were given."""
    progress = ExporterProgress(RULES)
    Kept(state).take_up(progress, FlowDecoder())
    return progress.bound("ts") // SECOND - NOW


@pytest.mark.parametrize("first", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_what_a_state_says_was_given_is_in_the_results_wherever_a_collector_is_killed(
    first: int, tmp_path: Path
) -> None:
    seconds = (5, 8, 15, 25, 34)
    sent = {0: 4, 10: 2, 20: 2, 30: 2}
    for number in itertools.count(first, 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        with senders("127.0.0.1") as (one,):
            exporter = Exporter(one, folder)
            killed = killed_at(number, partial(exporter.run, *seconds, began=-5))
            given = promised(exporter.state) if exporter.state.exists() else -1000
            before = exporter.rows() if (folder / "out.csv").exists() else []
            # What is promised was given, once, and whole.
            assert [row[0] for row in before] == sorted({row[0] for row in before})
            assert {start for start in sent if start + 10 <= given} <= {row[0] for row in before}
            assert all(n == sent[start] and lacks == "false" for start, n, lacks in before)
            exporter.run(47, 55, 65, 72, began=46, stops=False)
            after = exporter.rows()[len(before) :] if exporter.state.exists() and before else exporter.rows()
            whole = [(50, 2, "false"), (60, 2, "false"), (70, 2, "true")]
            assert [row for row in after if row[0] >= 50] == whole
            assert all(lacks == "true" for start, _, lacks in after if start < 50)
        if not killed:
            assert number > 15 and len(before) == 3 and given == 30
            break


def test_records_wait_by_their_times_however_many_and_however_far_apart() -> None:
    rng, waiting, bound = np.random.default_rng(1), Waiting(Grain(10 * SECOND, 3 * SECOND)), NO_TIME
    every = np.zeros(0, np.int64)
    for _ in range(300):
        times = rng.integers(-1000, 4000, rng.integers(0, 50)) * SECOND + int(bound > NO_TIME) * bound
        times[rng.random(len(times)) < 0.1] = NO_TIME
        waiting.take(times, bound)
        every = np.append(every, times[times >= max(bound, NO_TIME + 1)])
        assert waiting.many(bound) == len(every)
        bound = max(bound, waiting.grain.floor(int(rng.integers(-1000, 4000)) * SECOND + max(bound, 0) // 2))
        every = every[every >= bound]
        assert waiting.many(bound) == len(every)
    far = Waiting(Grain())
    far.take(np.array([0, 1, 10**18, NO_TIME]), NO_TIME)
    far.take(np.array([5, 10**18]), NO_TIME, np.array([7, 1]))
    assert (far.many(NO_TIME), far.many(10**18), far.many(10**18 + SECOND)) == (11, 2, 0)


def test_only_what_is_said_to_be_given_is_given() -> None:
    promised = {"ts": 100}
    unreleased = Unreleased(promised.__getitem__)
    unreleased.describe({"ts": Grain(10)})
    assert unreleased.given("ts") == 100
    unreleased.follow()
    promised["ts"] = 200
    assert unreleased.given("ts") == 100 and unreleased.changes == 0
    for said, given in ((150, 150), (120, 150), (250, 200)):
        unreleased.give(said)
        assert unreleased.given("ts") == given
    assert unreleased.changes == 2
    promised["ts"] = 300
    unreleased.give_all(ended=False)
    assert unreleased.given("ts") == 300


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT bytes FROM Flows", ["false"] * 6),
        ("SELECT ts, count(*) AS n FROM Flows GROUP BY ts", ["true", "false"]),
        ("SELECT n FROM (SELECT count(*) AS n [RANGE 10 seconds, WA ts] FROM Flows) AS A", ["", ""]),
        ("SELECT count(*) AS n [RANGE 2 rows] FROM Flows", ["false"] * 3),
        ("SELECT count(*) AS n [SESSION 5 seconds, WA ts] FROM Flows", ["true", "false"]),
        (
            "SELECT sum(n) AS n [RANGE 20 seconds, WA window_end] FROM"
            " (SELECT count(*) AS n [RANGE 10 seconds, WA ts] FROM Flows) AS A", ["true"],
        ),
    ],
)  # fmt: skip
def test_queries_of_every_kind_have_the_column(query: str, expected: list[str], exporter: Exporter) -> None:
    exporter.run(5, 18, 38, began=5, query=query)
    with (exporter.folder / "out.csv").open() as file:
        assert [row["incomplete"] for row in csv.DictReader(file)][: len(expected)] == expected


def test_a_run_from_python_says_it_of_the_same_rows(tmp_path: Path) -> None:
    found: list[list[tuple[int, int, str]]] = []
    for way in ("collect", "run"):
        (tmp_path / way).mkdir()
        out, job = tmp_path / way / "out.csv", tmp_path / way / "job"
        with senders("127.0.0.1") as (one,):
            for seconds, stops in (((5, 15, 25, 35, 44), True), ((57, 63, 75, 85), False)):
                with bound() as listening:
                    clock = Conductor(one, listening.getsockname(), seconds[0], seconds, stops)
                    live = Conducted(listening, clock=clock, most=None if stops else 9)  # type: ignore[arg-type]
                    if way == "collect":
                        collect(QUERY, live, Wishes(str(out), checkpoint=str(job), quiet=True))
                    else:
                        counted = live.stream(parse(QUERY)).window(range="10 s").aggregate(n=oop.count())
                        oop.run_outputs([counted.to(out)], handle_signals=True, checkpoint=job)
            found.append(Exporter(one, tmp_path / way).rows())
    assert found[0] == found[1]
    assert {(20, 2, "false"), (40, 2, "true"), (60, 2, "false")} <= set(found[1])


def test_bills_say_it_of_the_periods_that_windows_say_it_of(tmp_path: Path) -> None:
    with senders("127.0.0.1") as (one,):
        for seconds, stops in (((5, 15, 25, 35, 44), True), ((57, 63, 75, 85), False)):
            with bound() as listening:
                clock = Conductor(one, listening.getsockname(), seconds[0], seconds, stops)
                source = LiveFlows(
                    listening,
                    rules=RULES,
                    clock=clock,
                    most=None if stops else 9,
                    label="Flows",
                    columns=["lost", "received"],
                )
                stream = oop.from_source(source)
                made = (
                    stream.window(range="10 s").aggregate(oop.count()).to(tmp_path / "windows.csv"),
                    oop.queries.rates(stream, by="exporter", slot="5 s", per="10 s").to(tmp_path / "bills.csv"),
                )
                oop.run_outputs(made, handle_signals=True, checkpoint=tmp_path / "job")
    marks: list[dict[int, str]] = []
    for name in ("windows.csv", "bills.csv"):
        with (tmp_path / name).open() as file:
            marks.append({second(row["window_start"]): row["incomplete"] for row in csv.DictReader(file)})
    assert marks[0] == marks[1]
    assert {(20, "false"), (40, "true"), (60, "false")} <= set(marks[1].items())


def test_a_result_from_python_that_has_such_a_column_is_refused(tmp_path: Path) -> None:
    flows = oop.netflow(listen="127.0.0.1:0").window(range="10 s").aggregate(incomplete=oop.count())
    with pytest.raises(oop.PlanError, match='adds a column "incomplete" to the results'):
        flows.to(tmp_path / "out.csv").run(checkpoint=tmp_path / "job")


@pytest.mark.parametrize(
    ("made", "reach"),
    [
        (lambda s: s.window(range="10 s", slide="5 s").aggregate(oop.count(), by="srcIP", strategy="slicing"), 0),
        (lambda s: s.windows(a=oop.session("5 s"), b=oop.tumbling("10 s")).aggregate(oop.count()), 5),
        (lambda s: s.window(range="10 s").aggregate(oop.count()).window(range="30 s", wattr="window_end").aggregate(
            oop.max("count")), 10),
        (lambda s: s.window(range="100 rows", wattr="row_num").aggregate(oop.count(), latest=oop.max("ts")), 0),
        (lambda s: s.join(s, on="srcIP", range="10 s"), None),
        (lambda s: oop.queries.rates(s, by="exporter", slot="5 s", per="1 minute"), 0),
        (lambda s: oop.queries.rates(s, by="exporter", slot="5 s", per="day", once=True), 0),
        (lambda s: oop.queries.rates(s, by="exporter", slot="5 s", per="day", lateness="1 minute"), 0),
        (lambda s: s.window(range="10 s").aggregate(oop.count()).join(
            s.window(range="10 s").aggregate(oop.count()).window(range="30 s", wattr="window_end").aggregate(
                oop.max("count")), wattr="window_start", range="1 s"), 10),
        (lambda s: s.window(range="10 s").aggregate(oop.count()).join(s, wattr=("window_start", "ts"), range="1 s"),
         None),
    ],
)  # fmt: skip
def test_how_far_back_the_records_of_a_row_are_is_read_from_the_plan(
    made: Callable[[Stream], Stream], reach: int | None
) -> None:
    node = made(oop.netflow(listen="127.0.0.1:0", columns=["lost", "received"])).node
    marking = marking_of(node, node.schema, lambda source: None)
    assert marking is not None and marking.wattr == "ts"
    assert marking.reach == (None if reach is None else reach * SECOND)
    assert marking_of(oop.rows([], oop.Schema.of(ts="int64")).node, node.schema, lambda source: None) is None


def test_a_query_that_has_such_a_column_is_refused(exporter: Exporter) -> None:
    with pytest.raises(oop.PlanError, match='adds a column "incomplete" to the results'):
        exporter.run(5, began=5, query="SELECT bytes AS incomplete FROM Flows")


def test_what_open_windows_had_is_kept_when_a_collection_goes_on(
    exporter: Exporter, capsys: pytest.CaptureFixture[str]
) -> None:
    for began, seconds in ((2, (5,)), (12, (15,)), (22, (25, 35))):
        exporter.run(*seconds, began=began, open_ones="open.csv.gz", stops=began < 22)
    said = capsys.readouterr().err
    kept = sorted(path.name for path in exporter.folder.glob("open.2*.csv.gz"))
    assert len(kept) == 2 and all(f'{name}" has what open windows of a run before had' in said for name in kept)
    found = [gzip.decompress((exporter.folder / name).read_bytes()).decode().split("\n")[1] for name in kept]
    assert [row[:2] for row in found] == ["2,", "2,"]
    exporter.run(45, began=42, open_ones="open.csv.gz")
    assert sorted(path.name for path in exporter.folder.glob("open.2*.csv.gz")) == kept
