"""Four techniques find the same answers; which one is used is a matter of cost, and of rounding for floating sums."""

from __future__ import annotations

from typing import Literal, TypeAlias

from operators.errors import SchemaError, did_you_mean

Named: TypeAlias = Literal["recompute", "subtract", "two_stacks", "daba"]
Technique: TypeAlias = Literal["auto", "recompute", "subtract", "two_stacks", "daba"]
TECHNIQUES: tuple[Technique, ...] = ("auto", "recompute", "subtract", "two_stacks", "daba")


def check_technique(technique: str) -> None:
    """Check a name; SchemaError that lists the techniques."""
    if technique not in TECHNIQUES:
        raise SchemaError(
            f'aggregate(technique="{technique}"): there is no such technique. {did_you_mean(technique, TECHNIQUES)}'
        )


def choose(technique: Technique, size: int, slide: int, *, few: int, invertible_exactly: bool) -> Named:
    """Return the technique for one aggregate: what was asked for, or by "auto" the cheapest that is exact.

    Windows of at most `few` panes are recomputed, which is as cheap as any stack and remembers nothing. Otherwise
    subtraction where it is exact; for what cannot be taken away, or only with rounding, two stacks.
    """
    if technique != "auto":
        return technique
    if -(-size // slide) * (1 if size % slide == 0 else 2) <= few:
        return "recompute"
    return "subtract" if invertible_exactly else "two_stacks"
