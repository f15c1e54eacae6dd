"""ORDER BY and LIMIT rank the results of each window; without a window, all results at the end of the stream."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.tree import column_name
from oop_engine.language.unparse import unparse_expression
from oop_engine.query_errors import LanguageError
from operators.errors import did_you_mean
from operators.window_aggregate.results import START, STOP, WID, WINDOW


def ordered(tree: s.Query, result: Stream) -> Stream:
    """Return the results of a query in the order that it asks for, as many as it asks for; raises LanguageError."""
    if not tree.order:
        if tree.limit is None:
            return result
        hint = "Write ORDER BY before it, e.g. ORDER BY ts LIMIT 5: else the answer would depend on what arrives first."
        raise LanguageError.at(tree.limit.span, "LIMIT does not say which results come first.", tree.text, hint=hint)
    names = [_column(item, tree, result) for item in tree.order]
    falling = [name for item, name in zip(tree.order, names, strict=True) if item.descending]
    limit = None if tree.limit is None else int(str(tree.limit.value))
    within = [_column(s.OrderItem(name, span=name.span), tree, result) for name in tree.within]
    with placed(tree.order[0].span, tree.text):
        return result.ranked(names, limit, within=[*within, *_group(tree, result)], descending=falling)


def _group(tree: s.Query, result: Stream) -> tuple[str, ...]:
    """Return the attributes that tell one window from another."""
    if tree.window is None:
        return ()
    for there, problem in (
        (any(w.session for w in tree.windows), "each group has sessions of its own, and none to be ordered in."),
        (tree.window.fires, "EARLY gives results before a window is complete, and ORDER BY after that."),
        (tree.window.lateness is not None, "LATENESS gives results again, and ORDER BY waits for their last."),
    ):
        if there:
            hint = "Order the results of windows of a fixed length: [RANGE 1 minute, WA ts]."
            raise LanguageError.at(tree.order[0].span, problem, tree.text, hint=hint)
    partition = (name.parts[-1] for name in tree.window.partition)
    named = () if tree.window.name is None else (WINDOW,)
    return (*(name for name in partition if name in result.schema), *named, WID, START, STOP)


def _column(item: s.OrderItem, tree: s.Query, result: Stream) -> str:
    """Return the column of the result by which a query orders: by name, as it is written, or by its number."""
    expr, names = item.expr, result.schema.names
    if isinstance(expr, s.Literal) and isinstance(expr.value, int) and not isinstance(expr.value, bool):
        if 1 <= expr.value <= len(tree.select) <= len(names):
            return names[expr.value - 1]
        message = f"there is no column {expr.value} of the result."
        raise LanguageError.at(expr.span, message, tree.text, hint=f"Columns are {', '.join(names)}.")
    if isinstance(expr, s.Name) and len(expr.parts) == 1 and expr.parts[0] in result.schema:
        return result.schema.resolve(expr.parts[0], where="ORDER BY")
    for selected in tree.select:
        if selected.expr == expr and column_name(selected) in names:
            return column_name(selected)
    written = unparse_expression(expr)
    if isinstance(expr, s.Name):
        hint = did_you_mean(expr.parts[-1], names)
    else:
        hint = f"Select it, too: SELECT ..., {written} AS x ... ORDER BY x."
    raise LanguageError.at(expr.span, f"{written} is no column of the result.", tree.text, hint=hint)
