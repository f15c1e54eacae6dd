"""Point at the piece of the query text that caused an error of the plan."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from oop_engine.errors import PlanError, SchemaError
from oop_engine.query_errors import LanguageError
from oop_engine.span import Span


@contextmanager
def placed(
    span: Span,
    text: str,
    *,
    said: str = "",
    errors: tuple[type[Exception], ...] = (SchemaError, PlanError),
    hint: Callable[[], str] = str,
) -> Generator[None, None, None]:
    """Raise a SchemaError or PlanError of the block as the LanguageError that points at `span` of the query `text`.

    `said` is what the error's first line begins with when it repeats the piece that the caret shows anyway; `hint`
    gives a better one than the error's own, if there is one.
    """
    try:
        yield
    except errors as error:
        sentence, *rest = str(error).split("\n")
        sentence = sentence.removeprefix(f"{said}: ") if said else sentence
        own = "\n  ".join(line.strip() for line in rest)
        raise LanguageError.at(span, sentence, text, hint=hint() or own) from error
