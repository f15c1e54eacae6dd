"""Lookup adds what a table knows of each tuple, and holds nothing back: what was promised before is promised behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.keys import Ids
from operators.data.lookup_table import NOT_FOUND, LookupTable
from operators.data.page import Page
from operators.data.schema import Schema, aliased
from operators.errors import SchemaError, did_you_mean
from operators.plan_facts import Attributes
from operators.protocol import Emit, Promises
from punctuation import Punctuation


@attrs.define(eq=False)
class Lookup(memory.Stateful):
    """Append attributes of the table's row whose key a tuple has; null where there is none.

    `on` names the attributes that are looked up, in the order of the table's keys, and `columns` the columns of the
    table by the names that they get. A table whose rows are valid since a time is asked for the time of the tuple,
    `at`, so that the order of arrival makes no difference. `required` drops tuples that find no row, and counts them.

    Pass: a tuple at once. Keep: nothing but counters. Propagate: every promise as it is.
    Cost: a search in a hash table, or among sorted networks, a tuple; no state.

    >>> from operators.drive import drive, rows
    >>> table = LookupTable.of("ports", pa.record_batch({"port": [22, 53], "name": ["ssh", "dns"]}), ["port"])
    >>> page = Page.of(Schema.of(destPort=pa.int32()), {"destPort": [53, 80]})
    >>> rows(drive(Lookup(table, ("destPort",), {"service": "name"}), [page]))
    [{'destPort': 53, 'service': 'dns'}, {'destPort': 80, 'service': None}]
    """

    table: LookupTable
    on: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    columns: Mapping[str, str]
    required: bool = attrs.field(default=False, kw_only=True)
    at: str | None = attrs.field(default=None, kw_only=True)
    _counts: dict[str, int] = attrs.field(init=False, factory=lambda: {NOT_FOUND: 0}, metadata=memory.counters())
    _fitted: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)

    @property
    def inputs(self) -> int:
        return 1

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self.table.name

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the columns of the table that `on` is equal to."""
        return self.table.keys

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return None if name in self.columns else name

    def carrying(self, name: str) -> Lookup:
        return self

    def keeping(self, names: Collection[str]) -> Lookup:
        return attrs.evolve(self, columns={name: old for name, old in self.columns.items() if name in names})

    def same_as(self, other: object) -> bool:
        return (
            isinstance(other, Lookup)
            and (self.table is other.table or self.table.same_as(other.table))
            and (self.on, self.at, self.required) == (other.on, other.at, other.required)
            and list(self.columns.items()) == list(other.columns.items())
        )

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return None if name in self.columns else name

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        (schema,) = inputs
        asked = [*self.on, *([] if self.at is None else [self.at])] if self._looks else []
        return [wanted - frozenset(self.columns) | {schema.resolve(name, where="plan") for name in asked}]

    def remarks(self) -> tuple[str, ...]:
        rows = f"{len(self.table):,} row{'' if len(self.table) == 1 else 's'}"
        how = "by the longest network that holds the address" if self.table.networks else "by equal keys"
        if self.table.valid_from is not None:
            how += f", as valid at {self.at}"
        brought = ", ".join(n if n == old else f"{old} as {n}" for n, old in self.columns.items()) or "nothing"
        other = "are dropped and counted" if self.required else "have null there, and are counted"
        return (f"{rows} of {self.table.name}, {how}; brings {brought}", f"tuples that find no row {other}")

    def notes(self, counts: Mapping[str, int]) -> Iterator[str]:
        if self.required and (missing := counts.get(NOT_FOUND, 0)):
            yield f"{missing:,} tuple{'' if missing == 1 else 's'} without a row in {self.table.name} left out"

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "state_tuples": 0}

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        schema = self._fit(page.schema)
        if not len(page):
            return
        found = self._found(page)
        if self.required and (there := found >= 0).sum() < len(page):
            page, found = page.select(there), found[there]
        if len(page):
            emit(self._extended(page, schema, found))

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        schema = self._fit(page.schema)
        found = self._found(page)
        if self.required and (there := found >= 0).sum() < len(page):
            before = np.concatenate(([0], np.cumsum(there)))
            promises = attrs.evolve(promises, positions=before[promises.positions])
            page, found = page.select(there), found[there]
        promises.hand_on(self._extended(page, schema, found), emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    @property
    def _looks(self) -> bool:
        """Return whether anybody asks for what is found."""
        return bool(self.columns) or self.required

    def _found(self, page: Page) -> Ids:
        """Return the row of each tuple, and count those that have none."""
        if not self._looks:
            return np.empty(0, np.int32)
        columns = [page.column(name) for name in self.on]
        times, timed = (None, None) if self.at is None else page.timed(self.at)
        found = self.table.find(columns, times, timed)
        self._counts[NOT_FOUND] += int(np.count_nonzero(found < 0))
        return found

    def _extended(self, page: Page, schema: Schema, found: Ids) -> Page:
        """Return a page with what was found."""
        if not self.columns:
            return page
        missing = found < 0
        indices = pa.array(found, mask=missing) if missing.any() else pa.array(found)
        brought = [self.table.take(old, indices) for old in self.columns.values()]
        return Page(schema, pa.RecordBatch.from_arrays([*page.batch.columns, *brought], schema=schema.arrow))

    def _fit(self, schema: Schema) -> Schema:
        if self._fitted is None or not self._fitted[0].arrow.equals(schema.arrow, check_metadata=True):
            where = f"lookup in {self.table.name}"
            if self._looks:
                for place, name in enumerate(self.on):
                    self.table.check_key(place, schema.field(name, where=where), where)
            fields = list(schema.arrow)
            for name, old in self.columns.items():
                if name in schema:
                    raise SchemaError(
                        f'{where}: the input already has an attribute "{name}".\n  input: {", ".join(schema.names)}\n'
                        f'  Choose other names, e.g. by prefix="{self.table.name}_".'
                    )
                fields.append(self._field(name, old, where))
            self._fitted = (schema, Schema(pa.schema(fields), progress=schema.progress))
        return self._fitted[1]

    def _field(self, name: str, old: str, where: str) -> pa.Field:
        """Return the field of what is brought; the name of its table and its own mean it, too."""
        place = self.table.arrow.get_field_index(old)
        if place < 0:
            raise SchemaError(
                f'{where}: the table has no column "{old}".\n  {did_you_mean(old, self.table.arrow.names)}'
            )
        field = self.table.arrow.field(place).with_name(name).with_nullable(True)
        qualified = f"{self.table.name}.{old}"
        return field if len(qualified.split()) != 1 else aliased(field, [qualified])
