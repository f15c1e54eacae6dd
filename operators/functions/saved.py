"""What a saved state holds is checked by kind when it is read, so that a wrong file is refused by the entry's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.protocol import State, StateValue
from operators.saved import ROOM, bounded

T = TypeVar("T", bound=np.generic)


def saved_array(state: Mapping[str, StateValue], name: str, *, like: npt.NDArray[T]) -> npt.NDArray[T]:
    """Give a writable copy of a saved array; ValueError unless it has the type and row shape of `like`."""
    value = state.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != like.dtype or value.shape[1:] != like.shape[1:]:
        raise ValueError(
            f'saved state: "{name}" is {_kind(value)}; an array of {like.dtype} with rows of shape {like.shape[1:]} is '
            "needed. Restore it with the aggregate that saved it."
        )
    return np.array(value, like.dtype)


def saved_int(state: Mapping[str, StateValue], name: str) -> int:
    """Give a saved whole number that is not negative; ValueError when there is none."""
    value = state.get(name)
    if not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ValueError(f'saved state: "{name}" is {_kind(value)}; a whole number is needed')
    return value


def saved_capacity(state: Mapping[str, StateValue]) -> int:
    """Give for how many slots there was room; ValueError where that is none."""
    return int(bounded(np.array([saved_int(state, "capacity")]), "capacity", below=ROOM)[0])


def saved_batch(state: Mapping[str, StateValue], name: str) -> pa.RecordBatch:
    """Give a saved record batch; ValueError when there is none."""
    value = state.get(name)
    if not isinstance(value, pa.RecordBatch):
        raise ValueError(f'saved state: "{name}" is {_kind(value)}; a record batch is needed')
    return value


def saved_part(state: Mapping[str, StateValue], name: str) -> State:
    """Give the entries that `part_of` put under a name."""
    return {key[len(name) + 1 :]: value for key, value in state.items() if key.startswith(name + ".")}


def part_of(name: str, state: Mapping[str, StateValue]) -> State:
    """Give the entries of a state under a name, to lie within a larger state."""
    return {f"{name}.{key}": value for key, value in state.items()}


def _kind(value: StateValue) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with rows of shape {value.shape[1:]}"
    if isinstance(value, int):
        return str(value)
    return "missing" if value is None else f"of type {type(value).__name__}"
