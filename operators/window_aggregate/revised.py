"""Windows with a lateness give results again; of each window the last one stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from operators.data.keys import KeyIndex
from operators.data.page import Page
from operators.window_aggregate.results import REVISION, WID


def last_given(page: Page, by: Sequence[str]) -> Page:
    """Return of each window and group the result that was given last, in the order in which they came.

    - `page`: results, with the attribute `revision` where windows have a lateness; without it the page itself.
    - `by`: the grouping attributes.

    >>> import pyarrow as pa
    >>> from operators.data.schema import Schema
    >>> schema = Schema.of(wid=pa.int64(), n=pa.int64(), revision=pa.int64())
    >>> last_given(Page.of_rows(schema, [(1, 5, 0), (2, 4, 0), (1, 6, 1)]), ())["n"].tolist()
    [4, 6]
    """
    if REVISION not in page.schema:
        return page
    names = [*by, WID]
    ids = KeyIndex([page.schema.field(name) for name in names]).assign([page.column(name) for name in names])
    order = np.lexsort((page.ticks(REVISION), ids))
    last = np.append(ids[order][1:] != ids[order][:-1], True)
    return page.take(np.sort(order[last]))
