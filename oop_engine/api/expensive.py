"""A condition that takes long is marked as expensive, so that cheap ones decide before it is asked."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from operators.data.page import Page
from operators.expression import Expression, Opaque
from operators.expression.expensive import Expensive


def expensive(condition: Expression | Callable[[Page], object], *, workers: int | None = None) -> Expression:
    """Compute a condition in the background, and only where the cheap ones beside it leave the tuple open.

    - `condition`: a function of a page, which gives one truth value for each tuple of it, as an array or a list; or a
      condition on columns. It must depend on nothing but the tuple that it decides. Several threads call it at the
      same time, each with 1,024 tuples at most.
    - `workers`: how many threads, 1 to 256; by default 4. A function that waits, as for a network, may have many; one
      that computes in Python gains nothing beyond one.

    It stands in `filter`, alone or with others under and, or, not (`&`, `|`, `~`). Tuples that cheap conditions decide
    overtake those that wait; a promise waits for the tuples that it covers, and for no others.
    SchemaError where it is no condition, or stands elsewhere in one; an error of the function names the tuple.

    >>> known = {3, 5}
    >>> stream = oop.rows([(1, 53), (2, 80), (3, 81)], oop.Schema.of(ts="int64", port="int64"))
    >>> listed = oop.expensive(lambda page: [ts in known for ts in page["ts"]])
    >>> stream.filter(lambda p: (p["port"] == 53) | listed).to_arrow()["ts"].to_pylist()
    [1, 3]
    """
    if not isinstance(condition, Expression):
        condition = Opaque(condition, result=pa.bool_())
    return Expensive(condition, workers)
