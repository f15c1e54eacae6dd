"""What a class declares of its memory is what is saved, restored, measured and refused."""

from __future__ import annotations

import doctest
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.saved import decode_state, restore
from operators.join.bounds import Bounds
from operators.protocol import Element, Operator, State
from tests.examples import mostly_slow
from tests.fuzz.fuzz_states import script, zoo

BEFORE = Path(__file__).with_name("states_of_0_2_0.tar.xz")
"""What the operators of the zoo saved in the middle of their scripts, each by its name."""


@attrs.define
class Shelf(memory.Stateful):
    VERSION = 3
    OLDEST = 1

    _books: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, most=9))
    _full: bool = attrs.field(init=False, default=False, metadata=memory.flag())
    _pages: Int64s = attrs.field(init=False, factory=lambda: np.zeros(2, np.int64), metadata=memory.array(least=0))
    _lent: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(2, np.int64), metadata=memory.array(length="_pages", since=2)
    )
    _index: Int64s = attrs.field(init=False, factory=lambda: np.zeros(4, np.int64), metadata=memory.rebuilt())
    _label: str = attrs.field(init=False, default="here")


def test_state_and_bytes_follow_from_the_declaration() -> None:
    shelf = Shelf()
    shelf._books, shelf._pages = 2, np.array([7, 8])
    state = shelf.state()
    assert list(state) == ["version", "books", "full", "pages", "lent"] and shelf.nbytes == 64
    shelf._pages[0] = 9
    again = Shelf()
    again.restore(state)
    assert again._books == 2 and again._pages.tolist() == [7, 8] and again.state().keys() == state.keys()


