"""Each law catches its planted bug: an operator that is right but for one line is found out by the conformance kit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest

from operators.data.page import Int64s, Page, Row, tick_column
from operators.data.schema import Schema
from operators.expression import Column
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit, Operator, State, StateValue
from operators.rows.distinct import Distinct
from operators.rows.filter import Filter
from operators.rows.number import Number
from operators.streams.meld import Meld
from operators.streams.merge import Merge
from operators.streams.reorder import Reorder
from operators.testing import ALL_LAWS, Script, check_operator, streams
from punctuation import END, Punctuation, before
from tests.naive import naive_distinct, naive_union
from tests.operators.planted import shown

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int64(), progress=["ts"])


def caught_by(
    make: Callable[[], Operator],
    *,
    ports: int = 1,
    naive: Callable[..., Sequence[Row]] | None = None,
    laws: Collection[int] = ALL_LAWS,
    order_matters: bool = False,
) -> tuple[int, Script]:
    """Give the law that a script shows to be broken, and that script; hypothesis fails when it finds none."""

    def check(script: Script) -> None:
        check_operator(make, script, naive=naive, laws=laws, order_matters=order_matters)

    return shown(check, streams(SCHEMA, group=("k",), ports=ports, tuples=5))


@attrs.define(eq=False)
class MaximalMeld(Meld):
    """Promise the greatest bound of the inputs where the least is due."""

    bounds: dict[int, int] = attrs.field(factory=dict)
    ended: set[int] = attrs.field(factory=set)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self.ended.add(port)
            if len(self.ended) == self.ports:
                emit(END)
            return
        bound = punctuation.bound("ts")
        if isinstance(bound, int):
            self.bounds[port] = bound
            if len(self.bounds) == self.ports:
                emit(before("ts", max(self.bounds.values())))

    def state(self) -> State:
        ended = [port in self.ended for port in range(self.ports)]
        return {"bounds": np.array(list(self.bounds.items()), np.int64).reshape(-1, 2), "ended": np.array(ended)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        bounds, ended = state["bounds"], state["ended"]
        assert isinstance(bounds, np.ndarray) and isinstance(ended, np.ndarray)
        self.bounds = {int(port): int(bound) for port, bound in bounds}
        self.ended = {int(port) for port in np.flatnonzero(ended)}


@attrs.define(eq=False)
class OvertakingMerge(Merge):
    """Emit promises before the tuples they let out."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        held: list[Page | Punctuation] = []
        super().punctuate(punctuation, held.append, port)
        for element in sorted(held, key=lambda e: isinstance(e, Page)):
            emit(element)


@attrs.define(eq=False)
class BoastfulFilter(Filter):
    """Claim one tick more than was promised."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bound = punctuation.bound("ts")
        emit(before("ts", bound + 1) if isinstance(bound, int) else punctuation)


@attrs.define(eq=False)
class SeeminglyOneByOne(Distinct):
    """Say of what compares tuples with those before that it takes each by itself."""

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return name


@attrs.define(eq=False)
class Misnaming(Filter):
    """Say that an attribute comes from another one."""

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return "x" if name == "ts" else name


@attrs.define(eq=False)
class SeeminglyBlind(Filter):
    """Say of what a predicate reads that it is not read."""

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted]


@attrs.define(eq=False)
class SeeminglyParted(Distinct):
    """Say that the tuples of one combination may be apart."""

    def together(self, *inputs: Schema) -> Together:
        return Together.by(["x"])


@attrs.define(eq=False)
class HoardingDistinct(Distinct):
    """Never forget a combination."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)


@attrs.define(eq=False)
class HastyDistinct(Distinct):
    """Forget every combination at any promise."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        super().punctuate(END, lambda element: None)
        emit(punctuation)


@attrs.define(eq=False)
class ScribblingFilter(Filter):
    """Write into the page that came in."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page):
            column = page.batch.column(page.schema.names.index("ts"))
            first_byte = ctypes.c_ubyte.from_address(column.buffers()[1].address + 8 * column.offset)
            first_byte.value ^= 1
        emit(page)


@attrs.define(eq=False)
class ReusingFilter(Filter):
    """Hand out pages that share the memory of one array."""

    shared: Int64s = attrs.field(factory=lambda: np.zeros(64, np.int64))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        times = self.shared[: len(page)]
        times[:] = page.ticks("ts")
        batch = page.batch.set_column(page.schema.names.index("ts"), "ts", tick_column(times))
        emit(Page(page.schema, batch.cast(page.batch.schema)))


@attrs.define(eq=False)
class RashFilter(Filter):
    """Say that all tuples have the time of the first one."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        same = {"ts": int(page.ticks("ts")[0])} if len(page) else {}
        emit(Page(page.schema, page.batch, same))


@attrs.define(eq=False)
class ForgetfulDistinct(Distinct):
    """Lose all combinations when saved."""

    def state(self) -> State:
        return {"peak": 0}


@attrs.define(eq=False)
class FirstOfPage(Filter):
    """Pass one tuple a page."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        emit(page.slice(0, 1))


