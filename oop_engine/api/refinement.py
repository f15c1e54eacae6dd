"""An early or a late result repeats the whole, says what is new, or takes back the one before it of its window."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from oop_engine.errors import PlanError

Refinement: TypeAlias = Literal["accumulate", "discard", "retract"]


def refine_of(refine: Refinement | None, early: Refinement = "accumulate") -> Refinement:
    """Return how results relate to those before them, from what is said of all and what is said of early ones.

    PlanError for a word that there is not, or two that differ.

    >>> refine_of(None, "discard"), refine_of("retract")
    ('discard', 'retract')
    """
    if refine is None:
        return early
    if refine not in get_args(Refinement):
        raise PlanError(f'aggregate(refine="{refine}"): write {", ".join(map(repr, get_args(Refinement)))}.')
    if early not in ("accumulate", refine):
        raise PlanError(
            f'aggregate(early=oop.early(refine="{early}"), refine="{refine}"): early and late results relate to those'
            " before them in one way.\n  Leave one of the two out."
        )
    return refine
