"""Whoever cuts a capture again and again while it is read ends that reading, never the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from oop_engine.sources.capture import Capture, DecodeError
from oop_engine.sources.capture.mapping import Mapping
from tests.capture_files import SECOND, ether, ipv4, pcap, udp

PACKETS = 30_000
ROUNDS = 30


def read_while_cut(path: Path) -> tuple[int, int]:
    """Read a file until it has been written and cut so many times; gives how often it was looked at, and found cut."""
    whole = pcap([(SECOND + k, ether(ipv4(udp(b"z" * 60), 17))) for k in range(PACKETS)])
    path.write_bytes(whole)
    looked, cut = 0, 0
    looking = threading.Event()

    def write() -> None:
        for k in range(ROUNDS):
            path.write_bytes(whole)
            looking.clear()
            looking.wait(1)
            os.truncate(path, 24 + k * 7919 % 100_000)

    hold = Mapping.hold

    def holding(self: Mapping, low: int, high: int) -> object:
        nonlocal looked
        found = hold(self, low, high)
        if found is not None:
            looked += 1
            looking.set()
        return found

    Mapping.hold = holding  # type: ignore[assignment, method-assign]
    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        capture = Capture(path, batch_rows=5_000)
        try:
            packets = sum(map(len, capture.batches()))
        except DecodeError:
            continue
        assert packets == capture.counts["packets"] <= PACKETS
        cut += bool(capture.notes)
    return looked, cut


def test_reading_a_file_that_is_cut_again_and_again_never_ends_the_process(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.oop_engine.test_capture_cut", str(tmp_path / "x.pcap")],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    looked, cut = map(int, ran.stdout.split())
    if not looked:
        pytest.skip("files here can't be leased, so that they are read")
    assert cut


if __name__ == "__main__":
    print(*read_while_cut(Path(sys.argv[1])))
