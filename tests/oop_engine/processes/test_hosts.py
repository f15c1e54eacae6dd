"""Hosts share nothing but a connection: their parts of a plan give what one process gives, and promises cross."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine.plan.graph import source_node
from oop_engine.processes.source import RingSource
from tests.oop_engine.processes.link import ALL_KEYS, SCHEMA, Link, elements, front

ROOT = Path(__file__).parents[3]
NAMES = ("k", "window_start", "window_end", "count", "sum_w")
PARTS = 2
Host = tuple[str, list[str]]
"""The address at which a host reaches this one, and how a command is run there."""


def back(streams: Sequence[oop.Stream]) -> oop.Stream:
    melded = streams[0] if len(streams) == 1 else oop.meld(*streams)
    return melded.window(range=20, slide=10, wattr="ts").aggregate(oop.count(), oop.sum("w"), by="k")


def in_namespaces(stack: ExitStack) -> list[Host]:
    """Make hosts of network namespaces: each has one cable to this one and nothing else, not even loopback."""
    found: list[Host] = []
    for part in range(PARTS):
        name = f"oop{os.getpid()}x{part}"
        ours = IPv4Address("198.18.0.1") + 4 * (os.getpid() % 16_000 * PARTS + part)
        for command in (
            f"ip netns add {name}",
            f"ip link add {name} type veth peer name cable netns {name}",
            f"ip address add {ours}/30 dev {name}",
            f"ip link set {name} up",
            f"ip -n {name} address add {ours + 1}/30 dev cable",
            f"ip -n {name} link set cable up",
        ):
            subprocess.run(command.split(), check=True, capture_output=True)
            if command.startswith("ip netns add"):
                # The cable goes with the namespace that one of its ends is in.
                stack.callback(subprocess.run, ["ip", "netns", "del", name], check=True)
        found.append((str(ours), ["ip", "netns", "exec", name]))
    return found


def check_parts_give_what_one_process_gives(hosts: Sequence[Host]) -> None:
    """The others end their streams when all has come that their promises complete: it could not come without these."""
    alone = back([front(oop.pages(elements(0, 1), SCHEMA))]).to_arrow()
    wanted = sorted(tuple(row[name] for name in NAMES) for row in alone.to_pylist())
    complete = {row for row in wanted if int(str(row[2])) <= (240 if row[0] == "a" else ALL_KEYS)}
    assert {row[0] for row in complete} == {"a", "b", "c"} and len(complete) < len(wanted)
    arrow = front(oop.pages([], SCHEMA)).schema.arrow
    with ExitStack() as stack:
        listening, started = [], []
        for part, (address, there) in enumerate(hosts):
            listening.append(stack.enter_context(socket.create_server((address, 0))))
            listening[-1].settimeout(60)
            port = str(listening[-1].getsockname()[1])
            command = [*there, sys.executable, "-m", "tests.oop_engine.processes.link", address, port]
            started.append(subprocess.Popen([*command, str(part), str(PARTS)], cwd=ROOT))
        connections = [stack.enter_context(one.accept()[0]) for one in listening]
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
        assert [process.wait() for process in started] == [0] * PARTS
    assert sorted(found) == wanted


def test_a_plan_over_three_processes_on_loopback_gives_what_one_gives() -> None:
    check_parts_give_what_one_process_gives([("127.0.0.1", [])] * PARTS)


def test_a_plan_over_three_network_namespaces_gives_what_one_process_gives() -> None:
    with ExitStack() as stack:
        try:
            hosts = in_namespaces(stack)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"this user can make no network namespaces here: {error}")
        check_parts_give_what_one_process_gives(hosts)
