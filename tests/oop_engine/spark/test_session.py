"""A session is found a Java, is quiet and in UTC, and its workers have the engine."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oop_engine.spark import java
from oop_engine.spark.errors import SparkError, unwrapped
from oop_engine.spark.java import java_home, java_version, wrapped
from oop_engine.spark.python import worker_python
from oop_engine.spark.session import session
from oop_engine.spark.shipping import packed, workers_have_it
from oop_engine.spark.wrappers import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fake(folder: Path, version: str) -> Path:
    """Make a program that says it is a Java of some version, and else what it was called with."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; fi\necho "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without Java, for what is written there, too."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    return tmp_path


@pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("1.8.0_392", 8), ("25", 25), ("21.0.1-ea", 21)])
def test_a_java_tells_its_version(tmp_path: Path, version: str, number: int) -> None:
    assert java_version(fake(tmp_path, version)) == number


def test_a_java_that_is_too_old_is_passed_over_for_one_that_is_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(home / "old", "11.0.2").parents[1]))
    with pytest.raises(SparkError) as caught:
        java_home()
    assert "Spark needs Java 17 or later" in str(caught.value)
    assert "(JAVA_HOME) is version 11." in str(caught.value)
    assert "pip install" in str(caught.value)
    new = fake(home / "new", "21.0.2")
    monkeypatch.setenv("PATH", f"{new.parent}:/bin:/usr/bin")
    assert str(new) in (java_home() / "bin" / "java").read_text()


def test_the_wrapper_leaves_out_one_argument_and_keeps_the_others_as_they_are(home: Path) -> None:
    place = wrapped(fake(home / "a folder", "17"))
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*", "--add-modules=other"]
    run = f'PATH=/bin:/usr/bin; exec {shlex.quote(str(place / "bin" / "java"))} "$@"'
    done = subprocess.run(["/bin/sh", "-c", run, "sh", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g a b  * --add-modules=other\n"
    assert wrapped(home / "a folder" / "bin" / "java") == place
    opened = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    for version, kept in ((17, f"{opened} b\n"), (25, "b\n")):
        java = wrapped(home / "a folder" / "bin" / "java", version) / "bin" / "java"
        done = subprocess.run(["/bin/sh", str(java), opened, "b"], capture_output=True, text=True, check=True)
        assert done.stdout == kept
    assert oct((place / "bin" / "java").stat().st_mode & 0o777) == "0o700"


def test_a_home_that_cannot_be_written_gives_a_private_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(home))
    assert cache_folder().parent == home
    assert oct(cache_folder().stat().st_mode & 0o777) == "0o700"


def test_the_room_is_there_without_pyspark(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest)\n"
        "import oop_engine as oop\n"
        "try:\n    oop.spark.session()\n"
        "except oop.spark.SparkError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "pyspark is not installed.\n  pip install 'oop-engine[spark]'\n"


def test_a_session_keeps_time_in_utc_and_gives_the_environment_back(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session() is spark or session().sparkContext is spark.sparkContext
    assert "SPARK_CONF_DIR" not in os.environ
    with pytest.raises(SparkError, match="cores=0"):
        session(0)


def test_what_is_shuffled_on_this_machine_is_not_compressed(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.shuffle.compress") == "false"
    assert spark.range(0, 3, 1, 3).mapInArrow(lambda batches: batches, "id long").repartition(2).count() == 3


def test_workers_of_this_machine_have_the_engine_as_it_is_here(spark: SparkSession) -> None:
    assert workers_have_it(spark)

    def where(batches: object) -> object:
        import pyarrow as pa

        import oop_engine

        yield pa.RecordBatch.from_pydict({"place": [str(oop_engine.__file__)]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(where, "place string").collect()
    import oop_engine

    assert row.place == oop_engine.__file__


def test_processes_of_this_machine_have_one_environment_and_import_pyspark_compiled(
    spark: SparkSession,
) -> None:
    """As Spark does it they import a zip, of which each compiles all; some would be told of traces, others not."""

    def where(batches: object) -> object:
        import os

        import pyarrow as pa
        import pyspark

        yield pa.RecordBatch.from_pydict({"place": [pyspark.__file__, os.environ.get("SPARK_SIMPLIFIED_TRACEBACK")]})

    found = [row.place for row in spark.range(1, numPartitions=1).mapInArrow(where, "place string").collect()]
    import pyspark

    assert found == [pyspark.__file__, "1"]


def test_the_wrapper_of_python_leaves_out_the_zips_and_keeps_all_else(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    places = ["/spark/python/lib/pyspark.zip", "/a b", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/c*", "/pyspark.zip"]
    python = worker_python()
    assert python != sys.executable
    program = "import os, sys; print([sys.executable, os.environ['PYTHONPATH'], *sys.argv[1:]])"
    for told, kept in ((places, "/a b:/c*:/pyspark.zip"), (places[:1], ""), ([], "")):
        monkeypatch.setenv("PYTHONPATH", ":".join(told))
        line = [python, "-c", program, "a  b", "", "*"]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert done.stdout == f"{[sys.executable, kept, 'a  b', '', '*']}\n"


def test_a_pyspark_that_is_found_by_the_environment_alone_needs_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere:{Path(pyspark.__file__).parents[1]}")
    assert worker_python() == sys.executable


def test_what_is_sent_to_other_machines_is_the_three_packages(home: Path) -> None:
    with zipfile.ZipFile(packed()) as file:
        names = file.namelist()
    assert {name.partition("/")[0] for name in names} == {"oop_engine", "operators", "punctuation"}
    assert "oop_engine/language/grammar.lark" in names
    assert "oop_engine/spark/conf/log4j2.properties" in names
    assert not any("__pycache__" in name for name in names)
    assert packed() == packed()


TRACE = 'Traceback (most recent call last):\n  File "x"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TRACE + "punctuation.errors.StreamError: a b\n  c\n\n\tat org.x", "StreamError: a b\n  c"),
        (TRACE + "punctuation.errors.StreamError: a b\n  c\n=== Streaming Query ===\nId: 1", "StreamError: a b\n  c"),
        (TRACE + "KeyError: 'ts'\n", "KeyError: 'ts'"),
        ("[PATH_NOT_FOUND] There is no x. SQLSTATE: 42K03", "There is no x. [PATH_NOT_FOUND]"),
        ("java.lang.Oh: no\n\tat a\n\tat b", "java.lang.Oh: no"),
    ],
)
def test_of_a_stack_trace_what_helps_is_told(text: str, told: str) -> None:
    assert unwrapped(RuntimeError(text)) == told
