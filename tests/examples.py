"""How many examples a property is tried on: a share of the profile's, where parameters or long examples multiply."""

from __future__ import annotations

from hypothesis import settings


def share(part: float) -> settings:
    """Give the settings for so large a part of the examples of the profile, three at least."""
    return settings(max_examples=max(3, round(part * settings.default.max_examples)))
