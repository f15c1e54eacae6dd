"""Laws of windows that fire, of whatever kind: by definition, converging, and adding up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from operators.data.page import Page, Row
from operators.drive import deliver
from operators.protocol import Element
from operators.signals import Clock, Event
from operators.window_aggregate.early.refine import Refine
from punctuation import Punctuation
from tests.operators.triggers.test_triggers import FUNCTIONS, Moment, Question, bag, hear, moments, one_by_one, run


def fires_by_definition(one: Question, elements: list[Moment]) -> None:
    """Check the results in pages of any size, and with all saved and restored behind each element."""
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=False)) == right
    assert bag(run(one, elements, saving=True)) == right
    assert bag(run(one, one_by_one(elements), saving=False)) == right


def converges(one: Question, plain: Question, elements: list[Moment], names: Sequence[str], *, discards: bool) -> None:
    """Check that the final results are those of windows that never fire, or that all of a window add up to them."""
    found, whole = run(one, elements, saving=False), run(plain, elements, saving=False)
    assert {str([row[name] for name in names]) for row in found} <= {str([row[n] for n in names]) for row in whole}
    if discards:
        totals: Counter[str] = Counter()
        for row in found:
            totals[str([row[name] for name in names])] += int(row["n"])  # type: ignore[arg-type]
        assert totals == {str([row[name] for name in names]): row["n"] for row in whole}
    else:
        assert bag([{**row, "firing": 0} for row in found if row["final"]]) == bag(whole)


def adds_up(one: Question, by: Sequence[str], elements: list[Moment]) -> None:
    """Check that what stands at each moment is the newest of each window, and that no promise is broken."""
    operator, refine = one.operator(), Refine(tuple(by))
    standing: Counter[str] = Counter()
    newest: dict[str, str] = {}
    names, values = (*by, "wid"), (*FUNCTIONS,)
    promised: list[Punctuation] = []

    def take(element: Element) -> None:
        made: list[Element] = []
        if isinstance(element, Page):
            newest.update({_text(row, names): _text(row, values) for row in element.plain_rows()})
        deliver(refine, element, made.append)
        for change in made:
            if isinstance(change, Page):
                assert not any(change.matching(promise).any() for promise in promised)
                for row in change.plain_rows():
                    standing[_text(row, names) + _text(row, values)] += int(row["sign"])  # type: ignore[arg-type]
            else:
                promised.append(change)

    for element in elements:
        if isinstance(element, Event | Clock):
            hear(operator, element, take)
        else:
            deliver(operator, element, take)
        assert +standing == Counter(key + value for key, value in newest.items())
        assert min(standing.values(), default=0) >= 0
    assert refine.statistics()["state_tuples"] == 0


def _text(row: Row, names: Sequence[str]) -> str:
    return str([row[name] for name in names])
