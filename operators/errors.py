"""Errors tell whose fault they are: the plan's (`SchemaError`), ours (`OperatorBug`); `punctuation` has the data's."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from punctuation.errors import Error


class SchemaError(Error, ValueError):
    """Report that an operator does not fit its input: an unknown attribute, a wrong type. The message lists the
    attributes.
    """


class OperatorBug(Error, RuntimeError):
    """Report that an operator broke one of the laws of `check_operator`. Its author must mend it."""


class AggregateOverflow(Error, ArithmeticError):
    """Report that an exact integer result does not fit its type, with operator and group; cast to float64 before."""

    slot: int | None = None
    """The slot that overflowed, by which the operator finds the group."""


class AggregateFailure(Error, ArithmeticError):
    """Report that a user's function raised, with its name and the values it was given."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return the sentence that suggests the nearest known name, or lists the first twelve when none is near."""
    names = list(known)
    near = get_close_matches(wrong, names, n=1, cutoff=0.55) or get_close_matches(
        wrong.lower(), [n.lower() for n in names], n=1, cutoff=0.55
    )
    if near:
        return f'Did you mean "{next(n for n in names if n.lower() == near[0].lower())}"?'
    if not names:
        return "There are none."
    return "Known are " + ", ".join(f'"{n}"' for n in names[:12]) + (", ..." if len(names) > 12 else ".")
