"""Hints for refused queries whose cause lies in the command line's options: which option to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from oop_engine.api.stream import Stream
from oop_engine.cli.naming import STDIN, Naming
from oop_engine.cli.streams import opened, placed
from oop_engine.language.translate import query
from oop_engine.plan.graph import SourceNode
from oop_engine.query_errors import LanguageError
from oop_engine.sources.packets import Packets
from oop_engine.sources.protocol import Source
from operators.errors import SchemaError

_NAME: Final = re.compile(r"`[^`]*`|[\w-]+")


def translated(text: str, naming: Naming, to: str | None = None) -> Stream:
    """Open the streams of a query and make it one, the results of which go `to` a place; errors have hints as notes."""
    streams = opened(text, naming, to)
    try:
        return query(text, streams, tables=naming.tables)
    except (LanguageError, SchemaError) as error:
        for hint in _hints(error, text, naming, streams):
            error.add_note(hint)
        raise


def _hints(
    error: LanguageError | SchemaError, text: str, naming: Naming, streams: Mapping[str, Stream]
) -> Iterator[str]:
    # Start-up: only a query that fails needs hints.
    from oop_engine.sources.files import Files

    names = set(_named(error, text)) if isinstance(error, LanguageError) else set(re.findall(r'"([^"]*)"', str(error)))
    unknown = "there is no attribute" in str(error)
    for name, paths in placed(text, naming).items():
        if name not in streams:
            continue
        source = _source(streams[name])
        if isinstance(source, Files) and source.settled is not None:
            for column in source.settled.untyped:
                if column in names and column not in naming.types:
                    what = "no tuples" if source.settled.empty else f'no value of "{column}" in the part examined'
                    yield (
                        f'{name} has {what}, so "{column}" is taken as text;\n'
                        f"  set its type: --types {shlex.quote(f'{column}=int')} (or timestamp, float, ...)."
                    )
        if not (unknown and isinstance(source, Packets)):
            continue
        if STDIN in paths and naming.format_of(name) is None:
            yield (
                "Standard input is read as a capture by default;\n"
                "  for a table write --format csv (tsv, ndjson, parquet, arrow)."
            )
        # Start-up: few queries name attributes of flow exports by mistake.
        from oop_engine.sources.flows import FLOW_ALIASES, FLOW_SCHEMA
        from oop_engine.sources.flows.elements import element

        for attribute in sorted(names):
            if attribute in FLOW_SCHEMA.names or attribute in FLOW_ALIASES or element(attribute) is not None:
                yield (
                    f'"{attribute}" is an attribute of flow records, and {name} is read as packets;\n'
                    f"  of a capture of exports say -s {shlex.quote(f'{name}=netflow:{paths[0]}')}"
                )


def _source(stream: Stream) -> Source | None:
    return stream.node.source if isinstance(stream.node, SourceNode) else None


def _named(error: LanguageError, text: str) -> Iterator[str]:
    """Yield the names where an error points: an attribute, or a stream and its attribute."""
    lines = text.split("\n")
    if not 0 < error.line <= len(lines):
        return
    at, line = error.column - 1, lines[error.line - 1]
    while match := _NAME.match(line, at):
        yield match[0].strip("`")
        at = match.end()
        if line[at : at + 1] != ".":
            return
        at += 1
