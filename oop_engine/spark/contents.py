"""Recognise files with packets and files with flow exports by content; names only choose which captures to look into.

A file of datagrams holds flow exports, whatever its name. A capture holds them if its name matches one of the patterns
that say so, and there are export datagrams in it; every other file is read as packets, so that none is read as neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.captured import PORTS
from oop_engine.sources.flows.source import feed_of
from oop_engine.sources.flows.stored import StoredDatagrams
from oop_engine.spark.options import Options

Kind: TypeAlias = Literal["packets", "exports"]


@attrs.frozen
class Contents:
    """The parts of a mixed folder that a query reads."""

    kind: Kind
    patterns: tuple[str, ...]
    """Names of captures that may hold flow exports."""
    ports: frozenset[int] = PORTS
    """Ports of the collectors to which export datagrams are sent; every port where there are none."""

    @classmethod
    def of(cls, options: Options, kind: Kind, ports: Sequence[int] | None = None) -> Contents | None:
        """Read the option `exports`; None where the query takes every file for what it reads."""
        patterns = options.names("exports")
        return None if patterns is None else cls(kind, patterns, PORTS if ports is None else frozenset(ports))

    def takes(self, path: Path) -> bool:
        """Return whether a file is one to read; FileNotFoundError when there is none."""
        return self.kind == self._held(path)

    def _held(self, path: Path) -> Kind | None:
        """Return what a file holds; None while nobody can tell: no packet is in it yet."""
        try:
            feed = feed_of(path, self.ports)
        except SourceError:  # the reader of packets says what is wrong with it
            return "packets"
        if isinstance(feed, StoredDatagrams):
            return "exports"
        if not any(fnmatch(path.name, pattern) for pattern in self.patterns):
            return "packets"
        try:
            if any(feed.found for _ in feed.blocks()):
                return "exports"
        except DecodeError:
            return "packets"
        return "packets" if feed.capture.counts["packets"] else None
