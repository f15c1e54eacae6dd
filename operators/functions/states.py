"""The states of a user's aggregate lie in one column for each of their fields, and its functions run between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.errors import AggregateFailure, AggregateOverflow, SchemaError
from operators.functions.arguments import floating, is_floating, plain, result, whole
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.protocol import Slots
from operators.functions.refusal import reason
from operators.functions.trial import Laws, Scalar, State
from operators.kernels.functions import lifted
from operators.kernels.functions.checked import Wrapped

Column: TypeAlias = "npt.NDArray[np.generic]"
Loop: TypeAlias = Callable[..., object]


_BEYOND = -1
"""The number of tuples of a slot of which a whole number left 64 bits."""
_FLOATING = "Give a floating number, and declare output=pa.float64()."
_SMALLER = (
    "Let that field be floating: lift to float(x) and write 0.0 in identity; or keep it small, as by % in combine."
)


@attrs.frozen(eq=False)
class Verbs:
    """The loops of one aggregate over arguments of some types, compiled when they are first called."""

    laws: Laws
    types: tuple[np.dtype[np.generic], ...]
    update: Loop
    merge: Loop
    separate: Loop | None
    lower: Loop

    @classmethod
    def of(cls, laws: Laws, types: tuple[np.dtype[np.generic], ...], *, interpreted: bool) -> Verbs:
        """Make the loops; only states without floating numbers can be taken away exactly, so only they are."""
        lift = lifted.tupled(laws.lift, 0, laws.scalar, interpreted=interpreted)
        combine = lifted.tupled(laws.combine, 2, laws.scalar, interpreted=interpreted)
        separate = None
        if laws.invert is not None and np.dtype(np.float64) not in types:
            invert = lifted.tupled(laws.invert, 2, laws.scalar, interpreted=interpreted)
            separate = lifted.inverting(invert, interpreted=interpreted)
        return cls(
            laws,
            types,
            lifted.updating(lift, combine, interpreted=interpreted),
            lifted.combining(combine, interpreted=interpreted),
            separate,
            lifted.lowering(laws.lower, laws.scalar, interpreted=interpreted),
        )

    def identity(self) -> tuple[Column, ...]:
        """Return the identity in columns of one entry."""
        return tuple(np.array([v], t) for v, t in zip(self.laws.identity, self.types, strict=True))

    def check_compiled(self, laws: Laws, kinds: Sequence[pa.DataType], values: Sequence[tuple[Scalar, ...]]) -> None:
        """Compile each function by itself, so that an error names it and says why."""
        numbers = [float(v) if is_floating(kind) else int(v) for v, kind in zip(values[0], kinds, strict=True)]
        state = tuple(t.type(v).item() for v, t in zip(laws.identity, self.types, strict=True))
        shown = laws.show(state)
        trials: list[tuple[str, tuple[object, ...]]] = [
            ("lift", tuple(numbers)),
            ("combine", (shown, shown)),
            ("lower", (shown,)),
        ]
        if self.separate is not None:
            trials.append(("invert", (shown, shown)))
        for part, given in trials:
            function = getattr(laws, part)
            refused = lifted.refusal(function, given)
            if refused is not None:
                raise laws.error(
                    f"{part} cannot be compiled: {reason(refused, function)}",
                    "Write it with numbers, tuples, if, for and the functions of math; or pass interpreted=True, "
                    "which takes some microseconds a tuple instead of nanoseconds.",
                )


@attrs.define(eq=False)
class States(StateColumns):
    """Hold a state and the number of its tuples a slot."""

    fields: Sequence[pa.Field]
    output: pa.DataType
    verbs: Verbs
    _columns: tuple[Column, ...] = attrs.field(init=False, metadata=memory.slot_fields("field"))
    _numbers: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), init=False, metadata=memory.slots())
    _done: Int64s = attrs.field(factory=lambda: np.zeros(1, np.int64), init=False)

    def __attrs_post_init__(self) -> None:
        self._columns = tuple(np.zeros(0, kind) for kind in self.verbs.types)

    def init(self, slots: Slots) -> None:
        self._numbers[slots] = 0
        for column, value in zip(self._columns, self.verbs.laws.identity, strict=True):
            column[slots] = value

    def update(self, slots: Slots, page: Page) -> None:
        valid: Bools | None = None
        for field in self.fields:
            there = page.valid(field.name)
            valid = there if valid is None else valid if there is None else valid & there
        slots, skipped = present(slots, valid)
        self.nulls += skipped
        self.add(slots, tuple(_numbers_of(page, field) for field in self.fields))

    def add(self, slots: Slots, arguments: tuple[Column, ...]) -> None:
        """Add tuples given by their arguments; AggregateFailure names the tuple for which a function raises."""
        slots, arguments = frozen(slots), tuple(frozen(a) for a in arguments)
        while True:
            try:
                self.verbs.update(slots, arguments, self._columns, self._numbers, self._done)
                return
            except Wrapped:
                after = int(self._done[0]) + 1
                self._numbers[slots[after - 1]] = _BEYOND
                slots, arguments = slots[after:], tuple(a[after:] for a in arguments)
            except Exception as error:
                raise self._failed_update(slots, arguments, error) from error

    def combine(self, into: Slots, source: Slots) -> None:
        self._run("combine", self.verbs.merge, into, source, ())

    def finalize(self, slots: Slots) -> pa.Array:
        slots = frozen(slots)
        if len(beyond := slots[self._numbers[slots] < 0]):
            raise self._overflow(int(beyond[0]), "a whole number in its state", _SMALLER)
        results = np.zeros(len(slots), np.float64 if is_floating(self.output) else np.int64)
        there = np.zeros(len(slots), np.bool_)
        try:
            self.verbs.lower(slots, self._columns, self._numbers, results, there, self._done)
        except (Wrapped, OverflowError) as error:
            slot = int(slots[int(self._done[0])])
            if isinstance(error, OverflowError) and not self._lowers(slot):
                raise self._failed("lower", (slots,), error) from error
            raise self._overflow(slot, "a whole number in lower", _FLOATING) from error
        except Exception as error:
            raise self._failed("lower", (slots,), error) from error
        self._check_range(slots, results, there)
        return result(results, there, self.output)

    def free(self, slots: Slots) -> None:
        pass

    def beyond(self, slot: int) -> bool:
        """Return whether a whole number in the state of a slot left 64 bits."""
        return bool(self._numbers[slot] < 0)

    def held(self, slot: int) -> State:
        """Return the state of a slot as Python numbers."""
        return tuple(column[slot].item() for column in self._columns)

    def _run(self, part: str, loop: Loop, into: Slots, source: Slots, more: tuple[object, ...]) -> None:
        """Run a loop over pairs of slots; where a state leaves 64 bits, note it and go on behind it."""
        into, source = frozen(into), frozen(source)
        while True:
            try:
                loop(into, source, self._columns, self._numbers, *more, self._done)
                return
            except Wrapped:
                after = int(self._done[0]) + 1
                self._numbers[into[after - 1]] = _BEYOND
                into, source = into[after:], source[after:]
            except Exception as error:
                raise self._failed(part, (into, source), error) from error

    def _check_range(self, slots: Slots, results: npt.NDArray[np.generic], there: Bools) -> None:
        """Check that whole results are values of their type; AggregateOverflow names the first that is not."""
        bounds = _bounds(self.output)
        if bounds is None:
            return
        whole_results = results.astype(np.int64, copy=False)
        wrong = np.flatnonzero(there & ((whole_results < bounds[0]) | (whole_results > bounds[1])))
        if len(wrong):
            at = int(wrong[0])
            raise self._overflow(int(slots[at]), f"the result {whole_results[at]}", "Declare output=pa.int64().")

    def _lowers(self, slot: int) -> bool:
        """Return whether lower gives something for a slot, be it too large."""
        laws = self.verbs.laws
        try:
            laws.call("lower", laws.show(self.held(slot)))
        except SchemaError:
            return False
        return True

    def _overflow(self, slot: int, what: str, instead: str) -> AggregateOverflow:
        where = f"{self.verbs.laws.name}({', '.join(field.name for field in self.fields)})"
        fits = "64 bits" if _bounds(self.output) is None or "whole number" in what else str(self.output)
        error = AggregateOverflow(f"{where}: {what} does not fit {fits}.\n  {instead}")
        error.slot = slot
        return error

    def _failed_update(self, slots: Slots, arguments: tuple[Column, ...], error: Exception) -> AggregateFailure:
        """Say for which tuple a function raised: its slot is as it was, so it raises again when it is called alone."""
        laws, i = self.verbs.laws, int(self._done[0])
        try:
            lifted_state = laws.state("lift", *(column[i].item() for column in arguments))
            laws.state("combine", self.held(int(slots[i])), lifted_state)
        except SchemaError as found:
            return AggregateFailure(str(found))
        return AggregateFailure(f'aggregate "{laws.name}": {type(error).__name__}: {error}.')

    def _failed(self, part: str, slots: tuple[Slots, ...], error: Exception) -> AggregateFailure:
        laws, j = self.verbs.laws, int(self._done[0])
        given = ", ".join(repr(laws.show(self.held(int(side[j])))) for side in slots)
        return AggregateFailure(f'aggregate "{laws.name}": {part}({given}) raises {type(error).__name__}: {error}.')


@attrs.define(eq=False)
class InvertibleStates(States):
    """Hold states from which others can be taken away again."""

    def subtract(self, into: Slots, source: Slots) -> None:
        """Take states away; of no tuples, the identity is left."""
        assert self.verbs.separate is not None, "only made of verbs that invert"
        self._run("invert", self.verbs.separate, into, source, (self.verbs.identity(),))


def _bounds(kind: pa.DataType) -> tuple[int, int] | None:
    """Return the least and the greatest value of a whole type that is narrower than 64 bits."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        kind = pa.int32()
    if not pa.types.is_integer(kind) or pa.types.is_int64(kind):
        return None
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)


def _numbers_of(page: Page, field: pa.Field) -> Column:
    column = plain(page, field.name)
    return floating(column) if is_floating(field.type) else whole(column)
