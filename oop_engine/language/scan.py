"""A query text is words, numbers, strings and symbols, and its brackets close what they opened.

The grammar's own lexer reads the text again; this pass is here because what it finds is said best before any
parsing: an open string, an unbalanced bracket, brackets nested without end.
"""

from __future__ import annotations

import bisect
import re

import attrs

from oop_engine.query_errors import LanguageError
from oop_engine.span import Span

MAX_DEPTH = 64
"""How many brackets, or levels of an expression, may stand inside one another."""

_RESERVED_WORDS = """select distinct from where group groupby having union as
    or and not between in is null true false case when"""
RESERVED = frozenset(_RESERVED_WORDS.split())
"""The words that name something only in back-quotes; the grammar's NAME excludes the same."""

_LEXEME = re.compile(
    r"""(?P<skip>\s+|--[^\n]*)
      | (?P<string>"(?:[^"]|"")*"|'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<word>(?:row-num|arrival-ts|group-by)\b|[^\W\d]\w*)
      | (?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)
      | (?P<symbol><>|!=|<=|>=|<<|>>|==|//|/\*|::|:=|\|\||&&|.)""",
    re.VERBOSE | re.IGNORECASE,
)
_PAIRS = {")": "(", "]": "["}


@attrs.frozen
class Lexeme:
    """One word, number, string or symbol: its `text`, and the offset at which it begins."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Return the offset just after the lexeme."""
        return self.start + len(self.text)


class Places:
    """Find line and column of an offset into a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        """Make the span of `text[start:end]`, as far as its first line goes."""
        line = bisect.bisect_right(self._starts, start)
        column = start - self._starts[line - 1] + 1
        first_line = self._text[start:end].partition("\n")[0]
        return Span(line, column, column + len(first_line))


def scan(text: str) -> list[Lexeme]:
    """Split `text` into lexemes, leaving blanks and comments out.

    Raises LanguageError for a string or back-quoted name that never ends, brackets that do not balance, and
    brackets deeper than `MAX_DEPTH`.
    """
    places = Places(text)
    lexemes = [
        Lexeme(match.lastgroup or "", match[0], match.start())
        for match in _LEXEME.finditer(text)
        if match.lastgroup != "skip"
    ]
    opened: list[Lexeme] = []
    for lexeme in lexemes:
        if lexeme.kind == "symbol" and (problem := _problem(lexeme, opened, text, places)):
            raise LanguageError.at(places.span(lexeme.start, lexeme.end), problem, text)
    if opened:
        last = opened[-1]
        span = places.span(last.start, last.end)
        raise LanguageError.at(span, f'this "{last.text}" is never closed.', text)
    return lexemes


def lexeme_at(text: str, start: int) -> Lexeme | None:
    """Return the lexeme of `text` that begins at `start`, or None at the end."""
    match = _LEXEME.match(text, start)
    return Lexeme(match.lastgroup or "", match[0], start) if match else None


def _problem(symbol: Lexeme, opened: list[Lexeme], text: str, places: Places) -> str | None:
    """Say what is wrong with `symbol`, if anything; keep `opened`, the brackets open so far, up to date."""
    match symbol.text:
        case '"' | "'":
            return f"the string that {symbol.text} opens here never ends."
        case "`":
            empty = text.startswith("``", symbol.start)
            if empty:
                return "a name in back-quotes cannot be empty."
            return "the name that ` opens here never ends."
        case "(" | "[":
            opened.append(symbol)
            if len(opened) > MAX_DEPTH:
                return f"more than {MAX_DEPTH} brackets stand inside one another."
        case ")" | "]":
            if not opened:
                return f'"{symbol.text}" closes nothing; no bracket is open here.'
            last = opened.pop()
            if last.text != _PAIRS[symbol.text]:
                at = places.span(last.start, last.end)
                place = f"line {at.line}, column {at.column}"
                return f'"{symbol.text}" cannot close the "{last.text}" of {place}.'
        case _:
            pass
    return None
