"""A lookup in a table that is a stream: each tuple gets the row that was valid at its time, whatever arrives first.

A row is valid from its own time to that of the next row of its key. The answer for a tuple is known once the table has
promised its time. Before that it is given at once and taken back if a late row changes it, or is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import Ids, KeyIndex
from operators.data.lookup_table import NOT_FOUND, Versions, check_key
from operators.data.page import Bools, Int64s, Page, concatenate
from operators.data.schema import Schema, aliased, type_name
from operators.data.sort_keys import sort_key
from operators.errors import SchemaError
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit
from operators.retractions import SIGN, SIGNS, Retracted, Retracting
from punctuation import END, Progress, Punctuation, Range, Value

KEYLESS: Final = "rows_without_key"
"""The statistic that counts rows of the table that no tuple can find."""
LATE_ROWS: Final = "late_rows"
"""The statistic that counts rows that came too late for some of the tuples that they are about."""
_FEW: Final = 1024
"""Rows that are not worth a search for those that nobody can ask for any more."""


@attrs.frozen(eq=False)
class _Found:
    """All rows of the table, and how to find the one that was valid at a time."""

    rows: Page
    index: KeyIndex
    versions: Versions
    until: Int64s
    """When the next row of its key takes the place of each, in order."""

    def find(self, page: Page, on: Sequence[str], at: str) -> Ids:
        """Return the row of each tuple, -1 for none."""
        columns = [page.column(name) for name in on]
        ids = self.index.find(columns)
        for column in columns:
            if column.null_count:
                ids[column.is_null().to_numpy(zero_copy_only=False)] = -1
        times, timed = page.timed(at)
        return self.versions.find(ids, times, timed)


@attrs.define(eq=False)
class AsOfLookup(memory.Stateful):
    """Append attributes of the row of a table, on port 1, that was valid at the time of each tuple, on port 0.

    `on` names the attributes that are looked up, `keys` those of the table that they are equal to, `at` the time of a
    tuple, `since` that from which a row is valid; a row without one always was. `columns` are the attributes of the
    table by the names that they get. Of rows of one key and time, the one with the largest of these counts, null most.
    `required` leaves out tuples that find no row. With `first_holds`, the first row of a key was valid before, too.

    With `wait` a tuple leaves when the table has promised its time. Without it a tuple leaves at once, with `sign` 1; a
    row that changes its answer later takes it back, with `sign` -1, and gives it anew. `revise` is how far behind the
    promise of the stream tuples are kept for that, in ticks; None for as long as it takes.

    Pass: a tuple at once, or with the table's promise of its time. Keep: the tuples whose time the table has not
    promised, and the rows that they or later ones can find. Propagate: promises on `at`, of both inputs.
    Cost: a search among the rows of a key a tuple; a page of the table O((rows + tuples kept) log), a promise O(1).

    >>> from operators.drive import drive, rows
    >>> lookup = AsOfLookup("hosts", ("k",), ("k",), "ts", "since", {"name": "name"})
    >>> flow = Page.of(Schema.of(ts=pa.int64(), k=pa.int64()), {"ts": [5], "k": [1]})
    >>> row = Page.of(Schema.of(since=pa.int64(), k=pa.int64(), name=pa.string()),
    ...               {"since": [3], "k": [1], "name": ["gate"]})
    >>> _ = lookup.output_schema(flow.schema, row.schema)
    >>> [(found["name"], found["sign"]) for found in rows(drive(lookup, [(0, flow), (1, row)]))]
    [(None, 1), (None, -1), ('gate', 1)]
    """

    name: str
    on: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    keys: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    at: str
    since: str
    columns: Mapping[str, str]
    required: bool = attrs.field(default=False, kw_only=True)
    wait: bool = attrs.field(default=False, kw_only=True)
    revise: int | None = attrs.field(default=None, kw_only=True)
    first_holds: bool = attrs.field(default=False, kw_only=True)
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("held"))
    _rows: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("row"))
    _stream: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _table: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _made: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _let_go: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """Tuples below this were let go before the table promised their time."""
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: {NOT_FOUND: 0, KEYLESS: 0, LATE_ROWS: 0}, metadata=memory.counters()
    )
    _leasts: list[int] = attrs.field(init=False, factory=list)
    """The least time in each page that is held."""
    _lookup: _Found | None = attrs.field(init=False, default=None)
    _schemas: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)

    @property
    def inputs(self) -> int:
        return 2

    def output_schema(self, *inputs: Schema) -> Schema:
        stream, table = inputs
        where = f"lookup in {self.name}"
        for own, key in zip(self.on, self.keys, strict=True):
            check_key(stream.field(own, where=where), table.field(key, where=where), self.name, where)
        at, since = stream.field(self.at, where=where), table.field(self.since, where=where)
        if at.type != since.type:
            raise SchemaError(
                f'{where}: "{at.name}" is of type {type_name(at)}, and {self.name}.{since.name} of'
                f" {type_name(since)}.\n  Both are to be of one type: cast({since.name}, '{at.type}')."
            )
        self._schemas = (stream, table)
        promised = stream.progressing(self.at) and (table.progressing(self.since) or self._lets_go)
        return Schema(self._arrow(stream), progress=[self.at] if promised else [])

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        stream, table = inputs
        own = {stream.resolve(name, where="plan") for name in (*self.on, self.at)}
        rows = {table.resolve(name, where="plan") for name in (*self.keys, self.since, *self.columns.values())}
        return [(wanted - frozenset(self.columns) - {SIGN}) | own, frozenset(rows)]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        asked: list[Paces] = []
        for name, schema in zip((self.at, self.since), inputs, strict=True):
            paces: Paces = {}
            if schema.progressing(name):
                want(paces, name, wanted.get(self.at, Pace(None, optional=True)))
            asked.append(paces)
        return asked

    def together(self, *inputs: Schema) -> Together:
        stream, table = inputs
        own = tuple(stream.resolve(name, where="plan") for name in self.on)
        keys = tuple(table.resolve(name, where="plan") for name in self.keys)
        # A late row takes back what came before it, and nothing that comes after it.
        why = "" if self.wait else "what a late row takes back depends on the order of arrival"
        return Together(
            keys=(own, keys), kept=({name: name for name in stream.names}, {}), arrival=not self.wait, why=why
        )

    def needless(self, port: int) -> Punctuation | None:
        """Return which rows of the table show in nothing, since the stream has ended and no kept tuple finds one.

        None where the stream goes on, and where the first row of a key is yet to come.
        """
        if port == 0 or not self._stream.ended:
            return None
        if not self._held:
            return END
        if self.first_holds:
            return None
        latest = max(int(page.timed(self.at)[0].max()) for page in self._held)
        return Punctuation({self.since: Range(latest + 1)})

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is not None:
            return "refused"
        if self.wait:
            return None
        return Retracted(
            f"where a row of {self.name} comes late, the lookup takes back what it gave (sign -1) and gives it anew",
            "Write wait=True in lookup(...), in text WAIT: tuples then leave when the table has promised their time.",
            settles=SIGNS,
        )

    def remarks(self) -> tuple[str, ...]:
        brought = ", ".join(n if n == old else f"{old} as {n}" for n, old in self.columns.items()) or "nothing"
        if self.wait:
            how = f"a tuple waits until {self.name} has promised its time"
        else:
            most = "" if self.revise is None else f", {self.revise} ticks behind the stream at most"
            how = f"a late row takes back what was given, by sign -1, and gives it anew{most}"
        first = ", or else the first one" if self.first_holds else ""
        return (f"the row of {self.name} that was valid at {self.at}{first}; brings {brought}", how)

    def notes(self, counts: Mapping[str, int]) -> Iterator[str]:
        if number := counts.get(LATE_ROWS, 0):
            rows = f"{number:,} row{'s' * (number > 1)} of {self.name}"
            yield f"{rows} came too late to change what was given: a longer revise= keeps tuples for them"
        if number := counts.get(KEYLESS, 0):
            yield f"{number:,} row{'s' * (number > 1)} of {self.name} without a key left out"
        if self.required and (number := counts.get(NOT_FOUND, 0)):
            yield f"{number:,} tuple{'s' * (number > 1)} without a row in {self.name} left out"

    def statistics(self) -> dict[str, int]:
        tuples = sum(map(len, self._held)) + sum(map(len, self._rows))
        return {**self._counts, "state_tuples": tuples, "state_bytes": self.nbytes, "peak_state_tuples": self._peak}

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if not len(page):
            return
        if port == 1:
            self._take_rows(page, emit)
        elif self.wait:
            open_ = self._open(page)
            self._leave(page.select(~open_), emit)
            self._hold(page.select(open_))
        else:
            self._give(page, self._find(page), 1, emit)
            open_ = self._open(page)
            self._count(page.select(~open_))
            self._hold(page.select(open_))
        self._peak = max(self._peak, sum(map(len, self._held)) + sum(map(len, self._rows)))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        progress = self._table if port else self._stream
        if not progress.advance(punctuation):
            return
        stream, table = self._bounds()
        if stream < FOREVER and not self.wait and self.revise is not None:
            self._let_go = max(self._let_go, stream - self.revise)
        self._release(emit)
        self._forget(min([stream, *self._leasts]))
        front = min(stream, max(table, self._let_go))
        if stream == FOREVER and not self._held:
            if not self._made.ended:
                self._made.advance(END)
                emit(END)
        elif BEFORE_ALL < front < FOREVER and (promise := self._made.rise(self.at, front, assumed=punctuation.assumed)):
            emit(promise)

    @property
    def _lets_go(self) -> bool:
        """Return whether what the stream promises is enough to let tuples go."""
        return not self.wait and self.revise is not None

    def _bounds(self) -> tuple[int, int]:
        """Return what each input has promised of its time."""
        return _bound(self._stream, self.at), _bound(self._table, self.since)

    def _open(self, page: Page) -> Bools:
        """Return which tuples may have another answer yet."""
        times, timed = page.timed(self.at)
        still = times >= max(self._bounds()[1], self._let_go)
        if self._table.ended:
            still = np.zeros(len(page), np.bool_)
        if timed is not None:
            still = still & timed
        for name in self.on:
            if (column := page.column(name)).null_count:
                still = still & column.is_valid().to_numpy(zero_copy_only=False)
        return still

    def _hold(self, page: Page) -> None:
        if len(page):
            self._held.append(page)
            self._leasts.append(int(page.timed(self.at)[0].min()))

    def _after_restoring(self) -> None:
        pages, self._held, self._leasts, self._lookup = self._held, [], [], None
        for page in pages:
            self._hold(page)

    def _release(self, emit: Emit) -> None:
        """Let go of the tuples whose answer stays as it is."""
        bound = FOREVER if self._table.ended else max(self._bounds()[1], self._let_go)
        if min(self._leasts, default=FOREVER) >= bound:
            return
        pages, leasts, self._held, self._leasts = self._held, self._leasts, [], []
        for page, least in zip(pages, leasts, strict=True):
            if least >= bound:
                self._held.append(page)
                self._leasts.append(least)
                continue
            open_ = self._open(page)
            self._hold(page.select(open_))
            if self.wait:
                self._leave(page.select(~open_), emit)
            else:
                self._count(page.select(~open_))

    def _leave(self, page: Page, emit: Emit) -> None:
        """Emit tuples with their last answer."""
        if len(page):
            found = self._find(page)
            self._counts[NOT_FOUND] += int(np.count_nonzero(found < 0))
            self._give(page, found, 0, emit)

    def _count(self, page: Page) -> None:
        """Count the tuples that have found no row, and find none any more."""
        if len(page):
            self._counts[NOT_FOUND] += int(np.count_nonzero(self._find(page) < 0))

    def _take_rows(self, page: Page, emit: Emit) -> None:
        """Take rows of the table, and give anew the tuples that they change."""
        if self._stream.ended and not self._held:
            return
        known = np.ones(len(page), np.bool_)
        for name in self.keys:
            if (column := page.column(name)).null_count:
                known &= column.is_valid().to_numpy(zero_copy_only=False)
        self._counts[KEYLESS] += int(np.count_nonzero(~known))
        page = page.select(known)
        if not len(page):
            return
        times, timed = page.timed(self.since)
        early = times < self._let_go
        if timed is not None:
            early |= ~timed & (max(self._let_go, self._bounds()[1]) > BEFORE_ALL)
        self._counts[LATE_ROWS] += int(np.count_nonzero(early))
        held = concatenate(self._held[0].schema, self._held) if self._held and not self.wait else None
        before = None if held is None else self._answers(held)
        self._rows.append(page)
        self._lookup = None
        if held is None or before is None:
            return
        after = self._answers(held)
        if self.columns:
            fields = [field.with_name(f"_{place}") for place, field in enumerate(after.fields())]
            index = KeyIndex(fields)
            changed = index.assign(before.columns) != index.assign(after.columns)
        else:
            changed = np.zeros(len(held), np.bool_)
        changed |= (before.found < 0) != (after.found < 0) if self.required else False
        if changed.any():
            some = held.select(changed)
            self._emit(some, before.select(changed), -1, emit)
            self._emit(some, after.select(changed), 1, emit)

    def _find(self, page: Page) -> Ids:
        """Return the row of each tuple among those that are known, -1 for none."""
        if not self._rows:
            return np.full(len(page), -1, np.int32)
        return self._known().find(page, self.on, self.at)

    def _answers(self, page: Page) -> _Answers:
        return self._answers_of(page, self._find(page))

    def _answers_of(self, page: Page, found: Ids) -> _Answers:
        missing = found < 0
        if self._rows:
            indices = pa.array(found, mask=missing)
            rows = self._known().rows
            columns = [rows.column(old).take(indices) for old in self.columns.values()]
        else:
            assert self._schemas is not None
            table = self._schemas[1]
            columns = [pa.nulls(len(page), table.field(old).type) for old in self.columns.values()]
        return _Answers(found, columns)

    def _give(self, page: Page, found: Ids, sign: int, emit: Emit) -> None:
        self._emit(page, self._answers_of(page, found), sign, emit)

    def _emit(self, page: Page, answers: _Answers, sign: int, emit: Emit) -> None:
        """Emit tuples with what was found; `sign` 0 for none."""
        if self.required and (there := answers.found >= 0).sum() < len(page):
            page, answers = page.select(there), answers.select(there)
        if not len(page):
            return
        arrow = self._arrow(page.schema)
        signs = [pa.array(np.full(len(page), sign, np.int8))] if sign else []
        columns = [*page.batch.columns, *answers.columns, *signs]
        emit(Page(Schema(arrow), pa.RecordBatch.from_arrays(columns, schema=arrow)))

    def _known(self) -> _Found:
        """Return the rows of the table with their index, made anew where there are new ones."""
        if self._lookup is None:
            rows = concatenate(self._rows[0].schema, self._rows)
            self._rows = [rows]
            columns = [rows.column(key) for key in self.keys]
            index = KeyIndex([rows.schema.field(key) for key in self.keys])
            ids = index.assign(columns)
            since, timed = rows.timed(self.since)
            if timed is not None:
                since = np.where(timed, since, BEFORE_ALL)
            order = np.lexsort((since, ids)).astype(np.int32)
            last = np.append((np.diff(ids[order]) != 0) | (np.diff(since[order]) != 0), True)
            if not last.all():
                order = np.lexsort((self._ranks(rows), since, ids)).astype(np.int32)
            order = order[last]
            ids, since = ids[order], since[order]
            firsts = np.searchsorted(ids, np.arange(len(index) + 1)).astype(np.int32)
            until = np.where(np.append(np.diff(ids) == 0, False), np.append(since[1:], 0), FOREVER)
            if self.first_holds:
                since[firsts[:-1]] = BEFORE_ALL
            self._lookup = _Found(rows, index, Versions(firsts, since, order), np.sort(until))
        return self._lookup

    def _ranks(self, rows: Page) -> Int64s:
        """Return by which number rows of one key and time are told apart, whatever the order in which they came."""
        if not self.columns:
            return np.zeros(len(rows), np.int64)
        table = pa.table({str(place): sort_key(rows.column(old)) for place, old in enumerate(self.columns.values())})
        keys = [(name, "ascending") for name in table.column_names]
        order = np.asarray(pc.sort_indices(table, sort_keys=keys), np.int64)
        ranks = np.empty(len(rows), np.int64)
        ranks[order] = np.arange(len(rows))
        return ranks

    def _forget(self, least: int) -> None:
        """Drop the rows that no tuple from `least` on can find; where they are few beside the others, later."""
        if not self._rows:
            return
        if least == FOREVER:
            self._rows, self._lookup = [], None
            return
        known = self._known()
        superseded = len(known.rows) - len(known.until)
        gone = int(np.searchsorted(known.until, least, side="right")) + superseded
        if not gone or (2 * gone < len(known.rows) and len(known.rows) > _FEW):
            return
        versions = known.versions
        ids = np.repeat(np.arange(len(versions.firsts) - 1), np.diff(versions.firsts))
        until = np.where(np.append(np.diff(ids) == 0, False), np.append(versions.since[1:], 0), FOREVER)
        kept = known.rows.take(np.sort(versions.rows[until > least]))
        self._rows, self._lookup = [kept] if len(kept) else [], None

    def _arrow(self, stream: Schema) -> pa.Schema:
        """Return the attributes of the output over those of a page of the stream."""
        assert self._schemas is not None
        table, where = self._schemas[1], f"lookup in {self.name}"
        fields = list(stream.arrow)
        for name, old in self.columns.items():
            if name in stream.names:
                raise SchemaError(
                    f'{where}: the input already has an attribute "{name}".\n  input: {", ".join(stream.names)}\n'
                    f'  Choose other names, e.g. by prefix="{self.name}_".'
                )
            field = table.field(old, where=where).with_name(name).with_nullable(True)
            qualified = f"{self.name}.{old}"
            fields.append(field if len(qualified.split()) != 1 else aliased(field, [qualified]))
        if not self.wait:
            if SIGN in (*stream.names, *self.columns):
                raise SchemaError(f'{where}: "{SIGN}" says what is taken back; give the attribute another name.')
            fields.append(pa.field(SIGN, pa.int8()))
        return pa.schema(fields)


@attrs.frozen(eq=False)
class _Answers:
    """The row that each of some tuples found, and its values."""

    found: Ids
    columns: Sequence[pa.Array]

    def select(self, mask: Bools) -> _Answers:
        """Return the answers for some of the tuples."""
        chosen = pa.array(mask)
        return _Answers(self.found[mask], [column.filter(chosen) for column in self.columns])

    def fields(self) -> list[pa.Field]:
        """Return a field of the type of each column."""
        return [pa.field("found", column.type) for column in self.columns]


def _bound(progress: Progress, name: str) -> int:
    """Return the bound of an input: BEFORE_ALL before its first promise, FOREVER behind its last."""
    if progress.ended:
        return FOREVER
    bound: Value | None = progress.bound(name)
    return bound if isinstance(bound, int) else BEFORE_ALL
