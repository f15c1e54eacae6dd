"""Say what a streaming query waits for, from the state that its stages keep in Spark.

The stages of a plan are put together again to one circuit a bucket, and asked as any run is. How far streams are is
therefore as of the last micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import time
from typing import TYPE_CHECKING, Final

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.why import Wait, why_apart
from oop_engine.rewrite.demand import pruned
from oop_engine.rewrite.passes import prepared
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.partial_final import cut_in_levels
from oop_engine.spark.processor import VARIABLE
from oop_engine.spark.refused import node_of
from oop_engine.spark.stage_run import StageRun, elsewhere
from oop_engine.spark.stages import FRONT, KEYED, TAIL, Cut
from oop_engine.spark.streaming import unpressed
from operators.data.saved import decode_state, read_int

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from oop_engine.api.stream import Stream

_GAPS: Final = 3
"""All sources are silent where nothing came for so many times as long as between the last two micro-batches."""
_SECOND: Final = 10**9


def why(stream: Stream, spark: SparkSession, checkpoint: str) -> tuple[Wait, ...]:
    """Return what a streaming query of `on_spark` waits for: its next window, the promise that it lacks, who holds it.

    - `stream`: what the query runs.
    - `spark`: a session, of the query or any other.
    - `checkpoint`: the query's `checkpointLocation`.

    The answer is as of the last micro-batch. It is that of `oop.why` for a run in one process without a forecast, and
    without a `change` where partitions aggregate on their own. The state of all buckets comes to the driver for it; the
    query need not run. PlanError where the checkpoint is of another plan, SparkError where it cannot be read.

    >>> oop.spark.why(stream, spark, "checkpoints/hosts")  # doctest: +SKIP
    (Wait(behind: link 2),)
    """
    cut = cut_in_levels(pruned(prepared(node_of("why", stream))), ordered=True)
    states = list[bytes]()
    with errors():
        for number in range(len(cut.used)):
            reader = spark.read.format("statestore").option("operatorId", number).option("stateVarName", VARIABLE)
            states += [bytes(row["state"]) for row in reader.load(checkpoint).select("value.state").collect()]
    return waits(cut, map(unpressed, states), now=time())


def waits(cut: Cut, states: Iterable[bytes], *, now: float) -> tuple[Wait, ...]:
    """Return what a cut plan waits for whose stages have these states; `now` is in seconds since 1970.

    PlanError where they are of another plan.
    """
    small = attrs.evolve(cut, plan=elsewhere(cut.plan))
    runs: dict[tuple[int, int], StageRun] = {}
    for saved in states:
        known = decode_state(saved)
        if "stage" not in known:
            raise SparkError(
                "the checkpoint is of an earlier version, which did not keep how far streams are.\n"
                "  Let the query take one more micro-batch, and ask again."
            )
        stage, bucket = read_int(known, "stage"), read_int(known, "bucket")
        many = {FRONT: 1, KEYED: read_int(known, "buckets"), TAIL: 1}
        run = runs[stage, bucket] = StageRun(small, stage, many, origin=bucket, origins=many)
        run.restore(saved)
    return why_apart(sorted(_circuits(small, runs, now), key=_least) or [Circuit(small.plan)])


def _circuits(cut: Cut, runs: dict[tuple[int, int], StageRun], now: float) -> Iterator[Circuit]:
    """Yield for each bucket the plan with the operators of its stages."""
    if (FRONT, 0) not in runs:
        return
    front = runs[FRONT, 0].circuit
    moment = _moment(runs[FRONT, 0], now)
    for bucket in sorted(bucket for stage, bucket in runs if stage == KEYED) or [0]:
        circuit = Circuit(cut.plan, clock=lambda: moment, wall=lambda: int(moment * _SECOND))
        circuit.prepare()
        for place, stage in enumerate(cut.stages):
            if (run := runs.get((stage, bucket if stage == KEYED else 0))) is not None:
                circuit.operators[place], circuit.meters[place] = (
                    run.circuit.operators[place],
                    run.circuit.meters[place],
                )
        circuit.inputs |= front.inputs
        circuit.heard |= front.heard
        circuit.finished |= front.finished
        yield circuit


def _moment(front: StageRun, now: float) -> float:
    """Return until when nothing more came: the last micro-batch, where another is not long overdue.

    Between two micro-batches no source is silent, for none can be heard.
    """
    heard = front.circuit.heard
    last = max(heard.values(), default=now)
    between = 0.0 if front.heard_before is None else last - front.heard_before
    return now if now - last > max(_GAPS * between, 1.0) and front.heard_before is not None else last


def _least(circuit: Circuit) -> tuple[float, ...]:
    """Return how far the nodes of a bucket are: what all buckets wait for is held back by the one that is least far."""
    return tuple(
        min((bound for bound in meter.lwm.values() if isinstance(bound, int)), default=float("-inf"))
        for meter in circuit.meters
    )
