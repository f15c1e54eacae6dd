"""An operator of somebody's own that states its facts is pruned, shared, explained, judged and spread like ours.

One that states nothing gives the same answers: all is read for it, in one place, and no late tuple comes to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.plan.aggregates import slow
from oop_engine.plan.arrival_attributes import numbered, stamped
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import columns, demands, pruned
from oop_engine.rewrite.lateness import allowances
from oop_engine.rewrite.sharing import shared
from oop_engine.rewrite.source_filters import wanted
from operators.data.page import Bools, Page
from operators.data.saved import read_batch, read_int
from operators.data.schema import Schema
from operators.drive import deliver
from operators.expression import Column, Expression
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes, InOrder, Passage, Together, Tolerance, TwoLevels
from operators.protocol import Emit, Operator, State, StateValue
from operators.retractions import Retracted, Retracting
from operators.testing import Script, check_operator
from operators.testing import streams as scripts
from operators.window_aggregate.group_by import GroupAggregate
from punctuation import END, Punctuation, before
from tests.examples import share

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64()), ("rest", pa.string())])
RESULT = pa.schema([("k", pa.string()), ("until", pa.int64()), ("total", pa.int64())])


@attrs.define(eq=False)
class Quiet:
    """Add up x of each k in tumbling windows of so many ticks, and say nothing of it to a plan."""

    size: int
    _totals: dict[tuple[int, str | None], int] = attrs.field(init=False, factory=dict)
    _bound: int = attrs.field(init=False, default=-(2**62))
    _late: int = attrs.field(init=False, default=0)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return Schema(RESULT, progress=[["until"]] if inputs[0].progressing("ts") else [])

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        for t, k, x in zip(*(page.column(name).to_pylist() for name in ("ts", "k", "x")), strict=True):
            until = t - t % self.size + self.size
            if until <= self._bound:
                self._late += 1
            else:
                self._totals[until, k] = self._totals.get((until, k), 0) + x

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bound = 2**62 if punctuation.is_end else punctuation.bound("ts")
        if not isinstance(bound, int):
            return
        self._bound = max(self._bound, bound - bound % self.size)
        done = sorted(((until, k or "", k) for until, k in self._totals if until <= self._bound))
        rows = [(k, until, self._totals.pop((until, k))) for until, _, k in done]
        if rows:
            emit(Page.of_rows(Schema(RESULT), rows))
        emit(END if punctuation.is_end else before("until", self._bound + 1))

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": len(self._totals), "late": self._late}

    def state(self) -> State:
        keys = list(self._totals)
        arrays = [[until for until, _ in keys], [k for _, k in keys], list(self._totals.values())]
        types = (pa.int64(), pa.string(), pa.int64())
        held = [pa.array(values, kind) for values, kind in zip(arrays, types, strict=True)]
        totals = pa.RecordBatch.from_arrays(held, ["until", "k", "total"])
        return {"totals": totals, "bound": self._bound, "late": self._late}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        totals = read_batch(state, "totals").to_pylist()
        self._totals = {(row["until"], row["k"]): row["total"] for row in totals}
        self._bound, self._late = read_int(state, "bound"), read_int(state, "late")


class Told(Quiet):
    """The same, and say it."""

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Collection[str]]:
        return [("ts", "k", "x")]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [{"ts": Pace(self.size)}]

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        return Tolerance(self.size, fixed=True) if attribute == "ts" and not melded else Tolerance()

    def together(self, *inputs: Schema) -> Together:
        return Together.by(["k"])

    def same_as(self, other: object) -> bool:
        return isinstance(other, Told) and other.size == self.size

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return None if found is None else "refused"

    def remarks(self) -> tuple[str, ...]:
        return (f"tumbles every {self.size} ticks",)

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        return [f"{counts['late']} tuples in no total"] if counts.get("late") else []


@attrs.define(eq=False)
class Doubled:
    """Put twice x, and the time a little earlier, beside each tuple; `shown` are the attributes that come out."""

    shown: frozenset[str] = frozenset((*SCHEMA.names, "twice", "early"))

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        arrow = schema.arrow.append(pa.field("twice", pa.int64())).append(pa.field("early", pa.int64()))
        kept = pa.schema([field for field in arrow if field.name in self.shown])
        progress = [*schema.progress, ["early"]] if schema.progressing("ts") else schema.progress
        return Schema(kept, progress=[promise for promise in progress if self.shown.issuperset(promise)])

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return None if name in ("twice", "early") else name

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Collection[str]]:
        made = {"twice": "x", "early": "ts"}
        return [{made.get(name, name) for name in wanted & self.shown}]

    def keeping(self, names: Collection[str]) -> Doubled:
        return attrs.evolve(self, shown=frozenset(names) & self.shown or frozenset(("x",)))

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        paces: Paces = {}
        for name, pace in wanted.items():
            want(
                paces, "ts" if name == "early" else name, Pace(pace.step, pace.origin + 1) if name == "early" else pace
            )
        return [paces]

    def carrying(self, name: str) -> Doubled:
        return attrs.evolve(self, shown=self.shown | {name})

    def same_as(self, other: object) -> bool:
        return isinstance(other, Doubled) and other.shown == self.shown

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        schema = self.output_schema(page.schema)
        made = {"twice": lambda: pc.multiply(page.column("x"), 2), "early": lambda: pc.subtract(page.column("ts"), 1)}
        arrays = [made[name]() if name in made else page.column(name) for name in schema.names]
        emit(Page(schema, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if self.shown.issuperset(punctuation.attributes) or punctuation.is_end:
            emit(punctuation)
        bound = punctuation.bound("ts")
        if isinstance(bound, int) and "early" in self.shown:
            emit(before("early", bound - 1, assumed=punctuation.assumed))

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Nothing was kept."""


