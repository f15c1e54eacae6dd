"""The query language: text to syntax tree and back, with errors that point at the text.

Tree nodes are imported from `oop_engine.language.syntax`, where `Union` and `Literal` mislead nobody.
"""

from oop_engine.language.parse import parse
from oop_engine.language.syntax import Query
from oop_engine.language.unparse import unparse, unparse_expression
from oop_engine.plan.durations import Duration, format_duration, parse_duration
from oop_engine.query_errors import LanguageError
from oop_engine.span import NOWHERE, Span

__all__ = [
    "NOWHERE",
    "Duration",
    "LanguageError",
    "Query",
    "Span",
    "format_duration",
    "parse",
    "parse_duration",
    "unparse",
    "unparse_expression",
]
