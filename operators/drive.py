"""The reference driver: hand elements to one operator in order and collect what it emits. The semantics live here."""

from __future__ import annotations

from collections.abc import Iterable

from operators.data.page import Page, Row
from operators.protocol import Element, Emit, Operator
from punctuation import Punctuation


def deliver(operator: Operator, element: Element, emit: Emit, port: int = 0) -> None:
    """Hand one element to an operator."""
    if isinstance(element, Page):
        operator.process(element, emit, port)
    else:
        operator.punctuate(element, emit, port)


def drive(operator: Operator, script: Iterable[Element | tuple[int, Element]]) -> list[Element]:
    """Hand a script of elements, or of (port, element) pairs, to an operator and give all it emitted, in order."""
    emitted: list[Element] = []
    for step in script:
        port, element = step if isinstance(step, tuple) else (0, step)
        deliver(operator, element, emitted.append, port)
    return emitted


def rows(elements: Iterable[Element]) -> list[Row]:
    """Return the tuples of all pages, in order."""
    return [row for element in elements if isinstance(element, Page) for row in element.plain_rows()]


def punctuations(elements: Iterable[Element]) -> list[Punctuation]:
    """Return the punctuations alone, in order."""
    return [element for element in elements if isinstance(element, Punctuation)]
