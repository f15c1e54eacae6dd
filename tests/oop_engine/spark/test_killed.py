"""A Python worker or an executor that is killed in the middle is made good by Spark, and the answer is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import oop_engine as oop
from oop_engine.plan.punctuate import slack
from operators.functions.user import UserAggregate
from tests.oop_engine.spark.plans import Row, stream
from tests.oop_engine.spark.simulated import embedded

ROOT = Path(__file__).resolve().parents[3]
PLACE, WHOM = "OOP_TEST_PLACE", "OOP_TEST_WHOM"
"""In the environment of workers: the folder where they tell their numbers, and who is to be killed."""
DEADLY = 1_000_003


def lift(x: int) -> int:
    """Give x back; the first worker that adds up so much is killed, or the executor whose daemon forked it.

    Who does it next tells its number, too.
    """
    place = os.environ.get(PLACE)
    if place and x == DEADLY:
        parent = os.getpid() if os.environ[WHOM] == "worker" else _parent(os.getppid())
        for name in ("killed", "next"):
            try:
                told = os.open(Path(place) / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            os.write(told, str(parent).encode())
            os.fsync(told)
            os.close(told)
            if name == "killed":
                os.kill(parent, signal.SIGKILL)
            break
    return x


def _parent(number: int) -> int:
    """Give the number of a process's parent."""
    (line,) = [line for line in Path(f"/proc/{number}/status").read_text().splitlines() if line.startswith("PPid:")]
    return int(line.split()[1])


def add(a: int, b: int) -> int:
    return a + b


def total() -> UserAggregate:
    """A sum that is added up in plain Python, by code that workers find by its name."""
    output = pa.int64()
    return oop.user_aggregate("total", lift, add, arguments="x", identity=0, output=output, interpreted=True)


def plan(rows: list[list[Row]]) -> oop.Stream:
    """Add up in sliding windows, by key."""
    return stream("a", rows, slack(5)).window(range=6, slide=2).aggregate(total(), oop.count(), by="k")


DRIVER = """
    import json, os, sys
    from pathlib import Path
    import pyarrow as pa
    import oop_engine as oop
    from oop_engine.spark.run import on_spark
    from tests.oop_engine.spark.test_end_of_stream import ended, log_of
    from tests.oop_engine.spark.test_killed import given, plan
    from tests.oop_engine.spark.test_on_spark import frame_of
    from tests.oop_engine.spark.test_streaming import run

    place, master, whom, *hows = Path(sys.argv[1]), *sys.argv[2:]
    conf = {"spark.sql.shuffle.partitions": 2, "spark.executorEnv.OOP_TEST_PLACE": place}
    conf["spark.executor.extraJavaOptions"] = os.environ["SPARK_SUBMIT_OPTS"]
    spark = oop.spark.session(master=master, memory="1g", **conf, **{"spark.executorEnv.OOP_TEST_WHOM": whom})
    for how in hows:
        if how == "batch":
            found = on_spark(plan([]), spark, {"a": frame_of(spark, given())}, buckets=2)
        else:
            rows = [row for page in given() for row in page]
            log = log_of(place / "log", [rows[:30], rows[30:]])
            frame = on_spark(plan([]), spark, {"a": ended(spark, log, maxFilesPerTrigger=1)}, buckets=2, end=True)
            run(frame, place / "out", place / "checkpoint")
            found = spark.read.parquet(str(place / "out"))
        print(json.dumps([list(row.values()) for row in found.toArrow().to_pylist()]), flush=True)
        (place / how).mkdir()
        for name in ("killed", "next"):
            (place / name).rename(place / how / name)
    spark.stop()
"""


def given() -> list[list[Row]]:
    """Give rows, none of them late, of which some in the middle are deadly."""
    return [[(at // 2 + at * 3 % 5, "abc"[at % 3], at % 4, DEADLY if at in (45, 46) else 1) for at in range(90)]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("master", "whom", "hows"),
    [
        ("local[2,3]", "worker", ("batch", "streaming")),
        pytest.param(
            "local-cluster[2,1,1024]", "executor", ("batch",),
            marks=pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a parent is read from /proc"),
        ),
    ],
)  # fmt: skip
def test_who_is_killed_in_the_middle_is_made_good(
    tmp_path: Path, master: str, whom: str, hows: tuple[str, ...]
) -> None:
    expected = embedded(plan(given()))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DRIVER), str(tmp_path), master, whom, *hows],
        cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    for how, line in zip(hows, done.stdout.splitlines()[-len(hows) :], strict=True):
        assert Counter(map(tuple, json.loads(line))) == expected, how
        killed, following = (int((tmp_path / how / name).read_text()) for name in ("killed", "next"))
        assert killed != following
