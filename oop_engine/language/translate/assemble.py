"""Assemble a query clause by clause: FROM, arrival numbers, WHERE, then SELECT with or without groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.parse import parse
from oop_engine.language.quoted import Known
from oop_engine.language.translate.buckets import bucketed
from oop_engine.language.translate.checks import refuse_quoted, refuse_results
from oop_engine.language.translate.groups import aggregated
from oop_engine.language.translate.order import ordered
from oop_engine.language.translate.plain import Starred, selected
from oop_engine.language.translate.scope import check_condition
from oop_engine.language.translate.source import Sources, given
from oop_engine.language.translate.tree import aggregates
from oop_engine.language.translate.window import counts_arrivals
from oop_engine.language.walk import pieces
from oop_engine.language.walk import tables as read_in
from oop_engine.plan.arrival_attributes import numbered, stamped
from oop_engine.sources.protocol import ARRIVAL
from operators.data.schema import ROW_NUM

if TYPE_CHECKING:
    from oop_engine.api.lookup import Reference
    from oop_engine.language.translate.lookups import Lookups, Tables


def query(
    text: str,
    streams: Mapping[str, Stream] | None = None,
    *,
    tables: Mapping[str, Reference] | None = None,
    **named: Stream,
) -> Stream:
    """Make the stream that a query text describes; nothing runs yet.

    - `text`: the query, in the language of docs/reference/query-language.md.
    - `streams`, `named`: the streams that the query names, as a mapping or as keywords.
    - `tables`: the tables that LOOKUP names, as `Stream.lookup` takes them: paths, frames, Arrow data, columns or rows.

    The columns are those of the SELECT list (`AS` renames; `count(*)` is count, `sum(len)` is sum_len), then, for
    windows, those of PA that the list lacks, wid, window_start and window_end. `row-num` counts arrivals at the entry
    of the query, before WHERE. `arrival-ts` is the time of arrival at the source, unless the stream has recorded one.

    LanguageError points at the fault in the text; PlanError when no promise could ever release a window.

    >>> packets = oop.read("demos/captures/web.pcap.gz")
    >>> oop.query("SELECT count(*) FROM M WHERE proto = 17", M=packets).to_arrow().to_pylist()
    [{'count': 139}]
    """
    tree, streams = parse(text), given(streams, named)
    if any(table.path for table in read_in(tree.source)):
        # Start-up: most queries name no file.
        from oop_engine.language.translate.files import with_files

        streams = with_files(tree, streams)
    names = tables or {}

    @cache
    def found() -> Tables:
        # Start-up: few queries look something up.
        from oop_engine.language.translate.lookups import Tables

        return Tables(names)

    return _stream_of(tree, streams, names, found)


def _stream_of(
    tree: s.Query, streams: Mapping[str, Stream], tables: Mapping[str, Reference], found: Callable[[], Tables]
) -> Stream:
    sources = Sources(streams, tree.text, lambda nested: _stream_of(nested, streams, tables, found), tables)
    lookups: Lookups | None = None
    if tree.lookups:
        # Start-up: few queries look something up.
        from oop_engine.language.translate.lookups import lookups_of

        lookups = lookups_of(tree, sources, found())
        tree = lookups.tree
    written = tree = bucketed(tree, lambda name: any(name in scope.schema for scope in sources.scopes(tree.source)))
    starred: Starred
    if isinstance(tree.source, s.Join):
        # Start-up: few queries join.
        from oop_engine.language.translate.join import joined

        tree, scope, starred = joined(tree, tree.source, sources)
    else:
        scope = sources.scope(tree.source)
        seen = scope if lookups is None else lookups.over(scope)
        starred = seen.starred
        refuse_quoted(tree, Known.of(seen.schema, streams=seen.streams))
    window_names = [name for window in tree.windows for name in _window_names(window)]
    for name in (*window_names, *_names(tree)):
        if name.parts[-1] == ARRIVAL:
            with placed(name.span, tree.text):
                scope = scope.over(Stream(stamped(scope.stream.node)))
    if any(map(counts_arrivals, tree.windows)) or any(name.parts[-1] == ROW_NUM for name in _names(tree)):
        scope = scope.over(Stream(numbered(scope.stream.node)))
    if lookups is not None:
        scope = lookups.over(scope)
    if tree.where is not None:
        refuse_results(tree, scope)
        condition = scope.expression(tree.where)
        check_condition(condition, scope.schema, "WHERE", tree.where, tree.text)
        with placed(tree.where.span, tree.text):
            scope = scope.over(scope.stream.filter(condition))
    fired_by = tree.windows[0].events if tree.windows else None
    events = None if fired_by is None else sources.scope(fired_by).stream
    over_many = bool(tree.window or tree.group_by) or any(any(aggregates(e)) for e in _expressions(tree))
    result = aggregated(tree, scope, events) if over_many else selected(tree, scope, starred)
    if tree.distinct:
        with placed(tree.span, tree.text):
            result = result.distinct()
    if written.alert is not None:
        # Start-up: few queries have alerts.
        from oop_engine.language.translate.alert import alerted

        result = alerted(written, written.alert, result)
    if written.bill is not None:
        # Start-up: few queries have bills.
        from oop_engine.language.translate.bill import billed

        result = billed(written, written.bill, result)
    return ordered(written, result)


def _expressions(tree: s.Query) -> Iterator[s.Expr]:
    """Yield what a query computes after WHERE."""
    for item in tree.select:
        if not isinstance(item.expr, s.Star):
            yield item.expr
    if tree.having is not None:
        yield tree.having


def _window_names(clause: s.WindowClause) -> Iterator[s.Name]:
    for attribute in (clause.wattr, clause.rattr):
        if attribute is not None:
            yield from (piece for piece in pieces(attribute) if isinstance(piece, s.Name))


def _names(tree: s.Query) -> Iterator[s.Name]:
    grouped = [item if isinstance(item, s.Name) else item.expr for item in tree.group_by]
    found = [*_expressions(tree), *(e for e in grouped if not isinstance(e, s.Star))]
    found += [] if tree.where is None else [tree.where]
    return (piece for expression in found for piece in pieces(expression) if isinstance(piece, s.Name))
