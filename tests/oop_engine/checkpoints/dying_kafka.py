"""A process whose children read a topic and write another, and are killed (SIGKILL) at operations on the disk.

Arguments: address of the broker, folder, kills, seed. Between two lives more is sent to the topic. The last child reads
to the end. It prints "killed N" where each result is there once, "killed N, M again" where M of them are there again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path

import attrs
import trio

import oop_engine as oop
from oop_engine.api.outputs import together
from oop_engine.drive.checkpoints.job import Job
from oop_engine.drive.runtime import run_plan
from oop_engine.sinks.disk import RealDisk
from tests.oop_engine.checkpoints.dying import Deadly, child

ROWS, RANGE = 40, 10


@attrs.define(eq=False)
class BehindASend(RealDisk):
    """The disk of a process that dies when results were sent, before, while or after it notes that they were."""

    dies_at: int
    done: int = 0

    def _step(self, path: Path) -> None:
        self.done += path.name == "sent.new"
        if path.name == "sent.new" and self.done == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _put(self, path: Path, data: bytes, how: int) -> None:
        self._step(path)
        super()._put(path, data, how)

    def _sync(self, path: Path) -> None:
        self._step(path)
        super()._sync(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step(old)
        super().rename(old, new)


def main(broker: str, folder: Path, kills: int, seed: int) -> None:
    chance, sums = random.Random(seed), defaultdict[int, int](int)
    killed = 0
    for life in range(kills + 1):
        # Windows are complete, and results sent, in every life.
        first = life * ROWS * RANGE
        lines = [(first + n * RANGE + chance.randrange(3 * RANGE), chance.randrange(100)) for n in range(ROWS)]
        for ts, v in lines:
            sums[ts - ts % RANGE] += v
        assert child(lambda lines=lines: send(broker, lines)) == 0
        # Each second life ends just behind a send.
        dies_at = chance.randint(*((1, 3) if life % 2 else (4, 60))) if life < kills else 0
        ended = child(lambda dies_at=dies_at: run(broker, folder, dies_at))
        assert ended == (-signal.SIGKILL if dies_at else 0), ended
        killed += bool(dies_at)
    assert child(lambda: compare(broker, sums, killed)) == 0


def send(broker: str, lines: list[tuple[int, int]]) -> None:
    # Here, since a process that has a client cannot be forked.
    from confluent_kafka import Producer

    # The broker says of a batch of several messages that the first is the last of the topic.
    producer = Producer({"bootstrap.servers": broker, "log_level": 0, "batch.num.messages": 1})
    for ts, v in lines:
        producer.produce("in", json.dumps({"ts": ts, "v": v}))
    assert producer.flush(30) == 0


def run(broker: str, folder: Path, dies_at: int) -> None:
    """Go on with the job, until the disk kills this process, or to the end of the topic."""
    place = f"kafka://{broker}/in?" + ("from=earliest" if dies_at else "until=end")
    stream = oop.read(place, slack=3 * RANGE).window(range=RANGE).aggregate(oop.sum("v"))
    output = stream.to(f"kafka://{broker}/out?rows=1")
    plan = together([output.stream.node])
    disk = RealDisk() if not dies_at else Deadly(dies_at) if dies_at > 3 else BehindASend(dies_at)
    job = Job.begin(folder / "job", plan, [output.sink], every=0.02, disk=disk)
    trio.run(lambda: run_plan(plan, job.outputs, page_rows=16, job=job))


def compare(broker: str, sums: dict[int, int], killed: int) -> None:
    """Read the results that are committed, and compare them with the naive answer."""
    # Here, since a process that has a client cannot be forked.
    from confluent_kafka import Consumer, TopicPartition

    config = {"bootstrap.servers": broker, "group.id": "test", "log_level": 0, "enable.partition.eof": True}
    consumer = Consumer(config)
    partitions = sorted(consumer.list_topics("out", timeout=10).topics["out"].partitions)
    consumer.assign([TopicPartition("out", partition, 0) for partition in partitions])
    found, ends = Counter[tuple[int, int]](), 0
    while ends < len(partitions):
        for message in consumer.consume(100, 1.0):
            if message.error() is None:
                row = json.loads(message.value())
                found[row["window_start"], row["sum_v"]] += 1
            else:
                ends += 1
    consumer.close()
    assert found.keys() == set(sums.items()), sorted(found.keys() ^ set(sums.items()))
    again = found.total() - len(found)
    print(f"killed {killed}" + (f", {again} again" if again else ""), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
