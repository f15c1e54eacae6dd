"""The naive twin of the clamp: which value each tuple makes believed, one at a time, from the definition alone."""

from __future__ import annotations

from collections.abc import Sequence

from operators.streams.clamp import AGREE
from punctuation import NO_TIME


def naive_believed(values: Sequence[int], jump: int | None, limit: int | None = None) -> list[int]:
    """Give what each value makes believed, NO_TIME for nothing; `limit` is the highest that a clock allows."""
    if jump is None:
        return list(values)
    found: list[int] = []
    seen: list[int] = []
    highest: int | None = None
    row: list[int] = []
    for value in values:
        if value == NO_TIME:
            found.append(NO_TIME)
            continue
        seen.append(value)
        believed = []
        if highest is None and limit is None and len(seen) == 2:
            highest = min(seen)
            believed = [v for v in seen if v <= highest + jump]
        if limit is not None and value <= limit:
            believed = [value]
        elif limit is None and highest is not None and value <= highest + jump:
            believed.append(value)
        if believed and value in believed:
            row = []
        else:
            row.append(value)
        if believed:
            highest = max(believed) if highest is None else max(highest, *believed)
        if limit is None and highest is not None and len(row) >= AGREE:
            last = row[-AGREE:]
            believed = [v for v in last if v <= min(last) + jump]
            highest = max(highest, *believed)
            believed = [highest]
        found.append(max(believed) if believed else NO_TIME)
    return found
