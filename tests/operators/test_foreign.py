"""It is seen whether an operator computes with anything that this package does not have."""

from __future__ import annotations

import doctest

import attrs
import numpy as np
import pyarrow as pa
import pytest

from operators import foreign as module
from operators.chain import Chain
from operators.expression import Column, Opaque
from operators.foreign import foreign
from operators.functions import count, sum, user_aggregate
from operators.join import Band, OAJoin
from operators.rows.apply import Apply
from operators.rows.distinct import Distinct
from operators.rows.filter import Filter
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate

WINDOW = SlidingWindow("ts", size=4, slide=2)


def twice(page: object) -> object:
    return page


def months(tick: int) -> int:
    return tick + 30 - tick % 30


@attrs.define
class Mine(Distinct):
    """An operator of a user's own."""


@pytest.mark.parametrize(
    "operator",
    [
        Filter((Column("v") > 0) & (Column("k") == "a")),
        Apply({"w": np.sqrt(Column("v"))}),  # type: ignore[call-overload]
        Chain([Bucket(WINDOW), WindowAggregate(WINDOW, {"n": count(), "s": sum("v")}, ("k",))]),
        SlicingAggregate({"a": SessionWindow("ts", gap=2)}, {"n": count()}, ("k",)),
        OAJoin(Band("s", "t", left=1, right=1), (("k", "k"),)),
        Distinct(("k",)),
    ],
)
def test_operators_of_this_package_alone_have_nothing_foreign(operator: object) -> None:
    assert foreign(operator) == ""


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        (Filter(Opaque(twice, result=pa.bool_())), "twice"),
        (Apply({"w": Column("v") + Opaque(twice, result=pa.int64())}), "twice"),
        (Chain([Distinct(), Mine()]), "Mine"),
        (Bucket(EdgeWindow("ts", months)), "months"),  # type: ignore[arg-type]
        (
            WindowAggregate(
                WINDOW,
                {"n": user_aggregate("f", lift=months, combine=max, arguments="v", identity=0, output=pa.int64())},
            ),
            "months",
        ),
    ],
)
def test_a_function_or_class_of_a_users_own_is_named(operator: object, name: str) -> None:
    assert foreign(operator) == name


def test_the_examples_of_the_docstring_are_true() -> None:
    assert doctest.testmod(module).failed == 0
