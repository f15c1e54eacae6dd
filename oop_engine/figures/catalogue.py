"""All figures by name, in the order of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from oop_engine.errors import PlanError
from oop_engine.figures import beyond, extra, hammer, scotty, thesis
from oop_engine.figures.figure import Figure


def figures() -> dict[str, Figure]:
    """Return all figures by name.

    >>> figures()["6-8"].paper
    'thesis'
    """
    papers = thesis.FIGURES, hammer.FIGURES, scotty.FIGURES, beyond.FIGURES, extra.FIGURES
    return {figure.name: figure for paper in papers for figure in paper}


def chosen(names: Sequence[str]) -> list[Figure]:
    """Return the figures of these names, of whole papers too, in the order of the papers; all when none is named.

    - `names`: such as "6-10" or "thesis".

    PlanError for an unknown name.
    """
    known = figures()
    papers = {figure.paper for figure in known.values()}
    for name in names:
        if name not in known and name not in papers:
            near = get_close_matches(name, [*known, *papers], 1, 0.5)
            hint = f'Did you mean "{near[0]}"?' if near else f"There are {', '.join(known)}."
            raise PlanError(f'there is no figure "{name}".\n  {hint} `oop-engine figures --list` says what each shows.')
    return [f for f in known.values() if not names or f.name in names or f.paper in names]
