"""A folder of captures becomes hourly Parquet tables, on Spark, and is asked by SQL (needs oop-engine[spark])."""

import shutil
import tempfile
from pathlib import Path

import oop_engine as oop

CAPTURES = Path(__file__).parent / "captures"
TOP = "SELECT srcIP, flows, peers, packets, bytes FROM sources ORDER BY bytes DESC LIMIT 4"
LONGEST = """
    SELECT srcIP, destIP, destPort, packets, round(double(last) - double(first), 1) AS seconds FROM flows
    WHERE proto = 6 ORDER BY seconds DESC, packets DESC, srcIP LIMIT 3"""

with tempfile.TemporaryDirectory() as place:
    folder, tables = Path(place) / "captures", Path(place) / "tables"
    folder.mkdir()
    shutil.copy(CAPTURES / "web.pcap.gz", folder / "monday.pcap.gz")
    spark = oop.spark.session(cores=2)
    pipeline = oop.spark.Pipeline(folder, tables, many=20)

    report = pipeline.run(spark)
    print(f"First run: {report.packets:,} packets read, tables for {len(report.hours)} hour: {report.hours[0]}.")
    report = pipeline.run(spark)
    print(f"Second run: {report.packets} packets read, since nothing is new; each packet is read once.\n")

    for name in ("flows", "sources"):
        spark.read.parquet(str(tables / name)).createOrReplaceTempView(name)
    print("Who sent most, and to how many:")
    for row in spark.sql(TOP).toArrow().to_pylist():
        print("  {srcIP:16}{bytes:>10,} bytes in {flows} flows to {peers} peers".format(**row))
    print("The longest TCP flows:")
    for row in spark.sql(LONGEST).toArrow().to_pylist():
        print("  {srcIP:16} -> {destIP:16} port {destPort:<6}{packets:>6} packets, {seconds} s".format(**row))
    spark.stop()
