"""Open, punctuate and name the streams of the command line as the query names them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import attrs
import click

from oop_engine.api.read import kind_read, read, taken
from oop_engine.api.stream import Stream
from oop_engine.cli.naming import STDIN, STDOUT, Naming
from oop_engine.language import parse, parse_duration
from oop_engine.language.translate.files import attributes_beyond, format_and_path
from oop_engine.language.walk import tables_of
from oop_engine.plan.punctuate import Promise, blocks, by_key, embedded, ordered, tuple_slack
from oop_engine.plan.punctuate import slack as slack_promise
from oop_engine.query_errors import LanguageError
from oop_engine.sources.kafka_places import is_endless
from oop_engine.sources.said_format import said_format

KINDS = "slack:2s, ordered, tuples:100, block:LENGTH, embedded:MARKER"


def opened(text: str, naming: Naming, to: str | None = None) -> dict[str, Stream]:
    """Open the streams of a query, the results of which go `to` a place, if there will be any.

    UsageError when names and query do not fit, or late tuples and results would be mixed, the errors of sources and
    language as they are.
    """
    places = placed(text, naming)
    for name in naming.punctuate:
        if name and name not in places:
            raise click.UsageError(f'--punctuate {name}=...: there is no stream "{name}"; named are {_listed(places)}.')
    late = _late_files(places, naming.late_to)
    if to == STDOUT and STDOUT in late.values():
        raise click.UsageError(
            "late tuples and results cannot both go to standard output; name a file with --to, or with --late-to."
        )
    return {name: _opened(name, paths, naming, late.get(name), text) for name, paths in places.items()}


def placed(text: str, naming: Naming) -> dict[str, tuple[str, ...]]:
    """Return the paths by name, those of files that the query names too.

    A path without a name gets that of the query's only stream.
    """
    read_in = list(tables_of(parse(text)))
    files = {table.name: (format_and_path(table, text)[1],) for table in read_in if table.path}
    wanted = list(dict.fromkeys(table.name for table in read_in if not table.path))
    named = dict(naming.places)
    if wanted and not named:
        raise click.UsageError(
            f"the query reads {_listed(wanted)}; say where from, e.g. --stream {wanted[0]}=capture.pcap,"
            " or write a file in quotes: FROM 'capture.pcap'"
        )
    if "" in named:
        if len(wanted) != 1:
            reads = f"{_listed(wanted)}; name each: --stream NAME=PATH" if wanted else f"{_listed(files)} alone"
            raise click.UsageError(f"the query reads {reads}.")
        named = {wanted[0]: named[""]}
    return files | named


def promises_of(name: str, naming: Naming) -> tuple[Promise, ...]:
    """Return the promises that the options ask for one stream; its own --punctuate goes before what is for all."""
    own = naming.punctuate.get(name) or naming.punctuate.get("")
    if own:
        return tuple(promise_of(how, naming) for how in own)
    if naming.slack is not None and naming.progress_by:
        jump = None if naming.jump == "none" else naming.jump
        clocks = naming.clocks
        return (
            by_key(
                naming.progress_by, naming.slack, naming.on, idle=naming.idle, late_share=naming.late_share,
                step=naming.every, lull=naming.lull, jump=jump,
                arrival=None if clocks is None else clocks.arrival, clock=None if clocks is None else clocks.clock,
                correct=clocks is not None and clocks.correct,
            ),
        )  # fmt: skip
    if naming.slack is not None:
        return (promise_of(f"slack:{naming.slack}", naming),)
    if naming.every is not None:
        return (promise_of("ordered", naming),)
    return ()


def promise_of(how: str, naming: Naming) -> Promise:
    """Read one punctuator as the command line writes it."""
    on, every, lull = naming.on, naming.every, naming.lull
    jump = None if naming.jump == "none" else naming.jump
    kind, _, argument = how.partition(":")
    match kind.strip().lower(), argument.strip():
        case "slack", amount if amount:
            share = naming.late_share if amount == "auto" else None
            return slack_promise(amount, on, step=every, lull=lull, jump=jump, late_share=share)
        case "ordered", "":
            return ordered(on, step=every, lull=lull, jump=jump)
        case "tuples", count if count.isdecimal():
            return tuple_slack(int(count), on, lull=lull, jump=jump)
        case "block", length if length:
            _no_lull(how, lull)
            return _blocks(length, on, jump)
        case "embedded", marker if marker:
            _no_lull(how, lull)
            return embedded(marker, on)
        case _:
            near = get_close_matches(kind, ("slack", "ordered", "tuples", "block", "embedded"), 1, 0.6)
            hint = f" Did you mean {near[0]}?" if near and near[0] != kind else ""
            raise click.UsageError(f'--punctuate "{how}" is no punctuator; known are {KINDS}.{hint}')


def _no_lull(how: str, lull: str | None) -> None:
    """Refuse to promise in silence where only the data says how far the stream is."""
    if lull is not None:
        raise click.UsageError(
            f'--lull {lull} promises by the clock, and with --punctuate "{how}" only the data promises;'
            " leave out --lull, or write slack:2s, ordered or tuples:100."
        )


def _blocks(length: str, on: str, jump: str | None) -> Promise:
    """Take a length of blocks as a duration, or as the attribute that numbers them."""
    try:
        return blocks(on, length=parse_duration(length), jump=jump)
    except LanguageError:
        return blocks(on, block=length, jump=jump)


def _late_files(names: Iterable[str], target: str | None) -> dict[str, str]:
    """Return the file for the late tuples of each stream: the one named, or one a stream when there are several."""
    names = list(names)
    if target is None or len(names) == 1:
        return {} if target is None else {names[0]: target}
    path = Path(target)
    # A name in back-quotes may have what separates folders.
    shown = {name: "".join("_" if c in "/\\\0" else c for c in name) for name in names}
    return {name: str(path.with_name(f"{path.stem}-{shown[name]}{path.suffix}")) for name in names}


def _opened(name: str, paths: tuple[str, ...], naming: Naming, divert: str | None, text: str) -> Stream:
    if STDIN in paths and len(paths) > 1:
        raise click.UsageError(f'stream {name} reads standard input ("-") and files; give it one or the other.')
    known = said_format(name)[0] or naming.format_of(name)
    # What options say is for all streams; each is told what there is to say of its kind.
    takes = taken(paths, known, follow=naming.follow)
    return read(
        *paths,
        name=name,
        format=known,
        strict=naming.strict and "strict" in takes,
        on_error=naming.on_error if "on_error" in takes else "stop",
        types=naming.types if "types" in takes else None,
        follow=naming.follow,
        order=naming.order,
        checkpoint=naming.checkpoint if naming.follow else None,
        **{name: value for name, value in attrs.asdict(naming.lines).items() if name in takes},
        columns=attributes_beyond(text, kind_read(paths, known, follow=naming.follow), naming.elements)
        if "columns" in takes
        else (),
        inner=naming.inner and "inner" in takes,
        punctuate=promises_of(name, naming if naming.follow or _silent(paths) else attrs.evolve(naming, lull=None))
        or None,
        late=naming.late,
        divert=divert,
    )


def _silent(paths: tuple[str, ...]) -> bool:
    """Return whether a stream may be silent: a file is read as fast as it can be."""
    return is_endless(paths) or any(path == STDIN or Path(path).is_fifo() for path in paths)


def _listed(names: Iterable[str]) -> str:
    shown = [f'"{name}"' for name in names]
    return "no stream" if not shown else shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
