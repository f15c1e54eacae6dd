"""The facts that a plan needs of an operator before it runs: each is one method, and each method is optional.

Every protocol here is one fact. The function below it asks an operator for the fact, and has the answer for those that
state nothing: it is right for every operator that keeps the laws, and may cost more than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs

from operators.data.page import Bools, Page
from operators.data.schema import Schema
from operators.expression import Expression
from operators.kernels.ticks import LIMIT
from operators.pace import Paces
from operators.protocol import OneByOne, Operator
from operators.protocol_checks import fits
from punctuation import Punctuation

Attributes: TypeAlias = frozenset[str]
Keys: TypeAlias = tuple[str, ...]
ANY_DISTANCE: Final = LIMIT
"""How late a tuple may be where a window may be open however far behind it is."""


@runtime_checkable
class ReadsSome(Protocol):
    """An operator that does not look at every attribute of its inputs."""

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Collection[str]]:
        """Name the attributes of each input that it reads or passes on, where `wanted` are read of its output.

        Names that an input does not have are ignored. Pages come without the attributes that nobody reads.
        """
        ...


def attributes_read(operator: Operator, wanted: Attributes, inputs: Sequence[Schema]) -> list[Attributes]:
    """Name the attributes that an operator reads of each input; all of them where it does not say."""
    if not fits(operator, ReadsSome):
        return [frozenset(schema.names) for schema in inputs]
    read = operator.attributes_read(wanted, *inputs)
    return [frozenset(schema.names).intersection(names) for schema, names in zip(inputs, read, strict=True)]


@runtime_checkable
class Narrowing(Protocol):
    """An operator that can leave attributes out of its output, and need not store them."""

    def keeping(self, names: Collection[str]) -> Operator:
        """Return the operator that puts out these attributes alone, of those that it has."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """An operator that has something to say to its user, who asks `explain`."""

    def remarks(self) -> tuple[str, ...]:
        """Return what it says, a line each."""
        ...


@runtime_checkable
class Noting(Protocol):
    """An operator that tells its user after a run what to know of the results: tuples left out, or put elsewhere."""

    def notes(self, counts: Mapping[str, int]) -> Iterable[str]:
        """Yield a line for each thing, from the counters of its `statistics`."""
        ...


@runtime_checkable
class Chooses(Protocol):
    """An operator that chooses how it computes from what it has seen, while it runs."""

    def choice(self) -> str:
        """Return how it computes now, and from which numbers that was chosen; nothing before it has seen any."""
        ...


def choices(operator: Operator) -> list[str]:
    """Return what an operator, and those that it is made of, chose from what they have seen, each text once."""
    parts = links(operator)
    if not (len(parts) == 1 and parts[0] is operator):
        return list(dict.fromkeys(text for part in parts for text in choices(part)))
    return [text] if fits(operator, Chooses) and (text := operator.choice()) else []


@runtime_checkable
class Composed(Protocol):
    """An operator that is made of others: in a row, or in lanes side by side."""

    def links(self) -> Sequence[Operator]:
        """Return them, the first one first."""
        ...


def links(operator: Operator) -> Sequence[Operator]:
    """Return the operators that one is made of: itself for most."""
    return operator.links() if fits(operator, Composed) else (operator,)


@runtime_checkable
class Computes(OneByOne, Protocol):
    """An operator that makes of each tuple one, whose attributes it keeps or computes by expressions."""

    def computed(self, name: str) -> Expression | None:
        """Return the expression by which it makes an attribute of its output, None for one that it keeps."""
        ...


@runtime_checkable
class Carries(Protocol):
    """An operator of whose inputs all attributes can leave in the tuples that they came with."""

    def carrying(self, name: str) -> Operator:
        """Return the operator that passes an attribute on which its inputs have besides, and does all else the same."""
        ...


@runtime_checkable
class PassesWhere(Protocol):
    """An operator that passes on, as they are, the tuples for which a predicate is true, and all promises."""

    def passes_where(self) -> Expression:
        """Return the predicate; one that does the same for it can stand in the operator's place."""
        ...


def passes_where(operator: Operator) -> Expression | None:
    """Return the predicate by which an operator chooses tuples; None where it does not say that it does only this."""
    return operator.passes_where() if fits(operator, PassesWhere) else None


@runtime_checkable
class AsksForPromises(Protocol):
    """An operator that needs promises of its own, or makes those on its output from promises on other attributes."""

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        """Say which attributes of each input must be promised how finely, where `wanted` are asked of its output."""
        ...


