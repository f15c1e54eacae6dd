"""Over Spark Connect readers and plans give what they give in a session of one's own, or say what to do instead."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")

import oop_engine as oop
from oop_engine.spark.shipping import packed
from tests.oop_engine.spark.simulated import embedded

ROOT = Path(__file__).resolve().parents[3]
CAPTURE = ROOT / "demos" / "captures" / "web.pcap.gz"

CLIENT = """
    import json, sys
    from pathlib import Path
    import oop_engine as oop
    from oop_engine.spark.pipeline import Pipeline
    from oop_engine.spark.run import cores_of
    from oop_engine.spark.shipping import workers_have_it
    from tests.oop_engine.spark.test_connect import talkers

    place = Path(sys.argv[1])
    spark = oop.spark.session(3, **{"spark.api.mode": "connect", "spark.sql.shuffle.partitions": 2})
    told = {"client": type(spark).__module__, "sent": not workers_have_it(spark)}

    def rows(frame):
        return sorted(map(str, map(tuple, (row.values() for row in frame.toArrow().to_pylist()))))

    told["cores"] = cores_of(spark)
    told["packets"] = spark.read.format("oop.pcap").load(str(place / "in")).where("destPort = 80").count()
    told["own"] = rows(talkers().on_spark(spark))
    frame = spark.readStream.format("oop.pcap").option("complete", True).load(str(place / "in"))
    try:
        talkers(slack="1 s").on_spark(spark, {"web": frame.where("length > 0")}, end=True)
    except oop.PlanError as error:
        told["filtered"] = str(error)
    streaming = talkers(slack="1 s").on_spark(spark, {"web": frame}, end=True)
    writing = streaming.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    writing.trigger(availableNow=True).start(str(place / "out")).awaitTermination()
    told["streaming"] = rows(spark.read.parquet(str(place / "out")))
    report = Pipeline(place / "in", place / "tables").run(spark)
    told["pipeline"] = [report.packets, report.batches, list(report.hours)]
    for name, act in {
        "counts": lambda: oop.spark.Counts(spark),
        "option": lambda: spark.read.format("oop.pcap").option("colums", "ts").load(str(place / "in")).count(),
        "file": lambda: spark.read.format("oop.pcap").load("in/web.pcap").count(),
    }.items():
        try:
            with oop.spark.errors():
                act()
        except oop.spark.SparkError as error:
            told[name] = str(error)
    print(json.dumps(told), flush=True)
    spark.stop()
"""


def talkers(**promises: object) -> oop.Stream:
    packets = oop.pcap(str(CAPTURE), name="web", **promises)  # type: ignore[arg-type]
    return packets.window(range="20 s", slide="10 s").aggregate(oop.count(), by="srcIP").filter("count > 300")


@pytest.mark.slow
def test_a_client_of_spark_connect_has_the_same_answers(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    shutil.copy(CAPTURE, tmp_path / "in")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CLIENT), str(tmp_path)],
        cwd=ROOT, env={**os.environ, "SPARK_TESTING": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["client"] == "pyspark.sql.connect.session" and not told["sent"]
    assert told["cores"] == 3
    assert told["packets"] == oop.pcap(str(CAPTURE)).filter("destPort = 80").run().table.num_rows
    assert told["own"] == sorted(map(str, embedded(talkers()).elements()))
    assert told["streaming"] == sorted(map(str, embedded(talkers(slack="1 s")).elements()))
    assert told["pipeline"] == [4631, 1, ["2013-05-02T20"]]
    assert "Spark's Filter may lose that" in told["filtered"]
    assert told["counts"].startswith("Counts: over Spark Connect tasks tell the client nothing")
    assert told["option"].startswith('SourceError: oop.pcap has no option "colums".') and len(told["option"]) < 400
    assert told["file"].startswith('SourceError: there is no file "in/web.pcap".\n  There is no folder "in" either.')
    assert "It was looked for in " in told["file"]


@pytest.mark.slow
def test_the_zip_that_is_sent_is_the_whole_engine(tmp_path: Path) -> None:
    """Every module is found in the zip, also in folders that are packages without saying so."""
    program = (
        "import sys, pkgutil, zipfile; from importlib import import_module\n"
        f"place = {str(packed())!r}; sys.path.insert(0, place)\n"
        "names = [n[:-3].replace('/', '.') for n in zipfile.ZipFile(place).namelist() if n.endswith('.py')]\n"
        "names = [n.removesuffix('.__init__') for n in names if not n.endswith('__main__')]\n"
        "for name in names:\n    assert import_module(name).__file__.startswith(place), name\n"
        "print(len(names))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300
