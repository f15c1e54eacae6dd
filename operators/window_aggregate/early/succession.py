"""Results of one window that fire at once follow those that stood before, group by group, in a few steps a column.

Most pages of early results are of one window, and most have the groups of the page before in the same order. Then what
is taken back is the columns that stood, as they were, and what is given those of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data.digests import digests
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page, concatenate, tick_column
from operators.window_aggregate.early.firing import FINAL, FIRED

_WORD: Final = 64
_FEW, _LONG = 4, 256
"""So few results at most are left out of a page by taking it to pieces, and so long is each of these on average."""


@attrs.frozen(eq=False)
class Succession:
    """Results that are taken back, those that are given in their place, and those that stand then; None for none."""

    taken: Sequence[Page]
    given: Sequence[Page]
    standing: Page | None


def first(page: Page) -> Succession:
    """Return that all results are given, where none stood before; they stand unless they are final.

    - `page`: results of one window that fired at once.
    """
    return Succession((), (page,), None if page.same[FINAL] else page)


def succeed(stood: Page, page: Page, by: Sequence[str], values: Sequence[str]) -> Succession | None:
    """Return what the results of a window do to those that stood; None where a group is in one of them twice.

    One that is not final and has changed nothing is not given, and what stood goes on to stand.

    - `stood`: results of the same window, which fired earlier.
    - `page`: results that fired at once, of which `same` tells when, and whether they are final.
    - `by`: the groups.
    - `values`: what makes a result another one.
    """
    final, rows = bool(page.same[FINAL]), len(page)
    if not by and max(rows, len(stood)) > 1:
        return None
    if len(stood) == rows and all(stood.column(name).equals(page.column(name)) for name in by):
        changed = np.ones(rows, np.bool_) if final else _changed(stood, page, values)
        if changed.all():
            return Succession((stood,), (page,), None if final else page)
        if not changed.any():
            return Succession((), (), stood)
        still = _still(stood, page, changed) if _alike(stood, page, values, ~changed) else None
        if still is None:
            still = _together([stood.select(~changed), page.select(changed)])
        return Succession(_chosen(stood, changed), _chosen(page, changed), still)
    return _matched(stood, page, by, values)


def _matched(stood: Page, page: Page, by: Sequence[str], values: Sequence[str]) -> Succession | None:
    """Do as `succeed` where groups came, or have another order."""
    index = KeyIndex([page.schema.arrow.field(name) for name in by])
    old, new = (index.assign([some.column(name) for name in by]) for some in (stood, page))
    groups = len(index)
    place: Int64s = np.full(groups, -1)
    place[old] = np.arange(len(old))
    before = place[new]
    if len(np.unique(new)) < len(new) or np.count_nonzero(place >= 0) < len(old):
        return None
    final, known = bool(page.same[FINAL]), before >= 0
    given = np.ones(len(new), np.bool_)
    if not final and known.any():
        given[known] = _changed(stood.take(before[known]), page.select(known), values)
    told = np.zeros(groups, np.bool_)
    told[new[given]] = True
    kept = stood.select(~told[old])
    fresh = None if final or not given.any() else page.select(given)
    standing = [some for some in (kept, fresh) if some is not None and len(some)]
    back = before[given & known]
    return Succession(
        (stood.take(back),) if len(back) else (),
        (page.select(given),) if given.any() else (),
        _together(standing) if standing else None,
    )


def _together(pages: Sequence[Page]) -> Page:
    """Return results of one window as one page, which says of them what all of these say."""
    both = concatenate(pages[0].schema, pages)
    agreed = {name: value for name, value in pages[0].same.items() if all(p.same.get(name) == value for p in pages)}
    return Page(both.schema, both.batch, agreed)


def _still(stood: Page, page: Page, changed: Bools) -> Page:
    """Return what stands of the same groups: the new results, but for when those fired that have changed nothing."""
    fired = np.where(changed, page.ticks(FIRED), stood.ticks(FIRED))
    at = page.schema.arrow.get_field_index(FIRED)
    field = page.schema.arrow.field(at)
    batch = page.batch.set_column(at, field, tick_column(fired, field.type))
    return Page(page.schema, batch, {name: value for name, value in page.same.items() if name != FIRED})


def _alike(stood: Page, page: Page, values: Sequence[str], unchanged: Bools) -> bool:
    """Return whether results that count as unchanged are alike to the last bit: zeros have a sign, for one."""
    for name in values:
        old, new = stood.column(name), page.column(name)
        if pa.types.is_float64(old.type) and old.null_count == new.null_count == 0:
            if (_words(old) != _words(new))[unchanged].any():
                return False
        elif pa.types.is_floating(old.type) or pa.types.is_nested(old.type):
            return False
    return True


def _changed(stood: Page, page: Page, values: Sequence[str]) -> Bools:
    """Return which results differ from those that stood in the same places."""
    changed = np.zeros(len(page), np.bool_)
    for name in values:
        if name in stood.same and stood.same[name] == page.same.get(name):
            continue
        old, new = stood.column(name), page.column(name)
        if _plain(old) and _plain(new):
            changed |= _words(old) != _words(new)
        elif not old.equals(new):
            # As keys of groups are, for not-a-number is what it was.
            changed |= digests([old], len(page)) != digests([new], len(page))
    return changed


def _plain(column: pa.Array) -> bool:
    """Return whether equal values of a column are equal as 64 bits."""
    kind = column.type
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    return whole and kind.bit_width == _WORD and column.null_count == 0


def _words(column: pa.Array) -> Int64s:
    return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)


def _chosen(page: Page, chosen: Bools) -> Sequence[Page]:
    """Return the chosen results, of which at least one is: in pieces that share its columns where few are left out."""
    left_out = np.flatnonzero(~chosen).tolist()
    if len(left_out) > _FEW or len(page) < _LONG * len(left_out):
        return [page.select(chosen)]
    begins, ends = [0, *(place + 1 for place in left_out)], [*left_out, len(page)]
    return [page.slice(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]
