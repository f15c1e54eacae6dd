"""What is remembered of a class is what `isinstance` says of each of its objects."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import attrs
import pytest

from oop_engine.sources import demanded_progress, holder
from operators import plan_facts, protocol
from operators.functions import count, median
from operators.join.oa import OAJoin
from operators.protocol_checks import fits
from operators.rows.filter import Filter
from operators.rows.number import Number
from operators.streams import late_tuples
from operators.streams.input import Input
from operators.streams.meld import Meld
from operators.window import SlidingWindow
from operators.window_aggregate import facts
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate

MODULES = (protocol, plan_facts, facts, holder, demanded_progress, late_tuples)


def protocols() -> Iterator[type]:
    for module in MODULES:
        for _, found in inspect.getmembers(module, inspect.isclass):
            if getattr(found, "_is_runtime_protocol", False):
                yield found


@runtime_checkable
class Named(Protocol):
    name: str

    def call(self) -> int: ...


@runtime_checkable
class Called(Named, Protocol):
    def __call__(self) -> int: ...


@attrs.define
class Slotted:
    name: str = "a"

    def call(self) -> int:
        return 1


@attrs.define(slots=False)
class Open(Slotted):
    pass


class Own:
    """Its objects have members of their own."""

    def __init__(self, **given: object) -> None:
        vars(self).update(given)


class Taken(Slotted):
    call = None  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


class Asking:
    def __getattr__(self, name: str) -> Any:
        return (lambda: 1) if name in ("name", "call") else super().__getattribute__(name)


VALUES: list[object] = [
    Number(), Input(), Meld(2), Bucket(SlidingWindow("ts", size=2, slide=2)), Filter, 5, "text", None, len, list.append,
    SlicingAggregate({"a": SlidingWindow("ts", size=2, slide=2)}, {"n": count()}), count(), median("v"),
    OAJoin, Slotted(), Open(), Own(), Own(name="b", call=len), Taken(), Asking(), lambda: 1, Own,
]  # fmt: skip


@pytest.mark.parametrize("kind", [*protocols(), Named, Called], ids=lambda kind: kind.__name__)
def test_it_is_what_isinstance_says(kind: type) -> None:
    for _ in range(2):
        assert [fits(value, kind) for value in VALUES] == [isinstance(value, kind) for value in VALUES]


def test_there_are_some_of_each() -> None:
    kinds = list(protocols())
    assert len(kinds) > 30
    both = [{fits(value, kind) for value in VALUES} for kind in kinds]
    assert sum(len(found) == 2 for found in both) > 15


def test_an_object_of_a_class_that_may_have_more_is_asked_each_time() -> None:
    value = Own(name="b")
    assert not fits(value, Named)
    vars(value)["call"] = len
    assert fits(value, Named) and not fits(Own(name="b"), Named)
