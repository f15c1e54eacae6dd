"""What the command line says of streams becomes streams, each opened, punctuated and named as the query names it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from oop_engine.cli.naming import STDIN, STDOUT, Naming
from oop_engine.language import parse, parse_duration
from oop_engine.language.errors import LanguageError
from oop_engine.language.scan import scan
from oop_engine.language.syntax import Join, Query, SubQuery, Table, Union
from oop_engine.punctuate import Promise, blocks, embedded, ordered, tuple_slack
from oop_engine.punctuate import slack as slack_promise
from oop_engine.read import read
from oop_engine.sources.kind import kind_of
from oop_engine.sources.paths import expand
from oop_engine.stream import Stream

KINDS = "slack:2s, ordered, tuples:100, block:LENGTH, embedded:MARKER"


def opened(text: str, naming: Naming, to: str | None = None) -> dict[str, Stream]:
    """Open the streams of a query, the results of which go `to` a place, if there will be any.

    UsageError when names and query do not fit, or one file would be for two things, the errors of sources and language
    as they are.
    """
    places = placed(text, naming)
    for name in naming.punctuate:
        if name and name not in places:
            raise click.UsageError(f'--punctuate {name}=...: there is no stream "{name}"; named are {_listed(places)}.')
    late = _late_files(places, naming.late_to)
    _check_apart(places, late, to)
    elements = flow_elements(text)
    return {name: _opened(name, paths, naming, late.get(name), elements) for name, paths in places.items()}


def placed(text: str, naming: Naming) -> dict[str, tuple[str, ...]]:
    """Give the paths by name; a path without a name gets that of the query's only stream."""
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
    """Give the promises that the options ask for one stream; its own --punctuate goes before what is for all."""
    own = naming.punctuate.get(name) or naming.punctuate.get("")
    if own:
        return tuple(promise_of(how, on=naming.on, every=naming.every) for how in own)
    if naming.slack is not None:
        return (slack_promise(naming.slack, naming.on, step=naming.every),)
    if naming.every is not None:
        return (ordered(naming.on, step=naming.every),)
    return ()


def promise_of(how: str, *, on: str, every: str | None) -> Promise:
    """Read one punctuator as the command line writes it."""
    kind, _, argument = how.partition(":")
    match kind.strip().lower(), argument.strip():
        case "slack", amount if amount:
            return slack_promise(amount, on, step=every)
        case "ordered", "":
            return ordered(on, step=every)
        case "tuples", count if count.isdecimal():
            return tuple_slack(int(count), on)
        case "block", length if length:
            return _blocks(length, on)
        case "embedded", marker if marker:
            return embedded(marker, on)
        case _:
            near = get_close_matches(kind, ("slack", "ordered", "tuples", "block", "embedded"), 1, 0.6)
            hint = f" Did you mean {near[0]}?" if near and near[0] != kind else ""
            raise click.UsageError(f'--punctuate "{how}" is no punctuator; known are {KINDS}.{hint}')


def _blocks(length: str, on: str) -> Promise:
    """Take a length of blocks as a duration, or as the attribute that numbers them."""
    try:
        return blocks(on, length=parse_duration(length))
    except LanguageError:
        return blocks(on, block=length)


def _late_files(names: Iterable[str], target: str | None) -> dict[str, str]:
    """Give the file for the late tuples of each stream: the one named, or one a stream when there are several."""
    names = list(names)
    if target is None or len(names) == 1:
        return {} if target is None else {names[0]: target}
    path = Path(target)
    return {name: str(path.with_name(f"{path.stem}-{name}{path.suffix}")) for name in names}


def _check_apart(places: Mapping[str, Sequence[str]], late: Mapping[str, str], to: str | None) -> None:
    """Refuse late tuples in the file of the results or in one that is read: it would replace the other."""
    for target in late.values():
        if target == STDOUT == to:
            raise click.UsageError(
                "late tuples and results cannot both go to standard output; name a file with --to, or with --late-to."
            )
        if to is not None and STDOUT not in (target, to) and _place(target) == _place(to):
            raise click.UsageError(f'"{target}" is for the results, so it cannot be for late tuples too; name another.')
        for name, paths in places.items():
            if any(_place(path) == _place(target) for path in paths if path != STDIN):
                raise click.UsageError(f'"{target}" is read as stream {name}; late tuples would replace it.')


def _place(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))


def flow_elements(text: str) -> list[str]:
    """Name the elements of flow records that a query reads beyond the common columns.

    `columns` of `oop.netflow` takes them. Names are IANA's, "reverse" and one of those, or `6871/40` in back-quotes.
    """
    from oop_engine.sources.flows import FLOW_ALIASES, FLOW_SCHEMA
    from oop_engine.sources.flows.elements import element

    words = dict.fromkeys(lexeme.text.strip("`") for lexeme in scan(text) if lexeme.kind in ("word", "quoted"))
    return [word for word in words if element(word) and word not in FLOW_ALIASES and word not in FLOW_SCHEMA.names]


def _opened(name: str, paths: tuple[str, ...], naming: Naming, divert: str | None, elements: list[str]) -> Stream:
    if STDIN in paths and len(paths) > 1:
        raise click.UsageError(f'stream {name} reads standard input ("-") and files; give it one or the other.')
    options: dict[str, object] = {"on": naming.on, "punctuate": promises_of(name, naming) or None}
    if naming.types:
        options["types"] = dict(naming.types)
    options |= {"late": naming.late, "divert": divert}
    known = naming.format_of(name)
    if elements and (known == "netflow" or (known is None and _holds_flows(paths))):
        options["columns"] = elements
    return read(*paths, name=name, format=known, strict=naming.strict, **options)


def _holds_flows(paths: tuple[str, ...]) -> bool:
    """Tell whether files are of export datagrams by what is in the first, as `read` does where no format is said."""
    return paths[0] != STDIN and kind_of(expand(paths[0])[0]) == "netflow"


def _listed(names: Iterable[str]) -> str:
    shown = [f'"{name}"' for name in names]
    return "no stream" if not shown else shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
