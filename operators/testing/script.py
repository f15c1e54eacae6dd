"""A script is what arrives at an operator, in order: pages and punctuations, each on a port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import attrs

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import Punctuation

Step: TypeAlias = tuple[int, Element]


@attrs.frozen(eq=False, repr=False)
class Script:
    """A finite input of an operator; `drive(operator, script)` runs it.

    Grammatical: no tuple matches an earlier punctuation of its own port.
    """

    schemas: tuple[Schema, ...]
    """One schema a port."""
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, schemas: Schema | Iterable[Schema], steps: Iterable[Element | Step]) -> Script:
        """Make a script from elements of port 0 or (port, element) pairs; ValueError when it is not grammatical."""
        pairs = [step if isinstance(step, tuple) else (0, step) for step in steps]
        script = cls((schemas,) if isinstance(schemas, Schema) else tuple(schemas), tuple(pairs))
        if wrong := script.violation():
            raise ValueError(f"the script is not grammatical: {wrong}\n{script}")
        return script

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @property
    def ports(self) -> int:
        """Return the number of ports."""
        return len(self.schemas)

    def tables(self) -> list[list[Row]]:
        """Return all tuples of each port, in order of arrival."""
        tables: list[list[Row]] = [[] for _ in self.schemas]
        for port, element in self.steps:
            if isinstance(element, Page):
                tables[port] += element.plain_rows()
        return tables

    def violation(self) -> str | None:
        """Describe the first tuple that matches an earlier punctuation of its port, None when there is none."""
        promised: list[list[Punctuation]] = [[] for _ in self.schemas]
        for port, element in self.steps:
            if isinstance(element, Punctuation):
                promised[port].append(element)
                continue
            for row in element.plain_rows():
                for promise in promised[port]:
                    if promise.matches(row):
                        return f"port {port}: {row} after {promise}"
        return None

    def __str__(self) -> str:
        lines = [f"port {port}: {schema}" for port, schema in enumerate(self.schemas)]
        for port, element in self.steps:
            if isinstance(element, Page):
                shown = [", ".join(f"{name}={value}" for name, value in row.items()) for row in element.plain_rows()]
                lines.append(f"  {port} <- page of {len(element)}" + "".join(f"\n         {row}" for row in shown))
            else:
                lines.append(f"  {port} <- {element}")
        return "\n".join(lines)

    __repr__ = __str__