Row = tuple[int, str, int, str]


def source(rows: Sequence[Row], **options: object) -> Stream:
    return oop.rows(rows, SCHEMA, **options)  # type: ignore[arg-type]


def ours(stream: Stream, size: int) -> Stream:
    counted = stream.window(range=size, wattr="ts").aggregate(total=oop.sum("x"), by="k")
    return counted.project("k", "total", until="window_end")


def results(stream: Stream) -> tuple[Counter[tuple[object, ...]], int]:
    """Give the rows, how often each, and how many tuples were late."""
    found = stream.run()
    rows = Counter((row["k"], row["until"], row["total"]) for row in found.table.to_pylist())
    return rows, found.statistics.late


def plan(*streams: Stream) -> Plan:
    return Plan(tuple(stream.node for stream in streams))


rows_of = st.lists(st.tuples(st.integers(0, 25), st.sampled_from("ab"), st.integers(0, 9), st.just("")), max_size=20)


def test_what_it_does_not_read_is_not_read_for_it() -> None:
    told, quiet = source([]).apply(Told(10)), source([]).apply(Quiet(10))
    assert list(columns(plan(told)).values()) == [("ts", "k", "x")]
    assert list(columns(plan(quiet)).values()) == [tuple(SCHEMA.names)]
    halved = source([]).apply(Doubled()).aggregate(oop.sum("twice"), by="k")
    narrow = pruned(plan(halved))
    assert list(columns(narrow).values()) == [("k", "x")]
    assert narrow.nodes[1].schema.names == ["k", "twice"]


def test_the_promises_that_it_asks_for_are_made_at_its_pace() -> None:
    assert demands(plan(source([]).apply(Told(10)))) == {0: {"ts": Pace(10)}}
    assert demands(plan(source([]).apply(Quiet(10)))) == {0: {}}
    early = source([]).apply(Doubled()).window(range=10, wattr="early").aggregate(oop.count())
    assert demands(plan(early)) == {0: {"ts": Pace(10, 1)}}


def test_two_that_are_equal_are_one() -> None:
    read = source([])
    assert len(shared(plan(read.apply(Told(10)), read.apply(Told(10)))).nodes) == 2
    assert len(shared(plan(read.apply(Told(10)), read.apply(Told(5)))).nodes) == 3
    assert len(shared(plan(read.apply(Quiet(10)), read.apply(Quiet(10)))).nodes) == 3
    behind = shared(plan(*(read.apply(Doubled()).apply(Told(10)) for _ in range(2))))
    assert [type(node).__name__ for node in behind.nodes] == ["SourceNode", "OperatorNode", "OperatorNode"]


def test_explanations_say_what_it_says() -> None:
    text = source([]).apply(Told(10)).explain()
    assert "tumbles every 10 ticks" in text and "(read 3 of 4)" in text and "every 10" in text