def promises_asked(operator: Operator, wanted: Paces, inputs: Sequence[Schema]) -> list[Paces]:
    """Say which promises an operator asks of each input; where it does not say, what is asked of its output."""
    if fits(operator, AsksForPromises):
        return list(operator.promises_asked(dict(wanted), *inputs))
    return [{name: pace for name, pace in wanted.items() if name in schema} for schema in inputs]


@runtime_checkable
class PromisesWhen(Protocol):
    """An operator whose promise on its output needs other bounds of its inputs than its own."""

    def promised_when(self, attribute: str, bound: int) -> Sequence[tuple[int, str, int]]:
        """Return which promises of its inputs suffice for `[attribute < bound]`, as (port, attribute, bound).

        The first ones are always needed, the others as long as tuples that are stored need them.
        """
        ...


@attrs.frozen
class Passage:
    """The name and meaning of a promised attribute behind an operator that passes tuples on."""

    name: str | None
    """Its name there; None where it is lost, or has several names."""
    back: int = 0
    """By how many ticks at most its values are before those of the input, and so may be what is promised of it."""
    numbers: Attributes = frozenset()
    """Attributes in which the operator numbers the tuples: none comes too late for its own number."""
    ends: Attributes = frozenset()
    """What else is promised, of flows whose parts promise what goes on: nobody that reads it takes late tuples."""


@runtime_checkable
class PassesOn(Protocol):
    """An operator that passes tuples and promises on and relies on neither, in a way that `comes_from` does not say."""

    def passage(self, attribute: str | None) -> Passage:
        """Say what becomes of the promised attribute of its input, None where the input promises none or several."""
        ...


def passes_on(operator: Operator) -> bool:
    """Return whether an operator passes tuples and promises on and relies on neither; not where it does not say."""
    return fits(operator, OneByOne) or fits(operator, PassesOn)


def passage(operator: Operator, attribute: str | None, output: Schema, inputs: Sequence[Schema]) -> Passage:
    """Say what a promised attribute is behind an operator; lost where it does not say that it passes tuples on."""
    if fits(operator, PassesOn):
        return operator.passage(attribute)
    if attribute is None or not fits(operator, OneByOne):
        return Passage(None)
    kept = [name for name in output.names if operator.comes_from(name, *inputs) == attribute]
    return Passage(kept[0] if len(kept) == 1 else None)


@attrs.frozen
class Tolerance:
    """The treatment of tuples that are below what was promised of them."""

    ticks: int = 0
    """So far below they may be; 0 for an operator that relies on the promise."""
    fixed: bool = False
    """Whether its answer is the same however finely the stream is promised beyond the edges of its windows."""


@runtime_checkable
class Selects(Protocol):
    """An operator that passes some of its tuples on as they are; a late one that it would not is missed nowhere."""

    def mask(self, page: Page) -> Bools:
        """Return which tuples of a page pass, shape (n,); nothing is remembered or counted."""
        ...


@runtime_checkable
class TakesLate(Protocol):
    """An operator that takes tuples which break a promise, and refuses and counts those that come too late for it."""

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        """Say how late a tuple may be, where `attribute` alone is promised.

        Where the stream is `melded` of several, its promises are behind those by which tuples of one are judged.
        """
        ...


def late_tolerance(operator: Operator, attribute: str | None, melded: bool) -> Tolerance:
    """Say how late a tuple may be for an operator; not at all where it does not say, or several are promised."""
    if attribute is None or not fits(operator, TakesLate):
        return Tolerance()
    return operator.late_tolerance(attribute, melded)


@runtime_checkable
class LeavesOutLate(Protocol):
    """An operator that leaves out and counts the tuples that come too late, for all who read them behind it."""

    @property
    def behind(self) -> int:
        """Return by how many ticks at most a tuple that it passes is below what was promised."""
        ...

    def counting(self, wanted: Callable[[Page], Bools] | None) -> Operator:
        """Return the operator that counts apart which late tuples are not wanted by anybody; all are without it."""
        ...


