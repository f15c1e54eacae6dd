"""The same stream told differently: other page sizes, tuple orders, interleavings, more or fewer promises.

Every variant of a grammatical script is a grammatical script with the same tuples on each port.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa

from operators.data.page import Page, concatenate
from operators.data.schema import Schema
from operators.protocol import Element
from operators.testing.script import Script, Step
from punctuation import Punctuation, Value, before


def repaged(script: Script, size: int | None) -> Script:
    """Cut pages to `size` tuples, None for as large as the script allows; empty pages vanish."""
    steps: list[Step] = []
    for port, pages in _runs(script.steps):
        if not all(isinstance(page, Page) for page in pages):
            steps += [(port, page) for page in pages]
            continue
        page = concatenate(script.schemas[port], [p for p in pages if isinstance(p, Page)])
        width = size or max(len(page), 1)
        steps += [(port, page.slice(i, min(i + width, len(page)))) for i in range(0, len(page), width)]
    return Script(script.schemas, tuple(steps))


def reordered(script: Script, order: Callable[[int], Iterable[int]]) -> Script:
    """Permute the tuples of each port between its punctuations; pages keep their lengths and places."""
    steps = list(script.steps)
    for port, schema in enumerate(script.schemas):
        for segment in _segments(steps, port):
            pages = [page for _, page in segment]
            page = concatenate(schema, pages)
            if not len(page):
                continue
            page = page.take(np.fromiter(order(len(page)), np.int64, len(page)))
            start = 0
            for place, old in segment:
                steps[place] = (port, page.slice(start, start + len(old)))
                start += len(old)
    return Script(script.schemas, tuple(steps))


def interleaved(script: Script, rounds: Callable[[Sequence[int]], Iterable[int]]) -> Script:
    """Mix the ports in another way: `rounds` gets the number of elements of each port and names ports in turn."""
    queues: list[list[Element]] = [[] for _ in script.schemas]
    for port, element in script.steps:
        queues[port].append(element)
    taken = [iter(queue) for queue in queues]
    return Script(script.schemas, tuple((port, next(taken[port])) for port in rounds([len(q) for q in queues])))


def one_by_one(counts: Sequence[int]) -> Iterator[int]:
    """Name each port in full before the next."""
    for port, count in enumerate(counts):
        yield from [port] * count


def last_first(counts: Sequence[int]) -> Iterator[int]:
    """Name each port in full, the last port first."""
    for port in reversed(range(len(counts))):
        yield from [port] * counts[port]


def in_turn(counts: Sequence[int]) -> Iterator[int]:
    """Name the ports in turn while they have elements."""
    for i in range(max(counts, default=0)):
        yield from (port for port, count in enumerate(counts) if i < count)


def fewer(script: Script, keep: Callable[[int], bool]) -> Script:
    """Drop promises: the i-th stays when keep(i); END always does."""
    steps: list[Step] = []
    count = 0
    for port, element in script.steps:
        if isinstance(element, Punctuation) and not element.is_end:
            count += 1
            if not keep(count - 1):
                continue
        steps.append((port, element))
    return Script(script.schemas, tuple(steps))


def more(script: Script) -> Script:
    """Add every true linear promise after each element, on the attributes that the script has such promises on."""
    steps: list[Step] = []
    attributes = _linear_attributes(script)
    for i, (port, element) in enumerate(script.steps):
        steps.append((port, element))
        if isinstance(element, Punctuation):
            if element.is_end:
                continue
            steps.append((port, element))
        for name in attributes[port]:
            later = [
                row[name]
                for p, e in script.steps[i + 1 :]
                if p == port and isinstance(e, Page)
                for row in e.plain_rows()
            ]
            least: Value | None = min((v for v in later if v is not None), default=None)
            if least is not None:
                steps.append((port, before(name, least)))
    return Script(script.schemas, tuple(steps))


def _linear_attributes(script: Script) -> list[list[str]]:
    names: list[set[str]] = [{name for p in s.progress if len(p) == 1 for name in p} for s in script.schemas]
    for port, element in script.steps:
        if isinstance(element, Punctuation) and len(element.patterns) == 1:
            (name,) = element.attributes
            if element.bound(name) is not None:
                names[port].add(name)
    return [sorted(found) for found in names]


def _runs(steps: Iterable[Step]) -> Iterator[tuple[int, list[Element]]]:
    """Yield maximal runs of pages of one port, and each punctuation alone."""
    run: list[Element] = []
    running = -1
    for port, element in steps:
        if run and (isinstance(element, Punctuation) or port != running):
            yield running, run
            run = []
        if isinstance(element, Punctuation):
            yield port, [element]
        else:
            run.append(element)
            running = port
    if run:
        yield running, run


def _segments(steps: Sequence[Step], port: int) -> Iterator[list[tuple[int, Page]]]:
    """Yield the pages of a port between two of its punctuations, with their places."""
    segment: list[tuple[int, Page]] = []
    for place, (at, element) in enumerate(steps):
        if at != port:
            continue
        if isinstance(element, Page):
            segment.append((place, element))
        elif segment:
            yield segment
            segment = []
    if segment:
        yield segment


def narrowed(script: Script, read: Sequence[Collection[str]]) -> Script:
    """Leave out the attributes of each port that are not read, and of which nothing is promised."""
    needed = [set(names) for names in read]
    for port, element in script.steps:
        if isinstance(element, Punctuation):
            needed[port].update(element.attributes)
    schemas: list[Schema] = []
    for schema, names in zip(script.schemas, needed, strict=True):
        kept = [field for field in schema.arrow if field.name in names] or [schema.arrow.field(0)]
        progress = [promise for promise in schema.progress if promise <= {field.name for field in kept}]
        schemas.append(Schema(pa.schema(kept), progress=progress))
    steps = [
        (port, Page(schemas[port], element.batch.select(schemas[port].names)) if isinstance(element, Page) else element)
        for port, element in script.steps
    ]
    return Script(tuple(schemas), tuple(steps))


def parted(script: Script, keys: Sequence[Sequence[str]], parts: int) -> Iterator[Script]:
    """Yield the scripts of some parts of the tuples, those that are equal in the keys of their ports together."""
    for part in range(parts):
        steps: list[Step] = []
        for port, element in script.steps:
            if isinstance(element, Page):
                rows = ([row[name] for name in keys[port]] for row in element.plain_rows())
                mine = [crc32(str(row).encode()) % parts == part for row in rows]
                element = element.select(np.array(mine, np.bool_))
            steps.append((port, element))
        yield Script(script.schemas, tuple(steps))
