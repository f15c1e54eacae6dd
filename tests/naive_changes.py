"""Changes by definition: a tuple stands as often as it was given, less as often as it was taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.protocol import Element
from operators.testing import Script


def naive_standing(table: Iterable[Row], *, keep_sign: bool = False) -> list[Row]:
    """Give the tuples that stand, in no order, with sign 1 if they keep one."""
    found: Counter[tuple[tuple[str, object], ...]] = Counter()
    for row in table:
        found[tuple((name, value) for name, value in row.items() if name != "sign")] += int(row["sign"])  # type: ignore[arg-type]
    assert all(count >= 0 for count in found.values()), "a tuple is taken back that was not given"
    more = {"sign": 1} if keep_sign else {}
    return [{**dict(key), **more} for key in found.elements()]  # type: ignore[dict-item]


@st.composite
def with_changes(draw: st.DrawFn, scripts: st.SearchStrategy[Script], signed: Schema | Sequence[Schema]) -> Script:
    """Draw a script whose tuples get a sign, and among them others that are given and taken back in time.

    `signed` is the schema of the changes: that of the script, and `sign` behind it; or one a port. A port whose schema
    has no sign stays as it is.
    """
    script: Script = draw(scripts)
    schemas = (signed,) * script.ports if isinstance(signed, Schema) else tuple(signed)
    steps: list[tuple[int, Element]] = []
    passing: list[list[list[object]]] = [[] for _ in schemas]

    def take_back(port: int, due: list[list[object]]) -> None:
        if due:
            steps.append((port, Page.of_rows(schemas[port], [[*row[:-1], -1] for row in due])))
            passing[port] = [row for row in passing[port] if not any(row is one for one in due)]

    for port, element in script.steps:
        schema = schemas[port]
        if "sign" not in schema:
            steps.append((port, element))
            continue
        names = schema.names
        if not isinstance(element, Page):
            due = [row for row in passing[port] if element.matches(dict(zip(names, row, strict=True)))]  # type: ignore[arg-type]
            take_back(port, due)
            steps.append((port, element))
            continue
        given = [[*row.values(), 1] for row in element.plain_rows()]
        for row in list(given):
            others = draw(st.integers(0, 3))
            for other in range(min(others, 2)):
                # One like it, and one of another value.
                more = list(row)
                if other and isinstance(more[-2], int):
                    more[-2] += 10
                given.insert(draw(st.integers(0, len(given))), more)
                passing[port].append(more)
        steps.append((port, Page.of_rows(schema, given)))
        if passing[port]:
            take_back(port, draw(st.lists(st.sampled_from(passing[port]), max_size=3, unique_by=id)))
    return Script.of(schemas, steps)
