"""A text either is a query (or an expression) of the language or is refused with a LanguageError."""

from __future__ import annotations

import functools
import marshal
import re
import sys
import typing as t
from importlib import resources

import attrs

from oop_engine.language import syntax as s
from oop_engine.language.scan import MAX_DEPTH, Places, scan
from oop_engine.language.unparse import in_a_row
from oop_engine.query_errors import LanguageError
from oop_engine.span import Span

if t.TYPE_CHECKING:
    from lark import Lark

MAX_LENGTH = 100_000
"""How many characters a query may have."""

EXAMPLE = "SELECT count(*) [RANGE TUMBLING 1 minute, WA ts] FROM Main"

MAX_LINKS = 256
"""How many operators of a chain such as a AND b AND c may stand in a row, those of chains around it counted too."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_LEVELS = (*t.get_args(s.Expr), s.SubQuery, s.Union)


def parse(text: str) -> s.Query:
    """Read a query.

    Raises LanguageError, which points at the fault, for whatever is no query: also for more than `MAX_LENGTH`
    characters, for more than `MAX_DEPTH` levels of nesting and for chains of more than `MAX_LINKS` operators. Takes
    time linear in the text; the first call also loads the grammar.
    """
    query = _parsed(text, "start", "query", EXAMPLE)
    assert isinstance(query, s.Query)
    return query


def parse_expr(text: str) -> s.Expr:
    """Read an expression that stands alone, such as `length * 8 > 1000`; limits and errors are those of `parse`."""
    expr = _parsed(text, "alone", "expression", "length > 100")
    assert not isinstance(expr, s.Query)
    return expr


def _parsed(text: str, rule: str, what: str, example: str) -> s.Query | s.Expr:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(f"the {what} should be text, it is of type {type(text).__name__}.")
    if len(text) > MAX_LENGTH:
        hint = (
            'Many values are looked up in Python, stream.filter(lambda p: p["x"].isin(values)), or in a stream of\n'
            "  their own: FROM M [RANGE ...], wanted [RANGE ...] WHERE M.x = wanted.x."
        )
        raise LanguageError(f"the {what} has {len(text)} characters; at most {MAX_LENGTH} are read.", hint=hint)
    if half := _SURROGATE.search(text):
        span = Places(text).span(half.start(), half.end())
        raise LanguageError.at(span, f"half of a surrogate pair, U+{ord(half[0]):04X}, is no character.", text)
    if not scan(text):
        raise LanguageError.at(Span(1, 1, 2), f"the {what} is empty.", text, hint=f"Write for example {example}")
    # Start-up: the grammar and lark take a tenth of a second, and programs that parse nothing must not pay it.
    from lark.exceptions import UnexpectedInput

    from oop_engine.language.build import build
    from oop_engine.language.diagnose import diagnose

    grammar = _grammar(rule)
    try:
        tree = grammar.parse(text)
    except UnexpectedInput as error:
        raise diagnose(grammar, error, text, what=what) from None
    built = build(tree, text)
    _check_depth(built, text)
    return built


@functools.cache
def _grammar(rule: str) -> Lark:
    """Load the parser, whose tables take a tenth of a second to compute and are kept beside the kernels."""
    # Start-up: as in `_parsed`.
    import lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    from operators.kernels.compile.disk_cache import recall, remember

    rules = resources.files("oop_engine.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    name, key = f"grammar.{rule}", f"{rules}\n{lark.__version__}\n{sys.implementation.cache_tag}"
    if (kept := recall(name, key)) is not None:
        return lark.Lark.load(marshal.loads(kept))
    made = lark.Lark(rules, parser="lalr", start=rule, propagate_positions=True, maybe_placeholders=True)
    try:
        data, memo = made.memo_serialize([TerminalDef, Rule])
        tables = {"data": data, "memo": memo}
        lark.Lark.load(tables)  # pyright: ignore[reportArgumentType]
    except (AttributeError, KeyError, TypeError, ValueError):
        return made  # a lark that writes its tables in another form: they are computed in each run
    remember(name, key, marshal.dumps(tables))
    return made


def _check_depth(tree: s.Query | s.Expr, text: str) -> None:
    """Refuse a tree so deep that a recursive walk could exhaust the stack; does not recurse itself.

    The left side of a chain is a link and not a level, because walks take chains in a loop. What they build is as deep
    as the chain is long, so links are counted by themselves.
    """
    stack: list[tuple[t.Any, int, int]] = [(tree, 0, 0)]
    while stack:
        node, depth, links = stack.pop()
        if isinstance(node, tuple):
            stack.extend((item, depth, links) for item in t.cast("tuple[object, ...]", node))
        elif attrs.has(type(node)) and not isinstance(node, Span | s.Duration):
            depth += isinstance(node, _LEVELS)
            if depth > MAX_DEPTH:
                message = f"expressions, unions or sub-queries nest more than {MAX_DEPTH} levels deep here."
                raise LanguageError.at(node.span, message, text, hint="Compute a part of it in FROM ( ... ).")
            if links >= MAX_LINKS:
                message = f"more than {MAX_LINKS} operators stand in a row here."
                hint = (
                    "x = a OR x = b ... is shorter as x IN (a, b, ...); or parts of a chain stand in parentheses, "
                    "(a AND b) AND (c AND d)."
                )
                raise LanguageError.at(node.span, message, text, hint=hint)
            for field in attrs.fields(type(node)):
                part = getattr(node, field.name)
                linked = field.name == "l" and isinstance(part, s.Binary) and in_a_row(node, part)
                stack.append((part, depth - linked, links + linked))
