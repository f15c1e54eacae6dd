"""`oop-engine detect --netflow` finds attacks in what exporters send, until it has enough or is stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.oop_engine.live.collector import send
from tests.oop_engine.live.test_collect import Collector
from tests.oop_engine.test_cli_detect import answers

DETECT = [sys.executable, "-m", "oop_engine", "detect", "dns_amplification", "--bytes", "30000", "--netflow"]


@pytest.fixture
def detectors() -> Iterator[list[Collector]]:
    started: list[Collector] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_an_attack_that_exporters_tell_of_is_provisional_and_then_opens_and_closes(detectors: list[Collector]) -> None:
    detectors.append(detector := Collector("--most", "1", command=DETECT))
    send([answers(20, 4000)], ("127.0.0.1", detector.port))
    out, said = detector.end(interrupt=False)
    assert [line.split()[1] for line in out.splitlines()] == ["provisional", "open", "update", "close"], out
    assert "10.0.0.1: 36,000 bytes of answers from 30 servers" in out.splitlines()[0]
    assert "dns_amplification: 1" in said


def test_ctrl_c_ends_it_and_is_no_failure(detectors: list[Collector]) -> None:
    detectors.append(detector := Collector("--early", "none", command=DETECT))
    out, said = detector.end()
    assert (out, "0 tuples read; dns_amplification: 0" in said) == ("", True), said
