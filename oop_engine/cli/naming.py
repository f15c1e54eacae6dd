"""The options with which a query's streams are named, for all commands that take a query; loads nothing but click."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import click

from oop_engine.cli.options import expanded
from oop_engine.sources.kafka_places import is_kafka
from oop_engine.sources.said_format import FORMATS, said_format

if TYPE_CHECKING:
    from oop_engine.plan.graph import Late
    from oop_engine.sources.growing.listing import Order
    from oop_engine.sources.inputs import OnError

Command: TypeAlias = Callable[..., None]
_NAMED: Final = re.compile(r"(?:([^\W\d](?:[\w -]*[\w-])?)|`((?:[^`]|``)+)`)=(.*)", re.DOTALL)
"""A name, or one that stands in back-quotes as in the query, and what it is for."""
STDIN: Final = "-"
STDOUT: Final = "-"


@attrs.frozen
class Lines:
    """Say how files of lines are written, as `oop.table` takes it."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    time_format: str | None = None
    flatten: bool = False


@attrs.frozen
class Clocks:
    """Name the times from which clocks of senders are estimated: when a tuple came, and their own when it was sent."""

    arrival: str
    clock: str | None
    correct: bool


@attrs.frozen
class Naming:
    """The streams that the command line names, before any of them is opened."""

    places: Mapping[str, tuple[str, ...]]
    """Paths and patterns by name; the name "" stands for the only stream of the query."""
    slack: str | None
    on: str
    every: str | None
    punctuate: Mapping[str, tuple[str, ...]]
    """Punctuators as written, by name; "" for all streams."""
    late: Late
    late_to: str | None
    format: str | None
    types: Mapping[str, str]
    strict: bool
    on_error: OnError
    lull: str | None = None
    progress_by: tuple[str, ...] = ()
    clocks: Clocks | None = None
    """How the clocks of what makes progress of its own are estimated."""
    """The attributes of keys that make progress on their own, behind `slack` each."""
    idle: str = "1 minute"
    """How far time moves on until a silent key is no longer waited for."""
    late_share: str = "0.1 %"
    """The share of tuples that may be behind a slack that is learnt."""
    jump: str = "auto"
    """How far ahead a tuple may be to move a promise; "none" for any."""
    formats: Mapping[str, str] = attrs.field(factory=dict)
    """Formats that stand before paths, as in netflow:exports.pcap, by name."""
    elements: str | None = None
    """The file of elements of enterprises, whose names a query may use."""
    inner: bool = False
    """Whether packets in tunnels are read in place of those that hold them."""
    tables: Mapping[str, str] = attrs.field(factory=dict)
    """The files of tables that LOOKUP names."""
    follow: bool = False
    """Whether files grow, and others come."""
    order: Order = "name"
    """How new files are taken then."""
    checkpoint: str | None = None
    """The job, or the savepoint, whose first run found the columns of tables that grow."""
    lines: Lines = attrs.field(factory=lambda: Lines())
    """The form of files of lines."""

    def format_of(self, name: str) -> str | None:
        """Return the format of a stream, where one was said."""
        return self.formats.get(name if name in self.places else "", self.format)


