"""A process that has collectors in children listen to exporters on loopback, and kills them (SIGKILL) again and again.

With a journal, most are killed when checkpoint and journal have all that was sent, and some at any time. AssertionError
where the results are not the naive answer over what came, where something is lacking that checkpoint and journal had
when a collector died, or where the sequence numbers of the exporters say otherwise. Prints how many were killed.
The exporters send datagrams, or each connects anew to each collector, and tells its templates once in each connection.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import oop_engine as oop
from oop_engine.drive.checkpoints.store import Store
from oop_engine.errors import CheckpointError
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sources.journal import Journal
from oop_engine.sources.live import LiveFlows, LiveReader
from oop_engine.sources.live.steps import Step
from tests.oop_engine.checkpoints.exporters import (
    PROTOCOLS,
    RECORDS,
    RULES,
    Record,
    datagram,
    host,
    lacking,
    lost_of,
    numbers_of,
    outputs,
    records_in,
    windows_in,
    windows_of,
)
from tests.oop_engine.live.collector import senders

LENGTH = 1
"""Seconds of a window."""
MOMENT = 0.002


class Watched(RealDisk):
    """The disk of a collector that runs, on which nothing is changed."""

    def truncate(self, path: Path, length: int) -> None:
        return None

    def sync(self, path: Path) -> None:
        return None


def kept(job: Path) -> int:
    """Return how many datagrams the last checkpoint and the journal have; fewer if one is committed meanwhile."""
    with suppress(CheckpointError, WriteFailed):
        last = Store(job, Watched()).read(lambda _: True)
        saved = None if last is None else last.states.get("Flows (reading)")
        state = {"received": 0, "segment": 1, "offset": 0} if saved is None else saved.decoded()
        number, offset, received = (int(str(state[name])) for name in ("segment", "offset", "received"))
        records = Journal(job / "journal" / "Flows", Watched(), None).records(number, offset)
        steps = [Step.decoded(record) for record in records if record is not None]
        return received + sum(len(step.datagrams) for step in steps if step.datagrams is not None)
    return 0


@attrs.define
class Exporters:
    """Exporters that send in turn, with the present time."""

    to: tuple[str, int]
    streams: bool
    out: dict[int, socket.socket] = attrs.field(factory=dict)
    sent: list[tuple[int, int, int]] = attrs.field(factory=list)
    unheard: bool = True
    """Whether no collector has kept anything of theirs; they then send their templates with all they send.

    IPFIX counts records, so nobody can tell what is lacking behind data whose template did not come before a death.
    """

    @property
    def protocols(self) -> tuple[int, ...]:
        return (10,) if self.streams else PROTOCOLS

    def send(self, many: int) -> None:
        for _ in range(many):
            protocol, k = self.protocols[len(self.sent) % len(self.protocols)], len(self.sent) // len(self.protocols)
            self.sent.append((protocol, k, int(time.time())))
            if not self.streams:
                self.out[protocol].sendto(datagram(*self.sent[-1], told=self.unheard), self.to)
                continue
            told = protocol not in self.out
            if told:
                self.out[protocol] = socket.create_connection(self.to, source_address=(host(protocol), 0))
            whole = datagram(*self.sent[-1], told=told)
            # In two pieces, so that a kill may come between them.
            for piece in (whole[:30], whole[30:]):
                self.out[protocol].sendall(piece)

    def died(self) -> None:
        """Note that who listened is dead."""
        for one in self.out.values() if self.streams else ():
            one.close()
        if self.streams:
            self.out.clear()


@attrs.define
class Collector:
    """A forked child that collects, and has said that it listens."""

    pid: int
    reading: int

    @classmethod
    def started(cls, place: Path, at: str, *, journal: bool, lasting: int | None = None) -> Collector:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.close(reading)
                collect(place, at, writing, journal=journal, lasting=lasting)
                status = 0
            except BaseException as error:
                print(f"child failed: {error!r}", flush=True)
            finally:
                os._exit(status)
        os.close(writing)
        # The end of the pipe tells that it has failed.
        assert os.read(reading, 1) == b"!", "the collector failed"
        return cls(pid, reading)

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until it has ended; whether it has."""
        return bool(select.select([self.reading], [], [], seconds)[0])

    def end(self, number: signal.Signals | None) -> int:
        """Send it a signal, if any, and return how it ended."""
        if number is not None:
            os.kill(self.pid, number)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.reading)
        return status


