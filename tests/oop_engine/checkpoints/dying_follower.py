"""A process that follows growing files in children that are killed (SIGKILL) at random times, and again.

Arguments: folder, kills, seed. Meanwhile lines are written, in parts, and files renamed and begun. At last a child
reads to the end. It prints "killed N" where the results are those of the naive answer over all lines, each once.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import threading
from collections import defaultdict
from pathlib import Path

import oop_engine as oop

LAST = 10**8
SLACK = 10**6


def main(folder: Path, kills: int, seed: int) -> None:
    chance, logs = random.Random(seed), folder / "logs"
    logs.mkdir()
    writer = Writer(logs, chance)
    writer.write()
    for _ in range(kills):
        if not (child := os.fork()):
            follow(folder, chance.uniform(0.05, 0.5))
        for _ in range(chance.randrange(6)):
            writer.write()
            select.select([], [], [], chance.uniform(0, 0.05))
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "a child ended by itself"
        writer.write()
    # Files are taken by their times, which the disk counts in milliseconds.
    select.select([], [], [], 0.02)
    writer.line(LAST - SLACK // 2)
    writer.line(LAST)
    with open(writer.current, "ab") as file:
        file.write(writer.held)
    if not (child := os.fork()):
        follow(folder, None)
    assert os.waitpid(child, 0)[1] == 0
    found = [json.loads(line) for line in (folder / "out.ndjson").read_text().splitlines()]
    sums = sorted((row["window_start"], row["sum_v"]) for row in found)
    wanted = sorted(writer.sums.items())
    print(f"killed {kills}" if sums == wanted else f"{sums}\nrather than {wanted}")


def follow(folder: Path, life: float | None) -> None:
    """Follow the files until this process is killed, or until the last window is there."""
    stream = oop.read(folder / "logs/a.ndjson*", follow=True, order="time", slack=SLACK // 4)
    output = stream.window(range=10).aggregate(oop.sum("v")).to(folder / "out.ndjson")
    if life is not None:
        threading.Timer(life, os.kill, (os.getpid(), signal.SIGKILL)).start()
    run = output.start(checkpoint=folder / "job", every=0.02)
    out = folder / "out.ndjson"
    while life is not None or not out.exists() or f'"window_start":{LAST - SLACK // 2}' not in out.read_text():
        select.select([], [], [], 0.02)
    run.stop()
    os._exit(0)


class Writer:
    """A program that logs."""

    def __init__(self, logs: Path, chance: random.Random) -> None:
        self.logs, self.chance = logs, chance
        self.sums: dict[int, int] = defaultdict(int)
        self.held = b""
        self.files = 0
        self.current = logs / "a.ndjson"

    def line(self, ts: int) -> None:
        v = self.chance.randrange(100)
        if ts < LAST:
            self.sums[ts - ts % 10] += v
        self.held += f'{{"ts":{ts},"v":{v}}}\n'.encode()

    def write(self) -> None:
        """Write some lines, the last of them perhaps in part; sometimes into a new file under the same name."""
        for _ in range(self.chance.randint(1, 30)):
            self.line(self.chance.randrange(200))
        cut = len(self.held) if self.chance.random() < 0.5 else self.chance.randrange(len(self.held))
        with open(self.current, "ab") as file:
            file.write(self.held[:cut])
        self.held = self.held[cut:]
        if self.chance.random() < 0.3:
            with open(self.current, "ab") as file:
                file.write(self.held)
            self.held = b""
            self.files += 1
            self.current.rename(self.logs / f"a.ndjson.{self.files}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
