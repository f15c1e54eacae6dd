"""Elements of enterprises by name and type, as a file of JSON or CSV lists them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from oop_engine.sources.errors import TableError
from oop_engine.sources.flows.elements import ELEMENTS, TYPES, Element
from oop_engine.sources.flows.schema import FLOW_ALIASES, FLOW_SCHEMA
from oop_engine.sources.paths import expand
from operators.errors import did_you_mean

_COLUMNS: Final = ("pen", "id", "name", "type")
_EXAMPLE: Final = '{"pen": 6871, "id": 40, "name": "initialTCPFlags", "type": "unsigned8"}'
_HIGHEST: Final = {"pen": 0xFFFFFFFF, "id": 0x7FFF}


def read_elements(path: str | Path) -> dict[str, Element]:
    """Read the elements of a file by their names.

    - `path`: JSON, a list of objects with pen (the enterprise's number), id, name and type; or CSV with these four
      columns, if its name ends in .csv. Types are those of IPFIX, such as unsigned32, string or ipv4Address.

    SourceError for a missing file; TableError, which names the file and the entry, for one that is none.

    >>> _ = Path("elements.csv").write_text("pen,id,name,type\\n6871,40,probeLabel,string\\n")
    >>> read_elements("elements.csv")["probeLabel"].key
    (6871, 40)
    """
    (file,) = expand(path)
    found: dict[str, Element] = {}
    keys: dict[tuple[int, int], str] = {}
    for where, entry in _entries(file):
        element = _element(f"{file}, {where}", entry)
        if element.name in found:
            raise TableError(
                f'{file}, {where}: "{element.name}" is the name of an element before it.\n  Name each once.'
            )
        if element.key in keys:
            raise TableError(
                f"{file}, {where}: element {element.number} of enterprise {element.enterprise} has the name"
                f' "{keys[element.key]}" already.\n  Name each element once.'
            )
        found[element.name] = element
        keys[element.key] = element.name
    return found


def _entries(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a file, with what says where each stands."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{file}: byte {error.start} is no UTF-8, as elements are written.") from None
    if file.suffix.lower() == ".csv":
        reader = csv.DictReader(io.StringIO(text), strict=True)
        try:
            for row in reader:
                yield f"line {reader.line_num}", {name: value for name, value in row.items() if name}
        except csv.Error as error:
            raise TableError(f"{file}, line {reader.line_num}: {error}.") from None
        return
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{file} is no JSON: {error}.\n  Write a list, [{_EXAMPLE}], or a file named .csv.") from None
    if not isinstance(entries, list):
        raise TableError(f"{file} is no list of elements.\n  Write [{_EXAMPLE}].")
    for number, entry in enumerate(cast("list[object]", entries), 1):
        if not isinstance(entry, dict):
            raise TableError(f"{file}, element {number}: {entry!r} is no object.\n  Write {_EXAMPLE}.")
        yield f"element {number}", cast("dict[str, Any]", entry)


def _element(where: str, entry: Mapping[str, Any]) -> Element:
    """Make an element of an entry."""
    for column in _COLUMNS:
        if entry.get(column) in (None, ""):
            raise TableError(f'{where}: "{column}" is missing.\n  Write pen, id, name and type, as in {_EXAMPLE}.')
    numbers = {column: _number(where, column, entry[column]) for column in ("pen", "id")}
    name, kind = entry["name"], entry["type"]
    if not isinstance(name, str) or not name.isidentifier():
        raise TableError(f"{where}: {name!r} is no name; write letters, digits and _, a letter first.")
    if name in ELEMENTS or name in FLOW_ALIASES or name in FLOW_SCHEMA.names:
        raise TableError(f'{where}: "{name}" is the name of an attribute of all flow records.\n  Write another name.')
    if kind not in TYPES:
        hint = did_you_mean(str(kind), TYPES)
        raise TableError(f'{where}: "{kind}" is no type of IPFIX.\n  Types are {", ".join(TYPES)}. {hint}')
    return Element(name, numbers["id"], kind, enterprise=numbers["pen"])


def _number(where: str, column: str, value: object) -> int:
    """Read a number of an entry."""
    highest = _HIGHEST[column]
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    # Longer ones are no numbers of 32 bits, and reading them would take long.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(highest)) else -1
    if not 0 <= number <= highest:
        raise TableError(f"{where}: {column} is {value!r}; write a whole number from 0 to {highest:,}.")
    return number