def test_an_error_names_it_where_a_promise_is_lost() -> None:
    with pytest.raises(oop.PlanError, match=r'nothing promises "total"\.\n  Told promises {until}'):
        source([]).apply(Told(10)).window(range=5, wattr="total").aggregate(oop.count())


@given(rows_of, st.integers(0, 6), st.integers(1, 9))
def test_late_tuples_come_to_it_for_as_long_as_it_takes_them(rows: list[Row], slack: int, size: int) -> None:
    read = source(rows, slack=slack, on="ts")
    assert allowances(plan(read.apply(Told(size)))) == allowances(plan(ours(read, size))) == {0: size}
    assert results(read.apply(Told(size))) == results(ours(read, size))
    assert results(read.apply(Doubled()).apply(Told(size))) == results(ours(read, size))


@given(rows_of, st.integers(0, 6), st.integers(1, 9))
def test_nothing_late_comes_to_one_that_says_nothing(rows: list[Row], slack: int, size: int) -> None:
    read = source(rows, slack=slack, on="ts")
    quiet = read.apply(Quiet(size))
    assert allowances(plan(quiet)) == {0: 0}
    promised, kept = -(10**9), list[Row]()
    (pace,) = demands(plan(quiet)).values()
    step = pace["ts"].step or 1
    for row in rows:
        if row[0] >= promised:
            kept.append(row)
        promised = max(promised, (row[0] - slack) // step * step)
    found, late = results(quiet)
    assert (found, late) == (results(ours(source(kept), size))[0], len(rows) - len(kept))


@share(1)
@given(rows_of, st.integers(1, 9))
def test_both_give_the_answer_of_ours_over_a_file(rows: list[Row], size: int) -> None:
    expected = results(ours(source(rows), size))
    assert results(source(rows).apply(Told(size))) == results(source(rows).apply(Quiet(size))) == expected
    melded = [source(rows).meld(source(rows)).apply(own) for own in (Told(size), Quiet(size))]
    assert [results(one) for one in melded] == [results(ours(source(rows).meld(source(rows)), size))] * 2


def test_what_does_not_say_that_it_takes_changes_gets_what_stands_or_is_refused() -> None:
    read = source([(t, "a", 1, "") for t in range(60)], punctuate=oop.ordered("ts"))
    early = read.window(60).aggregate(x=oop.sum("x"), by="k", early=oop.early(20, refine="retract"))
    timed = early.derive(ts="window_end")
    for operator in (Told(10), Quiet(10)):
        found = timed.apply(operator)
        assert "settle: leave out what was taken back" in found.explain()
        assert results(found) == results(timed.filter("final").apply(operator)) != []
    lost = timed.project("k", "ts", "x")
    with pytest.raises(oop.PlanError, match=r"^Told: the input takes early results back"):
        lost.apply(Told(10))
    with pytest.raises(oop.PlanError, match=r"^Quiet does not declare what it does with tuples that take back others"):
        lost.apply(Quiet(10))
    passed = timed.apply(Doubled(frozenset(("k", "ts", "x", "twice", "sign", "final"))))
    for stream in (passed, passed.filter("final")):
        assert stream.aggregate(oop.sum("twice")).to_arrow().to_pylist() == [{"sum_twice": 120}]


@pytest.mark.parametrize("low", [True, False])
def test_on_spark_it_runs_by_key_where_it_says_so(low: bool) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
    from oop_engine.spark.stages import FRONT, KEYED, cut
    from tests.oop_engine.spark.simulated import embedded, on_batch

    rows = [(t * 7 % 60, "abcde"[t % 5], t, "") for t in range(60)]
    told = source(rows).apply(Doubled()).apply(Told(10))
    whole = cut(pruned(plan(told)))
    assert whole.stages == (FRONT, FRONT, KEYED) and [edge.keys for edge in whole.edges] == [("k",)]
    behind = told.aggregate(oop.sum("total"), by=("k", "until"))
    assert cut(pruned(plan(behind))).stages == (FRONT, FRONT, KEYED, KEYED), "its key is told by its own name"
    quiet = source(rows).apply(Quiet(10))
    assert set(cut(pruned(plan(quiet))).stages) == {FRONT}
    assert "Quiet may depend on the order of arrival" in quiet.explain(spark=True)
    for stream in (told, behind, quiet):
        assert on_batch(stream, buckets=3, partitions=4, seed=1, low=low) == embedded(stream)


@attrs.define(eq=False)
class Partly:
    """Add up the x of each k in a page and window, and say that these are partial results."""

    size: int

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def together(self, *inputs: Schema) -> Together:
        return Together.anywhere(["k"])

    def reduces(self) -> bool:
        return True

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        totals: Counter[tuple[int, str]] = Counter()
        for row in page.plain_rows():
            totals[row["ts"] - row["ts"] % self.size, row["k"]] += row["x"]
        emit(Page.of_rows(page.schema, [(at + self.size - 1, k, x) for (at, k), x in totals.items()]))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Nothing was kept."""


class Levelled(Told):
    """Say that totals can be made of partial ones."""

    def levels(self, schema: Schema, *, size: int) -> TwoLevels:
        return TwoLevels(("ts", "k", "x"), Partly(self.size), Told(self.size))


def test_on_spark_partitions_reduce_for_it_where_it_has_levels() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
    from oop_engine.spark.partial_final import cut_in_levels
    from oop_engine.spark.stages import FRONT, KEYED
    from tests.oop_engine.spark.simulated import embedded, on_batch

    rows = [(t * 7 % 60, "abcde"[t % 5], t, "") for t in range(60)]
    levelled, told = (source(rows).apply(own) for own in (Levelled(10), Told(10)))
    whole = cut_in_levels(pruned(plan(levelled)))
    assert whole.stages == (FRONT, FRONT, FRONT, KEYED)
    assert labels(whole.plan)[1:] == ["project what is aggregated", "low-level Levelled", "high-level Levelled"]
    assert "low-level aggregation for Levelled: yes" in levelled.explain(spark=True)
    assert "low-level aggregation" not in told.explain(spark=True)
    assert on_batch(levelled, buckets=3, partitions=4, seed=1, low=True) == embedded(told) == embedded(levelled)


@attrs.define(eq=False)
class Numbered(Doubled):
    """Say that the time is called otherwise behind it: tuples pass, in a way that no name tells."""

    def passage(self, attribute: str | None) -> Passage:
        return Passage("early" if attribute == "ts" else None, back=1)


def test_what_becomes_of_a_time_may_be_said() -> None:
    read = source([], slack=3, on="ts")
    moved = read.apply(Numbered(frozenset(("k", "x", "early")))).window(range=10, wattr="early").aggregate(oop.count())
    assert allowances(plan(moved)) == {0: 11}


@attrs.define(eq=False)
class Large(Doubled):
    """Pass on the tuples whose x is more than 4, as they are."""

    shown: frozenset[str] = frozenset(SCHEMA.names)

    def mask(self, page: Page) -> Bools:
        return pc.greater(page.column("x"), 4).to_numpy(zero_copy_only=False)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Collection[str]]:
        return [wanted | {"x"}]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        chosen = self.mask(page)
        if chosen.any():
            super().process(page.select(chosen), emit)


@given(rows_of, st.integers(0, 6))
def test_a_late_tuple_that_it_would_not_pass_is_missed_nowhere(rows: list[Row], slack: int) -> None:
    read = source(rows, slack=slack, on="ts")
    assert results(read.apply(Large()).apply(Quiet(5))) == results(read.filter("x > 4").apply(Quiet(5)))


def labels(plan: Plan) -> list[str]:
    return [node.label for node in plan.nodes]


def test_numbers_and_times_of_arrival_pass_through_one_that_carries_them() -> None:
    read = source([(1, "a", 2, ""), (2, "b", 3, "")], name="read")
    through, above = (numbered(read.apply(own).node) for own in (Doubled(), Quiet(10)))
    assert labels(Plan((through,))) == ["read", "number as row_num", "Doubled"]
    assert labels(Plan((above,))) == ["read", "Quiet", "number as row_num"]
    assert Stream(through).to_arrow()["row_num"].to_pylist() == [0, 1]
    melded = read.meld(read).apply(Doubled())
    assert Stream(stamped(melded.node)).to_arrow()["arrival_ts"].null_count == 0
    with pytest.raises(oop.PlanError, match=r'the tuples of "Quiet" have no time of arrival'):
        stamped(read.apply(Quiet(10)).node)


@attrs.define(eq=False)
class Honest(Large):
    """Say by which predicate tuples are chosen."""

    def passes_where(self) -> Expression:
        return Column("x") > 4


def test_conditions_are_shared_with_one_that_says_which_it_makes() -> None:
    read = source([(t, "ab"[t % 2], t, "") for t in range(9)], name="read")
    others = [read.apply(own).project("x") for own in (Honest(), Large())]
    few = read.filter("x > 4 and k = 'a'").project("x")
    together = shared(plan(others[0], few))
    assert labels(together)[:2] == ["read", "filter x > 4"] and "Honest" not in labels(together)
    assert "Large" in labels(shared(plan(others[1], few)))
    for other in others:
        found = [Stream(output).to_arrow()["x"].to_pylist() for output in shared(plan(other, few)).outputs]
        assert found == [[5, 6, 7, 8], [6, 8]]


def test_a_run_notes_what_it_tells_of_its_results() -> None:
    rows = [(30, "a", 1, ""), (25, "a", 1, "")]
    assert "Told: 1 tuples in no total" in source(rows, slack=0, on="ts").apply(Told(10)).run().statistics.notes


@attrs.define
class Two:
    """Run two operators in a row."""

    first: Doubled
    second: Operator

    def links(self) -> Sequence[Operator]:
        return (self.first, self.second)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return self.second.output_schema(self.first.output_schema(*inputs))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.first.process(page, lambda element: deliver(self.second, element, emit))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self.first.punctuate(punctuation, lambda element: deliver(self.second, element, emit))

    def state(self) -> State:
        return self.second.state()

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self.second.restore(state)


def test_one_that_is_made_of_others_shows_them() -> None:
    both = source([], slack=3, on="ts").apply(Two(Large(), Quiet(10)))
    chosen = wanted(plan(both), 0)
    assert chosen is not None
    page = Page.of_rows(Schema(SCHEMA), [(1, "a", 9, ""), (1, "a", 2, "")])
    assert chosen(page).tolist() == [True, False]
    summed = oop.user_aggregate(
        "added", lambda x: x, lambda a, b: a + b, arguments="x", identity=0, output=pa.int64(), interpreted=True
    )
    (line,) = slow(Two(Doubled(), GroupAggregate({"x": summed})))
    assert 'user function "added" is interpreted' in line


@attrs.define(eq=False)
class Sorting(Doubled):
    """Say that it has a form for in-order processing: that over a sorted input."""

    def in_order(self, wanted: str | None, buffer: str, *inputs: Schema) -> InOrder:
        return InOrder(Doubled(self.shown), ("ts",), "ts", f"doubled in order, {buffer}")


def test_in_order_its_own_form_runs() -> None:
    rows = [(t, "a", t, "") for t in (4, 2, 3, 1)]
    ordered = oop.in_order(source(rows, name="read").apply(Sorting()))
    assert labels(plan(ordered)) == ["read", "sort by ts", "doubled in order, output"]
    assert ordered.to_arrow()["ts"].to_pylist() == [1, 2, 3, 4]


@attrs.define(eq=False)
class Strict(Quiet):
    """Say that tuples may be three ticks late here."""

    asked: list[object] = attrs.field(factory=list)

    @property
    def behind(self) -> int:
        return 3

    def counting(self, wanted: object) -> Quiet:
        self.asked.append(wanted)
        return Quiet(self.size)


def test_late_tuples_come_to_one_that_leaves_them_out_itself() -> None:
    read = source([], slack=3, on="ts")
    strict = Strict(10)
    guarded = read.apply(strict).filter("total > 4")
    assert allowances(Plan((guarded.node,))) == {0: 3}
    assert len(guarded.to_arrow()) == 0 and len(strict.asked) == 1 and strict.asked[0] is not None


@pytest.mark.parametrize("kind", [Quiet, Told])
def test_they_keep_the_laws(kind: type[Quiet]) -> None:
    schema = Schema(SCHEMA.remove(3), progress=["ts"])

    @given(scripts(schema, wattr=("ts",), nulls=()))
    def checked(script: Script) -> None:
        check_operator(lambda: kind(4), script, laws=set(range(1, 11)) - {2})

    checked()
