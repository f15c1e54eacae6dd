"""Names of version 0.1 import the modules that stand in folders now, once and with a warning."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from operators import moved


@pytest.mark.parametrize(("old", "new"), sorted(moved._places().items()))
def test_every_old_name_has_a_module(old: str, new: str) -> None:
    assert importlib.util.find_spec(new) is not None, (old, new)


_OLD = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import operators.slicing.aggregate as old
    from operators.page import Page
    {first}
import operators.window_aggregate.stores.slices.aggregate as new
import operators.data.page
from punctuation.asked import known
from punctuation.demanded_progress import known as of_now
assert known is of_now
assert old is new and old.__name__ == old.__spec__.name == new.__name__
assert Page is operators.data.page.Page
assert sum("until version 0.3" in str(w.message) for w in said) >= 3, [str(w.message) for w in said]
try:
    import operators.no_such_module
except ModuleNotFoundError as error:
    assert error.name == "operators.no_such_module"
else:
    raise AssertionError("found")
"""


def test_an_old_name_may_be_the_first_that_is_imported() -> None:
    """Nothing of `operators` is imported yet then, and a name that never was is not found."""
    program = "import oop_engine.stream as old, oop_engine.api.stream as new; assert old is new; import oop_engine.gone"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'oop_engine.gone'"


@pytest.mark.parametrize("first", ["", "from oop_engine.stream import Stream"])
def test_old_and_new_names_are_one_module(first: str) -> None:
    """In a process of its own: here other tests may have imported the modules in any order."""
    ran = subprocess.run([sys.executable, "-c", _OLD.format(first=first)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