@attrs.frozen
class Together:
    """The tuples that an operator must have in one place: none, those equal in keys, or all."""

    stateless: bool = False
    """Whether any part of the input can be taken without the others."""
    keys: tuple[Keys, ...] = ()
    """By port, in the same order on each: tuples that differ in one of these never meet; none when all may."""
    kept: tuple[Mapping[str, str], ...] = ()
    """By port, what attributes of the input are called in the output, where they stay as they are in every tuple."""
    arrival: bool = False
    """Whether the answer depends on the order in which tuples and promises arrive."""
    why: str = ""
    """Why not by keys alone, for `explain`."""

    @classmethod
    def anywhere(cls, kept: Iterable[str]) -> Together:
        """Say that nothing needs to be together, and what stays as it is under its name."""
        return cls(stateless=True, kept=({name: name for name in kept},))

    @classmethod
    def by(cls, keys: Iterable[str], *, arrival: bool = False, why: str = "") -> Together:
        """Say that the groups of one input must be together, or all of it without keys; keys stay as they are."""
        keys = tuple(keys)
        return cls(keys=(keys,) if keys else (), kept=({key: key for key in keys},), arrival=arrival, why=why)

    @classmethod
    def in_order(cls, operator: object) -> Together:
        """Say that nothing is known of an operator, so that it must have all in the order of arrival."""
        return cls(arrival=True, why=f"{type(operator).__name__} may depend on the order of arrival")

    @property
    def parted(self) -> bool:
        """Return whether there are keys by which its input can be spread."""
        return bool(self.keys) and all(self.keys)


@runtime_checkable
class NeedsTogether(Protocol):
    """An operator whose input can be spread over several tasks, or that says why it cannot."""

    def together(self, *inputs: Schema) -> Together:
        """Say which tuples must be in one place."""
        ...


def together(operator: Operator, inputs: Sequence[Schema]) -> Together:
    """Say which tuples an operator must have in one place: all, in order of arrival, where it does not say.

    One that takes each tuple by itself needs none.
    """
    if fits(operator, NeedsTogether):
        return operator.together(*inputs)
    return Together(stateless=True) if fits(operator, OneByOne) else Together.in_order(operator)


@attrs.frozen(eq=False)
class TwoLevels:
    """The two operators that do the work of one: partial results of parts of its input, and final ones of these."""

    reads: tuple[str, ...]
    """The attributes of the input that the low level needs."""
    low: Operator
    high: Operator


@runtime_checkable
class HasLevels(Protocol):
    """An operator whose results can be made of partial ones, so that parts of its input are reduced apart."""

    def levels(self, schema: Schema, *, size: int) -> TwoLevels | None:
        """Return the two levels over an input of this schema; None where not every result has parts.

        `size`: partial results that the low level holds at most.
        """
        ...


def levels(operator: Operator, schema: Schema, size: int) -> TwoLevels | None:
    """Return the two levels of an operator; None where it does not say that it has them."""
    return operator.levels(schema, size=size) if fits(operator, HasLevels) else None


@runtime_checkable
class Reduces(Protocol):
    """An operator that may give partial results: several for one slice and group, which a high level adds up."""

    def reduces(self) -> bool:
        """Return whether it does."""
        ...


def reduces(operator: object) -> bool:
    """Return whether an operator gives partial results; not where it does not say."""
    return fits(operator, Reduces) and operator.reduces()


@runtime_checkable
class Disclaims(Protocol):
    """An operator that knows which tuples of its inputs show in none of its output but in what nobody wants."""

    def disclaimed(self, unwanted: Punctuation, *inputs: Schema) -> Sequence[Punctuation | None]:
        """Return for each input which tuples need not come, where no output that matches `unwanted` is wanted.

        Without them every other tuple of the output comes as before. None where all are needed.
        """
        ...


def disclaimed(operator: Operator, unwanted: Punctuation, inputs: Sequence[Schema]) -> list[Punctuation | None]:
    """Say which tuples of each input an operator does not need, where nobody wants what matches a punctuation.

    Where it does not say: what it keeps of single tuples, or the groups that it keeps apart.
    """
    if fits(operator, Disclaims):
        return list(operator.disclaimed(unwanted, *inputs))
    if fits(operator, OneByOne):
        return [_kept(unwanted, schema, partial(_origin, operator, inputs)) for schema in inputs]
    return disclaimed_groups(together(operator, inputs), unwanted, inputs)


def disclaimed_groups(together: Together, unwanted: Punctuation, inputs: Sequence[Schema]) -> list[Punctuation | None]:
    """Say the same of an operator of which it is known which tuples must be together: groups are all or nothing."""
    if together.stateless:
        back = [{there: here for here, there in kept.items()} for kept in together.kept]
        return [_kept(unwanted, schema, names.get) for schema, names in zip(inputs, back, strict=False)] or [None]
    numbers: dict[str, int] = {}
    for keys, kept in zip(together.keys, together.kept, strict=False):
        numbers |= {kept[key]: number for number, key in enumerate(keys) if key in kept}
    found: list[Punctuation | None] = []
    for keys, schema in zip(together.keys, inputs, strict=False):
        names = {name: keys[number] for name, number in numbers.items() if _alike(together.keys, number, inputs)}
        found.append(_kept(unwanted, schema, names.get))
    return found or [None] * len(inputs)


