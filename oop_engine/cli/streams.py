"""Open, punctuate and name the streams of the command line as the query names them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from oop_engine.api.read import kind_read, read, taken
from oop_engine.api.stream import Stream
from oop_engine.cli.naming import STDIN, STDOUT, Naming
from oop_engine.language import parse, parse_duration
from oop_engine.language.scan import scan
from oop_engine.language.syntax import Join, Query, SubQuery, Table, Union
from oop_engine.plan.punctuate import Promise, blocks, by_key, embedded, ordered, tuple_slack
from oop_engine.plan.punctuate import slack as slack_promise
from oop_engine.query_errors import LanguageError
from oop_engine.sources.capture.schema import FURTHER_SCHEMA
from oop_engine.sources.kafka_places import is_endless

if TYPE_CHECKING:
    from oop_engine.sources.flows import Element

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
    """Return the paths by name; a path without a name gets that of the query's only stream."""
    wanted = tables(parse(text))
    if not naming.places:
        name = wanted[0] if wanted else "Main"
        raise click.UsageError(f"the query reads {_listed(wanted)}; say where from, e.g. --stream {name}=capture.pcap")
    if "" not in naming.places:
        return dict(naming.places)
    if len(wanted) != 1:
        raise click.UsageError(f"the query reads {_listed(wanted)}; name each: --stream NAME=PATH.")
    return {wanted[0]: naming.places[""]}


def tables(query: Query) -> list[str]:
    """Name the streams that a query reads, each once, in the order of the text."""
    found: list[str] = []
    waiting: list[object] = [query.source]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, Table):
            found += [item.name] if item.name not in found else []
        elif isinstance(item, SubQuery):
            waiting.insert(0, item.query.source)
        elif isinstance(item, Union | Join):
            waiting = [*item.items, *waiting]
    return found


def promises_of(name: str, naming: Naming) -> tuple[Promise, ...]:
    """Return the promises that the options ask for one stream; its own --punctuate goes before what is for all."""
    own = naming.punctuate.get(name) or naming.punctuate.get("")
    if own:
        return tuple(promise_of(how, naming) for how in own)
    if naming.slack is not None and naming.progress_by:
        jump = None if naming.jump == "none" else naming.jump
        return (
            by_key(
                naming.progress_by, naming.slack, naming.on, idle=naming.idle, late_share=naming.late_share,
                step=naming.every, lull=naming.lull, jump=jump,
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
            return slack_promise(amount, on, step=every, lull=lull, jump=jump)
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


def flow_elements(text: str, file: str | None = None) -> list[str | Element]:
    """Name the elements of flow records that a query reads beyond the common columns, those of a file as elements.

    `columns` of `oop.netflow` takes them. Names are IANA's, "reverse" and one of those, or `6871/40` in back-quotes.
    """
    # Start-up: few streams are flow exports.
    from oop_engine.sources.flows import FLOW_ALIASES, FLOW_SCHEMA, read_elements
    from oop_engine.sources.flows.schema import is_more

    own = {} if file is None else read_elements(file)
    common = {*FLOW_ALIASES, *FLOW_SCHEMA.names}
    return [own.get(word, word) for word in _words(text) if word in own or (is_more(word) and word not in common)]


def packet_attributes(text: str) -> list[str]:
    """Name the attributes of packets that a query reads beyond those of every capture, as `oop.pcap` takes them."""
    known = {name.lower(): name for name in FURTHER_SCHEMA.names}
    return list(dict.fromkeys(known[word.lower()] for word in _words(text) if word.lower() in known))


def _words(text: str) -> dict[str, None]:
    """Return the names in a text, each once."""
    return dict.fromkeys(lexeme.text.strip("`") for lexeme in scan(text) if lexeme.kind in ("word", "quoted"))


def _further(text: str, kind: str, naming: Naming) -> list[str | Element]:
    """Name what a query reads of files of a kind beyond what all of them have."""
    return [*packet_attributes(text)] if kind == "pcap" else flow_elements(text, naming.elements)


def _opened(name: str, paths: tuple[str, ...], naming: Naming, divert: str | None, text: str) -> Stream:
    if STDIN in paths and len(paths) > 1:
        raise click.UsageError(f'stream {name} reads standard input ("-") and files; give it one or the other.')
    known = naming.format_of(name)
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
        **{name: value for name, value in attrs.asdict(naming.lines).items() if name in takes},
        columns=_further(text, kind_read(paths, known, follow=naming.follow), naming) if "columns" in takes else (),
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