def naming_options(command: Command) -> Command:
    """Add the options of `Naming` to a command, which gets them as one argument `naming`."""

    # The copied attributes are where click keeps the options that stand below this decorator.
    @functools.wraps(command)
    def wrapped(
        stream: tuple[str, ...],
        table: tuple[str, ...],
        slack: str | None,
        progress_by: str | None,
        idle: str | None,
        late_share: str | None,
        arrival: str | None,
        clock: str | None,
        correct_clocks: bool,
        on: str,
        every: str | None,
        punctuate: tuple[str, ...],
        lull: str | None,
        jump: str | None,
        late: Late | None,
        late_to: str | None,
        format_: str | None,
        types: tuple[str, ...],
        strict: bool,
        on_error: OnError,
        delimiter: str | None,
        decimal: str | None,
        encoding: str | None,
        time_format: str | None,
        flatten: bool,
        inner: bool,
        elements: str | None,
        follow: bool,
        follow_order: Order | None,
        **others: object,
    ) -> None:
        if late_to is not None and late not in (None, "divert"):
            raise click.UsageError(f"--late-to diverts late tuples, and --late {late} does not; leave out one.")
        if late == "divert" and late_to is None:
            raise click.UsageError("--late divert needs --late-to FILE for the late tuples.")
        if progress_by is not None and slack is None:
            raise click.UsageError(
                f"--progress-by {progress_by} needs --slack: how far a tuple may be behind its own {progress_by}."
            )
        if late_share is not None and slack != "auto":
            raise click.UsageError(f"--late-share {late_share} is for a slack that is learnt; write --slack auto.")
        if arrival is None and (clock is not None or correct_clocks):
            said = "--correct-clocks" if clock is None else f"--clock {clock}"
            raise click.UsageError(f"{said} needs --arrival: the time at which a tuple came by your own clock.")
        if progress_by is None and arrival is not None:
            raise click.UsageError(
                f"--arrival {arrival} is for clocks of senders; name their attribute with --progress-by."
            )
        if progress_by is None and idle is not None:
            raise click.UsageError(f"--idle {idle} is for silent keys; name their attribute with --progress-by.")
        if slack is None and every is None and not punctuate:
            said = {f"--on {on}": on != "ts", f"--lull {lull}": lull is not None, f"--jump {jump}": jump is not None}
            for option in (option for option, given in said.items() if given):
                raise click.UsageError(f"{option} needs a promise to apply to; add --slack, --every or --punctuate.")
        if follow_order is not None and not follow:
            raise click.UsageError(f"--follow-order {follow_order} is for files that grow; add --follow.")
        _no_more(click.get_current_context().args)
        places, formats = _places(stream)
        naming = Naming(
            places=places,
            formats=formats,
            slack=slack,
            progress_by=() if progress_by is None else tuple(name.strip() for name in progress_by.split(",")),
            clocks=None if arrival is None else Clocks(arrival, clock, correct_clocks),
            idle="1 minute" if idle is None else idle,
            late_share="0.1 %" if late_share is None else late_share,
            on=on,
            every=every,
            punctuate=_by_name(punctuate),
            lull=lull,
            jump="auto" if jump is None else jump,
            late="divert" if late_to is not None else late or "drop",
            late_to=late_to,
            format=format_,
            types=types_said(types),
            strict=strict,
            on_error=on_error,
            inner=inner,
            elements=None if elements is None else str(expanded(elements)),
            tables=tables_said(table),
            follow=follow,
            order=follow_order or "name",
            lines=Lines(delimiter, decimal, encoding, time_format, flatten),
        )
        command(naming=naming, **others)

    decorated: Command = wrapped
    for option in _OPTIONS[::-1]:
        decorated = option(decorated)
    return decorated


table_option: Final = click.option(
    "--table",
    multiple=True,
    metavar="NAME=PATH",
    help="A table that LOOKUP names: a CSV, TSV, NDJSON, Parquet or Arrow file. Can be given several times.",
)

elements_option: Final = click.option(
    "--elements",
    metavar="FILE",
    help="Names and types of enterprises' elements in IPFIX and NetFlow v9: JSON, a list of objects with pen, id, name "
    "and type, or CSV with these columns. The query then uses the names.",
)

