"""Tables in HTML, as notebooks show values: small, without style or script, and all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from operators.data.printable import printable


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table of texts and numbers; None is an empty cell.

    >>> html_table(["host"], [["<b>"]])
    '<table><thead><tr><th>host</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    body = "".join(_row("td", row) for row in rows)
    told = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f"<table>{told}<thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>"


def _row(cell: str, values: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{cell}>{_text(value)}</{cell}>' for value in values)}</tr>"


def _text(value: object) -> str:
    return "" if value is None else escape(printable(f"{value:,}" if type(value) is int else str(value)))
