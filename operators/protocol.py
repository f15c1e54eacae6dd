"""An operator is a plain object that turns elements into elements; it never waits, and never learns who listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.page import Page
from operators.schema import Schema
from punctuation import Punctuation

Element: TypeAlias = Page | Punctuation
Emit: TypeAlias = Callable[[Element], None]
StateValue: TypeAlias = "npt.NDArray[np.generic] | pa.RecordBatch | int | float | str | bytes | bool | None"
State: TypeAlias = dict[str, StateValue]


@runtime_checkable
class Operator(Protocol):
    """What every operator has. Public fields say what it is, underscore fields what it remembers.

    The obligations are the laws of `operators.testing.check_operator`: *pass* what no future input can change, *keep*
    only what a permitted future tuple can touch, *propagate* every promise that stays true.
    """

    @property
    def inputs(self) -> int:
        """Number of input ports."""
        ...

    def output_schema(self, *inputs: Schema) -> Schema:
        """Give the schema of what is emitted; SchemaError when the operator does not fit its inputs.

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
        """Give everything remembered as arrays, record batches and scalars."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become the operator whose `state` this was; called on a fresh operator with the same public fields."""
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
        """Give counters by name; `state_tuples` and `state_bytes` say what is held, `late` what was refused."""
        ...


@runtime_checkable
class LetsGo(Protocol):
    """An operator that holds back, to save work behind it, what it could hand on at any time."""

    def let_go(self, emit: Emit) -> None:
        """Hand on all that is held back."""
        ...