def test_a_field_that_came_later_may_lack_in_an_older_state_alone() -> None:
    state: State = {name: value for name, value in Shelf().state().items() if name != "lent"}
    shelf = Shelf()
    shelf.restore({**state, "version": 1, "books": 4})
    assert shelf._books == 4 and shelf._lent.tolist() == [0, 0]
    with pytest.raises(ValueError, match=r'"lent" is missing; an array of int64'):
        Shelf().restore({**state, "version": 2})


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("version", 4, "state of Shelf has version 4; this engine reads versions 1 to 3"),
        ("version", 0, "state of Shelf has version 0; this engine reads versions 1 to 3"),
        ("version", "x", 'an integer "version"'),
        ("books", 10, 'has 10 as "books"'),
        ("full", 1, 'truth value "full"'),
        ("pages", np.array([-1, 3]), '-1 in "pages"'),
        ("pages", np.array([1.5]), '"pages" is an array of float64'),
        ("pages", np.zeros((2, 2), np.int64), r"rows of shape \(2,\)"),
        ("lent", np.array([1, 2, 3]), 'should have 2 rows in "lent"'),
    ],
)
def test_what_does_not_fit_is_refused_by_its_entry(entry: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Shelf().restore({**Shelf().state(), entry: value})  # type: ignore[dict-item]


def remembering(name: str) -> tuple[Operator, Operator]:
    """Give an operator of the zoo in the middle of its streams, and a fresh one."""
    make, schemas = zoo()[name]
    steps = script(schemas, random.Random(name))
    operator, fresh = make(), make()
    operator.output_schema(*schemas)
    fresh.output_schema(*schemas)
    for port, element in steps[: len(steps) // 2]:
        take = operator.process if isinstance(element, Page) else operator.punctuate
        take(element, lambda out: None, port)  # type: ignore[arg-type]
    return operator, fresh


@pytest.mark.parametrize("name", mostly_slow(zoo(), every=3))
def test_states_without_versions_are_taken_up_and_those_of_a_later_version_refused(name: str) -> None:
    operator, fresh = remembering(name)
    state = operator.state()
    versions = [entry for entry in state if entry.rpartition(".")[2].rpartition("/")[2] == "version"]
    first = [entry for entry in versions if state[entry] == 1]
    restore(fresh, {entry: value for entry, value in state.items() if entry not in first})
    assert fresh.state().keys() == state.keys()
    for entry in versions:
        with pytest.raises(ValueError, match=r"has version 77; this engine reads version(s \d+ to)? \d"):
            restore(remembering(name)[1], {**state, entry: 77})


def given(operator: Operator, steps: Sequence[tuple[int, Element]]) -> tuple[list[str], list[str]]:
    """Give what an operator emits of these steps: its rows, in no order, and its promises."""
    rows: list[str] = []
    promises: list[str] = []

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            rows.extend(map(repr, element.batch.to_pylist()))
        else:
            promises.append(str(element))

    for port, element in steps:
        take = operator.process if isinstance(element, Page) else operator.punctuate
        take(element, emit, port)  # type: ignore[arg-type]
    return sorted(rows), promises


def saved_before() -> list[str]:
    """Name the operators whose states 0.2.0 saved, but the decoder of flows.

    The decoder saves what exporters taught it, not which datagrams came.
    """
    with tarfile.open(BEFORE) as states:
        return sorted(set(states.getnames()) - {"flow decoder"})


@pytest.mark.parametrize("name", saved_before())
def test_a_state_that_0_2_0_saved_goes_on_as_if_it_had_not_been_saved(name: str) -> None:
    make, schemas = zoo()[name]
    with tarfile.open(BEFORE) as states:
        member = states.extractfile(name)
        assert member is not None
        state = decode_state(member.read())
    steps = script(schemas, random.Random(f"{name} 0"))
    half = len(steps) // 2
    whole, again = make(), make()
    for operator in (whole, again):
        operator.output_schema(*schemas)
    given(whole, steps[:half])
    restore(again, state)
    assert given(again, steps[half:]) == given(whole, steps[half:])


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(memory)
    assert result.attempted and not result.failed


@attrs.define
class Limited(memory.Stateful):
    """Remember a number that its owner limits."""

    most: int = attrs.field(init=False, default=0)
    number: int = attrs.field(init=False, default=0, metadata=memory.integer(most="most"))


@attrs.define
class Limiting(memory.Stateful):
    most: int = attrs.field(default=0, metadata=memory.integer())
    limited: Limited = attrs.field(init=False, factory=Limited, metadata=memory.part(most="most"))


def test_a_part_is_told_what_its_owner_knows_by_then() -> None:
    one = Limiting(7)
    one.limited.number = 7
    other = Limiting()
    other.restore(one.state())
    assert other.limited.number == 7
    with pytest.raises(ValueError, match='has 7 as "number"'):
        Limiting().restore({**one.state(), "most": 6})


@attrs.define
class Mostly(memory.Stateful):
    most: int = attrs.field(default=9, metadata=memory.integer())
    bounds: Int64s = attrs.field(
        init=False, factory=lambda: np.full(2, -7), metadata=memory.sparse("bound", name="at", fill=-7, places="most")
    )
    limited: Limited = attrs.field(init=False, factory=Limited, metadata=memory.part(beside=True, most="most"))


def test_an_array_that_is_mostly_its_identity_is_saved_where_it_is_not() -> None:
    one = Mostly()
    one.bounds = np.array([-7, -7, -7, 4, -7])
    state = one.state()
    assert np.asarray(state["at"]).tolist() == [3] and np.asarray(state["bound"]).tolist() == [4]
    other = Mostly()
    other.restore(state)
    assert other.bounds.tolist() == [-7, -7, -7, 4] and other.nbytes == 32
    for entry, value, said in (("at", np.array([9]), "should be below 9"), ("bound", np.array([4, 5]), "have 1 rows")):
        with pytest.raises(ValueError, match=said):
            Mostly().restore({**state, entry: value})


def test_a_part_may_have_been_saved_beside_its_owner() -> None:
    one = Mostly()
    one.limited.number = 5
    state = one.state()
    assert state["limited.number"] == 5
    for saved in (state, {"most": 9, "at": state["at"], "bound": state["bound"], "number": 5}):
        other = Mostly()
        other.restore(saved)
        assert other.limited.number == 5


def test_bounds_that_were_saved_port_after_port_are_taken_up() -> None:
    bounds, ids = Bounds(), np.array([0, 2, 20], np.int32)
    bounds.reserve(21)
    bounds.lift(1, ids[1:], 7, pin=True)
    bounds.tell(0, ids[:1], np.array([3]))
    state = bounds.state()
    by_port = {name: np.asarray(state[name]).T.reshape(-1) for name in ("own", "told")}
    again = Bounds()
    again.restore({**state, **by_port, "version": 1})
    for port in (0, 1):
        assert again.of(port, ids).tolist() == bounds.of(port, ids).tolist()
        assert again.told(port, ids).tolist() == bounds.told(port, ids).tolist()
    assert again.grouped(1) and not again.grouped(0) and again.pinned.tolist() == [2, 20]
