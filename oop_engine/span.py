"""A span says where in a query text a piece of it stands."""

from __future__ import annotations

import attrs


@attrs.frozen
class Span:
    """Locate a piece of one line: 1-based `line` and `column`, and the column just after its last character.

    What runs over several lines is located by its first line alone.
    """

    line: int
    column: int
    end_column: int


NOWHERE = Span(0, 0, 0)
"""The span of what was built in Python and stands in no text."""
