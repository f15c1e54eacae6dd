"""FastNetMon hears the same exporter as this engine: a long flow is no attack here, and an attack is told of soon."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import attrs
import pytest

import oop_engine as oop
from operators.data.page import Page
from tests.oop_engine.flows.exporter import v5, v5_record
from tests.oop_engine.live.collector import bound

DAEMON = shutil.which("fastnetmon") or "/usr/sbin/fastnetmon"
THRESHOLD = 100_000_000
"""Bits a second, in 5 s, beyond which there is an attack."""
SETTINGS = """
disable_usage_report = on
enable_ban = on
process_incoming_traffic = on
process_outgoing_traffic = off
ban_time = 1900
check_period = 1
ban_for_bandwidth = on
threshold_mbps = 100
netflow = on
netflow_host = 127.0.0.1
netflow_sampling_ratio = 1
average_calculation_time = 5
speed_calculation_delay = 1
interfaces =
monitor_local_ip_addresses = off
enable_api = off
prometheus = off
"""

pytestmark = pytest.mark.skipif(not Path(DAEMON).is_file(), reason="needs FastNetMon (Debian package fastnetmon)")


@attrs.define
class FastNetMon:
    """A daemon that listens on loopback, and the file to which it writes whom it bans."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def bans(self, many: int, within: float = 20.0) -> list[tuple[float, str]]:
        """Wait for so many bans; give the time and the address of each."""
        ends = time.monotonic() + within
        while True:
            told = self.folder / "bans"
            lines = told.read_text().splitlines() if told.exists() else []
            if len(lines) >= many or time.monotonic() > ends:
                return [(float(at), address) for at, address in (line.split() for line in lines)]
            try:
                self.process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError((self.folder / "log").read_text())


@pytest.fixture
def fastnetmon(tmp_path: Path) -> Iterator[FastNetMon]:
    with bound() as free:
        port = free.getsockname()[1]
    script = tmp_path / "notify.sh"
    script.write_text(f'#!/bin/sh\ncat > /dev/null\necho "$(date +%s.%N) $1" >> {tmp_path}/bans\n')
    script.chmod(0o755)
    (tmp_path / "networks").write_text("203.0.113.0/24\n")
    (tmp_path / "white").write_text("")
    paths = {
        "networks_list_path": "networks", "white_list_path": "white", "notify_script_path": "notify.sh",
        "pid_path": "pid", "cli_stats_file_path": "stats", "cli_stats_ipv6_file_path": "stats6",
    }  # fmt: skip
    said = "".join(f"{name} = {tmp_path / file}\n" for name, file in paths.items())
    (tmp_path / "conf").write_text(f"{SETTINGS}netflow_port = {port}\n{said}")
    command = [DAEMON, "--configuration_file", str(tmp_path / "conf"), "--log_file", str(tmp_path / "log")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = FastNetMon(tmp_path, port, process)
    ends = time.monotonic() + 20
    log = tmp_path / "log"
    try:
        while "will listen on 127.0.0.1" not in (log.read_text() if log.exists() else ""):
            assert time.monotonic() < ends, "FastNetMon did not begin to listen"
            started.bans(1, within=0.1)
        yield started
    finally:
        process.kill()
        process.wait()


def flow(target: str, seconds: int, octets: int, *, ago: int = 0, number: int = 0) -> bytes:
    """Give a datagram of one flow that ended so many seconds ago, when it was sent."""
    now, uptime = int(time.time()) - ago, 1_000_000 - 1000 * ago
    record = v5_record(
        "198.51.100.7", target, packets=octets // 1000, octets=octets, first=uptime - 1000 * seconds, last=uptime,
        proto=17,
    )  # fmt: skip
    return v5([record], sequence=number, uptime=uptime, seconds=now)


def send(payloads: list[bytes], *ports: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for payload in payloads:
            for port in ports:
                one.sendto(payload, ("127.0.0.1", port))


def alerts(flows: oop.Stream) -> oop.Stream:
    windows = flows.window(range="5 s", slide="1 s").aggregate(oop.sum("bytes"), by="destIP", early="1 s")
    return windows.alert("flood", f"sum_bytes * 8 > {5 * THRESHOLD}")


@pytest.mark.slow
def test_a_long_flow_is_a_false_alarm_there_and_none_here(fastnetmon: FastNetMon, tmp_path: Path) -> None:
    """20 Mbit/s for five minutes, exported at once."""
    payload = flow("203.0.113.9", 300, 750_000_000)
    send([payload], fastnetmon.port)
    assert [address for _, address in fastnetmon.bans(1)] == ["203.0.113.9"]
    (tmp_path / "exports").write_bytes(payload)
    flows = oop.netflow(tmp_path / "exports")
    assert alerts(flows.spread("bytes", step="1 s")).to_arrow().num_rows == 0
    # All of its bytes at the end of the flow would be one here, too.
    at_once = alerts(flows.derive(began="ts").project("destIP", "bytes", ts="end_ts"))
    assert "open" in at_once.to_arrow()["event"].to_pylist()


@pytest.mark.slow
def test_an_attack_is_told_of_no_more_than_two_seconds_after_them(fastnetmon: FastNetMon) -> None:
    """200 Mbit/s for ten seconds, in flows of a second each."""
    payloads = [flow("203.0.113.10", 1, 25_000_000, ago=10 - k, number=k) for k in range(11)]
    told: list[tuple[float, dict[str, Any]]] = []
    listening = bound()
    port = listening.getsockname()[1]

    def take(page: Page) -> None:
        told.extend((time.time(), row) for row in page.rows())

    flows = oop.netflow(
        listen=listening, lasting="5 s", active="1 s", inactive="0 s", scan="0 s", settle="0 s", lull=None
    )  # fmt: skip
    run = Thread(target=alerts(flows.spread("bytes", step="1 s")).to(take).run)
    run.start()
    # What is sent before it reads waits in the socket, which is bound.
    send(payloads, port, fastnetmon.port)
    sent = time.time()
    ((theirs, address),) = fastnetmon.bans(1)
    run.join()
    assert address == "203.0.113.10"
    first, event = told[0]
    assert event["event"] in ("provisional", "open")
    assert first - theirs <= 2 and first - sent < 4
    assert {row["event"] for _, row in told[1:]} <= {"provisional", "open", "update", "close"}
    assert all(str(row["destIP"]) == "203.0.113.10" for _, row in told)
