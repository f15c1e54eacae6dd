"""Streams of files and folders that grow, for `oop.read(..., follow=True)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import attrs
import pyarrow as pa

from oop_engine.drive.checkpoints.found_columns import kept_columns
from oop_engine.errors import PlanError
from oop_engine.sources.flows import FlowExports, NfdumpFiles, ZeekLogs
from oop_engine.sources.growing.kinds import GrowingTables, growing
from oop_engine.sources.growing.listing import Order, listed
from oop_engine.sources.growing.source import Growing, first_of
from oop_engine.sources.inputs import SUFFIXES, OnError
from oop_engine.sources.kafka_places import KAFKA
from oop_engine.sources.kind import kind_of
from oop_engine.sources.packets import Packets
from oop_engine.sources.protocol import Source
from oop_engine.sources.text_form import TextForm

if TYPE_CHECKING:
    from oop_engine.sources import flows

_CAPTURES: Final = (".pcap", ".pcapng", ".cap")
_PACKED: Final = (".gz", ".zst", ".zstd")


@attrs.frozen
class Followed:
    """Hold the options of files that grow, as `oop.read` takes it."""

    kind: str
    order: Order
    strict: bool
    types: Mapping[str, str | pa.DataType] | None
    columns: Sequence[str | flows.Element]
    delimiter: str | None
    decimal: str | None
    encoding: str | None
    time_format: str | None
    flatten: bool
    on_error: OnError = "stop"
    checkpoint: str | Path | None = None
    """The job, or the savepoint, that knows what columns its first run found."""


def followed(places: Sequence[str | Path | BinaryIO], how: Followed, label: str) -> Growing:
    """Return the stream of files that grow; PlanError for places that are no files, SourceError where none comes."""
    if how.kind == KAFKA:
        raise PlanError("follow: a topic of Kafka is read on without it; leave it out.")
    other = next((place for place in places if not isinstance(place, (str, Path)) or str(place) == "-"), None)
    if other is not None:
        raise PlanError("follow: standard input and open streams are read on as they are; leave it out.")
    # A run that goes on may begin in another folder.
    paths = [Path(str(place)).expanduser().absolute() for place in places]

    def source(files: Sequence[Path]) -> Source:
        match how.kind:
            case "netflow":
                return FlowExports(files, columns=how.columns, label=label, strict=how.strict)
            case "zeek":
                return ZeekLogs(files, label=label, strict=how.strict)
            case "nfdump":
                return NfdumpFiles(files, label=label)
            case _:
                return Packets(files, label=label, strict=how.strict)

    if how.kind in ("pcap", "netflow", "zeek", "nfdump"):
        return growing(source, how.kind, paths, how.order, label)
    form = TextForm(how.delimiter, how.decimal, how.encoding, how.time_format, how.flatten)
    before = None if how.checkpoint is None else kept_columns(Path(how.checkpoint).expanduser(), paths, label, how.kind)
    tables = GrowingTables(how.kind, how.types, how.strict, form, how.on_error)
    return tables.growing(paths, how.order, label, before)


def kind_of_growing(places: Sequence[Path]) -> str:
    """Return how files are read that grow: by the suffix of the place, else by the first file that comes."""
    first = places[0]
    there = listed(places, "name")
    names = [first, *(file.path for file in there[:1])]
    for name in names:
        suffixes = [suffix.lower().rstrip("*") for suffix in name.suffixes]
        # A log that was renamed has a number or a date behind its name.
        while suffixes and (suffixes[-1] in _PACKED or not suffixes[-1][1:] or suffixes[-1][1:2].isdigit()):
            suffixes.pop()
        if suffixes and suffixes[-1] in SUFFIXES:
            return SUFFIXES[suffixes[-1]]
        if suffixes and suffixes[-1] in _CAPTURES and not (name.is_file() and kind_of(name)):
            return "pcap"
    found = first_of(places, "name", lambda path: True, ", or say its format (--format, in Python format=)")
    return kind_of(found) or "pcap"
