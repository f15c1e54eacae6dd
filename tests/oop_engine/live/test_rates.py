"""`oop-engine rates --netflow` bills what exporters send, with what they say was lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oop_engine.flows.exporter import v5, v5_record
from tests.oop_engine.live.collector import send
from tests.oop_engine.live.test_collect import Collector, rows

RATES = [sys.executable, "-m", "oop_engine", "rates", "--by", "exporter,out_if", "--per", "day", "--netflow"]


@pytest.fixture
def started() -> Iterator[list[Collector]]:
    found: list[Collector] = []
    yield found
    for one in found:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_what_exporters_send_is_billed_when_it_ends(started: list[Collector], tmp_path: Path) -> None:
    options = ("--most", "2", "--to", str(tmp_path / "bills.csv"), "--checkpoint", str(tmp_path / "job"))
    started.append(one := Collector(*options, command=RATES))
    send([v5([v5_record(octets=1000)] * 2), v5([v5_record(octets=500)], sequence=5)], ("127.0.0.1", one.port))
    _, said = one.end(interrupt=False)
    (bill,) = rows((tmp_path / "bills.csv").read_text(encoding="utf-8"))
    assert (bill["bytes"], bill["lost"], bill["loss"], bill["slots"]) == ("2500", "3", "0.6", "288"), said
    assert "3 flows" in said
