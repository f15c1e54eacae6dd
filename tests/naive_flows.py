"""What the compiled walk and fill of flow exports do, a record and a field at a time, from the definitions alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs

from oop_engine.sources.flows.elements import Element
from oop_engine.sources.flows.options import of_interest, read_options
from oop_engine.sources.flows.templates import Field, Template, read_templates

SECOND = 10**9
YEARS = (631_152_000 * SECOND, 4_102_444_800 * SECOND)
VARIABLE = 0xFFFF
V5 = [(8, 4), (12, 4), (15, 4), (10, 2), (14, 2), (2, 4), (1, 4), (22, 4), (21, 4), (7, 2), (11, 2), (0, 1), (6, 1),
      (4, 1), (5, 1), (16, 2), (17, 2), (9, 1), (13, 1), (0, 2)]  # fmt: skip
V1 = [*V5[:11], (0, 2), (4, 1), (5, 1), (6, 1), (0, 7)]
V7 = [*V5, (43, 4)]
NUMBERS: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "srcPort": (2, [(0, 7), (0, 182), (0, 180)]), "destPort": (2, [(0, 11), (0, 183), (0, 181)]),
    "proto": (1, [(0, 4), (0, 193)]), "bytes": (8, [(0, 1), (0, 85), (0, 231), (0, 23), (0, 171)]),
    "packets": (8, [(0, 2), (0, 86), (0, 298), (0, 24), (0, 172)]), "flags": (2, [(0, 6)]), "tos": (1, [(0, 5)]),
    "in_if": (4, [(0, 10), (0, 252)]), "out_if": (4, [(0, 14), (0, 253)]), "src_as": (4, [(0, 16)]),
    "dest_as": (4, [(0, 17)]), "src_mask": (1, [(0, 9), (0, 29)]), "dest_mask": (1, [(0, 13), (0, 30)]),
    "vlan": (2, [(0, 58), (0, 243)]), "end_reason": (1, [(0, 136)]), "direction": (1, [(0, 61)]),
    "rev_bytes": (8, [(29_305, 1), (29_305, 85), (0, 232)]),
    "rev_packets": (8, [(29_305, 2), (29_305, 86), (0, 299)]), "rev_flags": (2, [(29_305, 6)]),
}  # fmt: skip
RIVALS = {"srcPort": 180, "destPort": 181, "src_mask": 29, "dest_mask": 30}
"""The element that counts, where it is not 0, before those that a column otherwise takes in their place."""
TIMES = [(156, 157), (154, 155), (152, 153), (150, 151), (158, 159), (22, 21), (325, 325), (324, 324), (323, 323),
         (322, 322)]  # fmt: skip
LENGTHS = {150: (4, 8), 151: (4, 8), 322: (4, 8), 158: (1, 2, 3, 4), 159: (1, 2, 3, 4), 21: (4,), 22: (4,)}


@attrs.define
class Head:
    """What a datagram's header tells."""

    version: int
    domain: int
    export: int | None
    uptime: int | None
    arrival: int
    exporter: tuple[bytes, int]
    rate: int = 1


@attrs.define
class Session:
    templates: dict[int, Template] = attrs.field(factory=dict)
    held: list[tuple[int, bytes, Head, dict[str, Any]]] = attrs.field(factory=list)
    said: dict[str, Any] = attrs.field(factory=lambda: {"rate": 1, "init": None, "rates": {}})


def naive_flows(
    payloads: Sequence[bytes],
    arrival: Sequence[int],
    exporters: Sequence[tuple[bytes, int]],
    more: Sequence[Element] = (),
) -> list[dict[str, Any]]:
    """Give the rows of datagrams of NetFlow and IPFIX whose sequences are in order."""
    sessions: dict[tuple[Any, ...], Session] = {}
    rows: list[dict[str, Any]] = []
    for payload, when, exporter in zip(payloads, arrival, exporters, strict=True):
        found = _header(payload, when, exporter)
        if found is None:
            continue
        head, body = found
        session = sessions.setdefault((exporter, head.version, head.domain), Session())
        if head.version == 5:
            session.said["rate"] = head.rate
            template = Template(0, tuple(Field(n, size) for n, size in V5))
            said = _now(session)
            rows += [_row(values, head, said, more) for values in _records(template, body)]
            continue
        if head.version in (1, 7):
            template = Template(0, tuple(Field(n, size) for n, size in (V1 if head.version == 1 else V7)))
            rows += [_row(values, head, _now(session), more) for values in _records(template, body)]
            continue
        rows += _sets(session, head, body, more)
    return rows


