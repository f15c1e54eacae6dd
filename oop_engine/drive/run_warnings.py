"""The notes of a run: tuples that are in no result or in another place, values that became null.

A note is for whoever looks at results and might take them for all there is, so Python and the command line tell the
same ones. A warning names functions that are interpreted, for users who waited for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from oop_engine.drive.growth import large, shed, spilled
from oop_engine.drive.meter import OperatorStatistics, watched
from oop_engine.plan.aggregates import slow
from oop_engine.plan.graph import OperatorNode, Plan, SourceNode
from oop_engine.plan.windows import gaps
from oop_engine.rewrite.demand import windows_of
from operators.data.schema import Schema
from operators.plan_facts import AsksForPromises, Noting
from operators.protocol_checks import fits
from operators.streams.input import Input
from operators.window import PartitionedWindow

_SHOWN: Final = 5
"""Keys that a note names."""
_VALUE = "value of the progressing attribute"


def told(plan: Plan, operators: Sequence[OperatorStatistics]) -> list[str]:
    """Return a line for each thing that is to be told of a run.

    There is none where all tuples are in the results, no function is interpreted, and no state took much of the memory.
    """
    found = [*_unusable(plan, operators), *_ahead(plan, operators), *_notes(plan, operators)]
    if gap := sum(operator.details.get("in_no_window", 0) for operator in operators):
        found.append(f"{_many(gap, 'tuple')} in no window")
    if overflowed := sum(operator.details.get("overflowed", 0) for operator in operators):
        what = (
            "value is null, as it does not fit its type"
            if overflowed == 1
            else "values are null, as they do not fit their types"
        )
        found.append(f"{overflowed:,} {what}")
    found += large(operators)
    found += spilled(operators)
    found += shed(operators)
    lines = (line for node in plan.operators.values() for line in slow(node.operator))
    return [*found, *dict.fromkeys(lines)]


def behind_keys(inputs: Iterable[Input]) -> Iterator[str]:
    """Say of which keys tuples were behind what their streams had promised by key: the foremost, and of how many."""
    for source in inputs:
        if not (counts := source.behind_by_key()):
            continue
        shown = sorted(counts.items(), key=lambda found: (-found[1], found[0]))
        texts = [f"{number:,} of {key}" for key, number in shown[:_SHOWN]]
        more = f" and {len(shown) - _SHOWN:,} keys more" if len(shown) > _SHOWN else ""
        yield (
            f"{source.name}: {_many(sum(counts.values()), 'tuple')} came behind what was promised: {', '.join(texts)}"
            f"{more}; a key that is new or was silent for longer than idle may be, others need more slack"
        )


def wrong_clocks(inputs: Iterable[Input]) -> Iterator[str]:
    """Say which keys have clocks that are off, the furthest ones first, and whether their times were put right."""
    for source in inputs:
        off, known, corrected = source.clocks_off()
        if not off:
            continue
        shown = sorted(off.items(), key=lambda found: (-abs(found[1]), found[0]))
        texts = [
            f"{key} {abs(ahead) / 1e9:,.1f} s {'ahead' if ahead > 0 else 'behind'}" for key, ahead in shown[:_SHOWN]
        ]
        more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
        then = "their times were corrected" if corrected else "correct=True of by_key corrects their times"
        yield f"{source.name}: {len(off):,} of {_many(known, 'clock')} off: {', '.join(texts)}{more}; {then}"


def beforehand(plan: Plan) -> list[str]:
    """Return a line for each thing that is known of the results before a run: windows that leave gaps."""
    found: dict[str, None] = {}
    for node in plan.operators.values():
        schema = node.inputs[0].schema
        for window in windows_of(node.operator):
            if isinstance(window, PartitionedWindow) or window.wattr in schema:
                found.update(dict.fromkeys(gaps(window, schema)))
    return list(found)


def _unusable(plan: Plan, operators: Sequence[OperatorStatistics]) -> Iterator[str]:
    """Say how many tuples had no value that a window could use, each counted once.

    A tuple with a null is counted where its stream enters, and again by every window operator that it reaches; one with
    a value beyond the ticks of windows by those alone. So the tuples are the fewest that explain all counts, where a
    window counts those of all sources below it, and a join of a stream with itself each of them twice.
    """
    below = _sources(plan)
    counts = {place: operator.details.get("untimed", 0) for place, operator in enumerate(operators)}
    beyond: dict[str, None] = {}
    for node, operator, sources in sorted(zip(plan.nodes, operators, below, strict=False), key=lambda f: len(f[2])):
        # One that asks for no promises counts tuples without a value of any attribute, mostly not the progressing one.
        if isinstance(node, SourceNode) or not fits(node.operator, AsksForPromises):
            continue
        more = operator.details.get("without_value", 0) - sum(counts[place] * ways for place, ways in sources.items())
        if more > 0:
            first = min(sources)
            counts[first] += -(-more // sources[first])
            beyond[_beyond(node.inputs[0].schema)] = None
    if untimed := sum(counts.values()):
        value = f"usable value of the progressing attribute (null, {', '.join(beyond)})" if beyond else _VALUE
        yield f"{_many(untimed, 'tuple')} without a {value}"


def _sources(plan: Plan) -> list[Counter[int]]:
    """Return the places of the sources that each node reads, and in how many ways it reads each."""
    below: list[Counter[int]] = []
    for place, inputs in enumerate(plan.inputs):
        found = [below[upstream] for upstream in inputs]
        below.append(Counter((place,)) if place in plan.sources else sum(found, Counter[int]()))
    return below


def _beyond(schema: Schema) -> str:
    """Say which values of the progressing attribute are in no window."""
    name = watched(schema)
    if name is not None and str(schema.arrow.field(name).type).startswith("timestamp[ns"):
        return "or beyond 1896-12 to 2043-01 in nanoseconds"
    return "or beyond 2**61 of its unit"


def _ahead(plan: Plan, operators: Sequence[OperatorStatistics]) -> Iterator[str]:
    """Say which tuples were too far ahead to move a promise; they are in the results, in windows of their own time."""
    for place, node in plan.sources.items():
        if place >= len(operators) or not (ahead := (told := operators[place]).details.get("ahead", 0)):
            continue
        jumps = ", ".join(dict.fromkeys(far for promise in node.promises if (far := promise.jump_text(node.schema))))
        counts = "counts in windows of its own time" if ahead == 1 else "count in windows of their own times"
        yield (
            f"{told.label}: {_many(ahead, 'tuple')}, more than {jumps}, moved no promise and {counts};"
            " jump sets how far ahead a tuple may be"
        )


def _notes(plan: Plan, operators: Sequence[OperatorStatistics]) -> Iterator[str]:
    """Yield what operators note of their results themselves."""
    for node, told in zip(plan.nodes, operators, strict=False):
        if isinstance(node, OperatorNode) and fits(node.operator, Noting):
            yield from (f"{told.label}: {line}" for line in node.operator.notes(told.details))


def _many(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"
