"""Find tuples that match a promise in force, and name the promise in words a user knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Array, Bools, Int64s, Page
from operators.data.schema import is_ip
from operators.data.steps import tick_number
from punctuation import NEVER, NO_TIME, Below, Equals, Pattern, Progress, Punctuation, Shape, before, below


def breaks(page: Page, progress: Progress, *, besides: Sequence[str] = ()) -> Bools | None:
    """Return which tuples match a promise in force, shape (n,); None when none does.

    Linear promises on the attributes `besides` are left to the caller. Cost: O(tuples) a linear or general promise;
    group-wise ones O(tuples + groups in the page), however many groups there are.
    """
    if progress.ended:
        return np.ones(len(page), np.bool_)
    found: Bools | None = None
    for attribute, bound in progress.linear.items():
        if attribute not in besides:
            found = _either(found, page.matching(before(attribute, bound)))
    for shape in progress.grouped:
        found = _either(found, _below_own(page, progress, shape)[0])
    for promise in progress.general:
        found = _either(found, page.matching(promise))
    return found


def broken_texts(page: Page, progress: Progress, bounds: Mapping[str, Int64s]) -> list[str]:
    """Return for each tuple the promise that it breaks, as text; `bounds` are linear promises a tuple, by attribute."""
    texts = np.full(len(page), "", object)
    if progress.ended:
        texts[:] = "[END]"
    for attribute, bound in bounds.items():
        broken = (page.ticks(attribute) < bound) & (texts == "")
        if (valid := page.valid(attribute)) is not None:
            broken &= valid
        if broken.any():
            distinct, which = np.unique(bound[broken], return_inverse=True)
            texts[broken] = np.array([describe(before(attribute, int(b)), page) for b in distinct], object)[which]
    for attribute, value in progress.linear.items():
        if attribute not in bounds:
            _write(texts, page, before(attribute, value))
    for shape in progress.grouped:
        _, codes, promised = _below_own(page, progress, shape)
        for index in np.flatnonzero(texts == "").tolist():
            promise = promised.get(int(codes[index]))
            if promise is not None and page.slice(index, index + 1).matching(promise)[0]:
                texts[index] = describe(promise, page)
    for promise in progress.general:
        _write(texts, page, promise)
    return texts.tolist()


def describe(promise: Punctuation, page: Page) -> str:
    """Return a promise as text, times in ISO 8601 and addresses as addresses."""
    shown: list[str] = []
    for name, pattern in promise.patterns:
        field = page.schema.field(name)
        text = str(pattern)
        if isinstance(pattern, Equals) and isinstance(pattern.value, bytes) and is_ip(field):
            # Start-up: only a broken promise is described, and few hold addresses.
            from operators.data.address import format_ip

            text = f"= {format_ip(pa.array([pattern.value], field.type))[0].as_py()}"
        elif isinstance(pattern, Equals) and isinstance(pattern.value, int):
            text = f"= {spoken(pattern.value, field.type)}"
        elif isinstance(bound := below(pattern), int):
            text = f"< {spoken(bound, field.type)}"
        shown.append(f"{name} {text}")
    return "[" + ", ".join(shown) + "]"


def spoken(ticks: int, kind: pa.DataType) -> str:
    """Return a value as a user writes it: ISO 8601 in UTC, without a zero fraction, for timestamps."""
    if not pa.types.is_timestamp(kind):
        return tick_number(ticks, kind)
    text = str(np.datetime64(ticks, kind.unit))
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}Z"


def _either(found: Bools | None, more: Bools) -> Bools | None:
    if not more.any():
        return found
    return more if found is None else found | more


def _write(texts: Array, page: Page, promise: Punctuation) -> None:
    texts[page.matching(promise) & (texts == "")] = describe(promise, page)


def _below_own(page: Page, progress: Progress, shape: Shape) -> tuple[Bools, Int64s, dict[int, Punctuation]]:
    """Return which tuples match a promise of their own group, the tuples' group codes, and the promise of each code."""
    names, progressing = shape
    codes, known = _groups(page, names)
    used, firsts = np.unique(codes, return_index=True)
    promised: dict[int, Punctuation] = {}
    limits = np.full(len(used), NO_TIME, np.int64)
    matched = np.zeros(len(page), np.bool_)
    for code, row, grouped in zip(used.tolist(), page.take(firsts).plain_rows(), known[firsts].tolist(), strict=True):
        key = tuple(row[name] for name in names)
        if not grouped or key not in progress.grouped[shape]:
            continue
        bound = progress.grouped[shape][key]  # pyright: ignore[reportArgumentType]
        patterns: dict[str, Pattern] = {n: Equals(v) for n, v in zip(names, key, strict=True) if v is not None}
        if progressing is not None and bound is not None:
            patterns[progressing] = Below(bound)
        promised[code] = Punctuation(patterns)
        if progressing is None:
            limits[code] = NEVER
        elif isinstance(bound, int):
            limits[code] = bound
        else:
            matched |= page.matching(promised[code])
    if promised and progressing is None:
        matched |= (limits[codes] == NEVER) & known
    elif (limits != NO_TIME).any() and progressing is not None:
        below_limit = page.ticks(progressing) < limits[codes]
        valid = page.valid(progressing)
        matched |= below_limit & known & (valid if valid is not None else True)
    return matched, codes, promised


def _groups(page: Page, names: Sequence[str]) -> tuple[Int64s, Bools]:
    """Return dense codes of the tuples' groups, and which tuples have all of the grouping attributes; shape (n,)."""
    codes = np.zeros(len(page), np.int64)
    known = np.ones(len(page), np.bool_)
    for name in names:
        encoded = page.column(name).dictionary_encode()
        absent = len(encoded.dictionary)
        own = pc.fill_null(encoded.indices, absent).to_numpy().astype(np.int64)
        known &= own != absent
        # Made dense at every attribute, so that codes stay small however many there are.
        codes = np.unique(codes * (absent + 1) + own, return_inverse=True)[1].astype(np.int64)
    return codes, known
