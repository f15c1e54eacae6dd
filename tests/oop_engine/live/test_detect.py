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


def test_an_attack_that_exporters_tell_of_is_provisional_at_once_and_then_opens_and_closes(
    detectors: list[Collector],
) -> None:
    """Windows are complete half an hour later, as any flow may last so long; the clock does not wait for that."""
    options = "--early", "100ms", "--active", "1800s", "--most", "2"
    detectors.append(detector := Collector(*options, command=DETECT))
    send([answers(20, 4000)], ("127.0.0.1", detector.port))
    assert detector.process.stdout is not None
    first = detector.process.stdout.readline()
    send([answers(20, 4000)], ("127.0.0.1", detector.port))
    out, said = detector.end(interrupt=False)
    assert [line.split()[1] for line in [first, *out.splitlines()]] == ["provisional", "open", "update", "close"], out
    assert "10.0.0.1: 60,000 bytes of answers from 30 servers" in first
    assert "dns_amplification: 1" in said


def test_ctrl_c_ends_it_and_is_no_failure(detectors: list[Collector]) -> None:
    detectors.append(detector := Collector("--early", "none", command=DETECT))
    out, said = detector.end()
    assert (out, "0 tuples read; dns_amplification: 0" in said) == ("", True), said
