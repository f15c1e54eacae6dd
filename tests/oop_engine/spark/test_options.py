"""Options are read as they are written, times to the nanosecond; a table of Spark's catalog has none, and is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.sources.errors import SourceError
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.options import Options
from tests.capture_files import WHOLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = 1_714_564_800 * 10**9


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("2024-05-01T12:00:00.123456789Z", NOON + 123_456_789),
        ("2024-05-01 12:00:00.962608999", NOON + 962_608_999),
        ("2024-05-01T14:00:00,5+02:00", NOON + 500_000_000),
        ("20240501T120000.0000001", NOON + 100),
        ("2024-05-01T13:00:00+01:00:00.5", NOON - 500_000_000),
        ("1714564800.962608999", NOON + 962_608_999),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("-0.000000001", -1),
        ("2024-05-01", NOON - 12 * 3600 * 10**9),
    ],
)
def test_a_time_keeps_its_nanoseconds(written: str, ns: int) -> None:
    assert Options("oop.pcap", {"start": written}, ("start",)).time("start") == ns


@pytest.mark.parametrize("written", ["2024-05-01T12:00:00.1234567890Z", "1714564800.1234567890", "12:00", "noon"])
def test_what_is_no_time_is_told(written: str) -> None:
    with pytest.raises(SourceError, match=f'start="{written}" is no time'):
        Options("oop.pcap", {"start": written}, ("start",)).time("start")


def test_a_table_is_told_to_be_a_view(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(WHOLE["pcapng"])
    sql = f"USING oop.pcap OPTIONS (path '{path}')"
    with (
        pytest.raises(SparkError, match=r"oop\.pcap can be no table: .*\n.*CREATE TEMPORARY VIEW .*a\.pcapng"),
        errors(),
    ):
        spark.sql(f"CREATE TABLE packets_of_a_table {sql}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW packets_of_a_view {sql}")
    assert spark.table("packets_of_a_view").count() == 4
