"""What cannot run inside Spark is refused with what to write instead, before Spark or a worker has begun."""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import oop_engine as oop
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.passes import prepared
from oop_engine.spark.dataframe import run_answer
from oop_engine.spark.embedded import to_spark
from oop_engine.spark.explained import explain_on_spark
from oop_engine.spark.refused import check_signals, check_sources
from oop_engine.spark.run import on_spark
from tests.capture_files import WHOLE

TABLE = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")), "a": [1, 2, 3]})
NO_SPARK: Any = None  # nothing asks for a session


def totals() -> oop.Stream:
    return oop.arrow(TABLE).window("1 s", wattr="ts").aggregate(oop.sum("a"))


def live(**ending: object) -> oop.Stream:
    stream = oop.netflow(listen="127.0.0.1:0", name="exporters", **cast(Any, ending))
    return stream.window("1 minute", wattr="ts").aggregate(oop.sum("bytes"))


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "an output": (
        lambda: cast(Any, totals().to("out.csv")).on_spark(NO_SPARK),
        r"on_spark takes a stream, and an output says where .*\n.*without \.to\(\.\.\.\)",
    ),
    "an output, as a function": (lambda: on_spark(cast(Any, totals().to("out.csv")), NO_SPARK), "and an output says"),
    "several outputs": (
        lambda: on_spark(cast(Any, [totals().to("a.csv"), totals().to("b.csv")]), NO_SPARK),
        r"on_spark runs one stream, and is given 2\.\n  Call it for each",
    ),
    "several streams into results": (lambda: to_spark(cast(Any, (totals(), totals()))), "to_spark runs one stream"),
    "levels apart": (lambda: oop.apart(totals()).on_spark(NO_SPARK), r"is a run in processes .*\n.*Give"),
    "results of levels apart": (lambda: oop.apart(totals()).to_spark(NO_SPARK), "is a run in processes"),
    "levels apart, as a function": (lambda: on_spark(cast(Any, oop.apart(totals())), NO_SPARK), "is a run in proc"),
    "levels apart into results": (lambda: to_spark(cast(Any, oop.apart(totals()))), "is a run in processes"),
    "levels apart, explained": (lambda: explain_on_spark(cast(Any, oop.apart(totals()))), "is a run in processes"),
    "something else": (lambda: on_spark(cast(Any, "SELECT 1"), NO_SPARK), "on_spark takes a stream, and str is none"),
    "a collector": (
        lambda: live().on_spark(NO_SPARK),
        r"on_spark: exporters is live; a worker would listen.*\n.*Run it embedded.*\n.*inputs=\{\"exporters\": frame\}",
    ),
    "a collector that ends": (lambda: live(lasting="1 s").on_spark(NO_SPARK), "exporters is live"),
    "results of a collector": (lambda: to_spark(live()), r"is live and never ends, .*\n.*lasting=\"1 minute\""),
    "results of a collector in a log": (lambda: to_spark(live().to("out.pages")), "is live and never ends"),
    "a capture from a pipe": (
        lambda: oop.pcap(io.BufferedReader(cast(Any, io.BytesIO(WHOLE["pcap"]))), name="piped").on_spark(NO_SPARK),
        r"on_spark: piped can be read once, in this process.*\n.*Name a file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_spark_cannot_run_is_answered(what: str) -> None:
    run, words = REFUSED[what]
    with pytest.raises(PlanError) as caught:
        run()
    assert re.search(words, str(caught.value)), str(caught.value)


def test_tuples_that_are_held_are_no_reason_to_refuse() -> None:
    schema = pa.schema([("ts", pa.int64()), ("a", pa.int64())])
    check_sources(prepared(oop.rows([{"ts": 1, "a": 2}], schema, slack=1).node), ())
    with pytest.raises(PlanError, match="can be read once, in this process"):
        check_sources(prepared(oop.rows(iter([{"ts": 1, "a": 2}]), schema, slack=1).node), ())


def test_a_socket_that_is_bound_is_refused_too() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(PlanError, match="is live"):
            oop.netflow(listen=bound).on_spark(NO_SPARK)


def test_several_outputs_of_a_batch_are_run_as_one(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("a.csv", "b.csv")]
    stream = oop.arrow(TABLE)
    run_answer([stream.to(place) for place in places])
    assert [len(place.read_text().splitlines()) for place in places] == [4, 4]
    run_answer(None)
    for wrong in ([stream], [stream.to(places[0]), stream], [], oop.apart(totals())):
        with pytest.raises(PlanError, match=r"gives (list|Apart), which cannot be run.*\n.*a list of outputs"):
            run_answer(wrong)


def test_windows_that_wait_for_an_event_or_a_clock_are_refused() -> None:
    rows = oop.rows([{"ts": 1}], oop.Schema.of(ts="int64"))

    def plan(trigger: oop.Trigger) -> Plan:
        return prepared(rows.window(range=10).aggregate(oop.count(), early=trigger).node)

    check_signals(plan(oop.Trigger.rows(2)))
    with pytest.raises(oop.PlanError, match="fires every 5 s by the clock, on 'flush', and no worker hears of that"):
        check_signals(plan(oop.Trigger.event("flush") | oop.Trigger.clock("5 s")))
