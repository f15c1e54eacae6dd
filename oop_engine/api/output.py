"""An output is a stream and the sink that takes its results; several of one run share what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import attrs

from oop_engine.drive.meter import Statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oop_engine.api.stream import Stream
    from oop_engine.sinks import Sink


@attrs.frozen(eq=False)
class Output:
    """A stream and where its results go."""

    stream: Stream
    sink: Sink

    def run(self) -> Statistics:
        """Run to the end and give the statistics of the run."""
        from oop_engine.drive.outcome import run_outputs

        return run_outputs((self,))

    async def run_async(self) -> Statistics:
        """Run as `run` does, under a trio loop that is already there."""
        from oop_engine.drive.outcome import run_outputs_async

        return await run_outputs_async((self,))

    def explain(self) -> str:
        """Give the plan as text."""
        from oop_engine.drive.outcome import explain_outputs

        return explain_outputs((self,))

    def on_spark(self, spark: SparkSession, *args: object, **options: object) -> NoReturn:
        """Raise PlanError: inside Spark a stream gives a DataFrame, which Spark writes."""
        from oop_engine.spark.refused import check_stream

        check_stream("on_spark", self)
        raise AssertionError

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Run into a page log, as `to("out.pages")` names one, and give it as a DataFrame of Spark."""
        from oop_engine.spark.dataframe import to_spark

        return to_spark(self, spark)
