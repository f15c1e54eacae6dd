"""Start a Spark session that is quiet, keeps time in UTC, and whose workers know this engine."""

from __future__ import annotations

import os
import site
import sys
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oop_engine.spark.errors import INSTALL, SparkError
from oop_engine.spark.java import java_home
from oop_engine.spark.python import worker_python
from oop_engine.spark.register import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SIMPLIFIED: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_SIMPLY: Final = "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK"
_HERE: Final = Path(__file__).resolve().parent


def session(
    cores: int = 2, *, master: str | None = None, memory: str = "2g", name: str = "oop-engine", **conf: object
) -> SparkSession:
    """Return the session of this process, or start one, with the engine's formats registered.

    - `cores`: cores of this machine to use.
    - `master`: another place to run: "local[*]", "spark://host:7077", or "sc://host:15002" for Spark Connect.
    - `memory`: memory of the driver, such as "2g".
    - `name`: name of the application.
    - `conf`: Spark's own settings, which overrule ours: session(4, **{"spark.ui.enabled": True}), or "spark.api.mode":
      "connect" for a Connect server in this process.

    Java is found by `java_home`. SparkError says what is missing, and the command that installs it.

    >>> spark = oop.spark.session(cores=2)
    >>> spark.read.format("oop.pcap").load("demos/captures/web.pcap.gz").count()
    4631
    """
    check_pyspark()
    # Optional: pyspark.
    from pyspark.sql import SparkSession

    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SparkError(f"session(cores={cores!r}): write a whole number from 1 on, or master='local[*]' for all.")
    started = SparkSession.getActiveSession()
    if started is not None and not _stopped(started):
        for key, value in conf.items():
            started.conf.set(key, _text(value))
        return register(started)
    place = master or f"local[{cores}]"
    settings = {**_settings(place, memory), **{key: _text(value) for key, value in conf.items()}}
    if settings.get(_SIMPLIFIED) == "false":
        settings.pop(_SIMPLY, None)
    connect = place.startswith("sc://")
    builder = (SparkSession.Builder().remote(place) if connect else SparkSession.Builder().master(place)).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with _environment({} if connect else _wanted(place)):
        made = builder.getOrCreate()
    return register(made)


def check_pyspark() -> None:
    """Raise SparkError with the command that mends it when pyspark is not installed."""
    if find_spec("pyspark") is None:
        raise SparkError(f"pyspark is not installed.\n  {INSTALL}")


def _stopped(started: SparkSession) -> bool:
    context = getattr(started, "_sc", None)
    return context._jsc is None if context is not None else bool(getattr(started, "is_stopped", False))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(place: str, memory: str) -> dict[str, str]:
    cores = place.partition("[")[2].rstrip("]").partition(",")[0]
    count = int(cores) if cores.isdecimal() else (os.cpu_count() or 2)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        # The default of 200 costs small streams a task each.
        "spark.sql.shuffle.partitions": str(max(2, min(2 * count, 64))),
        STORE: ROCKSDB,
        # A micro-batch then writes what has changed, and not the files of a whole store.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.executorEnv.PYTHONWARNINGS": "ignore::FutureWarning",
        # Spark sets this for some operators and not for others, and starts other Python processes for those.
        _SIMPLY: "1",
    }
    if place.startswith("sc://"):
        # A server that runs has its settings; those of a session are of Spark SQL.
        return {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
    if "NUMBA_CACHE_DIR" in os.environ:
        settings["spark.executorEnv.NUMBA_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"]
    if place.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.daemon.module": "oop_engine.spark.daemon",
            # Workers of Spark 4.3.0 that are reached over Unix sockets go on without end when Spark hangs up.
            "spark.python.unix.domain.socket.enabled": "false",
            # What is shuffled goes over no network, and to compress pages takes longer than to write them.
            "spark.shuffle.compress": "false",
        }
    return settings


def _wanted(place: str) -> dict[str, str]:
    """Return what the JVM and, through it, the Python workers take from the environment."""
    wanted = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONWARNINGS": _joined("ignore::FutureWarning", os.environ.get("PYTHONWARNINGS"), ","),
        "SPARK_CONF_DIR": os.environ.get("SPARK_CONF_DIR", str(_HERE / "conf")),
    }
    if place.startswith("local"):
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        wanted["PYSPARK_PYTHON"] = wanted["PYSPARK_DRIVER_PYTHON"] = worker_python()
        ours = _HERE.parent.parent
        if str(ours) not in {os.path.realpath(place) for place in site.getsitepackages()}:
            wanted["PYTHONPATH"] = _joined(str(ours), os.environ.get("PYTHONPATH"), os.pathsep)
    return wanted


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Generator[None, None, None]:
    """Set names of the environment, and put it back."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _joined(first: str, rest: str | None, between: str) -> str:
    return first if not rest else f"{first}{between}{rest}"
