"""A run that is kept goes on after it was killed; these are the options that say how, for all ways to run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypedDict


class JobOptions(TypedDict, total=False):
    """Say how a job is kept; `Output.run` describes each option."""

    every: str | float
    savepoint: str | None
    drop_state: Collection[str]
    journal: str | float | None


class Keeping(JobOptions, total=False):
    """Say how a run is kept, and whether it is: in the folder `checkpoint`."""

    checkpoint: str | Path | None


def check_options(given: Iterable[str]) -> None:
    """Refuse options that no run has, as Python does: with TypeError."""
    known = {*JobOptions.__annotations__, *Keeping.__annotations__}
    for name in given:
        if name not in known:
            raise TypeError(f"a run has no option {name!r}; those that keep it are {', '.join(sorted(known))}")
