"""Windows of predicates by their definition: each tick that may begin one is asked for the first that may end it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence

import attrs

from operators.data.page import Row

Answer = Callable[[list[Row]], object]
Says = Callable[[Row], bool]


@attrs.frozen
class Rule:
    """What a `PredicateWindow` says, with functions of a row for its expressions."""

    enter: Says
    leave: Says | None = None
    within: int | None = None
    runs: bool = False
    unfinished: bool = True


def extents(rule: Rule, rows: Sequence[Row]) -> list[tuple[int, int, bool]]:
    """Give begin, end and whether it has ended by itself of the windows of one partition, in order."""
    ticks = sorted({_tick(row) for row in rows})
    enters = {_tick(row) for row in rows if rule.enter(row)}
    leaves = {_tick(row) for row in rows if rule.leave is not None and rule.leave(row)}
    found: list[tuple[int, int, bool]] = []
    for begin in ticks:
        if begin not in enters or (found and (begin < found[-1][1] or not found[-1][2])):
            continue
        later = [tick for tick in ticks if tick > begin]
        if rule.runs:
            ends = [tick for tick in later if tick not in enters]
        elif rule.leave is None:
            ends = [tick for tick in later if tick in enters]
        else:
            ends = [tick + 1 for tick in later if tick in leaves]
        ends += [] if rule.within is None else [begin + rule.within]
        found.append((begin, min(ends), True) if ends else (begin, ticks[-1] + 1, False))
    return found


def members(rule: Rule, rows: Sequence[Row], begin: int, end: int) -> list[Row]:
    """Give the tuples of a window, in the order of their ticks."""
    inside = [row for row in rows if begin <= _tick(row) < end and (rule.enter(row) or not rule.runs)]
    return sorted(inside, key=_tick)


def naive_predicate(
    rule: Rule,
    answers: Mapping[str, Answer],
    by: Sequence[str],
    rows: Sequence[Row],
    *,
    partition: Sequence[str] | None = None,
) -> list[Row]:
    """Give the results of all windows, for every group with a tuple in it; each partition has its own windows."""
    results: list[Row] = []
    for part in grouped([row for row in rows if row["ts"] is not None], by if partition is None else partition):
        for begin, end, ended in extents(rule, part):
            if not (ended or rule.unfinished):
                continue
            for found in grouped(members(rule, part, begin, end), by):
                result: Row = {name: found[0][name] for name in by}
                result |= {name: answer(found) for name, answer in answers.items()}  # type: ignore[misc]
                results.append(result | {"wid": begin, "window_start": begin, "window_end": end})
    return results


def grouped(rows: Sequence[Row], by: Sequence[str]) -> list[list[Row]]:
    """Part rows by the values of attributes."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return list(groups.values())


def _tick(row: Row) -> int:
    return builtins.int(str(row["ts"]))