_OPTIONS: Final[tuple[Callable[[Command], Command], ...]] = (
    click.option(
        "-s",
        "--stream",
        multiple=True,
        metavar="NAME=PATH",
        help="A stream of the query and its files: captures, flow exports, Zeek logs, CSV, NDJSON, Parquet, Arrow; or "
        "kafka://HOST:PORT/TOPIC?format=json (or arrow), which --slack 2s --progress-by partition goes with. For "
        'several files repeat it, or use patterns or commas. "-" is standard input, a capture unless --format says '
        "otherwise. With one stream, PATH is enough. NAME=netflow:PATH reads flow records out of a capture of exports; "
        "any --format can be written like this.",
    ),
    table_option,
    elements_option,
    click.option(
        "--slack",
        metavar="DURATION",
        help="Promise that no tuple is later than this, e.g. 2s. Files need no slack: their promises are exact. "
        '"auto" learns it while the stream is read, with --progress-by for each of these.',
    ),
    click.option(
        "--progress-by",
        metavar="ATTR[,ATTR]",
        help="Each exporter, sensor or node makes progress of its own: --slack is how far a tuple may be behind others "
        "of the same one. A clock that is ahead then makes no tuple of another late; windows wait for the slowest.",
    ),
    click.option(
        "--idle",
        metavar="DURATION",
        help="With --progress-by, wait no longer for one that is silent while another moves on so far. "
        "Default: 1 minute.",
    ),
    click.option(
        "--late-share",
        metavar="SHARE",
        help="With --slack auto, the share of tuples that may be late. Default: 0.1 %.",
    ),
    click.option(
        "--arrival",
        metavar="ATTR",
        help="With --progress-by, estimate the clock of each from this time, at which a tuple came by your own clock.",
    ),
    click.option(
        "--clock",
        metavar="ATTR",
        help="With --arrival, its own time when it sent a tuple, such as export_ts. Default: the time of --on.",
    ),
    click.option(
        "--correct-clocks", is_flag=True, help="With --arrival, correct the times of each by its estimated clock."
    ),
    click.option("--on", default="ts", show_default=True, metavar="ATTR", help="Attribute to make promises on."),
    click.option(
        "--every", metavar="DURATION", help="Promise once in this much time. Without --slack, streams must be in order."
    ),
    click.option(
        "--punctuate",
        multiple=True,
        metavar="[NAME=]HOW",
        help="Other promises: slack:2s, ordered, tuples:100, block:LENGTH (or an attribute), embedded:MARKER.",
    ),
    click.option(
        "--lull",
        metavar="DURATION",
        help="Standard input and named pipes are live: while nothing comes, promise the present time less this, so "
        "that a silent stream delays no window. Tuples that come later are late.",
    ),
    click.option(
        "--jump",
        metavar="DURATION",
        help="How far ahead a tuple may be and still move a promise. One that is further counts, but moves no promise "
        'until 16 in a row are that far, or with --lull the clock is. Default: 1h, with --lull 5m; "none": no limit.',
    ),
    click.option(
        "--late",
        type=click.Choice(["drop", "refuse", "revise", "divert"]),
        help="What to do with a tuple that breaks a promise: drop it (the default), refuse it as an error, pass it on "
        "to windows still open (revise), or write it to --late-to (divert). All are counted.",
    ),
    click.option("--late-to", metavar="FILE", help="Write late tuples, with the promise they broke, to this file."),
    click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        help="Format of the input, if neither suffix nor content shows it. Captures are recognised by content; if one "
        "contains flow exports, write netflow.",
    ),
    click.option(
        "--types",
        multiple=True,
        metavar="ATTR=TYPE,...",
        help="Types of columns: ip, timestamp, timestamp[ms], epoch, int, uint, float, decimal(18,2), text, bool, or a "
        "format of times.",
    ),
    click.option(
        "--strict",
        is_flag=True,
        help="Treat damage, and columns missing from the first lines, as errors; leave no output file.",
    ),
    click.option(
        "--inner",
        is_flag=True,
        help="Read the packets in tunnels (GRE, VXLAN, Geneve, GTP-U, IP in IP) in place of those that hold them.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["stop", "skip"]),
        default="stop",
        show_default=True,
        help="Where a file of a table cannot be read on: end the run, or leave out its rest (with --follow, the damaged"
        " lines), and name and count it.",
    ),
    click.option(
        "--follow",
        is_flag=True,
        help="Read on what is written to the files, and files that come, until the run is stopped. A stream is then a"
        " file, a pattern or a folder. Needs a promise, such as --slack 2s; --lull is for silence.",
    ),
    click.option(
        "--follow-order",
        type=click.Choice(["name", "time"]),
        help="With --follow, take new files by name (the default), or by when they were written last.",
    ),
    click.option("--delimiter", metavar="CHAR", help='What stands between the cells of CSV: ";", "|", tab.'),
    click.option("--decimal", metavar="CHAR", help='What stands in the numbers of CSV: "." or ",".'),
    click.option("--encoding", metavar="NAME", help="Encoding of text that is not UTF-8: latin-1, cp1252, utf-16."),
    click.option(
        "--time-format",
        metavar="FORMAT",
        help="How times are written in CSV and NDJSON, as strptime has it: '%m/%d/%Y %I:%M:%S %p'; %f is a fraction of"
        " a second. ISO 8601 needs no format. For one column write --types 'ts=%m/%d/%Y'.",
    ),
    click.option(
        "--flatten",
        is_flag=True,
        help='Make an attribute of each value in the objects of NDJSON: {"a": {"b": 1}} has the attribute a.b.',
    ),
)


