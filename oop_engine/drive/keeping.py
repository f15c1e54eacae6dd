"""A run that is kept goes on after it was killed; these are the options that say how, for all ways to run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypedDict, cast

from oop_engine.drive.limit import Limit, LimitOptions, limit_of


class JobOptions(TypedDict, total=False):
    """Say how a job is kept; `Output.run` describes each option."""

    every: str | float
    savepoint: str | None
    drop_state: Collection[str]
    journal: str | float | None
    checkpoint_failures: int


class JobKeeping(JobOptions, total=False):
    """Say how a run is kept, and whether it is: in the folder `checkpoint`."""

    checkpoint: str | Path | None


class Showing(TypedDict, total=False):
    """Say where a run shows itself to people; `Output.run` describes each option."""

    page: str | None
    page_token: str | None
    record: str | Path | None


class Watching(Showing, total=False):
    """Say where a run shows how far it is; `Output.run` describes each option."""

    metrics: str | None


class Keeping(JobKeeping, LimitOptions, Watching, total=False):
    """Say how a run is kept, how much it may hold in memory, and where it shows how far it is."""


def check_options(given: Iterable[str]) -> None:
    """Refuse options that no run has, as Python does: with TypeError."""
    known = Keeping.__annotations__
    for name in given:
        if name not in known:
            raise TypeError(f"a run has no option {name!r}; those that keep it are {', '.join(sorted(known))}")


def limited(kept: Keeping) -> tuple[Limit | None, JobKeeping]:
    """Return the limit of a run's memory, and the options that keep it; PlanError for what is no limit."""
    check_options(kept)
    others = {*LimitOptions.__annotations__, *Watching.__annotations__}
    job = {name: value for name, value in kept.items() if name not in others}
    return limit_of(kept.get("memory"), kept.get("memory_policy")), cast(JobKeeping, job)
