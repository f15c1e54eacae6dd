"""An input of a query is a stream: one that was given by name, the results of a query in parentheses, or a union."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import attrs

from oop_engine.api.stream import Stream, meld
from oop_engine.errors import PlanError
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.scope import Scope
from oop_engine.language.translate.step import stepped
from oop_engine.query_errors import LanguageError
from oop_engine.sources.said_format import short_name
from operators.errors import did_you_mean


def given(streams: Mapping[str, Stream] | None, named: Mapping[str, Stream]) -> dict[str, Stream]:
    """Unite the streams that a caller gave as a mapping and by keyword; PlanError for what cannot be read."""
    found: dict[str, Stream] = {}
    for name, stream in [*(streams or {}).items(), *named.items()]:
        if name in found:
            raise PlanError(f'the stream "{name}" is given twice; keep one.')
        # Callers without a type checker give a path here; the annotation does not stop them.
        if not isinstance(stream, Stream):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(
                f'the stream "{name}" is {type(stream).__name__} {_shown(stream)}, not a stream.\n'
                f'  Write {{"{name}": {_opened(stream)}}}.'
            )
        found[name] = stream
    return found


def _shown(given: object) -> str:
    first = repr(given).partition("\n")[0]
    return first if len(first) <= 60 else f"{first[:57]}..."


def _opened(given: object) -> str:
    """Write how what was given becomes a stream."""
    if isinstance(given, (str, Path)):
        return f'oop.read("{given}")'
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return "oop.arrow(...)"
    if isinstance(given, (list, tuple, Iterator)):
        return "oop.rows(..., schema)"
    return 'oop.read("a.pcap")'


@attrs.frozen(eq=False)
class Sources:
    """The streams by name, and how a query in parentheses becomes one."""

    streams: Mapping[str, Stream]
    text: str
    nested: Callable[[s.Query], Stream]
    tables: Collection[str] = ()
    """The names of the tables that LOOKUP may name."""

    def scope(self, source: s.From) -> Scope:
        """Return what the rest of a query reads of one input; raises LanguageError."""
        return Scope(self._stream(source), self._names(source), self.text)

    def scopes(self, source: s.From) -> Iterator[Scope]:
        """Yield what the rest of a query reads of each input; raises LanguageError."""
        for item in source.items if isinstance(source, s.Join) else (source,):
            yield self.scope(attrs.evolve(item, window=None))

    def _names(self, source: s.From) -> tuple[str, ...]:
        if isinstance(source, s.Join):
            return ()
        names = (_called(source),) if isinstance(source, s.Table) else ()
        return names if source.alias is None else (*names, source.alias)

    def _stream(self, source: s.From) -> Stream:
        if source.window is not None:
            message = "this window is of one member of a union, and a union has one for all."
            hint = (
                "The window of an aggregate stands after the SELECT list, that of a join's input after the whole union."
            )
            raise LanguageError.at(source.window.span, message, self.text, hint=hint)
        if isinstance(source, s.Join):
            return self._members_of(source)
        stream = self._members_of(source)
        for step in source.steps:
            stream = stepped(Scope(stream, self._names(source), self.text), step)
        return stream

    def _members_of(self, source: s.From) -> Stream:
        match source:
            case s.Table():
                return self._named(source)
            case s.SubQuery():
                return self.nested(source.query)
            case s.Union():
                streams = [self._stream(item) for item in _members(source)]
                with placed(source.span, self.text):
                    return meld(*streams)
            case s.Join():
                message = "several inputs stand in FROM by themselves, not inside a union."
                raise LanguageError.at(source.span, message, self.text, hint="Write FROM (SELECT ... FROM A, B ...).")

    def _named(self, table: s.Table) -> Stream:
        if table.name in self.streams:
            return self.streams[table.name]
        alike = [name for name in self.streams if name.lower() == table.name.lower()]
        if len(alike) == 1:
            return self.streams[alike[0]]
        message = f'there is no stream "{table.name}".'
        if alike:
            message = f'"{table.name}" could be {" or ".join(alike)}.'
            hint = "Write it in the same case."
        elif table.name.lower() in (name.lower() for name in self.tables):
            hint = f"It is a table; tuples are looked up in it: FROM ... LOOKUP {table.name} ON ..."
        elif self.streams:
            hint = did_you_mean(table.name, self.streams)
        else:
            hint = f'No stream is given; give it by name, e.g. query(..., {table.name}=oop.pcap("{table.name}.pcap")).'
        raise LanguageError.at(table.span, message, self.text, hint=hint)


def _called(table: s.Table) -> str:
    """Return what a stream is called; a file is called like a table, by its name up to the first dot."""
    return short_name(table.name) if table.path else table.name


def _members(union: s.Union) -> list[s.From]:
    """Return the members of a union and of the plain unions inside it, so that one Meld does them all."""
    found: list[s.From] = []
    for item in union.items:
        flat = isinstance(item, s.Union) and item.window is None and not item.steps
        found += _members(item) if flat and isinstance(item, s.Union) else [item]
    return found
