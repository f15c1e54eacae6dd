"""A door lets datagrams gather for a moment, never so long that its buffer fills, and is woken at once."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from oop_engine.sources.live import door as module
from oop_engine.sources.live.door import GATHER, Door


class Scripted:
    """A selector that finds what a script says, one answer a call, and remembers how long it was to wait."""

    answers: list[list[object]]
    waited: list[float]

    def __init__(self) -> None:
        self.registered: set[object] = set()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def register(self, file: object, events: int) -> None:
        self.registered.add(file)

    def unregister(self, file: object) -> None:
        self.registered.remove(file)

    def select(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        self.waited.append(seconds)
        found = [file for file in self.answers.pop(0) if file in self.registered]
        return [(selectors.SelectorKey(file, 0, selectors.EVENT_READ, None), selectors.EVENT_READ) for file in found]


@pytest.fixture
def door() -> Iterator[Door]:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("127.0.0.1", 0))
    made = Door.open(bound)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("buffer", "seconds", "gathers"),
    [(64 << 20, 1.0, GATHER), (64 << 20, 0.001, 0.001), (425_984, 1.0, 425_984 / (4 * (300 << 20)))],
)
def test_datagrams_gather_while_the_buffer_has_room(
    door: Door, monkeypatch: pytest.MonkeyPatch, buffer: int, seconds: float, gathers: float
) -> None:
    Scripted.answers, Scripted.waited = [[door.udp[0].socket], [door.udp[0].socket]], []
    monkeypatch.setattr(module, "_Selector", Scripted)
    door.buffer = buffer
    door.wait(seconds)
    assert Scripted.waited == [seconds, pytest.approx(gathers)]
    assert Scripted.answers == []


def test_nothing_gathers_when_nothing_came(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted.answers, Scripted.waited = [[]], []
    monkeypatch.setattr(module, "_Selector", Scripted)
    door.wait(0.25)
    assert Scripted.waited == [0.25]


@pytest.mark.parametrize("when", [0, 1])
def test_a_door_that_is_woken_waits_no_longer(door: Door, monkeypatch: pytest.MonkeyPatch, when: int) -> None:
    """Whether it is woken before a datagram comes or while others gather; the alarm rings once."""
    alarm = door._alarm[0]
    Scripted.answers, Scripted.waited = [[door.udp[0].socket], [alarm]] if when else [[door.udp[0].socket, alarm]], []
    door.wake()
    with monkeypatch.context() as patched:
        patched.setattr(module, "_Selector", Scripted)
        door.wait(9.0)
    assert len(Scripted.waited) == 1 + when
    with pytest.raises(BlockingIOError):
        alarm.recv(1)


def test_a_datagram_ends_a_wait_and_is_received(door: Door) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", door.udp[0].socket.getsockname())
        door.wait(60.0)
    found = door.receive(0)
    assert found is not None and len(found.datagrams) == 1