@attrs.define(eq=False)
class Impatient(Filter):
    """Drop tuples until the first promise came."""

    started: bool = False

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self.started:
            emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self.started = True
        emit(punctuation)

    def state(self) -> State:
        return {"started": self.started}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self.started = bool(state["started"])


@attrs.define(eq=False)
class Stutter(Filter):
    """Say END twice."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)
        if punctuation.is_end:
            emit(punctuation)


@attrs.define(eq=False)
class Mute(Filter):
    """Never say END."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if not punctuation.is_end:
            emit(punctuation)


@attrs.define(eq=False)
class OnePortOnly(Meld):
    """Drop the tuples of an input before the other has promised something."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if port == 0 or any(self._meet.port(0).promises()):
            emit(page)


TRUE = Column("ts").is_null() | ~Column("ts").is_null()


def test_a_meld_that_takes_the_greatest_bound_is_caught() -> None:
    law, script = caught_by(lambda: MaximalMeld(2), ports=2, naive=naive_union)
    assert law == 3 and sum(map(len, script.tables())) >= 1


def test_a_promise_that_overtakes_its_page_is_caught() -> None:
    law, script = caught_by(lambda: OvertakingMerge(1, "ts"), naive=naive_union)
    assert law == 3 and sum(map(len, script.tables())) >= 1


def test_a_promise_one_tick_too_high_is_caught() -> None:
    law, script = caught_by(lambda: BoastfulFilter(TRUE))
    assert law == 3 and sum(map(len, script.tables())) >= 1


def test_a_distinct_that_never_forgets_is_caught() -> None:
    law, script = caught_by(HoardingDistinct)
    assert law == 2 and sum(map(len, script.tables())) >= 1


def test_a_distinct_that_forgets_too_much_is_caught() -> None:
    law, _ = caught_by(HastyDistinct, naive=lambda table: naive_distinct(SCHEMA.names, table))
    assert law in (7, 10)


def test_an_operator_that_writes_its_input_is_caught() -> None:
    law, script = caught_by(lambda: ScribblingFilter(TRUE), laws={8})
    assert law == 8 and sum(map(len, script.tables())) >= 1


def test_an_operator_that_writes_into_what_it_has_emitted_is_caught() -> None:
    law, script = caught_by(lambda: ReusingFilter(TRUE), laws={8})
    assert law == 8 and sum(map(len, script.tables())) >= 2


def test_an_operator_that_says_too_much_of_a_page_is_caught() -> None:
    law, script = caught_by(lambda: RashFilter(TRUE), laws={14})
    assert law == 14 and sum(map(len, script.tables())) >= 2


def test_an_operator_that_forgets_when_saved_is_caught() -> None:
    law, script = caught_by(ForgetfulDistinct, naive=lambda table: naive_distinct(SCHEMA.names, table))
    assert law == 9 and len(script.tables()[0]) >= 2


def test_an_operator_that_depends_on_page_boundaries_is_caught() -> None:
    law, script = caught_by(lambda: FirstOfPage(TRUE))
    assert law == 5 and len(script.tables()[0]) >= 2


def test_an_operator_that_depends_on_the_order_of_tuples_is_caught() -> None:
    law, script = caught_by(Number, laws={4})
    assert law == 4 and len(script.tables()[0]) >= 2
    law, _ = caught_by(lambda: Reorder("ts", slack_time=0), laws={4})
    assert law == 4


def test_an_operator_that_depends_on_how_ports_mix_is_caught() -> None:
    law, _ = caught_by(lambda: OnePortOnly(2), ports=2, laws={6})
    assert law == 6


def test_an_operator_whose_answer_depends_on_promises_is_caught() -> None:
    law, _ = caught_by(lambda: Impatient(TRUE), laws={7})
    assert law == 7


def test_an_operator_that_only_seems_to_take_tuples_one_by_one_is_caught() -> None:
    law, script = caught_by(SeeminglyOneByOne)
    assert law == 11 and sum(map(len, script.tables())) >= 2
    law, script = caught_by(lambda: Misnaming(TRUE))
    assert law == 11 and sum(map(len, script.tables())) >= 1


def test_an_operator_whose_plan_facts_are_wrong_is_caught() -> None:
    law, script = caught_by(lambda: SeeminglyBlind(Column("x") > 0))
    assert law == 12 and sum(map(len, script.tables())) >= 1
    law, script = caught_by(lambda: SeeminglyParted(("k",)))
    assert law == 12 and sum(map(len, script.tables())) >= 2


@pytest.mark.parametrize("wrong", [Stutter, Mute])
def test_an_end_that_does_not_come_exactly_once_is_caught(wrong: Callable[[object], Operator]) -> None:
    law, _ = caught_by(lambda: wrong(TRUE))
    assert law == 3


@pytest.mark.parametrize(
    "make", [lambda: Filter(TRUE), Distinct, lambda: Merge(1, "ts"), lambda: Meld(1), lambda: Reorder("ts")]
)
def test_the_same_operators_without_the_bug_keep_the_laws(make: Callable[[], Operator]) -> None:
    page = Page.of(SCHEMA, {"ts": [3, 1, 3], "k": ["a", "b", None], "x": [1, 2, 1]})
    check_operator(make, Script.of(SCHEMA, [page, before("ts", 3), page.slice(0, 1), END]))
