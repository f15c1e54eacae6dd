"""Import modules under their names of version 0.1, with a warning, until version 0.3.

Python asks this finder only for modules that no other finder knows, so it costs nothing where new names are used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_FOLDERS = {
    "punctuation": "asked=demanded_progress",
    "operators.data": (
        "address batches described=group_text durations expiry keys labels memory page printable readable saved schema"
    ),
    "operators.rows": "apply distinct filter largest number project spread",
    "operators.streams": (
        "aggregate.named=named_groups broken=broken_promises clamp disorder guard held=sort_buffer input meld merge "
        "reorder"
    ),
    "operators.window_aggregate": "aggregate.facts aggregate.groupby=group_by bucket early two_level=partial_final",
    "operators.window_aggregate.stores": "aggregate=per_window ranked slicing=slices stacks",
    "operators.window_aggregate.stores.slices": "slicing.asked=user_windows",
    "operators.baselines": "adaptive buffering=buffer negative",
    "oop_engine.api": (
        "computed=column_expressions disorder early given=in_memory in_order join output promising read "
        "running stream windowed windowing"
    ),
    "oop_engine.language": "language.placed=error_position translate",
    "oop_engine.plan": (
        "aggregates entry=arrival_attributes language.durations punctuate retractions strategies ticks "
        "window_join windows"
    ),
    "oop_engine": "language.errors=query_errors language.span",
    "oop_engine.processes": "processes.levels=partial_final",
    "oop_engine.rewrite": (
        "beside=window_groups blame=unreleasable demand fusion lateness physical=strategy prepared=passes "
        "rewrite.wanted=source_filters sharing state_size taking=late_tolerance wanted=source_filters"
    ),
    "oop_engine.drive": (
        "circuit growth memory meter notes=run_warnings outcome overwriting readings runtime synchronous "
        "turns twin=snapshot watchdog"
    ),
    "oop_engine.report": "disorder_report disorder_words drawing explain facts layout=graph_layout scatter",
    "oop_engine.sources": "sources.asked=demanded_progress",
    "oop_engine.sources.flows": (
        "sources.flows.learnt=exporter_state sources.flows.looks=progress_checks sources.flows.silence=heartbeats"
    ),
    "oop_engine.spark": (
        "spark.ahead=map_side spark.ending=end_of_stream spark.given=in_memory "
        "spark.known=file_fingerprint spark.levels=partial_final spark.marked=end_marker "
        "spark.places=paths spark.room=stage_run"
    ),
}
"""New folder: the modules that moved into it, each under its last name or as old=new."""


def _places() -> dict[str, str]:
    """Return the new name of each module that moved, by its old name."""
    places: dict[str, str] = {}
    for folder, names in _FOLDERS.items():
        root = folder.partition(".")[0]
        for name in names.split():
            old, _, new = name.partition("=")
            places[f"{root}.{old}"] = f"{folder}.{new or old.rpartition('.')[2]}"
    return places


class _Moved(MetaPathFinder, Loader):
    """Find a module that moved under its new name."""

    def __init__(self) -> None:
        self._places = _places()
        self._spec: ModuleSpec | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that loads the module of the new name; None when the name is none of the old ones."""
        if self.new_name(fullname) is None:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def new_name(self, name: str) -> str | None:
        """Return the new name of a module or of one inside a package that moved; None when there is none."""
        head, tail = name, ""
        while head:
            if head in self._places:
                return self._places[head] + tail
            head, dot, last = head.rpartition(".")
            tail = dot + last + tail
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, which then has two names."""
        new = self.new_name(spec.name)
        assert new is not None
        warnings.warn(
            f"{spec.name} is now {new}; the old name works until version 0.3", DeprecationWarning, stacklevel=2
        )
        if sys.meta_path[0] is not self:  # else the modules of a package that moved would be loaded a second time
            sys.meta_path.remove(self)
            sys.meta_path.insert(0, self)
        module = importlib.import_module(new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it was executed under its new name."""
        module.__spec__ = self._spec


FINDER: Final = _Moved()


def install() -> None:
    """Let old names be imported; calling it again changes nothing."""
    if FINDER not in sys.meta_path:
        sys.meta_path.append(FINDER)
