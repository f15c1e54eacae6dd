"""How many examples a property is tried on, and on which parameters.

What multiplies is tried whole among the longer tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings


def share(part: float) -> settings:
    """Give the settings for so large a part of the examples of the profile, three at least."""
    return settings(max_examples=max(3, round(part * settings.default.max_examples)))


def mostly_slow(names: Iterable[str | tuple[str, ...]], *, but: Collection[str | tuple[str, ...]]) -> list[Any]:
    """Give parameters of which only some are for the default run; the others are for the longer tests."""
    names = list(names)
    assert set(but) <= set(names), f"{sorted(map(str, set(but) - set(names)))} are no names"
    return [
        pytest.param(*(name if isinstance(name, tuple) else (name,)), marks=() if name in but else pytest.mark.slow)
        for name in names
    ]
