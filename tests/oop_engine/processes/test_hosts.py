"""Hosts share nothing but a connection: their parts of a plan give what one process gives, and promises cross."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import oop_engine as oop
from oop_engine.plan.graph import source_node
from oop_engine.processes.source import RingSource
from tests.oop_engine.processes.link import ALL_KEYS, SCHEMA, Link, elements, front

ROOT = Path(__file__).parents[3]
NAMES = ("k", "window_start", "window_end", "count", "sum_w")


def back(streams: Sequence[oop.Stream]) -> oop.Stream:
    melded = streams[0] if len(streams) == 1 else oop.meld(*streams)
    return melded.window(range=20, slide=10, wattr="ts").aggregate(oop.count(), oop.sum("w"), by="k")


def test_a_plan_over_three_processes_on_loopback_gives_what_one_gives() -> None:
    """The others end their streams when all has come that their promises complete: it could not come without these."""
    alone = back([front(oop.pages(elements(0, 1), SCHEMA))]).to_arrow()
    wanted = sorted(tuple(row[name] for name in NAMES) for row in alone.to_pylist())
    complete = {row for row in wanted if int(str(row[2])) <= (240 if row[0] == "a" else ALL_KEYS)}
    assert {row[0] for row in complete} == {"a", "b", "c"} and len(complete) < len(wanted)
    arrow = front(oop.pages([], SCHEMA)).schema.arrow
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = str(listening.getsockname()[1])
        command = [sys.executable, "-m", "tests.oop_engine.processes.link", port]
        started = [subprocess.Popen([*command, str(part), "2"], cwd=ROOT) for part in range(2)]
        connections = [stack.enter_context(listening.accept()[0]) for _ in started]
        sources = []
        for connection in connections:
            connection.settimeout(30)
            link = Link(connection)
            sources.append(RingSource(link, arrow, ("ts", ("k", "ts"))))  # type: ignore[arg-type]
        found: list[tuple[object, ...]] = []

        def take(row: dict[str, object]) -> None:
            found.append(tuple(row[name] for name in NAMES))
            if len(found) == len(complete):
                assert set(found) == complete
                for connection in connections:
                    connection.sendall(b".")

        back([oop.Stream(source_node(source)) for source in sources]).to(take, each="row").run()
        assert [process.wait() for process in started] == [0, 0]
    assert sorted(found) == wanted