def _now(session: Session) -> dict[str, Any]:
    return {**session.said, "rates": dict(session.said["rates"])}


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _header(data: bytes, when: int, exporter: tuple[bytes, int]) -> tuple[Head, bytes] | None:
    version = _big(data[:2]) if len(data) >= 2 else 0
    if version == 5 and len(data) >= 24:
        export = _big(data[8:12]) * SECOND + min(_big(data[12:16]), SECOND - 1)
        count = min(_big(data[2:4]), (len(data) - 24) // 48, 2000)
        rate = max(_big(data[22:24]) & 0x3FFF, 1)
        head = Head(5, _big(data[20:22]), _clock(export), _big(data[4:8]), when, exporter, rate)
        return head, data[24 : 24 + 48 * count]
    if version in (1, 7) and len(data) >= (begin := 16 if version == 1 else 24):
        export = _big(data[8:12]) * SECOND + min(_big(data[12:16]), SECOND - 1)
        size = 48 if version == 1 else 52
        count = min(_big(data[2:4]), (len(data) - begin) // size, 2000)
        return Head(version, 0, _clock(export), _big(data[4:8]), when, exporter), data[begin : begin + size * count]
    if version == 9 and len(data) >= 20:
        return Head(9, _big(data[16:20]), _clock(_big(data[8:12]) * SECOND), _big(data[4:8]), when, exporter), data[20:]
    if version == 10 and len(data) >= 16:
        return Head(10, _big(data[12:16]), _clock(_big(data[4:8]) * SECOND), None, when, exporter), data[
            16 : _big(data[2:4])
        ]
    return None


def _clock(value: int) -> int | None:
    return value if YEARS[0] <= value < YEARS[1] else None


def _sets(session: Session, head: Head, body: bytes, more: Sequence[Element]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    at = 0
    while at + 4 <= len(body):
        kind, size = _big(body[at : at + 2]), _big(body[at + 2 : at + 4])
        if (kind == 0 and size == 0) or size < 4 or at + size > len(body):
            break
        part = body[at + 4 : at + size]
        at += size
        options = kind == (1 if head.version == 9 else 3)
        if kind == (0 if head.version == 9 else 2) or options:
            for found in read_templates(part, head.version, options=options):
                if isinstance(found, Template):
                    session.templates[found.number] = found
                    ready = [held for held in session.held if held[0] == found.number]
                    session.held = [held for held in session.held if held[0] != found.number]
                    if not found.options:
                        for _, waited, then, said in ready:
                            said["template"] = found.number
                            rows += [_row(values, then, said, more) for values in _records(found, waited)]
            continue
        if kind < 256:
            continue
        template = session.templates.get(kind)
        if template is None:
            session.held.append((kind, part, head, _now(session)))
        elif template.options:
            if of_interest(template):
                _options(session, template, part)
        else:
            said = {**_now(session), "template": kind}
            rows += [_row(values, head, said, more) for values in _records(template, part)]
    return rows


def _options(session: Session, template: Template, part: bytes) -> None:
    try:
        announced = list(read_options(template, part, len(list(_records(template, part)))))
    except ValueError:
        return
    for entry in announced:
        if entry.init is not None:
            session.said["init"] = entry.init
        elif entry.active is not None or entry.inactive is not None or entry.unused:
            continue
        elif entry.kind == 0:
            session.said["rate"] = entry.rate
        else:
            session.said["rates"][entry.kind, entry.key] = entry.rate


def _records(template: Template, body: bytes) -> Sequence[dict[tuple[int, int], bytes]]:
    found: list[dict[tuple[int, int], bytes]] = []
    at = 0
    while at + template.least <= len(body) and len(found) < 2000:
        values: dict[tuple[int, int], bytes] = {}
        for field in template.fields:
            length = field.length
            if length == VARIABLE:
                if at >= len(body):
                    return found
                length = body[at]
                at += 1
                if length == 255:
                    if at + 2 > len(body):
                        return found
                    length = _big(body[at : at + 2])
                    at += 2
                values.setdefault(field.key, body[at : at + length])
            elif length:
                values.setdefault(field.key, body[at : at + length])
            at += length
        if at > len(body):
            return found
        found.append(values)
    return found


def _fixed(template_values: dict[tuple[int, int], bytes], key: tuple[int, int], lengths: Sequence[int]) -> int | None:
    value = template_values.get(key)
    return None if value is None or len(value) not in lengths else _big(value)


def _row(
    values: dict[tuple[int, int], bytes], head: Head, said: dict[str, Any], more: Sequence[Element]
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, (size, keys) in NUMBERS.items():
        fitting = [v for k in keys if (v := _fixed(values, k, range(1, size + 1))) is not None]
        row[name] = fitting[0] if fitting else None
        rival = _fixed(values, (0, RIVALS.get(name, -1)), range(1, size + 1))
        if rival and not (size == 2 and keys[0] in values and len(values[keys[0]]) <= 2):
            row[name] = rival
    for name, (four, six) in {"srcIP": (8, 27), "destIP": (12, 28), "next_hop": (15, 62)}.items():
        short, wide = values.get((0, four), b""), values.get((0, six), b"")
        row[name] = wide if len(wide) == 16 else None
        if len(short) == 4 and (row[name] is None or any(short)):
            row[name] = b"\0" * 10 + b"\xff\xff" + short
    for place, name in enumerate(("ts", "end_ts")):
        row[name] = _when([pair[place] for pair in TIMES], values, head, said)
    given = [any(_fits(values, pair[place]) for pair in TIMES) for place in (0, 1)]
    if given[0] != given[1]:
        for key, factor in (((0, 161), 1_000_000), ((0, 162), 1000)):
            lasting = _fixed(values, key, (1, 2, 3, 4))
            if lasting is not None:
                known, missing, sign = ("ts", "end_ts", 1) if given[0] else ("end_ts", "ts", -1)
                row[missing] = None if row[known] is None else _clock(row[known] + sign * lasting * factor)
                break
    row["sampling"] = _rate(values, said)
    row["exporter"], row["exporter_port"] = head.exporter
    row["domain"], row["version"], row["export_ts"], row["arrival_ts"] = (
        head.domain,
        head.version,
        head.export,
        head.arrival,
    )
    for element in more:
        value = values.get(element.key)
        if element.type == "string" and value is not None:
            row[element.name] = value.rstrip(b"\0").decode("utf-8", "replace")
        else:
            row[element.name] = value
    return row


def _fits(values: dict[tuple[int, int], bytes], number: int) -> bool:
    return len(values.get((0, number), b"")) in LENGTHS.get(number, (8,))


def _when(numbers: Sequence[int], values: dict[tuple[int, int], bytes], head: Head, said: dict[str, Any]) -> int | None:
    for number in numbers:
        if not _fits(values, number):
            continue
        value = _big(values[0, number])
        if number in (150, 151, 322):
            return _clock(value * SECOND) if value < 2**63 else None
        if number in (152, 153, 323):
            return _clock(value * 1_000_000)
        if number in (154, 155, 156, 157, 324, 325):
            seconds = value >> 32
            seconds += -2_208_988_800 if seconds >= 2**31 else 2**32 - 2_208_988_800
            unit = 1000 if number in (154, 155, 324) else 1
            parts = Fraction(value & 0xFFFFFFFF, 2**32) * (SECOND // unit) + Fraction(1, 2)
            return _clock(seconds * SECOND + parts.__floor__() * unit)
        if head.export is None:
            return None
        if number in (158, 159):
            return _clock(head.export - value * 1000)
        export, uptime = head.export, head.uptime
        if len(values.get((0, 160), b"")) == 8:
            init = _big(values[0, 160])
            export -= export % 1_000_000
            uptime = (export // 1_000_000 - init) % 2**32
        elif uptime is None:
            if said["init"] is None:
                return None
            uptime = (export // 1_000_000 - said["init"]) % 2**32
        ago = (uptime - value + 2**31) % 2**32 - 2**31
        return _clock(export - ago * 1_000_000)
    return None


def _rate(values: dict[tuple[int, int], bytes], said: dict[str, Any]) -> int:
    for key in ((0, 34), (0, 50)):
        if rate := _fixed(values, key, range(1, 5)):
            return rate
    taken, spaced = _fixed(values, (0, 305), range(1, 5)), _fixed(values, (0, 306), range(1, 5))
    if taken:
        return taken if spaced is None else min((taken + spaced + taken // 2) // taken, 2**32 - 1)
    for key, kinds, sizes in (
        ((0, 48), "s", range(1, 9)), ((0, 302), "s", range(1, 9)), ((0, 10), "bi", range(1, 5)),
        ((0, 14), "be", range(1, 5)),
    ):  # fmt: skip
        number = _fixed(values, key, sizes)
        for kind in kinds:
            if (rate := said["rates"].get(("_sbiet".index(kind), number))) is not None:
                return rate
    return said["rates"].get((5, said.get("template")), said["rate"])
