"""Read sets of templates, which lay out the records of other sets, whatever their bytes are.

Templates are bounded: at most 256 fields, and records of 1 to 4,096 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import attrs

from oop_engine.sources.flows.entries import VARIABLE

MOST_FIELDS: Final = 256
MOST_BYTES: Final = 4096


@attrs.frozen
class Field:
    """A field of a record; `length` is 65,535 where each record tells it."""

    number: int
    length: int
    enterprise: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.enterprise, self.number


_field = lru_cache(4096)(Field)


@attrs.frozen
class Template:
    """The layout of records; the first `scopes` fields of an options record say what the others hold for.

    A scope of NetFlow v9 is numbered in its own way: enterprise -1.
    """

    number: int
    fields: tuple[Field, ...]
    scopes: int = 0
    options: bool = False

    least: int = attrs.field(init=False, eq=False, repr=False)
    """The bytes of a record, at least."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "least", sum([1 if f.length == VARIABLE else f.length for f in self.fields]))


@attrs.frozen
class Withdrawal:
    """The end of a template, or of all (options) templates: numbers 2 and 3."""

    number: int


@attrs.frozen
class Fault:
    """The reason why a template is refused."""

    reason: str


V9_SCOPE: Final = -1

Found: TypeAlias = "Template | Withdrawal | Fault"


def read_templates(body: bytes, version: int, *, options: bool) -> Iterator[Found]:
    """Yield the templates of a set, the body behind its header, up to the first fault in the layout."""
    at = 0
    while at + 4 <= len(body):
        number, count = struct.unpack_from(">HH", body, at)
        if number == 0 and count == 0:  # padding
            return
        if version == 9 and options:
            if at + 6 > len(body):
                return  # padding: less than a header
            (more,) = struct.unpack_from(">H", body, at + 4)
            if count % 4 or more % 4:
                yield Fault("an options template whose lengths are no whole fields")
                return
            at += 6
            scopes, count = count // 4, (count + more) // 4
        elif count == 0 and version != 9:
            yield Withdrawal(number)
            at += 4
            continue
        elif options:
            if at + 6 > len(body):
                yield Fault("a template that is cut short")
                return
            (scopes,) = struct.unpack_from(">H", body, at + 4)
            at += 6
        else:
            scopes = 0
            at += 4
        if count > MOST_FIELDS:
            yield Fault(f"a template of {count} fields")
            return
        fields: list[Field] = []
        if at + 4 * count <= len(body):
            words = struct.unpack_from(f">{2 * count}H", body, at)
            if version == 9 or not any([kind & 0x8000 for kind in words[::2]]):
                fields = list(map(_field, words[::2], words[1::2]))
                if version == 9 and scopes:
                    fields[:scopes] = [_field(field.number, field.length, V9_SCOPE) for field in fields[:scopes]]
                at += 4 * count
        for _ in range(count - len(fields)):
            if at + 4 > len(body):
                yield Fault("a template that is cut short")
                return
            kind, length = struct.unpack_from(">HH", body, at)
            at += 4
            enterprise = 0
            if kind & 0x8000 and version != 9:
                if at + 4 > len(body):
                    yield Fault("a template that is cut short")
                    return
                kind &= 0x7FFF
                (enterprise,) = struct.unpack_from(">I", body, at)
                at += 4
            fields.append(_field(kind, length, enterprise))
        yield _checked(Template(number, tuple(fields), scopes, options), version)


def _checked(template: Template, version: int) -> Template | Fault:
    if template.number < 256:
        return Fault(f"a template numbered {template.number}")
    if template.options and version != 9 and not 0 < template.scopes <= len(template.fields):
        return Fault(f"an options template of {template.scopes} scopes and {len(template.fields)} fields")
    if version == 9 and any(field.length == VARIABLE for field in template.fields):
        return Fault(f"a record of {template.least} bytes or more")
    if not 1 <= template.least <= MOST_BYTES:
        return Fault(f"a record of {template.least} bytes")
    return template
