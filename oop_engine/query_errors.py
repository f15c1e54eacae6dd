"""A language error says what is wrong in a query, where, and what to write instead."""

from __future__ import annotations

from oop_engine.span import NOWHERE, Span
from punctuation.errors import Error

WIDTH = 78
INDENT = "  "
CUT = "..."
CONTEXT_BEFORE = 24


class LanguageError(Error, ValueError):
    """Report what is wrong with the text of a query.

    `line` and `column` count from 1, and are 0 when the fault stands in no text. `message` is the bare sentence;
    `str(error)` adds the place, the text around it and a line that marks it.
    """

    def __init__(self, message: str, *, span: Span = NOWHERE, text: str = "", hint: str = "") -> None:
        self.message = message
        self.hint = hint
        self.line = span.line
        self.column = span.column
        lines = [message]
        if span != NOWHERE:
            lines = [f"line {self.line}, column {self.column}: {message}", *excerpt(span, text)]
        if hint:
            lines.append(INDENT + hint)
        super().__init__("\n".join(lines))

    @classmethod
    def at(cls, span: Span, message: str, text: str, *, hint: str = "") -> LanguageError:
        """Make the error that points at a `span` of a query.

        - `message`: the sentence.
        - `text`: the whole query.
        - `hint`: what to write instead, on a line of its own.

            raise LanguageError.at(name.span, 'no attribute "sorceIP".', query.text)
        """
        return cls(message, span=span, text=text, hint=hint)


def excerpt(span: Span, text: str) -> list[str]:
    """Render the line `span` stands on, cut to at most 78 columns, and the caret line under it.

    A blank line is not worth showing and gives neither. Tabs and unprintable characters each show as one
    blank, so that the carets stand under what they mean.
    """
    lines = text.split("\n")
    line = lines[span.line - 1] if span.line <= len(lines) else ""
    shown = "".join(char if char.isprintable() else " " for char in line).rstrip()
    if not shown:
        return []
    start = span.column - 1
    length = max(1, span.end_column - span.column)
    room = WIDTH - len(INDENT)
    before, rest = shown[:start].ljust(start), shown[start:]
    if max(len(shown), start + length) > room:
        if len(before) > CONTEXT_BEFORE:
            kept = before[-CONTEXT_BEFORE:]
            # Begin the window at a word: half a word on the left reads as a misprint of the user's.
            word = kept.find(" ")
            before = f"{CUT} {kept[word + 1 :] if 0 <= word < CONTEXT_BEFORE - 1 else kept}"
        if len(before) + len(rest) > room:
            rest = f"{rest[: room - len(before) - len(CUT) - 1].rstrip()} {CUT}"
    carets = "^" * min(length, room - len(before))
    return [f"{INDENT}{before}{rest}".rstrip(), f"{INDENT}{' ' * len(before)}{carets}"]
