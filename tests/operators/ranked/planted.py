"""A bug is planted in the source itself: one line of a module is changed, and the module is run as it then reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from operators.errors import OperatorBug
from operators.testing import Script

SEARCH = settings(
    max_examples=200,
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
    source = source.replace("from operators.kernels.kernel import kernel\n", "")
    vars(changed).update(kernel=np.errstate(over="ignore"), __name__=changed.__name__)
    exec(compile(source, changed.__name__, "exec"), vars(changed))
    return changed


def found_out(check: Callable[[Script], None], scripts: st.SearchStrategy[Script]) -> int:
    """Give the law that a script shows to be broken; hypothesis fails when it finds none."""

    def broken(script: Script) -> int | None:
        try:
            check(script)
        except OperatorBug as bug:
            return int(str(bug).split()[1])
        return None

    law = broken(find(scripts, lambda script: broken(script) is not None, settings=SEARCH))
    assert law is not None
    return law
