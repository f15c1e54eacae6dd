"""A package gives its public names when they are first used, so that what is not used is not loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType


def lazily(
    package: str, places: Mapping[str, str], *, rooms: Sequence[str] = (), before: Callable[[], None] | None = None
) -> dict[str, str]:
    """Let a package load its names from where they are at first use; give the home of each.

    `places` tells the names of each module, between spaces; `rooms` are packages in it that are loaded likewise;
    `before` is called before anything is loaded. Called by the package itself, which then keeps its names what they
    are: importing its module `session` does not put that in the place of a function `session`.
    """
    homes = {name: place for place, names in places.items() for name in names.split()}

    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            if name in rooms:
                return import_module(f"{package}.{name}")
            if name not in homes:
                raise AttributeError(f"module {package!r} has no attribute {name!r}{_hint(name, homes)}")
            if before is not None:
                before()
            value = getattr(import_module(homes[name]), name)
            setattr(self, name, value)
            return value

        def __setattr__(self, name: str, value: object) -> None:
            if name not in homes or not isinstance(value, ModuleType):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*vars(self), *homes})

        def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
            """Go by name to other processes, as modules do: functions that Spark ships may refer to the package."""
            return import_module, (package,)

    sys.modules[package].__class__ = Lazy
    return homes


def _hint(name: str, homes: Mapping[str, str]) -> str:
    """Say what may be meant; nothing of a name that Python itself asks for."""
    # Start-up: only unknown names are compared.
    from difflib import get_close_matches

    near = [] if name.startswith("_") else get_close_matches(name, homes, 1)
    return f". Did you mean {near[0]!r}?" if near else ""
