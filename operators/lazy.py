"""Import the modules of a package's names when these are first used, so that a plan loads what it computes with.

`oop_engine.lazy` does the same for `oop_engine`, which must not load `operators` before it has looked for a module of
the user's own that hides it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """A package whose functions stay what they are when a module of the same name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and callable(vars(self).get(name))):
            super().__setattr__(name, value)


def is_of(value: object, module: str, *names: str) -> bool:
    """Return whether a value is of one of a module's classes, without importing that module.

    >>> is_of(5, "fractions", "Fraction")
    False
    """
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, tuple(getattr(loaded, name) for name in names))


def loader(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: `places` tells the names of each of its modules, between spaces."""
    homes = {name: place for place, names in places.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    sys.modules[package].__class__ = _Package
    return load