def query_text(given: str) -> str:
    """Return the text of a query from the command line: as it is, from `@FILE`, or from standard input (`-`)."""
    if given == STDIN:
        # Start-up: help needs nothing of the engine.
        from oop_engine.sources.paths import standard_input

        return _text(standard_input().read(), "standard input, which should hold the query,")
    if given.startswith("@"):
        try:
            return _text(expanded(given[1:]).read_bytes(), f'"{given[1:]}"')
        except OSError as error:
            raise click.UsageError(
                f'the query file "{given[1:]}" (after "@") cannot be read: {error.strerror}.'
            ) from None
    # Python keeps bytes of arguments that are no text as halves of surrogate pairs.
    return _text(given.encode("utf-8", "surrogateescape"), "the query")


def _text(data: bytes, what: str) -> str:
    """Read text in UTF-8, with or without the mark that some editors put first; UsageError names the place if not."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        *lines, before = data[: error.start].decode("utf-8-sig").split("\n")
        place = f"line {len(lines) + 1}, column {len(before) + 1}"
        raise click.UsageError(
            f"{what} is no text in UTF-8: {place} has the byte 0x{data[error.start]:02x} ({error.reason})."
        ) from None


def _places(given: tuple[str, ...]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    found: dict[str, tuple[str, ...]] = {}
    formats: dict[str, str] = {}
    for text in given:
        name, paths = ("", text) if os.path.exists(text) else _named(text)
        said, paths = said_format(paths)
        if said is not None and formats.setdefault(name, said) != said:
            raise click.UsageError(f"stream {name} is to be read as {formats[name]} and as {said}; name it twice.")
        # A file whose name has a comma is taken whole, and so are the brokers of a topic.
        whole = os.path.exists(paths) or is_kafka(paths)
        parts = (paths,) if whole else tuple(part.strip() for part in paths.split(","))
        if not all(parts):
            raise click.UsageError(f'--stream "{text}" names no file; write --stream {name or "NAME"}=PATH.')
        found[name] = (*found.get(name, ()), *parts)
    if "" in found and len(found) > 1:
        raise click.UsageError(
            f'--stream "{found[""][0]}" has no name, and other streams have; write --stream NAME={found[""][0]}.'
        )
    if sum(part == STDIN for parts in found.values() for part in parts) > 1:
        raise click.UsageError('standard input ("-") can be read by one stream only.')
    return found, formats


def tables_said(given: tuple[str, ...]) -> dict[str, str]:
    """Return the files of tables by name, as --table gives them; UsageError for what is none."""
    found: dict[str, str] = {}
    for text in given:
        name, path = _named(text)
        if not name or not path:
            raise click.UsageError(f'--table "{text}": write NAME=PATH, e.g. --table hosts=hosts.csv')
        if name in found:
            raise click.UsageError(f'--table {name} is given twice, as "{found[name]}" and "{path}"; name one file.')
        found[name] = str(expanded(path))
    return found


def _named(text: str) -> tuple[str, str]:
    """Split NAME=WHAT; a text without a name has the name ""."""
    match = _NAMED.fullmatch(text)
    return ("", text) if match is None else (match[1] or match[2].replace("``", "`"), match[3])


def _no_more(others: Sequence[str]) -> None:
    """Refuse arguments behind the query: streams are named by an option."""
    if others:
        name, _ = _named(others[0])
        raise click.UsageError(
            f'"{others[0]}" is one argument too many; a stream is named by an option: --stream {others[0]}'
            f"{'' if name else f' (or NAME={others[0]})'}."
        )


def _by_name(given: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, how = _named(text)
        found[name] = (*found.get(name, ()), how)
    return found


_BETWEEN_TYPES: Final = re.compile(r",(?![^(]*\))")
"""A comma between types, and none in the parentheses of one, as in decimal(18, 2)."""


def types_said(given: tuple[str, ...]) -> dict[str, str]:
    """Read the types of columns as the command line writes them; UsageError for what is none."""
    found: dict[str, str] = {}
    for pair in (pair.strip() for text in given for pair in _BETWEEN_TYPES.split(text)):
        name, equals, kind = pair.partition("=")
        if not equals or not name or not kind:
            raise click.UsageError(f'--types "{pair}": write ATTR=TYPE, e.g. --types srcIP=ip,ts=timestamp')
        found[name.strip()] = kind.strip()
    return found