def collect(place: Path, at: str, told: int, *, journal: bool, lasting: int | None) -> None:
    readers: list[LiveReader] = []

    def opened(reader: LiveReader) -> None:
        readers.append(reader)
        os.write(told, b"!")

    source = LiveFlows(at, rules=RULES, label="Flows", opened=opened, lasting=lasting, columns=["lost", "received"])
    stream = oop.from_source(source)
    bills = oop.queries.rates(stream, by="exporter", slot=f"{LENGTH} s", per=f"{LENGTH} s").to(place / "bills.parquet")
    oop.run_outputs(
        [*outputs(stream, place, LENGTH), bills], handle_signals=True, checkpoint=place / "job", every=0.05,
        journal=0.01 if journal else None,
    )  # fmt: skip
    (place / "lost.json").write_text(json.dumps(lost_of(readers[0])))


def main(place: Path, journal: bool, kills: int, seed: int, streams: bool) -> None:
    luck, job = random.Random(seed), place / "job"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if streams else socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    at = f"tcp://127.0.0.1:{port}" if streams else f"127.0.0.1:{port}"
    with senders(*map(host, PROTOCOLS)) as made:
        exporters = Exporters(("127.0.0.1", port), streams)
        exporters.out |= {} if streams else dict(zip(PROTOCOLS, made, strict=True))
        lost = 0
        for kill in range(kills):
            exporters.unheard = not kept(job)
            collector = Collector.started(place, at, journal=journal)
            for _ in range(luck.randint(1, 8)):
                exporters.send(luck.randint(1, 6))
                assert not collector.wait(luck.uniform(0, 0.02))
            if journal and kill % 3:
                # Datagrams of kills at any time may be lost.
                while (found := kept(job)) < len(exporters.sent) - lost:
                    assert not collector.wait(MOMENT)
                assert found == len(exporters.sent) - lost
            assert collector.end(signal.SIGKILL) == -signal.SIGKILL
            exporters.died()
            if not journal and not streams:
                exporters.send(luck.randint(0, 3))
            # What is in neither of them now is lost, and nothing else.
            lost = len(exporters.sent) - kept(job)
        # What comes last shows what was lost before.
        exporters.unheard = not kept(job)
        collector = Collector.started(place, at, journal=journal)
        exporters.send(6 * len(PROTOCOLS))
        while kept(job) < len(exporters.sent) - lost:
            assert not collector.wait(MOMENT)
        assert collector.end(signal.SIGTERM) == 0
        exporters.died()
        assert Collector.started(place, at, journal=journal, lasting=1).end(None) == 0
    records = records_in(table(place / "rows.parquet"))
    sent = numbers_of(exporters.sent)
    # Nobody can tell by its numbers what of a connection was lost: TCP has acknowledged it, and the next begins anew.
    missing = sent - records if streams else lacking(records, sent, json.loads((place / "lost.json").read_text()))
    assert not records - sent
    assert windows_in(table(place / "windows.parquet")) == windows_of(records, LENGTH)
    assert missing.total() == RECORDS * lost
    check_bills(table(place / "bills.parquet"), records, missing)
    print(f"killed {kills}")


def check_bills(bills: pa.Table, records: Counter[Record], missing: Counter[Record]) -> None:
    """Check that each period is billed once, by the bytes of what came, and marked where anything of it is lacking."""
    found = {(int(row["window_start"].timestamp()), row["exporter"]): row for row in bills.to_pylist()}
    assert len(found) == len(bills)
    naive = windows_of(records, LENGTH)
    assert {key: row["bytes"] for key, row in found.items()} == {key: total for key, (_, total) in naive.items()}
    lacking_periods = {(at // LENGTH * LENGTH, who) for who, _, at in missing}
    assert all(found[key]["incomplete"] for key in lacking_periods & set(found))


def table(folder: Path) -> pa.Table:
    return oop.arrow(pq.read_table(folder)).to_arrow()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "journal", int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "streams")
