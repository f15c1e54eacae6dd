"""The clocks of keys are estimated and put right as one tuple after the other tells, wherever pages are cut."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.streams import key_clocks as module
from operators.streams import skew
from operators.streams.by_key import ByKey
from operators.streams.key_clocks import KeyClocks
from operators.streams.skew import SECOND, Skew
from tests.examples import share

SCHEMA = Schema.of(k=pa.string(), ts=pa.timestamp("ms"), came=pa.timestamp("us"), end_ts=pa.timestamp("s"))
Tuple = tuple[str, int | None, int | None]
TUPLES = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.none() | st.integers(-30_000, 30_000), st.none() | st.integers(0, 4_000_000)
    ),
    max_size=30,
)  # fmt: skip


def page(some: Sequence[tuple[str, int | None, int | None]]) -> Page:
    columns = {
        "k": [k for k, _, _ in some], "ts": [ts for _, ts, _ in some], "came": [came for _, _, came in some],
        "end_ts": [0] * len(some),
    }  # fmt: skip
    return Page.of(SCHEMA, columns)


def naive(some: Sequence[Tuple]) -> list[tuple[int | None, int]]:
    """Take one tuple after the other: give the right ts, in ms, and end_ts, in s."""
    clocks: dict[str, tuple[Skew, list[int]]] = {}
    found: list[tuple[int | None, int]] = []
    for k, ts, came in some:
        clock, pending = clocks.setdefault(k, (Skew(), []))
        if ts is not None and came is not None:
            ahead, arrival = ts * 1_000_000 - came * 1000, came * 1000
            if not pending:
                clock.judge(ahead, arrival)
                clock.put_right()
                pending[:] = [arrival // SECOND, ahead, arrival]
            elif pending[0] != arrival // SECOND:
                clock.judge(pending[1], pending[2])
                clock.put_right()
                pending[:] = [arrival // SECOND, ahead, arrival]
            else:
                pending[1:] = [max(pending[1], ahead), arrival]
        found.append((None if ts is None else ts + clock.offset // 1_000_000, clock.offset // SECOND))
    return found


@share(1)
@given(TUPLES, st.integers(1, 7), st.booleans())
def test_the_cut_into_pages_and_a_restore_make_no_difference(some: list[Tuple], size: int, saves: bool) -> None:
    found: list[tuple[int | None, int]] = []
    clocks = KeyClocks(("k",), "ts", "came", ("ts", "end_ts"))
    for start in range(0, len(some), size):
        given = page(some[start : start + size])
        right = clocks.corrected(given)
        assert given.column("k").equals(right.column("k")) and given.column("came").equals(right.column("came"))
        times = [right.column(name).cast(pa.int64()).to_pylist() for name in ("ts", "end_ts")]
        found += zip(*times, strict=True)
        if saves:
            state, clocks = clocks.state(), KeyClocks(("k",), "ts", "came", ("ts", "end_ts"))
            clocks.restore(state)
    assert found == naive(some)


def test_one_wrong_time_moves_nothing_and_a_clock_that_was_set_is_followed() -> None:
    clocks = KeyClocks(("k",), "ts", "came", ("ts",))
    told = [("a", 1000 * s + (95_000 if s == 5 or s > 8 else 0), 1_000_000 * s) for s in range(20)]
    right = clocks.corrected(page(told)).column("ts").cast(pa.int64()).to_pylist()
    late = [place for place, ts in enumerate(right) if ts != 1000 * place]
    # Three seconds that agree are believed when the next one begins.
    assert late == [5, 9, 10, 11] and list(clocks.off()) == [("k = a", 95 * SECOND)]


def test_without_corrections_clocks_are_only_known() -> None:
    clocks = KeyClocks(("k",), "ts", "came")
    given = page([("a", 95_000, 0), ("b", 500, 0)])
    assert clocks.corrected(given) is given
    assert list(clocks.off()) == [("k = a", 95 * SECOND)] and clocks.count == 2


def test_keys_that_were_not_heard_for_an_hour_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", 2)
    clocks = KeyClocks(("k",), "ts", "came", ("ts",))
    clocks._most = 2  # pyright: ignore[reportPrivateUsage]
    for k in range(50):
        clocks.corrected(page([(f"k{k}", 4_000_000 * k + 95_000, 4_000_000_000 * k)]))
        assert clocks.count <= 4
    assert dict(clocks.off())["k = k49"] == 95 * SECOND


def test_a_memory_of_other_keys_is_refused() -> None:
    clocks = KeyClocks(("k",), "ts", "came")
    clocks.corrected(page([("a", 1, 1)]))
    with pytest.raises(ValueError, match="and these are by came"):
        KeyClocks(("came",), "ts", "came").restore(clocks.state())
    one = ByKey("ts", ("k",), slack=0, idle=9, clocks=clocks)
    other = ByKey("ts", ("k",), slack=0, idle=9, clocks=KeyClocks(("k",), "ts", "came"))
    other.restore(one.state())
    assert other.clocks is not None and other.clocks.count == 1


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"types=.*epoch_ms"):
        KeyClocks(("k",), "ts", "came").check(Schema.of(k=pa.string(), ts=pa.timestamp("s"), came=pa.int64()), "Main")


def test_the_examples_in_docstrings_run() -> None:
    for room in (module, skew):
        result = doctest.testmod(room)
        assert result.attempted and not result.failed
