"""Late tuples that go to a file are results beside those of the plan: one sink for each source that diverts there."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa

from oop_engine.plan.graph import Plan, SourceNode
from oop_engine.rewrite.demand import columns
from oop_engine.sinks.choice import sink_for
from oop_engine.sinks.protocol import Sink
from operators.data.page import Page
from operators.data.schema import Schema
from operators.streams.input import Input


@attrs.frozen
class Diversion:
    """The late tuples of one source, and where they go."""

    place: int
    """The place of the source in the plan."""
    target: str
    schema: Schema = attrs.field(repr=False)

    @property
    def sink(self) -> Sink:
        return sink_for(self.target)


def diversions(plan: Plan) -> Iterator[Diversion]:
    """Yield the diversions to files of a plan that has been pruned, by the places of their sources."""
    read = columns(plan)
    for place, node in plan.sources.items():
        if isinstance(node.divert, str):
            schema = Schema(pa.schema([node.schema.arrow.field(name) for name in read[place]]))
            yield Diversion(place, node.divert, _late_of(node, schema))


def _late_of(node: SourceNode, schema: Schema) -> Schema:
    """Return the columns of late tuples of a source, of which these are read."""
    punctuators = tuple(promise.punctuator(node.schema, None, 0) for promise in node.promises)
    return Input(punctuators, late="divert", diverted=_nowhere).diverted_schema(schema)


def _nowhere(page: Page) -> None:
    raise RuntimeError("an input that only says which columns it diverts was given a page")
