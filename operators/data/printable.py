"""Shows text of others on a terminal so that it stays text: what could steer it or reorder a line is escaped."""

from __future__ import annotations


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with control characters, bidirectional and other invisible marks as escapes; ends of `lines` stay.

    >>> print(printable("\x1b[31mred\u202e\x9b"))
    \x1b[31mred\u202e\x9b
    """
    if text.isprintable() or (lines and text.replace("\n", "").isprintable()):
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