def _origin(operator: OneByOne, inputs: Sequence[Schema], name: str) -> str | None:
    return operator.comes_from(name, *inputs)


def _kept(unwanted: Punctuation, schema: Schema, origin: Callable[[str], str | None]) -> Punctuation | None:
    """Return a punctuation of the output as one of an input; None where an attribute does not come from there."""
    names = {name: origin(name) for name in unwanted.attributes}
    if any(name is None or name not in schema for name in names.values()):
        return None
    return unwanted.onto({name: there for name, there in names.items() if there is not None})


def _alike(keys: Sequence[Keys], number: int, inputs: Sequence[Schema]) -> bool:
    """Return whether a key has the same type in all inputs, so that constants mean the same."""
    return len({schema.arrow.field(names[number]).type for names, schema in zip(keys, inputs, strict=False)}) == 1


@runtime_checkable
class Outlasts(Protocol):
    """An operator that comes to need less of an input: another one has ended, or what it holds outranks the rest."""

    def needless(self, port: int) -> Punctuation | None:
        """Return which tuples of an input show in nothing any more, as it is now; None where all may.

        A driver asks operators of several inputs when an input has ended, those of one behind each page and promise.
        """
        ...


@attrs.frozen
class HeldBack:
    """Results that are certain, and that an operator holds back all the same."""

    tuples: int
    """How many leave before the promise that is asked for."""
    coming: int | None
    """After how many tuples that come they have left; None where tuples let none leave."""
    promises: tuple[tuple[int, str, int], ...]
    """Promises of inputs of which each lets them leave: the port, its attribute, and the bound."""


@runtime_checkable
class HoldsBack(Protocol):
    """An operator that lets certain results leave little by little."""

    def held_back(self, attribute: str, bound: int | None) -> HeldBack | None:
        """Return what waits before `[attribute < bound]`, or any promise on it for None, leaves; None for nothing."""
        ...


@runtime_checkable
class WantsOrder(Protocol):
    """An operator that holds least where its inputs come in the order of an attribute."""

    def order_wanted(self, *inputs: Schema) -> str | None:
        """Name the attribute, None where there is none."""
        ...


def order_wanted(operator: Operator, inputs: Sequence[Schema]) -> str | None:
    """Name the attribute in whose order an operator takes its inputs best, None where it does not say."""
    return operator.order_wanted(*inputs) if fits(operator, WantsOrder) else None


@runtime_checkable
class KeepsOrder(Protocol):
    """An operator that gives tuples in an order in which it takes them."""

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        """Name the attribute of its inputs in whose order tuples leave in that of `name`, None where there is none."""
        ...


def order_from(operator: Operator, name: str | None, inputs: Sequence[Schema]) -> str | None:
    """Name the attribute of an operator's inputs whose order is that of `name` behind it; None if unsaid."""
    return None if name is None or not fits(operator, KeepsOrder) else operator.order_from(name, *inputs)


@attrs.frozen(eq=False)
class InOrder:
    """The form of an operator that takes its inputs in an order and keeps one."""

    operator: Operator
    sorts: tuple[str, ...]
    """By port, the attribute by which the input is to be sorted."""
    by: str | None = None
    """The attribute in whose order its tuples leave, None for none."""
    label: str = ""
    """A label of its own, for `explain`."""


@runtime_checkable
class RunsInOrder(Protocol):
    """An operator of which there is another form for in-order processing."""

    def in_order(self, wanted: str | None, buffer: str, *inputs: Schema) -> InOrder | None:
        """Return the form whose tuples leave in the order of `wanted`, if it can; None to go on as it is.

        `buffer`: whether joins hold back their "output" or their "input".
        """
        ...


@runtime_checkable
class Pairs(Protocol):
    """An operator that puts tuples of two inputs together by how far apart they are."""

    def pairing(self) -> tuple[str, str, int]:
        """Return the attribute of the left and of the right input, and by how many ticks they differ at most."""
        ...


def pairing(operator: Operator) -> tuple[str, str, int] | None:
    """Return by which attributes an operator puts tuples together, and how far apart; None if unsaid."""
    return operator.pairing() if fits(operator, Pairs) else None


@runtime_checkable
class Comparable(Protocol):
    """An operator that knows another that gives the same over the same inputs, so that one does for both."""

    def same_as(self, other: object) -> bool:
        """Return whether another operator gives the same tuples and promises over the same inputs."""
        ...


def same(one: Operator, other: Operator) -> bool:
    """Return whether two operators give the same over the same inputs; not where they do not say."""
    return type(one) is type(other) and fits(one, Comparable) and one.same_as(other)
