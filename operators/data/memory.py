"""A class declares its memory once, on its fields: saving, restoring, bytes and growth follow from that.

    _late: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))

The field is the declaration. Its default is the identity, and its metadata gives the type, the bounds, and the name of
the entry in a saved state, which is the field's own unless one is given. Entries are read in the order of the fields,
so a bound may refer to a field above. Of a field that holds more than is to be saved, `of` gives what is.

Two hooks take the place of a `state` and a `restore` of one's own: `_before_saving` brings the memory into the form in
which it is saved, and `_after_restoring` works out, from what was read, what the class derives from it, and checks it.

A saved state names the version of the class that wrote it; what was saved before there were versions is of version 0.
A field that came later says `since` which version: an older state lacks its entry, and it stays as it is in a fresh
object. A class that cannot read old states any more says so by `OLDEST`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, takewhile
from operator import attrgetter
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar, cast

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data import saved
from operators.data.page import Page
from operators.data.saved import prefixed
from operators.data.schema import Schema
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import State, StateValue
from punctuation import Meet, Punctuation
from punctuation.plain import Plain, dump_progress, from_plain, read_progress, to_plain

T = TypeVar("T", bound=np.generic)
_COLUMN: Final = "memory"
_NBYTES: Final = "nbytes"
VERSION: Final = "version"
"""The entry of a saved state that names its version."""
Metadata: TypeAlias = Mapping[str, object]
PARAMETER_ADDED: Final = "parameter added"
"""Metadata of a public field that older states do not know: without it they mean its default, which they leave out."""
Of: TypeAlias = Callable[[Any], Any]
"""Gives what is saved of a field, asked of its owner."""


def grown(column: npt.NDArray[T], capacity: int, *, fill: int = 0) -> npt.NDArray[T]:
    """Return a column of at least `capacity` rows with the same content; what is new is `fill`."""
    if capacity <= len(column):
        return column
    shape = (capacity, *column.shape[1:])
    larger = np.full(shape, fill, column.dtype) if fill else np.zeros(shape, column.dtype)
    larger[: len(column)] = column
    return larger


class Saves(Protocol):
    """A part of a memory that saves itself."""

    def state(self) -> State:
        """Return the memory as arrays, record batches and scalars."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take up the memory whose `state` this was."""
        ...


class _Bytes(property):
    """The `nbytes` that follows from a declaration."""


