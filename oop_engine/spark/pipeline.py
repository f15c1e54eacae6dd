"""Turn a folder of captures into hourly tables; a run never reads what an earlier one has read.

    tables/flows/hour=2024-05-01T12/    kind, addresses, ports, proto; packets, bytes, first, last, flags
    tables/sources/hour=.../            kind, srcIP; packets, bytes, flows, peers, first, last
    tables/alerts/hour=.../             kind, srcIP, alert, value
    tables/.work/                       checkpoints, journals, notes, and what every batch counted

Each batch of new packets, or of records of flow exports, is counted by hour and flow, and the counts are kept under the
batch's number: a batch that is run again after a crash replaces its own. Counts add up, so hours that new batches
touched are summed anew from all their counts and replace what was there. A packet without a time is in the hour
`unknown`. Counts of flow exports are times their sampling rate; `kind` tells packets and exports apart, which may have
seen the same traffic.

An alert is a source that in an hour sent SYN without ACK to many ports of one host (`scan`) or to many hosts (`sweep`).
Hours are tumbling windows of the time that packets bear, so neither the order of files nor of packets matters. An alert
that later packets disprove goes: an ACK that came in another file. One table has one meaning of many: when it is
another than in the run before, the alerts of all hours are made anew of the flows that the tables hold.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.files import claimed
from oop_engine.sources.errors import SourceError
from oop_engine.spark.contents import Contents, Kind
from oop_engine.spark.errors import errors
from oop_engine.spark.hourly import EXPORTS, MANY, alerts, flows, measured, reader, sources, summed
from oop_engine.spark.paths import Folder, local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POLL: Final = 1
_MANY: Final = "many"


def _local(place: str | Path) -> Path:
    return local(place, "Pipeline").absolute()


@attrs.frozen
class Report:
    """The counts of a run."""

    packets: int
    records: int
    batches: int
    hours: tuple[str, ...]
    notes: tuple[str, ...]


@attrs.frozen
class Pipeline:
    """Keep tables of flows, sources and alerts up to date with a folder of captures and flow exports.

    - `source`: folder of the captures and exports.
    - `tables`: folder of the tables. Both are paths, or file: URIs, of a disk that the driver and all workers see;
      relative ones are meant from the folder in which the pipeline is made.
    - `exports`: captures with names like these hold flow exports, if export datagrams are in them. All other captures
      hold packets.
    - `many`: so many ports of one host, or hosts, make an alert.
    - `batch_bytes`: most bytes of files in a batch.
    - `split_bytes`: size of the parts into which large files are cut.

    SourceError for other places.

    >>> _ = shutil.copytree("demos/captures", "captures", ignore=lambda *_: ["README.md"])
    >>> pipeline = oop.spark.Pipeline("captures", "tables")
    >>> pipeline.check()
    >>> report = pipeline.run(oop.spark.session(cores=2))
    >>> report.packets, report.records
    (5146, 0)
    """

    source: Path = attrs.field(converter=_local)
    tables: Path = attrs.field(converter=_local)
    exports: tuple[str, ...] = EXPORTS
    many: int = MANY
    batch_bytes: int = 1 << 30
    split_bytes: int = 64 << 20

    def check(self) -> None:
        """Check the folders: SourceError when there is nothing to read, and never was; SinkError when another run
        writes tables.
        """
        if not self.source.is_dir():
            raise SourceError(f'there is no folder "{self.source}".')
        if not Folder.of([str(self.source)]).names() and not self._work().is_dir():
            raise SourceError(f'the folder "{self.source}" holds no captures.')
        if self._work().is_dir():
            with self._alone():
                pass

    def _alone(self) -> AbstractContextManager[None]:
        """Keep other runs from these tables."""
        return claimed(self._work() / "run", what=f'the tables "{self.tables}"')

    def run(self, spark: SparkSession, watch: Callable[[str], None] = lambda line: None) -> Report:
        """Read what is new and bring the tables up to date; return a report.

        - `spark`: the session.
        - `watch`: a function that is called with a sentence on each step.

        SourceError or SparkError for files that cannot be read, SinkError when another run writes the tables.
        """
        self.check()
        self._work().mkdir(parents=True, exist_ok=True)
        with self._alone(), errors():
            packets, records = self._read(spark, "packets", watch), self._read(spark, "exports", watch)
            new = self._new()
            hours = self._publish(spark, new, watch)
        return Report(packets, records, len(new), hours, self._notes())

    def _read(self, spark: SparkSession, kind: Kind, watch: Callable[[str], None]) -> int:
        """Count the new rows of a kind, batch after batch; give how many there were."""
        contents = Contents(kind, self.exports)
        if not any(_takes(contents, self.source / name) for name in Folder.of([str(self.source)]).names()):
            return 0
        work = self._work()
        stream = (
            reader(spark, kind, self.exports)
            .option("journal", str(work / f"{kind}.journal"))
            .option("notes", str(work / "notes"))
            .option("maxBytesPerTrigger", self.batch_bytes)
            .option("splitBytes", self.split_bytes)
            .load(str(self.source))
        )

        def count(frame: DataFrame, number: int) -> None:
            counted = summed(measured(frame, kind)).drop("kind")
            place = self._counts(kind, number)
            counted.write.mode("overwrite").partitionBy("hour").parquet(str(place))
            if not any(place.glob("hour=*")) and not frame.isEmpty():
                raise SinkError(
                    f'workers counted a batch, and the driver does not see what they wrote to "{place}".\n'
                    "  Name a folder for the tables that the driver and all workers share under one path."
                )

        writing = stream.writeStream.foreachBatch(count)
        query = (
            writing.option("checkpointLocation", str(work / "checkpoints" / kind)).trigger(availableNow=True).start()
        )
        tally = Tally()
        try:
            while not query.awaitTermination(_POLL):
                tally.take(query.recentProgress)
                watch(f"{kind}: {tally.rows:,} read in {tally.batches} batches ...")
        finally:
            query.stop()
        tally.take(query.recentProgress)
        return tally.rows

    def _publish(
        self, spark: SparkSession, new: Sequence[tuple[str, int]], watch: Callable[[str], None]
    ) -> tuple[str, ...]:
        """Bring up to date the hours that new batches touched, and all alerts if another number is many; give them."""
        touched = _hours([self._counts(kind, number) for kind, number in new])
        done = self._published()
        before = done.pop(_MANY, None)
        again = bool(done) and before != self.many
        hours = tuple(sorted({*touched, *_hours([self.tables / "flows"])})) if again else touched
        if hours:
            watch(f"tables: {len(hours)} hours ...")
        if again:
            # Until all are made anew, alerts of two thresholds may be there; if this run is killed the next must know.
            self._write_published(done)
        if touched:
            self._sum(spark, touched)
        if hours:
            self._alert(spark, hours)
        for kind, number in new:
            done[kind] = max(number, done.get(kind, -1))
        if new or again:
            self._write_published({**done, _MANY: self.many})
        return hours

    def _sum(self, spark: SparkSession, hours: Sequence[str]) -> None:
        """Sum hours anew from all their counts. They lose no rows: counts only grow."""
        # Optional: pyspark.
        from pyspark.sql import functions as f

        counts = spark.read.option("basePath", str(self._work() / "counts")).parquet(
            *(str(p) for p in (self._work() / "counts").glob("kind=*/batch=*") if any(p.glob("hour=*")))
        )
        _replace(flows(counts.where(f.col("hour").isin(list(hours)))), self.tables / "flows")
        _replace(sources(self._flows(spark, hours)), self.tables / "sources")

    def _alert(self, spark: SparkSession, hours: Sequence[str]) -> None:
        """Replace the alerts of hours by those that their flows give now; an hour that has none any more is removed."""
        found = alerts(self._flows(spark, hours), self.many).persist()
        try:
            _replace(found, self.tables / "alerts")
            left = {row["hour"] for row in found.select("hour").distinct().collect()}
        finally:
            found.unpersist()
        for hour in set(hours) - left:
            stale = self.tables / "alerts" / f"hour={hour}"
            if stale.exists():
                shutil.rmtree(stale)

    def _flows(self, spark: SparkSession, hours: Sequence[str]) -> DataFrame:
        # Optional: pyspark.
        from pyspark.sql import functions as f

        return spark.read.parquet(str(self.tables / "flows")).where(f.col("hour").isin(list(hours)))

    def _new(self) -> list[tuple[str, int]]:
        """Return the batches that the tables do not hold yet."""
        done = self._published()
        found: list[tuple[str, int]] = []
        for folder in (self._work() / "counts").glob("kind=*/batch=*"):
            kind, number = folder.parent.name.partition("=")[2], int(folder.name.partition("=")[2])
            if (folder / "_SUCCESS").exists() and number > done.get(kind, -1):
                found.append((kind, number))
        return sorted(found)

    def _published(self) -> dict[str, int]:
        """Return of each kind the last batch that the tables hold, and what number was many, where that is known."""
        path = self._work() / "published.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def _write_published(self, done: Mapping[str, int]) -> None:
        unfinished = self._work() / "published.json.part"
        unfinished.write_text(json.dumps(done))
        os.replace(unfinished, self._work() / "published.json")

    def _notes(self) -> tuple[str, ...]:
        found = [json.loads(path.read_text()) for path in sorted((self._work() / "notes").glob("*.json"))]
        return tuple(str(line) for told in found for line in told["notes"])

    def _work(self) -> Path:
        return self.tables.absolute() / ".work"

    def _counts(self, kind: str, number: int) -> Path:
        return self._work() / "counts" / f"kind={kind}" / f"batch={number}"


def _takes(contents: Contents, path: Path) -> bool:
    """Return whether a file is one to read; one that is moved away meanwhile is none."""
    try:
        return contents.takes(path)
    except FileNotFoundError:
        return False


def _replace(table: DataFrame, target: Path) -> None:
    """Replace the hours that a table has rows of; others stay as they are."""
    writing = table.repartition("hour").write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writing.partitionBy("hour").parquet(str(target))


def _hours(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the hours that there are rows of in folders."""
    return tuple(sorted({p.name.partition("=")[2] for folder in folders for p in folder.glob("hour=*")}))


@attrs.define
class Tally:
    """The rows of all batches of a query. Spark tells of the last hundred, so it is asked again and again."""

    _rows: dict[int, int] = attrs.field(factory=dict, init=False)

    def take(self, progress: Sequence[Mapping[str, Any]]) -> None:
        """Take what Spark tells now; a batch of which it tells more than once counts once."""
        for batch in progress:
            rows = sum(int(source["numInputRows"]) for source in batch["sources"])
            number = int(batch["batchId"])
            self._rows[number] = max(rows, self._rows.get(number, 0))

    @property
    def rows(self) -> int:
        """Return how many rows there were."""
        return sum(self._rows.values())

    @property
    def batches(self) -> int:
        """Return how many batches had rows."""
        return sum(map(bool, self._rows.values()))
