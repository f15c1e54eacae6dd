"""A query may name files where streams stand, FROM 'capture.pcap': they are opened with what the text reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oop_engine.api.read import kind_read, read, taken
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.scan import scan
from oop_engine.language.walk import tables_of
from oop_engine.query_errors import LanguageError
from oop_engine.sources.capture.schema import FURTHER_SCHEMA
from oop_engine.sources.errors import SourceError
from oop_engine.sources.said_format import said_format
from operators.errors import SchemaError

if TYPE_CHECKING:
    from oop_engine.sources.flows import Element


def with_files(tree: s.Query, streams: Mapping[str, Stream]) -> Mapping[str, Stream]:
    """Return the streams of a query, and those of the files that it names, each opened once.

    - `tree`: the query.
    - `streams`: those given by name. One that is called like a file stands for it.

    LanguageError for a file that cannot be read.
    """
    found = dict(streams)
    for table in tables_of(tree):
        if table.path and table.name not in found:
            found[table.name] = _opened(table, tree.text)
    return found


def format_and_path(table: s.Table, text: str) -> tuple[str | None, str]:
    """Return the format, where one was said, and the path or pattern of a file that a query names."""
    known, path = said_format(table.name)
    if path in ("", "-"):
        message = "standard input is no file." if path else "these quotes name no file."
        hint = "Give it a name: FROM Main, and --stream Main=-." if path else "Write FROM 'capture.pcap'."
        raise LanguageError.at(table.span, message, text, hint=hint)
    return known, path


def _opened(table: s.Table, text: str) -> Stream:
    known, path = format_and_path(table, text)
    with placed(table.span, text, errors=(SourceError, SchemaError, PlanError)):
        kind = kind_read([path], known)
        columns = attributes_beyond(text, kind) if "columns" in taken([path], known) else ()
        return read(path, format=known, columns=columns)


def attributes_beyond(text: str, kind: str, elements: str | None = None) -> list[str | Element]:
    """Name what a query reads of files of a kind beyond what all of them have, as `columns` of `oop.read` takes it.

    - `text`: the query.
    - `kind`: "pcap", or one of flow exports.
    - `elements`: a file of elements of enterprises.
    """
    return [*packet_attributes(text)] if kind == "pcap" else flow_elements(text, elements)


def flow_elements(text: str, file: str | None = None) -> list[str | Element]:
    """Name the elements of flow records that a query reads beyond the common columns, those of a file as elements.

    `columns` of `oop.netflow` takes them. Names are IANA's, "reverse" and one of those, or `6871/40` in back-quotes.
    """
    # Start-up: few streams are flow exports.
    from oop_engine.sources.flows import FLOW_ALIASES, FLOW_SCHEMA, read_elements
    from oop_engine.sources.flows.schema import is_more

    own = {} if file is None else read_elements(file)
    common = {*FLOW_ALIASES, *FLOW_SCHEMA.names}
    return [own.get(word, word) for word in _words(text) if word in own or (is_more(word) and word not in common)]


def packet_attributes(text: str) -> list[str]:
    """Name the attributes of packets that a query reads beyond those of every capture, as `oop.pcap` takes them."""
    known = {name.lower(): name for name in FURTHER_SCHEMA.names}
    return list(dict.fromkeys(known[word.lower()] for word in _words(text) if word.lower() in known))


def _words(text: str) -> dict[str, None]:
    """Return the names in a text, each once."""
    return dict.fromkeys(lexeme.text.strip("`") for lexeme in scan(text) if lexeme.kind in ("word", "quoted"))
