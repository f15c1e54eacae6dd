"""An output is a stream and the sink that takes its results; the outputs of one run share what they have in common."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn, Unpack

import attrs

from oop_engine.drive.meter import Statistics
from oop_engine.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oop_engine.api.started import Started
    from oop_engine.api.stream import Stream
    from oop_engine.drive.keeping import Keeping
    from oop_engine.drive.limit import Policy
    from oop_engine.sinks import Sink


@attrs.frozen(eq=False)
class Output:
    """Hold a `stream` and the `sink` that its results go to; `Stream.to` makes it.

    `newest`: older results are left out while the sink keeps the run waiting.

    >>> output = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64")).to("rows.csv")
    >>> output.run().tuples
    2
    >>> print(output.explain())
    rows
       attributes  ts int64
       punctuated  on nothing before its end: nothing downstream asks for it
       - late tuples are dropped and counted
    >>> import trio
    >>> trio.run(output.run_async).tuples
    2
    """

    stream: Stream
    sink: Sink
    newest: bool = False
    not_on_spark: ClassVar[str] = (
        "an output says where results of this process go; on Spark a DataFrame does.\n"
        "  Give it the stream, without .to(...), and write what comes: frame.write.parquet(...)."
    )

    def run(
        self, *, checkpoint: str | Path | None = None, every: str | float = "10 s", savepoint: str | None = None,
        drop_state: Collection[str] = (), journal: str | float | None = None, threads: int | None = None,
        memory: str | int | None = None, memory_policy: Policy | None = None,
        metrics: str | None = None, checkpoint_failures: int = 0, page: str | None = None,
        page_token: str | None = None, record: str | Path | None = None,
    ) -> Statistics:  # fmt: skip
        """Run to the end, write the results, and return the statistics of the run.

        - `checkpoint`: a folder that keeps how far the run is. A run that was killed goes on from there when it is run
          again, and the results are those of a run that was not disturbed. When the run has ended, running it again
          reads and writes nothing. Results of what comes live have a further column, `incomplete`: true where a window
          may lack records.
        - `every`: how often a checkpoint is taken, as "10 s", or as seconds.
        - `savepoint`: begin from this savepoint of the job, with a query that may have changed: each part that means
          the same takes over its state. Also the folder of another job, or of a savepoint there.
        - `drop_state`: operators of the savepoint, by name, whose state may be lost.
        - `journal`: how often what comes live is made durable, as "100 ms", or as seconds. Datagrams of exporters are
          then also written to a journal in that folder, until a checkpoint has them, and a run that was killed takes
          them in again. Without it, those since the last checkpoint are lost, and counted by their sequence numbers.
        - `threads`: how many threads share the work of operators; by default as many as OOP_THREADS says, or one. The
          results are the same; the order of groups within a window may differ. See docs/performance.md for when several
          pay.
        - `memory`: how many bytes what operators hold may take, as "2 GB"; by default what OOP_MEMORY says, or no
          limit. The interpreter, pages and results under way come on top.
        - `memory_policy`: "spill" puts what is more into temporary files (TMPDIR) and gives the same results;
          "shed" refuses groups that are new, counts their tuples by window, and marks the results of these windows in
          a further column, `incomplete`; "error" ends the run with MemoryLimitError. See docs/memory.md.
        - `metrics`: the address where Prometheus scrapes the run, as "127.0.0.1:9464", or that of a receiver of
          OpenTelemetry, as "otlp://127.0.0.1:4318". See docs/metrics.md.
        - `checkpoint_failures`: how many checkpoints in a row may fail, because the disk of the job is full or gives an
          error. Each is a RuntimeWarning, and the run goes on; the last checkpoint that was written stays the one to go
          on from. One failure more ends the run, as does an error of the results. See docs/checkpoints.md.
        - `page`: the address of a page that shows the run in a browser while it goes on, as "127.0.0.1:8080"; its URL
          is said on stderr. It needs `oop-engine[page]`. See docs/page.md.
        - `page_token`: what the readers of the page must know, 8 letters and digits or more; needed where other
          machines reach the address.
        - `record`: a file that keeps what the page would show, for `oop-engine page FILE`.

        With a checkpoint, .parquet and .arrow are folders of parts, each shown when it was committed; lines of .csv and
        .ndjson that no checkpoint knows of are cut when the run goes on; page logs and tables of a database grow with
        each checkpoint. CheckpointError for a source that is read only once or has changed, for another query, and for
        a damaged checkpoint.

        >>> output = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64")).to("kept.csv")
        >>> output.run(checkpoint="job").tuples, output.run(checkpoint="job").notes[0].endswith("written now")
        (2, True)
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.api.outputs import run_outputs

        return run_outputs(
            (self,), checkpoint=checkpoint, every=every, savepoint=savepoint, drop_state=drop_state, journal=journal,
            threads=threads, memory=memory, memory_policy=memory_policy, metrics=metrics,
            checkpoint_failures=checkpoint_failures, page=page, page_token=page_token, record=record,
        )  # fmt: skip

    async def run_async(self, *, threads: int | None = None, **kept: Unpack[Keeping]) -> Statistics:
        """Run as `run` does, under a trio loop of yours.

        `threads` and the options of how it is `kept` (`checkpoint`, `every`, ...) are as there.

        Cancelled, a run is as one that was killed: it goes on from its last checkpoint.
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.api.outputs import run_outputs_async

        return await run_outputs_async((self,), threads=threads, **kept)

    def start(self, *, threads: int | None = None, **kept: Unpack[Keeping]) -> Started:
        """Start `run` in a thread of its own.

        `threads` and the options of how it is `kept` (`checkpoint`, `every`, ...) are as there.

        >>> with oop.packets(100).to("rows.parquet").start(checkpoint="started") as started:
        ...     started.wait().tuples
        100
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.api.outputs import run_outputs
        from oop_engine.api.started import Started

        return Started(lambda watch: run_outputs((self,), watch=watch, threads=threads, **kept))

    def explain(
        self, *, threads: int | None = None, memory: bool | str | int = False, memory_policy: Policy | None = None
    ) -> str:
        """Return the plan as text, and how `threads` share its work; by default as many as a run has.

        With `memory` and `memory_policy`, it says what each operator does beyond the limit, as `Stream.explain` does.
        """
        # Start-up: a stream that is not run needs no driver.
        from oop_engine.api.outputs import explain_outputs

        return explain_outputs((self,), threads=threads, memory=memory, memory_policy=memory_policy)

    def on_spark(self, spark: SparkSession, *args: object, **options: object) -> NoReturn:
        """Raise PlanError, whatever `spark`, `args` and `options` are: inside Spark a stream gives a DataFrame, which
        Spark writes.

        >>> output = oop.rows([(1,)], oop.Schema.of(ts="int64")).to("rows.csv")
        >>> try:
        ...     output.on_spark(None)
        ... except oop.PlanError:
        ...     print("Spark writes its DataFrames itself")
        Spark writes its DataFrames itself
        """
        raise PlanError(f"on_spark takes a stream, and {self.not_on_spark}")

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Run into a page log, as `to("out.pages")` names one, and return it as a DataFrame of the session `spark`.

        >>> spark = oop.spark.session(cores=2)
        >>> oop.rows([(1,)], oop.Schema.of(ts="int64")).to("out.pages").to_spark(spark).count()
        1
        """
        # Optional: Spark.
        from oop_engine.spark.embedded import to_spark

        return to_spark(self, spark)
