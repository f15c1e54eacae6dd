"""A stage travels to Spark's processes closed, and does there what it does here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import attrs
from pyspark.serializers import CloudPickleSerializer

from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import slack
from oop_engine.spark.partial_final import cut_in_levels
from oop_engine.spark.processor import Processor
from oop_engine.spark.stage_run import elsewhere
from oop_engine.spark.stages import FRONT, KEYED, TAIL
from oop_engine.spark.streaming import Folding
from tests.oop_engine.spark.plans import FREE, stream

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = CloudPickleSerializer()


@attrs.define
class Noted:
    """A state store of one value."""

    value: tuple[bytes] | None = None

    def get(self) -> tuple[bytes] | None:
        return self.value

    def update(self, newValue: tuple[bytes]) -> None:
        self.value = newValue

    def getValueState(self, name: str, schema: str) -> Noted:
        assert (name, schema) == ("room", "state binary")
        return self


@attrs.frozen
class Adding:
    """Work that adds rows to what is kept."""

    start: int

    def over(self, kept: Any, rows: Iterator[int]) -> Iterator[int]:
        known = kept.get()
        total = (self.start if known is None else int(known[0])) + sum(rows)
        kept.update((str(total).encode(),))
        yield total


def test_work_is_opened_once_and_goes_on_with_what_is_kept() -> None:
    made = Processor(Adding(100))
    far = SHIPPED.loads(SHIPPED.dumps(SHIPPED.loads(SHIPPED.dumps(made))))  # also closed as it came
    kept = Noted()
    for processor, rows, total in ((made, [1, 2], 103), (far, [3], 106), (far, [], 106), (made, [4], 110)):
        processor.init(kept)
        assert list(processor.handleInputRows(None, iter(rows), None)) == [total]


def test_a_process_that_is_told_of_the_state_alone_loads_no_engine(tmp_path: Path) -> None:
    """Spark starts one for each stage of each query, and waits for it."""
    whole = cut_in_levels(Plan((FREE["sliding"]({"a": stream("a", [], slack(5))}).node,)), ordered=True)
    folding = Folding(attrs.evolve(whole, plan=elsewhere(whole.plan)), FRONT, {FRONT: 1, KEYED: 2, TAIL: 1})
    (tmp_path / "processor").write_bytes(SHIPPED.dumps(Processor(folding)))
    program = (
        "import sys; from pathlib import Path; from pyspark.serializers import CloudPickleSerializer\n"
        "made = CloudPickleSerializer().loads(Path(sys.argv[1]).read_bytes())\n"
        "class Handle:\n    def getValueState(self, *args): print(*args)\n"
        "made.init(Handle())\n"
        "ours = {name.partition('.')[0] for name in sys.modules} & {'operators', 'punctuation', 'numba', 'pandas'}\n"
        "print(sorted(ours))\n"
    )
    line = [sys.executable, "-c", program, str(tmp_path / "processor")]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("room state binary\n[]\n", "")


def test_processes_that_plan_load_neither_kernels_nor_pandas() -> None:
    program = (
        "import sys, oop_engine.spark.results\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'numba', 'pandas'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
