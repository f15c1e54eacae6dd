"""An operator is a plain object that turns elements into elements; it never waits, and never learns who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema
from punctuation import Punctuation, before

Element: TypeAlias = Page | Punctuation
Emit: TypeAlias = Callable[[Element], None]


@attrs.frozen(eq=False)
class Outside:
    """Bytes of a state that are not in memory; they can be read as long as somebody has this."""

    size: int
    read: Callable[[], bytes] = attrs.field(repr=False)
    """Gives them, from any thread."""


StateValue: TypeAlias = "npt.NDArray[np.generic] | pa.RecordBatch | Outside | int | float | str | bytes | bool | None"
State: TypeAlias = dict[str, StateValue]


@runtime_checkable
class Operator(Protocol):
    """The methods that every operator has. Public fields are its parameters, underscore fields its state.

    The obligations are the laws of `operators.testing.check_operator`: *pass* what no future input can change, *keep*
    only what a permitted future tuple can touch, *propagate* every promise that stays true.
    """

    @property
    def inputs(self) -> int:
        """Return the number of input ports."""
        ...

    def output_schema(self, *inputs: Schema) -> Schema:
        """Return the schema of what is emitted; SchemaError when the operator does not fit its inputs.

        Public fields stay as they are; underscore fields may remember what was worked out, until it is called again.
        """
        ...

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        """Take a page on a port and emit what no future input can change."""
        ...

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        """Take a promise on a port, emit what it settled, then the promises that follow from it."""
        ...

    def state(self) -> State:
        """Return everything remembered as arrays, record batches and scalars."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become the operator whose `state` this was; called on a fresh operator with the same public fields."""
        ...


@attrs.frozen(eq=False)
class Promises:
    """Hold linear promises in a page: `[attribute < bounds[i]]` stands behind its first `positions[i]` tuples."""

    attribute: str
    positions: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    assumed: bool = False
    """Whether a timer or a heartbeat concluded them."""

    def one_by_one(self, page: Page) -> Iterator[Element]:
        """Yield the page in pieces, each promise after the tuples that it follows."""
        start = 0
        for position, bound in zip(self.positions.tolist(), self.bounds.tolist(), strict=True):
            if position > start:
                yield page.slice(start, position)
                start = position
            yield before(self.attribute, bound, assumed=self.assumed)
        if start < len(page):
            yield page.slice(start, len(page)) if start else page

    def among(self, kept: npt.NDArray[np.bool_]) -> Promises:
        """Return the same promises in the page of the tuples that are kept, shape (n,)."""
        before_it = np.append(0, np.cumsum(kept))
        return attrs.evolve(self, positions=before_it[self.positions])

    def hand_on(self, page: Page, emit: Emit) -> None:
        """Emit a page with these promises in it: at once where that is taken, or else in pieces."""
        if len(page) and len(self.positions) and isinstance(emit, EmitsTogether):
            emit.together(page, self)
            return
        for element in self.one_by_one(page):
            emit(element)


@runtime_checkable
class TakesPromises(Operator, Protocol):
    """An operator to which a page may come with the promises in it, in one call: each of these costs little then."""

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        """Take a page and the linear promises in it, as `process` and `punctuate` do piece by piece.

        It emits the same tuples in the same call; of the promises that follow the last ones are enough.
        """
        ...


@runtime_checkable
class EmitsTogether(Protocol):
    """An `Emit` behind which an operator takes a page with its promises."""

    def __call__(self, element: Element) -> None: ...

    def together(self, page: Page, promises: Promises) -> None:
        """Emit a page and the linear promises in it, of which there is one at least."""
        ...


@runtime_checkable
class OneByOne(Operator, Protocol):
    """An operator that takes each tuple by itself: what it makes of one depends on no other, and on no promise.

    Windows behind it take late tuples as they would without it, and on Spark it runs in every part of its input.
    """

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        """Name the attribute of the inputs that one of the output is, values and promises as they are; None if none."""
        ...


@runtime_checkable
class Measured(Protocol):
    """An operator that tells about itself while it runs."""

    def statistics(self) -> dict[str, int]:
        """Return counters by name; `state_tuples` and `state_bytes` say what is held, `late` what was refused."""
        ...


@runtime_checkable
class LetsGo(Protocol):
    """An operator that holds back, to save work behind it, what it could hand on at any time."""

    def let_go(self, emit: Emit) -> None:
        """Hand on all that is held back."""
        ...


@runtime_checkable
class GoesOn(Protocol):
    """An operator that bounds its own memory: what a call completes it may give in parts, each in a call of its own."""

    @property
    def unfinished(self) -> bool:
        """Return whether the last call has left parts; the next call gives them before it does anything else."""
        ...

    def go_on(self, emit: Emit) -> bool:
        """Emit the next part; return whether parts are left."""
        ...


@attrs.frozen
class RefusedIn:
    """Count the tuples that one window of an operator refused.

    - `operator`: its label.
    - `window`: the name of the window, empty where it has none.
    - `wid`, `start`, `end`: its number, its first tick, and the one behind its last, as results have them.
    - `tuples`: how many of its tuples are in none of its results.
    """

    operator: str
    window: str
    wid: int
    start: int
    end: int
    tuples: int


@runtime_checkable
class RefusesGroups(Protocol):
    """An operator that bounds its own memory: groups that are new beyond a limit are refused, and counted by window."""

    @property
    def sheds(self) -> bool:
        """Return whether a tuple was refused."""
        ...

    def extents(self) -> Iterator[tuple[int, int]]:
        """Yield the first tick of each window that refused tuples, and the one behind its last."""
        ...

    def refused(self, label: str = "") -> Iterator[RefusedIn]:
        """Yield how many tuples each window refused; `label` is what the operator is called there."""
        ...
