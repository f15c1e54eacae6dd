"""Any mix of windows gives the naive answer for every order, paging, punctuation, store, and place of saving."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.testing import Script, check_operator, streams
from operators.window_aggregate.stores import slices
from tests.examples import share
from tests.operators.slicing.mixes import SCHEMA, Mix, bands_alone, mixes, must_be_out, naive, operator


@share(1)
@given(mixes, st.sampled_from(["lazy", "eager"]), streams(SCHEMA, tuples=12, promises=("linear", "general")))
def test_any_mix_of_windows_gives_the_naive_answer(mix: Mix, store: str, script: Script) -> None:
    check_operator(
        lambda: operator(mix, store=store),
        script,
        naive=lambda table: naive(mix, (), table),
        settled=lambda tables, progress: must_be_out(mix, (), tables[0], progress[0]),
    )


@share(1)
@given(mixes, st.sampled_from([("k",), ("k",), ("k", "v")]), streams(SCHEMA, group=("k",), tuples=12))
def test_groups_have_their_own_slices_sessions_and_releases(mix: Mix, by: tuple[str, ...], script: Script) -> None:
    check_operator(
        lambda: operator(mix, by),
        script,
        naive=lambda table: naive(mix, by, table),
        settled=lambda tables, progress: must_be_out(mix, by, tables[0], progress[0]),
    )


@share(1)
@given(bands_alone, st.sampled_from([("k",), ("k",), ("k", "v")]), streams(SCHEMA, group=("k",), tuples=12))
def test_windows_of_groups_may_be_combined_ahead(mix: Mix, by: tuple[str, ...], script: Script) -> None:
    check_operator(
        lambda: operator(mix, by, store="eager"),
        script,
        naive=lambda table: naive(mix, by, table),
        settled=lambda tables, progress: must_be_out(mix, by, tables[0], progress[0]),
    )


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(slices.__path__)])
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"operators.window_aggregate.stores.slices.{name}")).failed == 0
