"""A share such as 0.05 means the decimal as written, so that one in twenty is five in a hundred exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from operators.data.page import Int64s
from operators.errors import SchemaError

EXACT = 1 << 62


def share_of(given: float, *, where: str, zero: bool) -> Fraction:
    """Return a share between 0 and 1 as the fraction that its shortest decimal is; SchemaError outside."""
    try:
        share = Fraction(str(given))
    except ValueError:
        share = Fraction(-1)
    if not (0 <= share <= 1) or (share == 0 and not zero):
        between = "between 0 and 1" if zero else "above 0 and at most 1"
        raise SchemaError(
            f"{where}: the second argument must be a fraction {between}, and is {given}.\n  {_meant(share, where)}"
        )
    return share


def _meant(share: Fraction, where: str) -> str:
    """Say what to write for a share; of one that was given in hundredths, that one."""
    if not 1 < share <= 100:
        return "Write 0.05 for five in a hundred."
    hundredths = f"{float(share):g}"
    if "quantile" not in where:
        return f"For {hundredths} in a hundred write {float(share / 100):g}."
    ending = {"1": "st", "2": "nd", "3": "rd"}.get(hundredths[-1], "th") if hundredths[-2:-1] != "1" else "th"
    return f"For the {hundredths}{ending} percentile write {float(share / 100):g}."


def rounded_up(share: Fraction, totals: Int64s) -> Int64s:
    """Return the least whole number that is at least the share of each total."""
    over, under = share.numerator, share.denominator
    if int(totals.max(initial=0)) * over < EXACT:
        return np.asarray(-(-totals * np.int64(over) // np.int64(under)))
    return np.array([-(-int(total) * over // under) for total in totals], np.int64)


def percent(share: float) -> str:
    """Return a share as a name has it: "95" for 0.95, "99_9" for 0.999."""
    return f"{float(100 * Fraction(str(share))):g}".replace(".", "_")


def is_count(given: object) -> bool:
    """Return whether a user gave a whole number, and no truth value."""
    return isinstance(given, int) and not isinstance(given, bool)