class Stateful:
    """Add `state`, `restore` and `nbytes` to a class, from the declarations on its fields.

    >>> @attrs.define
    ... class Counted(Stateful):
    ...     _seen: int = attrs.field(init=False, default=0, metadata=integer(least=0))
    >>> Counted().state()
    {'version': 1, 'seen': 0}
    >>> Counted().restore({"version": 2, "seen": 0})
    Traceback (most recent call last):
    ValueError: the saved state of Counted has version 2; this engine reads versions 0 to 1
    """

    __slots__ = ()

    VERSION: ClassVar[int] = 1
    OLDEST: ClassVar[int] = 0
    _declared: ClassVar[tuple[tuple[str, str, Column], ...]] = ()
    _saving: ClassVar[tuple[tuple[Callable[[Any], Any], str, Callable[[State, str, Any], None]], ...]] = ()
    _none: ClassVar[int] = 0
    """The bytes of a class without arrays."""
    _growing: ClassVar[tuple[tuple[str, Column], ...]] = ()
    _bytes: ClassVar[Callable[[Any], int]] = staticmethod(lambda self: 0)
    """Counts the bytes of all arrays and parts, which `nbytes` is where a class does not write it itself."""

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        declared: list[tuple[str, str, Column]] = []
        for field in attrs.fields(cls):
            column = field.metadata.get(_COLUMN)
            if column is not None:
                declared.append((field.name, field.name.lstrip("_") if column.name is None else column.name, column))
        cls._declared = tuple(declared)
        cls._saving = tuple(
            (column.of or partial(_value, attribute), name, column.save)
            for attribute, name, column in declared
            if column.saved
        )
        cls._growing = tuple((attribute, column) for attribute, _, column in declared if column.slotted)
        cls._bytes = staticmethod(_summed(cls._declared))
        if isinstance(cls.nbytes, _Bytes):
            setattr(cls, _NBYTES, _Bytes(cls._bytes))

    @_Bytes
    def nbytes(self) -> int:
        """Count the bytes of all arrays and parts."""
        return 0

    def state(self) -> State:
        """Return everything remembered, copied, as arrays, record batches and scalars."""
        self._before_saving()
        state: State = {VERSION: self.VERSION} if self._declared else {}
        for held, name, save in self._saving:
            save(state, name, held(self))
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take up the memory whose `state` this was; called on a fresh object with the same public fields."""
        self.take_up(state, self.version(state))

    def take_up(self, state: Mapping[str, StateValue], version: int) -> None:
        """Take up what a state of a version has of this memory."""
        if version < self.VERSION:
            state = self._upgraded(state)
        for attribute, name, column in self._declared:
            if not column.saved:
                continue
            with saved.fitting(name or attribute):
                if version >= column.since or name in state:
                    column.restore(state, name, self, attribute)
                else:
                    column.lack(name, self, attribute)
        self._after_restoring()

    def _before_saving(self) -> None:
        """Bring the memory into the form in which it is saved."""

    def _upgraded(self, state: Mapping[str, StateValue]) -> Mapping[str, StateValue]:
        """Return what an older version saved as this one would have."""
        return state

    def _after_restoring(self) -> None:
        """Work out what follows from what was read; ValueError where that does not fit."""

    def version(self, state: Mapping[str, StateValue]) -> int:
        """Return the version of a state; ValueError with both versions where it is not read here."""
        version = saved.read_int(state, VERSION) if VERSION in state else 0
        if version != self.VERSION and not self.OLDEST <= version <= self.VERSION:
            reads = (
                f"versions {self.OLDEST} to {self.VERSION}" if self.OLDEST < self.VERSION else f"version {self.VERSION}"
            )
            raise ValueError(
                f"the saved state of {type(self).__name__} has version {version}; this engine reads {reads}"
            )
        return version


class Slotted(Stateful):
    """Add columns with a row for each slot, too: they grow together, and are read back equally long."""

    __slots__ = ()

    def reserve(self, capacity: int) -> None:
        """Make room for slots 0 <= i < capacity and keep what is held."""
        for attribute, column in self._growing:
            setattr(self, attribute, column.grow(getattr(self, attribute), capacity))

    def _after_restoring(self) -> None:
        rows: int | None = None
        for attribute, column in self._growing:
            for array in column.arrays(getattr(self, attribute)) if column.saved else ():
                if rows is not None and len(array) != rows:
                    raise ValueError(f'the saved state should have {rows} slots in "{attribute}", it has {len(array)}')
                rows = len(array)
        if rows is not None:
            self.reserve(rows)


class Spelled:
    """Add the `state` and `restore` of a punctuator to a class: those of its `memory`, spelled as a text.

    >>> @attrs.define
    ... class Counted(Stateful):
    ...     seen: int = attrs.field(default=0, metadata=integer(least=0))
    >>> @attrs.define
    ... class Counting(Spelled):
    ...     memory: Counted = attrs.field(factory=Counted)
    >>> again = Counting()
    >>> again.restore(Counting(Counted(5)).state())
    >>> again.memory.seen
    5
    """

    __slots__ = ()

    memory: Any

    def state(self) -> Plain:
        """Return the memory as a text."""
        return saved.encode_state(self.memory.state()).hex()

    def restore(self, state: Plain) -> None:
        """Take up the memory whose `state` this was; ValueError for what is none."""
        if not isinstance(state, str):
            raise ValueError(f"the saved memory of {type(self).__name__} is a text, not {state!r:.60}")
        self.memory.restore(saved.decode_state(bytes.fromhex(state)))


@attrs.frozen(kw_only=True)
class Column:
    """Declare one field of a memory: how it is saved, read back and measured."""

    name: str | None = None
    since: int = 0
    slotted: bool = False
    """Whether it grows with the slots of its owner."""
    saved: bool = True
    """Whether it is in a state; if not, its owner works it out from the rest, or saves it in its own way."""
    of: Of | None = None
    """None where all of the value is saved."""
    sized: ClassVar[bool] = False
    """Whether the value is never None and has its bytes as `nbytes`."""
    holds: ClassVar[bool] = False
    """Whether `nbytes` of the column counts its bytes."""

    def save(self, state: State, name: str, value: Any) -> None:
        """Put the value into a state."""
        state[name] = value

    def restore(self, state: Mapping[str, StateValue], name: str, owner: Any, attribute: str) -> None:
        """Set the field of a fresh owner to what a state holds; ValueError where that does not fit."""
        setattr(owner, attribute, self.load(state, name, getattr(owner, attribute, None), owner))

    def lack(self, name: str, owner: Any, attribute: str) -> None:
        """Leave the field of a fresh owner as it is, for an older state has no entry; ValueError where it should."""

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        """Return what a state holds, where a fresh owner has this value."""
        return value

    def nbytes(self, value: Any) -> int:
        """Count the bytes that a value takes."""
        return 0

    def grow(self, value: Any, capacity: int) -> Any:
        """Return a value with room for so many slots; called where it is `slotted`."""
        return value

    def arrays(self, value: Any) -> Sequence[Any]:
        """Return the arrays in a value that have a row for each slot."""
        return ()

    def declared(self) -> Metadata:
        """Return the metadata of a field that is this column."""
        return {_COLUMN: self}


@attrs.frozen(kw_only=True)
class _Integer(Column):
    least: int | None
    most: int | str | None

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> int:
        return saved.read_int(state, name, least=self.least, most=_number(owner, self.most))


class _Flag(Column):
    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> bool:
        return saved.read_flag(state, name)


class _Text(Column):
    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> str:
        return saved.read_text(state, name)


class _Tally(Column):
    def save(self, state: State, name: str, value: Mapping[str, int]) -> None:
        state[name] = json.dumps(value)

    def load(self, state: Mapping[str, StateValue], name: str, value: dict[str, int], owner: Any) -> dict[str, int]:
        kept: Plain = json.loads(saved.read_text(state, name))
        if not isinstance(kept, dict) or not all(isinstance(number, int) for number in kept.values()):
            raise ValueError(f'the saved state should have numbers by name in "{name}", it has {kept!r:.60}')
        return {**value, **cast(dict[str, int], kept)}


@attrs.frozen(kw_only=True)
class _Counters(Column):
    added: Collection[str]

    def save(self, state: State, name: str, value: Mapping[str, int]) -> None:
        state |= prefixed("count.", value)

    def load(self, state: Mapping[str, StateValue], name: str, value: dict[str, int], owner: Any) -> dict[str, int]:
        value.update(saved.read_counts(state, value, added=self.added))
        return value


@attrs.frozen(kw_only=True)
class _Array(Column):
    least: int | None
    below: int | str | None
    length: str | None
    apart: bool = False
    wide: bool = False
    own: Sequence[int] = ()
    grows: str | None = None
    sized = True

    def save(self, state: State, name: str, value: Any) -> None:
        state[name] = value.copy()

    def lack(self, name: str, owner: Any, attribute: str) -> None:
        self._checked(getattr(owner, attribute), name, owner)

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        like = value[:, :0] if self.wide else value
        array = self._checked(saved.read_array(state, name, like=like), name, owner)
        if self.own:
            array[list(self.own)] = value[list(self.own)]
        if self.grows is None:
            return array
        index = getattr(owner, self.grows)
        return grown(array, 1 if index is None else max(1, index.capacity))

    def _checked(self, array: Any, name: str, owner: Any) -> Any:
        below, length = _number(owner, self.below), _number(owner, self.length)
        saved.bounded(array, name, least=self.least, below=below, length=length)
        return saved.apart(array, name, below=saved.ROOM if below is None else below) if self.apart else array

    def nbytes(self, value: Any) -> int:
        return value.nbytes


@attrs.frozen(kw_only=True)
class _Slots(_Array):
    fill: int
    slotted: bool = True

    def arrays(self, value: Any) -> Sequence[Any]:
        return (value,)

    def grow(self, value: Any, capacity: int) -> Any:
        return grown(value, capacity, fill=self.fill)


class _Fields(_Slots):
    holds = True
    sized = False

    def save(self, state: State, name: str, value: Sequence[Any]) -> None:
        state |= {f"{name}{number}": array.copy() for number, array in enumerate(value)}

    def load(self, state: Mapping[str, StateValue], name: str, value: Sequence[Any], owner: Any) -> Any:
        return tuple(super(_Fields, self).load(state, f"{name}{i}", array, owner) for i, array in enumerate(value))

    def nbytes(self, value: Sequence[Any]) -> int:
        return sum([array.nbytes for array in value])

    def arrays(self, value: Any) -> Sequence[Any]:
        return value

    def grow(self, value: Sequence[Any], capacity: int) -> Any:
        return tuple([grown(array, capacity) for array in value])


@attrs.frozen(kw_only=True)
class _Sparse(_Array):
    values: str
    fill: int
    places: str | None

    def save(self, state: State, name: str, value: Any) -> None:
        known = np.flatnonzero(value != self.fill)
        state |= {name: known, self.values: value[known]}

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        places = _number(owner, self.places)
        known = saved.read_integers(state, name, least=0, below=saved.ROOM if places is None else places)
        array = grown(np.full_like(value, self.fill), int(known.max(initial=-1)) + 1, fill=self.fill)
        values, below = saved.read_array(state, self.values, like=value), _number(owner, self.below)
        array[known] = saved.bounded(values, self.values, least=self.least, below=below, length=len(known))
        return array


class _Numbers(Column):
    def save(self, state: State, name: str, value: list[int] | list[float]) -> None:
        state[name] = np.array(value)

    def load(self, state: Mapping[str, StateValue], name: str, value: list[Any], owner: Any) -> list[Any]:
        array = saved.read_array(state, name, like=np.array(value))
        return saved.bounded(array, name, least=None, below=None, length=len(value)).tolist()


class _Progress(Column):
    def save(self, state: State, name: str, value: Any) -> None:
        state[name] = dump_progress(value)

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        return read_progress(saved.read_text(state, name))


class _Progresses(_Progress):
    def save(self, state: State, name: str, value: Iterable[Any]) -> None:
        state |= {f"{name}{number}": dump_progress(one) for number, one in enumerate(value)}

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        return tuple(super(_Progresses, self).load(state, f"{name}{i}", one, owner) for i, one in enumerate(value))


@attrs.frozen(kw_only=True)
class _Plain(Column):
    strict: bool

    def save(self, state: State, name: str, value: Iterable[Any]) -> None:
        state[name] = json.dumps([None if one is None else one.state() for one in value])

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        kept: list[Plain] = json.loads(saved.read_text(state, name))
        for one, its in zip(value, kept, strict=self.strict):
            if one is not None and its is not None:
                one.restore(its)
        return value


class _Waiting(Column):
    def save(self, state: State, name: str, value: Iterable[tuple[Punctuation | int, ...]]) -> None:
        state[name] = json.dumps([[v if isinstance(v, int) else to_plain(v) for v in one] for one in value])

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        waiting: list[list[Plain]] = json.loads(saved.read_text(state, name))
        return [tuple(from_plain(v) if isinstance(v, list) else int(str(v)) for v in one) for one in waiting]


class _Pages(Column):
    holds = True

    def save(self, state: State, name: str, value: Iterable[Page]) -> None:
        state |= saved.save_page(list(value), name)

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> list[Page]:
        page = saved.read_page(state, name)
        return [] if page is None else [page]

    def nbytes(self, value: Iterable[Page]) -> int:
        return sum([page.batch.nbytes for page in value])


class _Batch(Column):
    def save(self, state: State, name: str, value: Any) -> None:
        if value is not None:
            state[name] = value

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        return value if value is None and name not in state else saved.read_batch(state, name)


class _Batches(Column):
    def save(self, state: State, name: str, value: Iterable[Any]) -> None:
        state |= {f"{name}{number}": batch for number, batch in enumerate(value)}

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        there = takewhile(state.__contains__, (f"{name}{number}" for number in count()))
        return [saved.read_batch(state, entry) for entry in there]


class _Meet(Column):
    def save(self, state: State, name: str, value: Meet) -> None:
        state |= prefixed(name and f"{name}.", saved.save_meet(value))

    def load(self, state: Mapping[str, StateValue], name: str, value: Meet, owner: Any) -> Meet:
        return saved.load_meet(value.ports, saved.part(name and f"{name}.", state))


@attrs.frozen(kw_only=True)
class _Part(Column):
    make: Callable[[list[pa.Field]], Saves] | None
    fields: str = "fields"
    told: Mapping[str, Callable[[Any], Any]] = {}
    beside: bool = False
    lacking: Callable[[Any], Saves] | None = None
    holds = True

    def save(self, state: State, name: str, value: Any) -> None:
        if value is not None:
            if self.make is not None:
                state[self.fields] = saved.save_schema(pa.schema(list(value.fields)))
            for entry, its in value.state().items():
                state[f"{name}.{entry}"] = its

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        if self.make is not None:
            held = self.fields in state
            value = self.make(list(saved.read_batch(state, self.fields).schema)) if held else None
        its = saved.part(f"{name}.", state) or (state if self.beside else {})
        if value is None and its and self.lacking is not None:
            value = self.lacking(owner)
        if value is not None and its:
            for known, ask in self.told.items():
                setattr(value, known, ask(owner))
            value.restore(its)
        return value

    def grow(self, value: Any, capacity: int) -> Any:
        value.reserve(capacity)
        return value

    def nbytes(self, value: Any) -> int:
        return 0 if value is None else value.nbytes


class _Parts(Column):
    holds = True

    def save(self, state: State, name: str, value: Iterable[Saves | None] | Mapping[Any, Saves] | None) -> None:
        for number, one in _numbered(value):
            for entry, its in one.state().items():
                state[f"{name}{number}.{entry}"] = its

    def load(self, state: Mapping[str, StateValue], name: str, value: Any, owner: Any) -> Any:
        for number, one in _numbered(value):
            if its := saved.part(f"{name}{number}.", state):
                one.restore(its)
        return value

    def nbytes(self, value: Any) -> int:
        return sum([one.nbytes for _, one in _numbered(value)])


@attrs.frozen(kw_only=True)
class _Form(Column):
    kind: Callable[[], Stateful]
    take: str
    optional: bool

    def save(self, state: State, name: str, value: Stateful | None) -> None:
        if value is not None:
            state |= {entry: its for entry, its in value.state().items() if entry != VERSION}

    def restore(self, state: Mapping[str, StateValue], name: str, owner: Any, attribute: str) -> None:
        form = self.kind()
        if self.optional and not form.state().keys() & state.keys() - {VERSION}:
            return
        form.take_up(state, owner.version(state))
        getattr(owner, self.take)(form)


@attrs.frozen(kw_only=True)
class _Input(Column):
    bind: str
    others: tuple[str, ...]

    def save(self, state: State, name: str, value: Schema | tuple[Schema, ...] | None) -> None:
        if value is not None:
            schemas = (value,) if isinstance(value, Schema) else value
            for entry, schema in zip((name, *self.others), schemas, strict=False):
                state |= saved.save_input(schema, entry)

    def restore(self, state: Mapping[str, StateValue], name: str, owner: Any, attribute: str) -> None:
        schemas = [saved.read_input(state, entry) for entry in (name, *self.others)]
        if schemas[0] is not None:
            getattr(owner, self.bind)(*[schema for schema in schemas if schema is not None])


def integer(
    *, least: int | None = None, most: int | str | None = None, name: str | None = None, since: int = 0
) -> Metadata:
    """Declare an integer in [least, most]; `most` may name a field above: its value, or its length, is the most."""
    return _Integer(least=least, most=most, name=name, since=since).declared()


def flag(*, since: int = 0) -> Metadata:
    """Declare a truth value."""
    return _Flag(since=since).declared()


def text() -> Metadata:
    """Declare a text."""
    return _Text().declared()


def counters(*, added: Collection[str] = ()) -> Metadata:
    """Declare a dictionary of integers, saved as "count.KEY"; those `added` since may lack in an older state."""
    return _Counters(added=added).declared()


def tally() -> Metadata:
    """Declare a dictionary of integers by any names, which the state may lack or have besides, saved as a text."""
    return _Tally().declared()


def array(
    *,
    least: int | None = None,
    below: int | str | None = None,
    length: str | None = None,
    apart: bool = False,
    wide: bool = False,
    own: Sequence[int] = (),
    grows: str | None = None,
    name: str | None = None,
    since: int = 0,
    of: Of | None = None,
) -> Metadata:
    """Declare an array of values in [least, below), of the type and row shape of the field's default.

    It has as many rows as `length` tells, which is the name of a number, or of what has that length, above; or of the
    field itself: then as many as in a fresh object. `below` may be such a name, too. Values may have to be `apart`, all
    different. Rows are of any width if it is `wide`. What stands at its `own` places, which follows from the owner, is
    not taken from a state. `grows` names a field above for whose `capacity` it has room.
    """
    return _Array(
        least=least,
        below=below,
        length=length,
        apart=apart,
        wide=wide,
        own=own,
        grows=grows,
        name=name,
        since=since,
        of=of,
    ).declared()


def slots(*, fill: int = 0, saved: bool = True) -> Metadata:
    """Declare an array with a row for each slot: `Slotted` makes room for more of them, filled with `fill`.

    One that is not `saved` its owner works out from the rest.
    """
    return _Slots(least=None, below=None, length=None, fill=fill, saved=saved).declared()


def slot_fields(name: str) -> Metadata:
    """Declare a tuple of such arrays, saved as "name0", "name1" and so on."""
    return _Fields(least=None, below=None, length=None, fill=0, name=name).declared()


def sparse(
    values: str,
    *,
    name: str,
    fill: int = BEFORE_ALL,
    places: str | None = None,
    least: int | None = None,
    below: int | str | None = None,
) -> Metadata:
    """Declare an array that is mostly `fill`: where it is not is saved as `name`, what is there as `values`.

    `places` names a number that all these places are below; values are in [least, below). The owner makes room for
    more.
    """
    column = _Sparse(name=name, values=values, fill=fill, places=places, least=least, below=below, length=None)
    return column.declared()


def rebuilt() -> Metadata:
    """Declare an array that takes bytes and is not saved: its owner works it out from the rest."""
    return _Array(least=None, below=None, length=None, saved=False).declared()


def numbers(*, name: str | None = None) -> Metadata:
    """Declare a list of integers, or of floating numbers, of one length."""
    return _Numbers(name=name).declared()


def progress(*, name: str | None = None, since: int = 0) -> Metadata:
    """Declare a `Progress`: promises that are in force."""
    return _Progress(name=name, since=since).declared()


def progresses() -> Metadata:
    """Declare a tuple of them, saved as "name0", "name1" and so on."""
    return _Progresses().declared()


def batch(*, of: Of | None = None) -> Metadata:
    """Declare a record batch; one whose default is None may lack."""
    return _Batch(of=of).declared()


def batches(name: str) -> Metadata:
    """Declare a list of record batches, saved as "name0", "name1" and so on."""
    return _Batches(name=name).declared()


def pages(name: str) -> Metadata:
    """Declare a list of pages of one schema, saved as one page, with its promises where it is called "page"."""
    return _Pages(name=name).declared()


def meet(*, name: str | None = None) -> Metadata:
    """Declare a `Meet`: the promises of all ports."""
    return _Meet(name=name).declared()


def waiting() -> Metadata:
    """Declare a list of tuples of promises and integers."""
    return _Waiting().declared()


def plain(*, strict: bool = True, since: int = 0) -> Metadata:
    """Declare a sequence of None or of what gives its state as JSON values; unless `strict`, some may have come."""
    return _Plain(strict=strict, since=since).declared()


def part(
    make: Callable[[list[pa.Field]], Saves] | None = None,
    *,
    name: str | None = None,
    fields: str = "fields",
    slotted: bool = False,
    beside: bool = False,
    lacking: Callable[[Any], Saves] | None = None,
    of: Of | None = None,
    **told: str,
) -> Metadata:
    """Declare a part that saves itself; None is saved as nothing. If `slotted`, it grows with the slots of its owner.

    If `beside`, older states have its entries among those of its owner. `lacking` makes one for an owner without, where
    the state has one.
    With `make`, a part over key fields: the state holds them as `fields`, and a fresh one is made of them. Its fields
    are `told`, before it is restored, what a field or property of the owner, or of one of these, is by then:
    `capacity="pool.made"`.
    """
    asked = {key: attrgetter(path) for key, path in told.items()}
    return _Part(
        make=make, name=name, fields=fields, slotted=slotted, beside=beside, lacking=lacking, of=of, told=asked
    ).declared()


def counted(*, several: bool = False) -> Metadata:
    """Declare a part, or `several`, that takes bytes, or None, and is not saved: its owner saves it in its own way."""
    return (_Parts(saved=False) if several else _Part(make=None, saved=False)).declared()


def parts(name: str, *, of: Of | None = None) -> Metadata:
    """Declare a sequence of parts, some of them None, or the values of a mapping, saved as "name0" and so on."""
    return _Parts(name=name, of=of).declared()


def form(kind: Callable[[], Stateful], take: str, of: Of, *, optional: bool = False) -> Metadata:
    """Declare that a class is saved in another form than it has: as the fields of a `kind`.

    `of` makes one, and the method `take` becomes what one was made of. If `optional`, there may be none.
    """
    return _Form(kind=kind, take=take, of=of, optional=optional).declared()


def bound(bind: str, *others: str, name: str = "input", of: Of | None = None) -> Metadata:
    """Declare the schema of the input, or a tuple that begins with it; `bind` names the method that binds to it.

    The state has those of further inputs under the names of `others`.
    """
    return _Input(bind=bind, others=others, name=name, of=of).declared()


def _value(attribute: str, owner: Any) -> Any:
    return getattr(owner, attribute, None)


def _number(owner: Any, bound: int | str | None) -> int | None:
    """Return a bound: a number, or what a field or property of the owner, or of one of these, is or has as length."""
    if not isinstance(bound, str):
        return bound
    value = attrgetter(bound)(owner)
    return value if isinstance(value, int) else 0 if value is None else len(value)


def _numbered(value: Iterable[Any] | Mapping[Any, Any] | None) -> list[tuple[int, Any]]:
    parts = value.values() if isinstance(value, Mapping) else value or ()
    return [(number, one) for number, one in enumerate(parts) if one is not None]


def _summed(declared: Iterable[tuple[str, str, Column]]) -> Callable[[Any], int]:
    """Return what counts the bytes of an object: pages and promises ask it for their peaks, so arrays are read in C."""
    paths = [f"{attribute}.nbytes" for attribute, _, column in declared if column.sized]
    parts = [(attribute, column.nbytes) for attribute, _, column in declared if column.holds]
    read: attrgetter[Any] = attrgetter(*paths) if paths else attrgetter("_none")
    arrays: Callable[[Any], int] = read if len(paths) < 2 else lambda owner: sum(read(owner))
    if not parts:
        return arrays
    return lambda owner: arrays(owner) + sum([nbytes(getattr(owner, name, None)) for name, nbytes in parts])
