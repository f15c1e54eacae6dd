"""The laws of an operator, and the check that runs one through a script and its variants and names the law it breaks.

An operator that keeps these laws gives the right answer whatever the order of arrival, and can be fused, moved, saved
and restored by any driver that keeps the order on each port.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Page, Row, Scalar, concatenate
from operators.data.saved import decode_state, encode_state, restore
from operators.drive import deliver
from operators.errors import OperatorBug
from operators.plan_facts import ReadsSome, attributes_read, together
from operators.protocol import Element, Measured, OneByOne, Operator, Promises, TakesPromises
from operators.retractions import SIGN, Retracted, retracted
from operators.testing.script import Script
from operators.testing.variants import (
    fewer,
    in_turn,
    interleaved,
    last_first,
    more,
    narrowed,
    one_by_one,
    parted,
    reordered,
    repaged,
)
from punctuation import Progress, Punctuation

LAWS = {
    1: "Pass: process emits what no future input can change, punctuate what the promise settled.",
    2: "Keep: state that no permitted future tuple can touch is dropped in that same call; after END it is empty.",
    3: "Propagate: every emitted punctuation is true, what must be promised is, END comes once and last.",
    4: "Tuple order between punctuations does not change the set of emitted tuples.",
    5: "Page boundaries do not change it.",
    6: "Interleaving of ports does not change it, nor whether promises come with their page.",
    7: "More (true) punctuation changes only when, never what.",
    8: "Input arrays are never written, nor those of pages that were emitted.",
    9: "Save and restore between any two calls: same result.",
    10: "On finite input the tuples equal the naive batch answer.",
    11: "What takes tuples one by one makes of each alone what it makes of it among others.",
    12: "What an operator says that it does not read, or need not have together, makes no difference.",
    13: "Converge: up to each promise, the changes that are emitted add up to the exact answer.",
    14: "What a page says that all its tuples have in common, all of them have.",
}
ALL_LAWS = frozenset(LAWS)
ARRIVAL_ORDER = frozenset((4, 6))
"""The laws that do not hold of what is defined by the order of arrival."""

Tables: TypeAlias = Sequence[list[Row]]
Naive: TypeAlias = Callable[..., Sequence[Row]]
Settled: TypeAlias = Callable[[Tables, Sequence[Progress]], Sequence[Row]]
Promised: TypeAlias = Callable[[Tables, Sequence[Progress]], Sequence[Punctuation]]
Kept: TypeAlias = Callable[[Tables, Sequence[Progress]], int]


@attrs.frozen
class Oracles:
    """The results an operator owes after each call, given the tuples and promises so far."""

    settled: Settled | None = None
    promised: Promised | None = None
    kept: Kept | None = None
    exact: Counter[Key] | None = None
    """What changes add up to in the end."""


def check_operator(
    make: Callable[[], Operator],
    script: Script,
    *,
    naive: Naive | None = None,
    changes: Naive | None = None,
    order_matters: bool = False,
    laws: Collection[int] = ALL_LAWS,
    settled: Settled | None = None,
    promised: Promised | None = None,
    kept: Kept | None = None,
) -> None:
    """Run an operator through a grammatical script in many variants; OperatorBug names the law it breaks.

    `make` gives a fresh operator each time. `naive` gets the tuples of each port, one list a port, and gives the rows
    that the operator must emit in all; rows compare as multisets. `changes` does the same for an operator that takes
    tuples back, by `sign` -1: it gives the rows, without `sign`, that stand in the end. Then runs compare by what their
    changes add up to. `order_matters` leaves out laws 4 and 6, for what is
    defined by the order of arrival. The oracles get the tuples that came so far, by port, and each port's progress:
    `settled` gives rows that must have been emitted by now, `promised` punctuations that must have been implied by now,
    `kept` how many tuples or groups may still be held (compared with `statistics()["state_tuples"]`).
    """
    if wrong := script.violation():
        raise ValueError(f"the script is not grammatical: {wrong}\n{script}")
    laws = frozenset(laws) - (ARRIVAL_ORDER if order_matters else frozenset())
    before = _digest(script)
    counted = _bag if changes is None else _added_up
    exact = None if changes is None else _bag(changes(*script.tables()))
    oracles = Oracles(settled, promised, kept, exact)
    rows = _run(make, script, laws, oracles=oracles)
    found = counted(rows)
    if 8 in laws and _digest(script) != before:
        raise _bug(8, "the operator wrote into a page that it was given.", script)
    if 10 in laws and naive is not None:
        _same(10, "the naive answer", _bag(naive(*script.tables())), found, script)
    if 13 in laws and exact is not None:
        _same(13, "the naive answer", exact, found, script)
    if 9 in laws:
        _same(9, "the run without saving", found, counted(_run(make, script, laws, saving=True)), script)
    for law, how, variant in _variants(script, laws):
        _same(law, how, found, counted(_run(make, variant, laws, oracles=Oracles(exact=exact))), variant)
    if 6 in laws and isinstance(make(), TakesPromises):
        how = "the script as given (promises come with their page here)"
        for variant in (script, repaged(script, 2)):
            for most in (1, None):
                _same(6, how, found, counted(_run(make, variant, laws, together=most)), variant)
    if 11 in laws:
        _alone(make, script, found)
    if 12 in laws:
        _stated(make, script, rows, counted)


def _alone(make: Callable[[], Operator], script: Script, found: Counter[Key]) -> None:
    """Show each tuple to an operator of its own, and compare what it says to pass on as it is."""
    rows: list[Row] = []
    for port, element in script.steps:
        for i in range(len(element) if isinstance(element, Page) else 0):
            assert isinstance(element, Page)
            operator, emitted = make(), list[Element]()
            if not isinstance(operator, OneByOne):
                return
            output = operator.output_schema(*script.schemas)
            tuple_ = element.slice(i, i + 1)
            operator.process(tuple_, emitted.append, port)
            made = [row for out in emitted if isinstance(out, Page) for row in out.plain_rows()]
            given = tuple_.plain_rows()[0]
            for name in output.names:
                old = operator.comes_from(name, *script.schemas)
                if old is not None and any(_cell(row[name]) != _cell(given[old]) for row in made):
                    raise _bug(11, f'"{name}" is not the "{old}" that comes_from says: {given} became {made}', script)
            rows += made
    _same(11, "each tuple by itself", _bag(rows), found, script)


def _stated(
    make: Callable[[], Operator], script: Script, rows: Sequence[Row], counted: Callable[[Sequence[Row]], Counter[Key]]
) -> None:
    """Show it pages without what it does not read for one of its attributes, and the parts of its input apart."""
    operator = make()
    output = operator.output_schema(*script.schemas)
    if isinstance(operator, ReadsSome):
        name = output.names[len(script.steps) % len(output.names)]
        wanted = dict.fromkeys((name,) if counted is _bag else (name, SIGN))
        less = narrowed(script, attributes_read(operator, frozenset(wanted), script.schemas))
        found, whole = (counted([{n: row[n] for n in wanted} for row in some]) for some in (_plainly(make, less), rows))
        _same(12, f'the whole input, of "{name}"', whole, found, less)
    needs = together(operator, script.schemas)
    if needs.parted and not needs.arrival:
        apart = [row for part in parted(script, needs.keys, 2) for row in _plainly(make, part)]
        _same(12, "the whole input, its keys apart", counted(rows), counted(apart), script)


def _plainly(make: Callable[[], Operator], script: Script) -> Iterator[Row]:
    """Run a variant whose schemas the operator need not accept, as a plan does that leaves attributes out."""
    operator, emitted = make(), list[Element]()
    with suppress(ValueError):
        operator.output_schema(*script.schemas)
    try:
        for port, element in script.steps:
            deliver(operator, element, emitted.append, port)
    except Exception as error:
        raise _bug(12, f"it fails without what it says it does not need: {error}", script) from error
    return (row for element in emitted if isinstance(element, Page) for row in element.plain_rows())


def _variants(script: Script, laws: Collection[int]) -> Iterator[tuple[int, str, Script]]:
    """Yield the variants of a script, each with the law that says it makes no difference."""
    if 5 in laws:
        yield 5, "the script as given (this one has one tuple a page)", repaged(script, 1)
        yield 5, "the script as given (this one has two tuples a page)", repaged(script, 2)
        yield 5, "the script as given (this one has pages as large as can be)", repaged(script, None)
    if 4 in laws:
        shuffle = np.random.default_rng(0)
        yield 4, "the script as given (this one is reversed)", reordered(script, lambda n: range(n - 1, -1, -1))
        yield 4, "the script as given (this one is shuffled)", reordered(script, lambda n: shuffle.permutation(n))
    if 6 in laws and script.ports > 1:
        for rounds in (one_by_one, last_first, in_turn):
            yield 6, "the script as given (the ports mix differently here)", interleaved(script, rounds)
    if 7 in laws:
        yield 7, "the script as given (no promise but END here)", fewer(script, lambda i: False)
        yield 7, "the script as given (every other promise is missing here)", fewer(script, lambda i: i % 2 == 1)
        yield 7, "the script as given (all true linear promises are here)", more(script)


def _run(
    make: Callable[[], Operator],
    script: Script,
    laws: Collection[int],
    *,
    saving: bool = False,
    oracles: Oracles = Oracles(),
    together: int | None = 0,
) -> list[Row]:
    """Run once and give all rows emitted, checking on the way what one run can show.

    So many promises come with each page, as many as can for None.
    """
    try:
        return list(_checked(make, script, laws, saving, oracles, together))
    except OperatorBug:
        raise
    except Exception as error:
        error.add_note(f"while running this script:\n{script}")
        raise


def _checked(
    make: Callable[[], Operator],
    script: Script,
    laws: Collection[int],
    saving: bool,
    oracles: Oracles,
    together: int | None,
) -> Iterator[Row]:
    operator = make()
    if operator.inputs != script.ports:
        raise ValueError(f"the operator has {operator.inputs} inputs, the script {script.ports} ports")
    output = operator.output_schema(*script.schemas)
    told = retracted(operator, None, script.schemas)
    signed = oracles.exact is not None or (isinstance(told, Retracted) and told.signed)
    seen: list[list[Row]] = [[] for _ in script.schemas]
    progress = [Progress() for _ in script.schemas]
    made: list[Punctuation] = []
    total: list[Row] = []
    handed: list[tuple[pa.RecordBatch, pa.Buffer]] = []
    for port, elements in _rounds(script, together):
        emitted: list[Element] = []

        def emit(out: Element, emitted: list[Element] = emitted) -> None:
            emitted.append(out)
            if isinstance(out, Page):
                handed.append((out.batch, out.batch.serialize()))

        if len(elements) > 1:
            assert isinstance(operator, TakesPromises)
            operator.process_with(*_joined(script, port, elements), emit, port)
        else:
            deliver(operator, elements[0], emit, port)
        for element in elements:
            if isinstance(element, Page):
                seen[port] += element.plain_rows()
            else:
                progress[port].advance(element)
        for out in emitted:
            if made and made[-1].is_end and 3 in laws:
                raise _bug(3, f"{_shown(out)} was emitted after END.", script)
            if isinstance(out, Punctuation):
                made.append(out)
                if 13 in laws:
                    _converged(out, total, oracles.exact, signed, script)
                continue
            if not output.arrow.equals(out.schema.arrow) or not output.arrow.equals(out.batch.schema):
                raise OperatorBug(
                    f"output_schema says {output},\n  but a page was emitted with {out.schema}\n\n{script}"
                )
            rows = out.plain_rows()
            if 14 in laws:
                _in_common(out, rows, script)
            if 3 in laws:
                _true(rows, made, script)
            total += rows
            yield from rows
        _ask(oracles, laws, operator, seen, progress, total, made, script)
        # Twice: one that was just restored can be saved, too.
        for _ in range(2 if saving else 0):
            fresh = make()
            fresh.output_schema(*script.schemas)
            restore(fresh, decode_state(encode_state(operator.state())))
            operator = fresh
    if 8 in laws and any(not batch.serialize().equals(held) for batch, held in handed):
        raise _bug(8, "a page that was emitted holds other values now.", script)
    _end(operator, progress, made, laws, script)


def _rounds(script: Script, together: int | None) -> Iterator[tuple[int, list[Element]]]:
    """Yield what is handed over in one call: a page, and those behind it on its port, up to so many linear promises."""
    round_: list[Element] = []
    at, on, last, promises = 0, "", 0, 0
    for port, element in script.steps:
        if isinstance(element, Page):
            joins = together is None
        else:
            name = element.attributes[0] if len(element.patterns) == 1 else ""
            bound = element.bound(name)
            # Promises in a page rise; one that does not says nothing new.
            joins = isinstance(bound, int) and promises != together and (promises == 0 or (name == on and bound > last))
            if joins and isinstance(bound, int):
                on, last = name, bound
        if round_ and not (joins and port == at):
            yield at, round_
            round_, promises = [], 0
        if not round_ and not isinstance(element, Page):
            yield port, [element]
            continue
        at, promises = port, promises + (not isinstance(element, Page))
        round_.append(element)
    if round_:
        yield at, round_


def _joined(script: Script, port: int, elements: Sequence[Element]) -> tuple[Page, Promises]:
    """Make one page of pages and linear promises on one attribute."""
    pages = [element for element in elements if isinstance(element, Page)]
    positions, bounds, tuples, name = list[int](), list[int](), 0, ""
    for element in elements:
        if isinstance(element, Page):
            tuples += len(element)
            continue
        (name,) = element.attributes
        positions.append(tuples)
        bounds.append(int(element.bound(name)))  # pyright: ignore[reportArgumentType]
    return concatenate(script.schemas[port], pages), Promises(
        name, np.array(positions, np.int64), np.array(bounds, np.int64)
    )


def _true(rows: Sequence[Row], made: Sequence[Punctuation], script: Script) -> None:
    for promise in made:
        for row in rows:
            if promise.matches(row):
                raise _bug(3, f"{promise} was emitted, and later the tuple {row}, which matches it.", script)


def _in_common(page: Page, rows: Sequence[Row], script: Script) -> None:
    for name, value in page.same.items():
        if other := next((row for row in rows if row[name] != value), None):
            raise _bug(14, f"A page says that {name} is {value} in all of its tuples, and has {other}.", script)


def _converged(
    promise: Punctuation, total: Sequence[Row], exact: Counter[Key] | None, signed: bool, script: Script
) -> None:
    """Add up the changes of the tuples that match a promise: they are the answer, and no tuple is taken back twice."""
    if not signed:
        return
    found = _added_up([row for row in total if promise.matches(row)])
    if below := [key for key, count in found.items() if count < 0]:
        raise _bug(13, f"at {promise}, more was taken back than given: {_list(Counter(below))}", script)
    if exact is not None:
        due = Counter({key: count for key, count in exact.items() if promise.matches(_row(key))})
        _same(13, f"the naive answer up to {promise}", due, found, script)


def _ask(
    oracles: Oracles,
    laws: Collection[int],
    operator: Operator,
    seen: Tables,
    progress: Sequence[Progress],
    total: Sequence[Row],
    made: Sequence[Punctuation],
    script: Script,
) -> None:
    """Compare what was done so far with the oracles: promptly, with no more state than needed, promised in time."""
    so_far = f"\n  after {[len(table) for table in seen]} tuples and the promises " + "; ".join(
        ", ".join(map(str, p.promises())) or "none" for p in progress
    )
    if oracles.settled is not None and 1 in laws:
        missing = _bag(oracles.settled(seen, progress)) - _bag(total)
        if missing:
            raise _bug(1, f"settled but not emitted: {_list(missing)}{so_far}", script)
    if oracles.promised is not None and 3 in laws:
        whole = Progress()
        for promise in made:
            whole.advance(promise)
        for promise in oracles.promised(seen, progress):
            if not whole.implies(promise):
                raise _bug(3, f"{promise} should have been promised by now{so_far}", script)
    if oracles.kept is not None and 2 in laws:
        assert isinstance(operator, Measured), "the oracle `kept` needs an operator with statistics()"
        held, allowed = operator.statistics()["state_tuples"], oracles.kept(seen, progress)
        if held > allowed:
            raise _bug(2, f"{held} tuples or groups are held, {allowed} can still matter{so_far}", script)


def _end(
    operator: Operator, progress: Sequence[Progress], made: Sequence[Punctuation], laws: Collection[int], script: Script
) -> None:
    """Check what must be so when the script is over."""
    over = all(p.ended for p in progress)
    ends = sum(p.is_end for p in made)
    if 3 in laws and ends != int(over):
        raise _bug(3, f"END was emitted {ends} times, it should be {int(over)} for these inputs.", script)
    if 2 in laws and over and isinstance(operator, Measured):
        held = operator.statistics().get("state_tuples", 0)
        if held:
            raise _bug(2, f'after END statistics()["state_tuples"] is {held}, not 0.', script)


def _same(law: int, other: str, expected: Counter[Key], found: Counter[Key], script: Script) -> None:
    if expected == found:
        return
    text = f"the result differs from that of {other}."
    if expected - found:
        text += f"\n  missing: {_list(expected - found)}"
    if found - expected:
        text += f"\n  too many: {_list(found - expected)}"
    raise _bug(law, text, script)


def _bug(law: int, text: str, script: Script) -> OperatorBug:
    return OperatorBug(f"law {law} is broken: {text}\n  Law {law}. {LAWS[law]}\n\n{script}")


Key: TypeAlias = tuple[tuple[str, object], ...]


def _bag(rows: Sequence[Row]) -> Counter[Key]:
    """Return rows as a multiset; not-a-number equals itself, zero has no sign."""
    return Counter(tuple(sorted((name, _cell(value)) for name, value in row.items())) for row in rows)


def _added_up(rows: Sequence[Row]) -> Counter[Key]:
    """Return what rows add up to by their signs, those that cancel each other left out."""
    found = Counter[Key]()
    for row in rows:
        (key,) = _bag([{name: value for name, value in row.items() if name != SIGN}])
        found[key] += int(row.get(SIGN) or 1)
    return Counter({key: count for key, count in found.items() if count})


def _row(key: Key) -> Row:
    """Return a row of a multiset."""
    return dict(key)  # pyright: ignore[reportReturnType]


def _cell(value: Scalar) -> object:
    if isinstance(value, float):
        return "not a number" if value != value else value + 0.0
    return value


def _list(bag: Counter[Key]) -> str:
    shown = [", ".join(f"{name}={value}" for name, value in key) for key in bag.elements()]
    return "; ".join(f"({text})" for text in shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")


def _shown(element: Element) -> str:
    return f"a page of {len(element)}" if isinstance(element, Page) else str(element)


def _digest(script: Script) -> str:
    """Hash every byte of every page."""
    digest = hashlib.sha256()
    for _, element in script.steps:
        if isinstance(element, Page):
            for column in element.batch.columns:
                for buffer in column.buffers():
                    if buffer is not None:
                        digest.update(memoryview(buffer))
    return digest.hexdigest()
