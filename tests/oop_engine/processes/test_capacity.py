"""The search for a rate finds the highest one that is kept, and every packet that was sent is counted or lost."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.processes.capacity import By, Turns, highest, sending
from operators.data.page import Page

pytestmark = pytest.mark.skipif(os.name != "posix", reason="memory is handed on between processes on POSIX alone")


@given(
    limit=st.integers(0, 3_000), step=st.integers(1, 50), start=st.integers(1, 4_000), most=st.integers(1, 2_500)
)  # fmt: skip
def test_the_highest_rate_that_holds_is_found(limit: int, step: int, start: int, most: int) -> None:
    tried: list[int] = []

    def holds(rate: int) -> bool:
        tried.append(rate)
        assert 0 < rate <= most and rate % step == 0
        return rate <= limit

    assert highest(holds, step=step, start=start, most=most) == min(limit, most) // step * step
    assert len(tried) == len(set(tried)) <= 2 * (most // step).bit_length() + 1


@pytest.mark.parametrize("by", ["ring", "udp"])
def test_what_was_sent_is_given_or_lost(by: By) -> None:
    told: list[oop.CapacityTrial] = []
    found = oop.capacity(
        lambda stream: stream, by=by, step=20_000, start=20_000, most=40_000, seconds=0.2, told=told.append
    )
    assert tuple(told) == found.trials and found.trials
    for trial in found.trials:
        assert trial.results + trial.lost == trial.sent > 0
        assert trial.lost == 0
        assert set(trial.cpu) == {"sender", "engine"} and min(trial.cpu.values()) > 0
    assert found.rate in (0, 20_000, 40_000)


def test_a_ring_that_is_too_small_loses_packets_and_says_so() -> None:
    found = oop.capacity(
        lambda packets: packets, step=4_000_000, start=4_000_000, most=4_000_000, seconds=0.1, room=1 << 16
    )
    (trial,) = found.trials
    assert trial.lost > 0 and not trial.kept
    assert trial.results + trial.lost == trial.sent
    assert (found.rate, found.limit) == (0, "query")


def test_a_query_that_needs_no_more_lets_its_sender_go_on_to_the_next_turn() -> None:
    with sending(7, 1 << 14) as sender:
        # Who waits for an answer of the sender finds after a minute that it is gone.
        late = threading.Timer(60, sender.end)
        late.start()
        turns = Turns(lambda packets: packets.top(3, "ts", ascending=True), "ring", sender, 1 << 14)
        trials = [turns.take(50_000, 0.2) for _ in range(2)]
        late.cancel()
    assert [trial.results for trial in trials] == [3, 3]
    assert [trial.sent for trial in trials] == [10_000, 10_000]


class Refused(Exception):
    """What the query of a test fails with."""


def test_a_query_over_udp_that_fails_ends_the_sender_and_its_thread() -> None:
    def fails(page: Page) -> npt.NDArray[np.bool_]:
        if len(page):
            raise Refused(f"a page of {len(page)}")
        return np.zeros(0, np.bool_)

    before = set(threading.enumerate())
    with sending(7, 1 << 16) as sender:
        turns = Turns(lambda flows: flows.filter(fails), "udp", sender, 1 << 20, two_processes=False)
        with pytest.raises(Refused, match="a page of"):
            turns.take(10_000, 60.0)
        assert sender.process.poll() is not None
        # The runtime keeps its threads for the next run.
        left = set(threading.enumerate()) - before
        assert not [thread.name for thread in left if not thread.name.startswith("Trio thread")]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["ring", "udp"])
@pytest.mark.parametrize(("two_processes", "low"), [(True, 0), (False, 1), (True, 2)])
def test_levels_may_be_in_processes_of_their_own(by: By, two_processes: bool, low: int) -> None:
    def counted(stream: Stream) -> Stream:
        return stream.window(range="1 hour").aggregate(oop.count(), by="srcIP").filter("count > 0")

    found = oop.capacity(
        counted, by=by, step=10_000, start=10_000, most=10_000, seconds=0.5, groups=7, two_processes=two_processes,
        low=low,
    )  # fmt: skip
    processes = [f"low level {number + 1}" for number in range(low)] + ["high level"] * two_processes
    for trial in found.trials:
        assert trial.lost == 0
        # Seven sources, and their hour may end meanwhile.
        assert trial.results in (7, 14)
        assert list(trial.cpu) == ["sender", "engine", *processes]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "tcp"}, "capacity(by='tcp'): write one of ring, udp"),
        ({"step": 0}, "capacity(step=0): write 1 or more"),
        ({"seconds": 0.0}, "write how long each rate is sent"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(oop.PlanError) as error:
        oop.capacity(lambda packets: packets, **options)  # pyright: ignore[reportArgumentType]
    assert said in str(error.value)


def test_the_command_tells_each_rate_and_gives_json() -> None:
    text = "SELECT destPort, count(*) [RANGE 1 s, WA ts] FROM P WHERE proto = 6 GROUP BY destPort"
    arguments = ["capacity", text, "--step", "20000", "--start", "20000", "--most", "20000", "--seconds", "0.1"]
    outcome = CliRunner().invoke(commands, [*arguments, "--json"])
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout)
    assert found["rate"] in (0, 20_000) and found["trials"][0]["asked"] == 20_000
    assert found["trials"][0]["results"] > 0
    assert "20,000/s  " in outcome.stderr and "of a core" in outcome.stderr


@pytest.mark.parametrize("reads", ["P UNION Q", "'capture.pcap'"])
def test_a_query_of_several_streams_or_files_is_refused(reads: str) -> None:
    outcome = CliRunner().invoke(commands, ["capacity", f"SELECT count(*) [RANGE 1 s, WA ts] FROM {reads}"])
    assert outcome.exit_code == 2 and "reads one stream" in outcome.stderr


_CAPACITY = """
import sys
from oop_engine.processes.capacity import Sending
from oop_engine.processes.ring import LEAST, Ring
import subprocess

ring, held = Ring.create(LEAST), int(sys.argv[1])
command = [sys.executable, "-m", "oop_engine.processes.load", "5", str(ring.descriptor), str(ring.capacity)]
process = subprocess.Popen(
    command, pass_fds=(ring.descriptor, held), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
sending = Sending(process, ring)
sending.line()
sending.ask({"rate": 1_000_000, "seconds": 1_000.0, "lead": 0.0, "port": 0})
while ring.used < ring.capacity // 2:
    sending.watch()
print("full", flush=True)
sys.stdin.read()
"""


def test_a_sender_whose_parent_was_killed_ends_though_its_ring_is_full() -> None:
    read, write = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", _CAPACITY, str(write)],
        pass_fds=(write,), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    os.close(write)
    try:
        assert parent.stdout is not None and parent.stdout.readline() == b"full\n"
        parent.kill()
        # The sender has the other end of the pipe as long as it is there.
        assert select.select([read], [], [], 60)[0] and os.read(read, 1) == b""
    finally:
        parent.kill()
        parent.communicate()
        os.close(read)
