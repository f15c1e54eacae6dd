"""One Spark session for the tests of a process; without pyspark or Java they are skipped, and say why."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of this folder that need the session as slow; let pyspark's own warnings pass."""
    for item in items:
        if item.path.parent == _HERE:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Generator[SparkSession, None, None]:
    """A session on two cores, with the engine's formats registered."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
    from oop_engine.spark.errors import SparkError
    from oop_engine.spark.java import java_home
    from oop_engine.spark.session import session

    try:
        java_home()
    except SparkError as error:
        pytest.skip(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, of pandas and of Python versions
        made = session(2, **{"spark.sql.shuffle.partitions": 2})
    yield made
    made.stop()
