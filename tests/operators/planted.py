"""Bugs planted on purpose: scripts are searched until the conformance kit finds one out, whatever the profile.

A bug is a class that is right but for one line, or is planted in the source itself: one line of a module is changed,
and the module is run as it then reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from operators.errors import OperatorBug

Case = TypeVar("Case")

# A search ends at the first script that shows the bug; the number is for those that hardly any script shows.
SEARCH = settings(
    max_examples=600,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def mutated(module: ModuleType, function: str, *changes: tuple[str, str]) -> ModuleType:
    """Give a module with some of a function's text replaced, each text being there once; kernels run as Python."""
    source = inspect.getsource(module)
    for old, new in changes:
        start = source.index(f"def {function}(")
        stop = (source + "\n\n\n").index("\n\n\n", start)
        assert source.count(old, start, stop) == 1, f"{function} has {source.count(old, start, stop)} times: {old}"
        source = source[:start] + source[start:stop].replace(old, new) + source[stop:]
    changed = ModuleType(module.__name__ + "_mutated")
    source = source.replace("from operators.kernels.compile.kernel import kernel\n", "")
    vars(changed).update(kernel=np.errstate(over="ignore"), __name__=changed.__name__)
    exec(compile(source, changed.__name__, "exec"), vars(changed))
    return changed


def found_out(check: Callable[[Case], None], cases: st.SearchStrategy[Case]) -> int:
    """Give the law that a case shows to be broken; hypothesis fails when it finds none."""
    return shown(check, cases)[0]


def shown(check: Callable[[Case], None], cases: st.SearchStrategy[Case]) -> tuple[int, Case]:
    """Give the law that a case shows to be broken, and that case; hypothesis fails when it finds none."""

    def broken(case: Case) -> int | None:
        try:
            check(case)
        except OperatorBug as bug:
            return int(str(bug).split()[1])
        return None

    case = find(cases, lambda case: broken(case) is not None, settings=SEARCH)
    law = broken(case)
    assert law is not None
    return law, case
