"""A check whether a value is of a protocol is remembered by class: what a class has stays while a run goes on.

`isinstance` looks up each member of a protocol each time, which takes 15 microseconds on Python 3.11. A short run asks
a hundred times and more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
_known: dict[tuple[type, type], bool] = {}
_members: dict[type, frozenset[str]] = {}


@runtime_checkable
class _Empty(Protocol):
    """A protocol without members, which has what every runtime protocol has: more in later versions of Python."""


_MACHINERY: Final = frozenset({*vars(_Empty), "__annotations__", "__init__", "__slots__", "__protocol_attrs__"})


def fits(value: object, protocol: type[T]) -> TypeIs[T]:
    """Return whether a value has what a runtime protocol asks for, as `isinstance` does.

    A class that has all members fits, and is remembered. So is one that lacks some and whose objects can have no
    attributes of their own; any other object is asked itself each time.

    >>> from operators.protocol import Measured
    >>> fits(5, Measured)
    False
    """
    kind = type(value)
    known = _known.get((kind, protocol))
    if known is not None:
        return known
    found = all(_has(kind, name) for name in _asked(protocol))
    if not found and (hasattr(value, "__dict__") or _has(kind, "__getattr__")):
        return isinstance(value, protocol)
    _known[kind, protocol] = found
    return found


def _has(kind: type, name: str) -> bool:
    """Return whether a class has an attribute that is not None; a method that is None takes one back."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None) is not None


def _asked(protocol: type) -> frozenset[str]:
    """Return the names of what a protocol and those that it extends ask for."""
    names = _members.get(protocol)
    if names is None:
        bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False) and base is not Protocol]
        declared = {name for base in bases for name in (*vars(base), *base.__annotations__)}
        names = _members[protocol] = frozenset(
            name for name in declared - _MACHINERY if not name.startswith(("_abc_", "_is_"))
        )
    return names
