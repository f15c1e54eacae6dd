"""Send operators by class and public fields, without their state, to be made anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

_OF_OPERATORS = ("process", "punctuate", "restore")


@attrs.frozen(eq=False)
class Prototype:
    """An operator to be made anew from its public fields."""

    kind: Callable[..., object]
    fields: Mapping[str, object]

    def made(self) -> object:
        """Make the operator."""
        return self.kind(**{name: unpacked(value) for name, value in self.fields.items()})


def packed(value: object) -> object:
    """Return a value in which every operator is a prototype; what remembers nothing stays what it is."""
    if isinstance(value, tuple | list):
        parts = [packed(item) for item in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else type(value)(parts)
    if isinstance(value, dict):
        return {name: packed(item) for name, item in value.items()}
    kind = type(value)
    # An expression answers to any name, so it is the class that is asked.
    if not attrs.has(kind) or not all(hasattr(kind, name) for name in _OF_OPERATORS):
        return value
    return Prototype(kind, {a.alias: packed(getattr(value, a.name)) for a in attrs.fields(kind) if a.init})


def unpacked(value: object) -> object:
    """Return what `packed` was given, with fresh objects in the place of prototypes."""
    if isinstance(value, Prototype):
        return value.made()
    if isinstance(value, tuple | list):
        return type(value)(unpacked(item) for item in value)
    if isinstance(value, dict):
        return {name: unpacked(item) for name, item in value.items()}
    return value
