"""The facts that a plan needs of an operator before it runs: each is one method, and each method is optional.

Every protocol here is one fact. The function below it asks an operator for the fact, and has the answer for those that
state nothing: it is right for every operator that keeps the laws, and may cost more than necessary.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from operators.pace import Paces
from operators.protocol import Operator
from operators.schema import Schema

Attributes: TypeAlias = frozenset[str]


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
    if not isinstance(operator, ReadsSome):
        return [frozenset(schema.names) for schema in inputs]
    read = operator.attributes_read(wanted, *inputs)
    return [frozenset(schema.names).intersection(names) for schema, names in zip(inputs, read, strict=True)]


@runtime_checkable
class Narrowing(Protocol):
    """An operator that can leave attributes out of its output, and need not store them."""

    def keeping(self, names: Collection[str]) -> Operator:
        """Give the operator that puts out these attributes alone, of those that it has."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """An operator that has something to say to its user, who asks `explain`."""

    def remarks(self) -> tuple[str, ...]:
        """Give what it says, a line each."""
        ...


@runtime_checkable
class AsksForPromises(Protocol):
    """An operator that needs promises of its own, or makes those on its output from promises on other attributes."""

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        """Say which attributes of each input must be promised how finely, where `wanted` are asked of its output."""
        ...


def promises_asked(operator: Operator, wanted: Paces, inputs: Sequence[Schema]) -> list[Paces]:
    """Say which promises an operator asks of each input; where it does not say, what is asked of its output."""
    if isinstance(operator, AsksForPromises):
        return list(operator.promises_asked(dict(wanted), *inputs))
    return [{name: pace for name, pace in wanted.items() if name in schema} for schema in inputs]
