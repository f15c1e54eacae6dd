"""A decoder turns datagrams of flow exports into record batches: any bytes give records or a counted reason.

    decoder = FlowDecoder(columns=("ts", "srcIP", "bytes"))
    for batch in decoder.decode(Datagrams.of(payloads)): ...
    decoder.exporters()     what each exporter sent, what was lost of it, what could not be read

Records leave in the order of their datagrams. Data that come before their template are held back, within bounds, and
leave when it comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import fill as f
from oop_engine.sources.flows import walk as w
from oop_engine.sources.flows.admission import FREELY, Admission
from oop_engine.sources.flows.counters import ExporterCounters, counted
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder_state import restore_sessions, save_sessions
from oop_engine.sources.flows.elements import Element
from oop_engine.sources.flows.exporter_names import (
    ANNOUNCED,
    ANNOUNCED_AT,
    NAME_SCHEMA,
    Named,
    kinds_in,
    read_names,
)
from oop_engine.sources.flows.exporter_state import FACTS, SAVED, SAVED_BEFORE, save_learnt, template_of
from oop_engine.sources.flows.heartbeats import Heartbeats, parts_of
from oop_engine.sources.flows.layout import Layout, Room, Runs
from oop_engine.sources.flows.options import Announced, of_interest, read_options
from oop_engine.sources.flows.parts import Hearing
from oop_engine.sources.flows.plans import Plan, compile_plan
from oop_engine.sources.flows.sample import Sample
from oop_engine.sources.flows.sampled import fill_samples
from oop_engine.sources.flows.schema import COMMON, Column, more_columns
from oop_engine.sources.flows.sessions import Held, Plans, Sessions
from oop_engine.sources.flows.templates import Fault, Field, Template, Withdrawal, read_templates
from operators.data.distinct import distinct
from operators.data.page import Bools, Int64s
from operators.data.saved import fitting, read_batch, read_int, read_integers
from operators.errors import SchemaError, did_you_mean
from operators.kernels.ticks import FOREVER
from operators.protocol import State, StateValue

MOST_RECORDS: Final = 2000
"""Records in one datagram; a file of IPFIX has longer messages, and no bound but theirs."""

LIFETIME: Final = 7_200 * 10**9
"""How long a template is good, in ns: four times the half hour after which routers send theirs again."""

_MOST_ROWS: Final = 65_536
"""Rows that are filled at once, if there are as many; a batch is a slice of them."""
_MOST_RUNS: Final = 16_384
_ROOM: Final = 1024
_V5_LAYOUT: Final = (
    (8, 4), (12, 4), (15, 4), (10, 2), (14, 2), (2, 4), (1, 4), (22, 4), (21, 4), (7, 2), (11, 2), (210, 1), (6, 1),
    (4, 1), (5, 1), (16, 2), (17, 2), (9, 1), (13, 1), (210, 2),
)  # fmt: skip
_V5_TEMPLATE: Final = Template(0, tuple(Field(number, length) for number, length in _V5_LAYOUT))
_V1_LAYOUT: Final = (*_V5_LAYOUT[:11], (210, 2), (4, 1), (5, 1), (6, 1), (210, 7))
_V1_TEMPLATE: Final = Template(0, tuple(Field(number, length) for number, length in _V1_LAYOUT))
_V7_TEMPLATE: Final = Template(0, (*_V5_TEMPLATE.fields, Field(43, 4)))
_SFLOW_TEMPLATE: Final = Template(0, ())
_MOST_TEMPLATES: Final = 100
"""Templates in one set that came over UDP."""
_HELD_SETS: Final = 64
_HELD_BYTES: Final = 64 << 10
_COMPILED: Final = 1024
"""Layouts whose plans are kept."""
# What is counted as work beside the bytes read, see `entries`.
_SET_WORK: Final = 32
_TEMPLATE_WORK: Final = 32
_OPTION_WORK: Final = 16
_HOLD_WORK: Final = 48
_COMPILE_WORK: Final = 256
_FLUSH_WORK: Final = 1024

Networks = Sequence[tuple[bytes, bytes]]


def _words(address: bytes) -> tuple[int, int]:
    """Return an address as it lies in memory."""
    high, low = (int(part) for part in np.frombuffer(address, np.uint64))
    return high, low


def network_numbers(networks: Networks) -> NDArray[np.uint64]:
    """Return networks as the walk has them, see `is_allowed`."""
    ends = [int.from_bytes(end[k : k + 8], "big") for network in networks for end in network for k in (0, 8)]
    return np.array(ends, np.uint64).reshape(-1, 4)


_ANYWHERE: Final = network_numbers(())
_NONE: Final = np.zeros(0, np.int64)
_NONE_SPOKE: Final = np.zeros(0, np.int32)


def _filled_with(value: Sequence[object] | object, rows: int, kind: pa.DataType) -> pa.Array:
    """Return a column of these values, or of one value in all rows; times are given in ns."""
    values = value if isinstance(value, list) else [value] * rows
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


def flow_columns(more: Iterable[str | Element] = ()) -> tuple[Column, ...]:
    """Return the common columns and those a user names beyond them."""
    return (*COMMON, *more_columns(more))


def flow_schema(columns: Iterable[Column], *, announced: bool = False) -> pa.Schema:
    """Return the schema of these columns, with those of names where exporters' names are rows of their own."""
    return pa.schema([*(column.field for column in columns), *(NAME_SCHEMA if announced else ())])


class FlowDecoder:
    """Decode NetFlow v1, v5, v7, v9, IPFIX and sFlow v5, told apart by their headers.

    `available` are the columns there could be (templates are checked against all of them), `columns` the names of those
    that are decoded. `allow` are networks, as their first and last address, from which exporters may send; other
    datagrams are counted as refused. `lifetime` is how long a template is good after it was last sent, in ns.
    `reliable`: the datagrams come as they were sent, as from a file, so that templates may be withdrawn, as they may
    not over UDP. Those of connections do, too (see `channel`); their templates end with them (`end_streams`).
    `hold_for` is how long, in ns, data wait for their template. `heard` sees every batch, with who sent
    its records and when, before it leaves. `admission` bounds how fast senders become known.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        available: tuple[Column, ...] = COMMON,
        batch_rows: int = 65_536,
        allow: Networks | None = None,
        most_records: int = MOST_RECORDS,
        lifetime: int | None = LIFETIME,
        hold_for: int = 600 * 10**9,
        reliable: bool = False,
        heard: Hearing | None = None,
        admission: Admission | None = None,
        announced: bool = False,
    ) -> None:
        if batch_rows < 1:
            raise ValueError(f"batch_rows is {batch_rows}; a batch holds at least one row.")
        whole = flow_schema(available, announced=announced)
        known = whole.names
        names = known if columns is None else list(columns)
        for name in names:
            if name not in known:
                raise SchemaError(f'flow records have no column "{name}".\n  {did_you_mean(name, known)}')
        self.schema: pa.Schema = pa.schema([field for field in whole if field.name in names])
        self._names = announced
        # The end of a flow may be told by its start and duration, and the other way round.
        needed = {*names, "ts", "end_ts"} if {"ts", "end_ts"} & set(names) else set(names)
        self._available = available
        self._layout = Layout(tuple(column for column in available if column.name in needed))
        self._batch_rows = batch_rows
        self._most_rows = max(batch_rows, most_records, _MOST_ROWS)
        self._most_records = most_records
        self._allow = allow
        self._networks = network_numbers(allow or ())
        self._admission = admission
        self._lifetime = lifetime
        self._hold_for = hold_for
        self._reliable = reliable
        self._heard = heard
        self.sessions = Sessions(Plans(np.zeros((8, len(self._layout.columns)), np.uint8)))
        self._kept = {number: self._layout.offsets.get(column.name, -1) for number, column in enumerate(available)}
        self._compiled: dict[tuple[tuple[Field, ...], bool], Plan] = {}
        plans = self.sessions.plans
        for template in (_V5_TEMPLATE, _SFLOW_TEMPLATE, _V1_TEMPLATE, _V7_TEMPLATE):
            plans.compiled(plans.add(0, FOREVER, 0), self._plan(template), e.K_FLOWS)
        self._cursor = np.zeros(e.CURSOR_WIDTH, np.int64)
        self._runs = Runs.empty(_MOST_RUNS)
        self._heads = np.zeros((0, e.H_WIDTH), np.int64)
        self._sample: Sample | None = None
        self._heartbeats = Heartbeats()
        self._desk = np.zeros((4, _ROOM), np.int64)

    def decode(self, datagrams: Datagrams, sample: Sample | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the records of datagrams in batches of 1 to `batch_rows` rows; read them all before the next call.

        With a `sample`, only those of the datagrams it keeps, each standing for as many as it says; the others' are
        counted as shed, and all else of them is taken note of.
        """
        cursor, sessions, runs = self._cursor, self.sessions, self._runs
        self._sample = sample
        clock = int(cursor[e.C_CLOCK])
        cursor[:] = 0
        cursor[e.C_CLOCK] = clock
        self._welcome(datagrams)
        allowed = self._networks if datagrams.addressed else _ANYWHERE
        if len(self._heads) < len(datagrams):
            self._heads = np.zeros((len(datagrams), e.H_WIDTH), np.int64)
        self._heads[: len(datagrams), e.H_SESSION] = e.NOBODY
        self._heartbeats.begin(len(datagrams))
        while True:
            why = w.walk(
                datagrams.tables, len(datagrams), cursor, sessions.tables, sessions.plans.tables, self._heads,
                (self._most_records, self._most_rows), allowed, runs.lists,
            )  # fmt: skip
            if why in (e.DONE, e.FULL):
                yield from self._flush(datagrams)
                if why == e.DONE:
                    return
            elif why == e.STRANGER:
                self._stranger(datagrams)
            elif why == e.RESTARTED:
                yield from self._restarted(datagrams)
            elif why == e.TEMPLATES:
                yield from self._templates(datagrams)
            elif why == e.OPTIONS:
                yield from self._options(datagrams)
            elif why == e.RAW:
                self._compile(datagrams, int(cursor[e.C_TEMPLATE]))
            else:
                self._hold(datagrams)

    def finish(self) -> None:
        """Drop the data that still wait for their template: no more will come."""
        for session in range(len(self.sessions.known)):
            self._give_up(session, e.NO_TIME)

    def exporters(self) -> list[ExporterCounters]:
        """Return what was counted of each session, in the order they came, and last what is nobody's any more."""
        return counted(self.sessions)

    @property
    def learnt(self) -> int:
        """Return a number that changes with templates, rates, clocks and timeouts of exporters. Sequence numbers and
        what is sent again move it not.
        """
        return self.sessions.revision

    def state(self) -> State:
        """Return what exporters taught this decoder."""
        return {"sessions": save_learnt(self.sessions)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take up what another decoder was taught, of other columns or not; on a fresh one."""
        saved = read_batch(state, "sessions")
        if not saved.schema.equals(SAVED) and not saved.schema.equals(SAVED_BEFORE):
            raise ValueError(f"sessions are saved as {SAVED}, not as {saved.schema}")
        for row in saved.to_pylist():
            with fitting("sessions"):
                self._resume(row)

    def _resume(self, row: Mapping[str, Any]) -> None:
        """Know a session again by its row."""
        sessions, sender = self.sessions, row.get("sender", row["address"])
        if not self._lets_in(sender) or (row["version"] == e.SFLOW and "sender" not in row):
            return
        if len(row["facts"]) != len(FACTS) or len(row["samplers"]) % 3:
            raise ValueError(f"the saved state has {len(row['facts'])} facts of a session, and rates of samplers apart")
        number = sessions.admit(
            _words(row["address"]), _words(sender), row["port"], row["version"], row["domain"], refused=False,
            freely=self._reliable,
        )  # fmt: skip
        sessions.table[number, list(FACTS)] = np.array(row["facts"], np.int64)
        known, samplers = sessions.known[number], row["samplers"]
        known.active, known.inactive = row["active"], row["inactive"]
        for kind, key, rate in zip(samplers[::3], samplers[1::3], samplers[2::3], strict=True):
            sessions.rate(number, kind, key, rate)
        for one in row["templates"]:
            template = template_of(one["number"], one["scopes"], one["options"], one["fields"])
            self._take_in(number, template, one["expires"])

    def whole_state(self) -> State:
        """Return all that this decoder knows, counters and data that wait for a template with it, as a copy."""
        strangers = [] if self._admission is None else self._admission.state()
        return {
            **save_sessions(self.sessions),
            "clock": int(self._cursor[e.C_CLOCK]),
            "admission": np.array(strangers, np.int64),
        }

    def restore_whole(self, state: Mapping[str, StateValue]) -> None:
        """Go on as the decoder whose `whole_state` this was; on a fresh one of the same columns."""
        restore_sessions(self.sessions, state, self._compile_again)
        self._cursor[e.C_CLOCK] = read_int(state, "clock", least=0)
        if self._admission is not None:
            self._admission.restore(read_integers(state, "admission", length=2).tolist())

    def _compile_again(self, plan: int, template: Template) -> None:
        """Compile what was compiled before the state was saved; it was counted then."""
        self.sessions.plans.compiled(plan, self._plan(template), self._kind(template))

    def _kind(self, template: Template) -> int:
        """Return what the records of a template are."""
        if not template.options:
            return e.K_FLOWS
        read = of_interest(template) or (self._names and kinds_in(template))
        return e.K_READ_OPTIONS if read else e.K_OPTIONS

    def _flush(self, datagrams: Datagrams) -> Iterator[pa.RecordBatch]:
        rows, count = int(self._cursor[e.C_ROWS]), int(self._cursor[e.C_RUNS])
        self._cursor[e.C_ROWS] = self._cursor[e.C_RUNS] = 0
        silent = None
        if self._heard is not None:
            until = int(self._cursor[e.C_DATAGRAM])
            silent = self._heartbeats.before(until, self._runs.datagram[:count], datagrams, self._heads, self.sessions)
            silent = silent[~self._waited_for(datagrams, silent)]
        if rows or (silent is not None and len(silent)):
            yield from self._batches(datagrams, self._runs, count, rows, self._heads, self._sample, silent)
        self.sessions.plans.release()

    def _waited_for(self, datagrams: Datagrams, places: Int64s) -> Bools:
        """Return the datagrams whose session has data that wait for a template, and not for too long."""
        held, who = self.sessions.table[:, e.HELD], self._heads[places, e.H_SESSION]
        waiting = np.flatnonzero(held[who])
        for session, last in dict(zip(who[waiting].tolist(), places[waiting].tolist(), strict=True)).items():
            if (now := self._came(datagrams, last)) != e.NO_TIME:
                self._give_up(session, now)
        return held[who] > 0

    def _batches(
        self,
        datagrams: Datagrams,
        runs: Runs,
        count: int,
        rows: int,
        heads: NDArray[np.int64],
        sample: Sample | None = None,
        silent: Int64s | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Turn runs of records into batches; let be heard too which datagrams were `silent`, without records."""
        spoke, first = runs.datagram[:count], runs.row[:count]
        if sample is not None:
            records = runs.count[:count]
            runs, first, kept = sample.runs(runs, count)
            np.add.at(self.sessions.table[:, e.SHED], heads[spoke[~kept], e.H_SESSION], records[~kept])
            count, rows = len(runs.plan), int(runs.count.sum())
        batch = (
            self._filled(datagrams, runs, count, rows, heads) if rows else pa.RecordBatch.from_pylist([], self.schema)
        )
        if sample is not None:
            batch = sample.weighed(batch, runs)
        if self._heard is not None:
            batch = self._heard(batch, parts_of(heads, spoke, first, rows, silent))
        for start in range(0, rows, self._batch_rows):
            yield batch.slice(start, self._batch_rows)

    def _filled(
        self, datagrams: Datagrams, runs: Runs, count: int, rows: int, heads: NDArray[np.int64]
    ) -> pa.RecordBatch:
        """Decode the records of runs."""
        layout, plans = self._layout, self.sessions.plans
        room = layout.room(rows)
        out = room.bytes[: len(room.bytes) // 8 * 8]
        unrated = np.zeros(count, np.int64)
        types = (out, out.view(np.uint16), out.view(np.uint32), out.view(np.uint64), out.view(np.float64))
        f.fill(
            datagrams.data, count, runs.lists, heads, datagrams.address, plans.tables, self.sessions.samplers,
            (room.bases, room.sizes, layout.widths), types, (room.untimed, unrated), self._desk,
        )  # fmt: skip
        if unrated.any():
            np.add.at(self.sessions.table[:, e.UNRATED], heads[runs.datagram[:count], e.H_SESSION], unrated)
        if e.PLAN_SFLOW in runs.plan[:count]:
            bad = fill_samples(room, datagrams, runs, count, heads)
            np.add.at(self.sessions.table[:, e.BAD_SAMPLE], heads[runs.datagram[:count], e.H_SESSION], bad)
        batch = self._batch(room, datagrams, runs, count)
        self._count_untimed(batch, runs, count, heads)
        return batch

    def _batch(self, room: Room, datagrams: Datagrams, runs: Runs, count: int) -> pa.RecordBatch:
        layout, has = self._layout, self.sessions.plans.has
        plan = runs.plan[:count]
        used = plan[:1] if (plan == plan[0]).all() else distinct(plan)
        every: list[bool] = np.asarray(has[used].all(axis=0)).tolist()
        some: list[bool] = np.asarray(has[used].any(axis=0)).tolist()
        arrays: dict[str, pa.Array] = {}
        for number, column in enumerate(layout.columns):
            if column.name not in self.schema.names:
                continue
            filled: NDArray[np.bool_] | bool = every[number]
            if column.name == "exporter" and not datagrams.addressed:
                filled = False
            elif some[number] and not every[number]:
                filled = np.zeros(room.rows, np.bool_)
                f.present(count, runs.plan, runs.count, runs.row, has, number, filled)
            if number in room.present:
                known = np.full(room.rows, filled) if isinstance(filled, bool) else filled
                rows, present = room.present[number]
                known[rows] = present
                filled = known
            arrays[column.name] = room.array(number, filled, datagrams.data)
        if self._names:
            arrays |= {field.name: pa.nulls(room.rows, field.type) for field in NAME_SCHEMA}
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _count_untimed(self, batch: pa.RecordBatch, runs: Runs, count: int, heads: NDArray[np.int64]) -> None:
        """Count the records that lack a time which is asked for."""
        for name, entry in (("ts", e.UNTIMED), ("end_ts", e.UNENDED)):
            if name not in self.schema.names or not batch.column(name).null_count:
                continue
            absent = np.asarray(batch.column(name).is_null().to_numpy(zero_copy_only=False), np.int64)
            each = np.add.reduceat(absent, runs.row[:count])
            np.add.at(self.sessions.table[:, entry], heads[runs.datagram[:count], e.H_SESSION], each)

    def _now(self, datagrams: Datagrams) -> int:
        """Return when the datagram at hand came."""
        return self._came(datagrams, int(self._cursor[e.C_DATAGRAM]))

    def _came(self, datagrams: Datagrams, place: int) -> int:
        """Return when a datagram came, or was sent where that is not known."""
        arrived = int(datagrams.arrival[place])
        return arrived if arrived != e.NO_TIME else int(self._heads[place, e.H_EXPORT])

    def _welcome(self, datagrams: Datagrams) -> None:
        """Say how many strangers may be taken in now."""
        cursor, admission = self._cursor, self._admission
        cursor[e.C_STRANGERS] = cursor[e.C_REFUSED] = FREELY
        now = int(datagrams.arrival.max(initial=e.NO_TIME))
        if admission is not None and now != e.NO_TIME:
            cursor[e.C_STRANGERS], cursor[e.C_REFUSED] = admission.strangers.left(now), admission.refused.left(now)

    def _stranger(self, datagrams: Datagrams) -> None:
        cursor, sessions = self._cursor, self.sessions
        place = int(cursor[e.C_DATAGRAM])
        refused = not self._allowed(datagrams, place)
        streams = datagrams.port[place] >= e.STREAM
        if refused or not streams:
            cursor[e.C_REFUSED if refused else e.C_STRANGERS] -= 1
            if self._admission is not None and (now := int(datagrams.arrival[place])) != e.NO_TIME:
                (self._admission.refused if refused else self._admission.strangers).take(now)
        high, low = (int(part) for part in cursor[[e.C_HIGH, e.C_LOW]].view(np.uint64))
        sent_high, sent_low = (int(part) for part in datagrams.address[2 * place : 2 * place + 2])
        sessions.admit(
            (high, low), (sent_high, sent_low), int(datagrams.port[place]), int(cursor[e.C_VERSION]),
            int(cursor[e.C_DOMAIN]), refused=refused, freely=self._reliable or bool(streams),
        )  # fmt: skip

    def _allowed(self, datagrams: Datagrams, place: int) -> bool:
        if not datagrams.addressed:
            return True
        return self._lets_in(datagrams.address[2 * place : 2 * place + 2].tobytes())

    def _lets_in(self, address: bytes) -> bool:
        return self._allow is None or any(first <= address <= last for first, last in self._allow)

    def _restarted(self, datagrams: Datagrams) -> Iterator[pa.RecordBatch]:
        """Let the templates of an exporter go that began anew: it may number others so."""
        session = int(self._cursor[e.C_SESSION])
        yield from self._flush(datagrams)
        self._begin_anew(session)
        self._tell(self.sessions.table[session])

    def _begin_anew(self, session: int) -> None:
        for template in list(self.sessions.known[session].templates):
            self.sessions.drop(session, template)
        self._give_up(session, e.NO_TIME)
        self.sessions.begin_anew(session)

    def streams(self) -> list[tuple[bytes, int]]:
        """Return the connections of which something is known that ends with them: address (16 bytes) and channel."""
        sessions = self.sessions
        found = [
            (sessions.senders[n].tobytes(), int(sessions.table[n, e.T_PORT]))
            for n in sessions.streams()
            if sessions.known[n].templates or sessions.table[n, e.T_EXPECTED] != -1
        ]
        return list(dict.fromkeys(found))

    def end_streams(self, ended: Iterable[tuple[bytes, int]]) -> None:
        """Forget what connections taught that are over, given by address and channel; their counters stay."""
        over = frozenset(ended)
        for session in self.sessions.streams() if over else ():
            row = self.sessions.table[session]
            if (self.sessions.senders[session].tobytes(), int(row[e.T_PORT])) in over:
                self._begin_anew(session)
                row[e.T_EXPECTED] = row[e.T_CANDIDATE] = row[e.T_ALSO] = row[e.T_OLD_BOOT] = -1
                row[e.T_EXPORT], row[e.T_GAPS] = e.NO_TIME, 0
        self.sessions.plans.release()

    def _tell(self, row: NDArray[np.int64]) -> None:
        """Let the rest of the datagram know what its session has announced."""
        head = self._heads[self._cursor[e.C_DATAGRAM]]
        head[e.H_INIT], head[e.H_RATE], head[e.H_SAMPLERS] = row[e.T_INIT], row[e.T_RATE], row[e.T_SAMPLERS]

    def _body(self, datagrams: Datagrams) -> bytes:
        return datagrams.data[self._cursor[e.C_BODY] : self._cursor[e.C_BODY_END]].tobytes()

    def _work(self, datagrams: Datagrams, units: int) -> None:
        """Note what a datagram costs."""
        self._cursor[e.C_WORK] += units
        self.sessions.work(int(self._cursor[e.C_SESSION]), units, self._now(datagrams))

    def _templates(self, datagrams: Datagrams) -> Iterator[pa.RecordBatch]:
        """Learn the templates of a set, as many as a datagram may bring."""
        cursor = self._cursor
        session, version = int(cursor[e.C_SESSION]), int(cursor[e.C_VERSION])
        options = int(cursor[e.C_TEMPLATE]) in (1, 3)
        now = self._now(datagrams)
        room = e.MOST_WORK - int(cursor[e.C_WORK])
        reliable = self._is_reliable(session)
        work, good, many = _SET_WORK, 0, 0
        for many, found in enumerate(read_templates(self._body(datagrams), version, options=options), 1):
            row = self.sessions.table[session]
            work += _TEMPLATE_WORK + (4 * len(found.fields) if isinstance(found, Template) else 0)
            if not reliable and (many > _MOST_TEMPLATES or (work > room and many > 1)):
                row[e.BAD_TEMPLATE if many > _MOST_TEMPLATES else e.LEFT_OUT] += 1
                break
            if isinstance(found, Fault):
                row[e.BAD_TEMPLATE] += 1
            elif isinstance(found, Withdrawal):
                self._withdraw(session, found.number, options)
            else:
                row[e.TEMPLATES_SEEN] += 1
                good += 1
                yield from self._learn(datagrams, session, found, now)
        self._work(datagrams, work)
        if good and good == many:
            soon = self._expires(session, now, 16)
            self.sessions.was_read(session, int(cursor[e.C_BYTES]), good, soon)

    def _is_reliable(self, session: int) -> bool:
        """Return whether what a session sends comes as it was sent."""
        return self._reliable or self.sessions.is_stream(session)

    def _expires(self, session: int, now: int, part: int = 1) -> int:
        """Return until when a template is good that came `now`, or a part of that."""
        forever = self._lifetime is None or now == e.NO_TIME or self.sessions.is_stream(session)
        return FOREVER if forever or self._lifetime is None else now + self._lifetime // part

    def _withdraw(self, session: int, number: int, options: bool) -> None:
        known = self.sessions.known[session].templates
        row = self.sessions.table[session]
        if not self._is_reliable(session) or not (number >= 256 or number == 2 + options):
            row[e.BAD_TEMPLATE] += 1
            return
        for template in [t for t, _ in known.values() if t.number == number or (number < 4 and t.options == options)]:
            row[e.WITHDRAWN] += 1
            self.sessions.drop(session, template.number)

    def _learn(self, datagrams: Datagrams, session: int, template: Template, now: int) -> Iterator[pa.RecordBatch]:
        sessions, plans = self.sessions, self.sessions.plans
        expires = self._expires(session, now)
        known = sessions.known[session].templates.get(template.number)
        if known is not None and known[0] == template:
            plans.facts[known[1], e.P_EXPIRES] = expires
        else:
            if plans.scarce():
                yield from self._flush(datagrams)  # so that the numbers of retired plans can be used again
            self._take_in(session, template, expires)
        if any(held.template == template.number for held in sessions.known[session].held):
            yield from self._release(datagrams, session, template.number)

    def _take_in(self, session: int, template: Template, expires: int) -> None:
        """Learn a template; its plan is compiled when data come."""
        sessions = self.sessions
        sessions.make_room()
        plan = sessions.plans.add(template.number, expires, int(self._cursor[e.C_CLOCK]))
        sessions.learn(session, template, plan)

    def _compile(self, datagrams: Datagrams, number: int) -> None:
        """Compile a template of the session at hand when its first data are there, if that was not done."""
        session = int(self._cursor[e.C_SESSION])
        template, plan = self.sessions.known[session].templates[number]
        plans = self.sessions.plans
        if plans.facts[plan, e.P_KIND] != e.K_RAW:
            return
        many = len(self._compiled)
        compiled = self._plan(template)
        self._work(datagrams, _COMPILE_WORK if len(self._compiled) != many else _SET_WORK)
        self.sessions.table[session, e.BAD_FIELD] += compiled.mismatched
        plans.compiled(plan, compiled, self._kind(template))

    def _plan(self, template: Template) -> Plan:
        """Compile the layout of a template, or take what was compiled for the same."""
        layout = template.fields, template.options
        known = self._compiled.get(layout)
        if known is None:
            if len(self._compiled) >= _COMPILED:
                self._compiled.clear()
            columns = () if template.options else self._available
            known = compile_plan(template, columns)
            if template.options:
                known = attrs.evolve(known, has=np.zeros(len(self._layout.columns), np.uint8))
            else:
                known = known.only(self._kept)
            self._compiled[layout] = known
        return known

    def _release(self, datagrams: Datagrams, session: int, template: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of sets that waited for a template."""
        self._work(datagrams, _FLUSH_WORK)
        yield from self._flush(datagrams)
        known = self.sessions.known[session]
        ready = deque(held for held in known.held if held.template == template)
        known.held = deque(held for held in known.held if held.template != template)
        known.held_bytes -= sum(len(held.body) for held in ready)
        self._compile(datagrams, template)
        row = self.sessions.table[session]
        row[e.HELD] -= len(ready)
        plans, plan = self.sessions.plans, known.templates[template][1]
        facts = plans.facts[plan]
        if facts[e.P_KIND] != e.K_FLOWS:
            yield from self._late_options(datagrams, known.templates[template][0], plan, session, ready)
            return
        bodies = Datagrams.of([held.body for held in ready])
        heads = np.array([held.head for held in ready])
        runs, used, rows = Runs.empty(len(ready)), 0, 0
        for place in range(len(bodies)):
            held = ready.popleft()
            first, last = int(bodies.offset[place]), int(bodies.offset[place]) + len(held.body)
            if facts[e.P_VARIABLE]:
                count, fault = w.measure(
                    bodies.data, first, last, int(facts[e.P_SIZE]), int(facts[e.P_VARIABLE]), plan, plans.segments,
                    len(held.body),
                )  # fmt: skip
            else:
                count, fault = len(held.body) // int(facts[e.P_SIZE]), 0
            if fault:
                row[fault] += 1
            self._count(session, held, int(count), ready, whole=not fault)
            if count > self._most_records:
                row[e.TOO_MANY] += 1
                row[e.BEYOND] += count - self._most_records
                count = self._most_records
            bodies.address[2 * place : 2 * place + 2] = held.address
            if count:
                runs.plan[used], runs.at[used], runs.datagram[used] = plan, first, place
                runs.count[used], runs.row[used] = count, rows
                used += 1
            rows += int(count)
        row[e.RECORDS] += rows
        if rows:
            whence = attrs.evolve(bodies, addressed=datagrams.addressed)
            yield from self._batches(whence, runs, used, rows, heads)

    def _hold(self, datagrams: Datagrams) -> None:
        """Keep a set until its template comes, as long as there is room."""
        cursor = self._cursor
        session, place = int(cursor[e.C_SESSION]), int(cursor[e.C_DATAGRAM])
        known, row, number = self.sessions.known[session], self.sessions.table[session], int(cursor[e.C_TEMPLATE])
        if number in known.templates:  # it was not sent again for too long
            row[e.EXPIRED] += 1
            self.sessions.drop(session, number)
        now = self._now(datagrams)
        self._give_up(session, now)
        self._cursor[e.C_WORK] += _HOLD_WORK
        body = self._body(datagrams)
        if len(body) > _HELD_BYTES or not self._hold_for:
            row[e.NO_TEMPLATE] += 1
            cursor[e.C_UNITS] = -1
            return
        address = datagrams.address[2 * place : 2 * place + 2].copy()
        known.held.append(Held(number, body, self._heads[place].copy(), address, now, int(cursor[e.C_CLOCK])))
        known.held_bytes += len(body)
        row[e.HELD] += 1
        while len(known.held) > _HELD_SETS or known.held_bytes > _HELD_BYTES:
            self._let_go(session)

    def _give_up(self, session: int, now: int) -> None:
        """Count what has waited for its template too long; all of it where `now` is NO_TIME and nothing more comes."""
        held = self.sessions.known[session].held
        while held and (now == e.NO_TIME or now - held[0].since > self._hold_for):
            self._let_go(session)

    def _let_go(self, session: int) -> None:
        """Let go of the set that waits the longest, and so of knowing how many records its datagram has."""
        known, row = self.sessions.known[session], self.sessions.table[session]
        held = known.held.popleft()
        known.held_bytes -= len(held.body)
        row[e.HELD] -= 1
        row[e.NO_TEMPLATE] += 1
        self._count(session, held, 0, known.held, whole=False)

    def _count(self, session: int, held: Held, many: int, others: Iterable[Held], *, whole: bool) -> None:
        """Take note of how many records a set has that waited, so that the sequence tells again what was lost.

        `others` wait still, and `whole` is whether all of its records could be counted.
        """
        sequence = int(held.head[e.H_SEQUENCE])
        if sequence < 0:
            return
        if held.datagram == self._cursor[e.C_CLOCK]:  # the template is in the same datagram, behind it
            units = int(self._cursor[e.C_UNITS])
            self._cursor[e.C_UNITS] = units + many if whole and units >= 0 else -1
            self._cursor[e.C_WAITS] -= 1
            return
        waiting = chain(others, self.sessions.known[session].held)
        last = not any(other.head[e.H_SEQUENCE] == sequence for other in waiting)
        tables = self.sessions.table, self.sessions.gaps
        w.tell_units(*tables, session, sequence, many, int(last) if whole else -1)

    def _options(self, datagrams: Datagrams) -> Iterator[pa.RecordBatch]:
        """Take note of what a set of options announces."""
        cursor = self._cursor
        session, number, many = int(cursor[e.C_SESSION]), int(cursor[e.C_TEMPLATE]), int(cursor[e.C_COUNT])
        template, mark = self.sessions.known[session].templates[number][0], int(cursor[e.C_BYTES])
        whole = yield from self._tell_options(datagrams, template, self._body(datagrams), many)
        if whole:
            self.sessions.was_read(session, mark, 0, FOREVER)

    def _tell_options(
        self, datagrams: Datagrams, template: Template, body: bytes, many: int
    ) -> Generator[pa.RecordBatch, None, bool]:
        """Take note of what the first `many` records announce; tell whether all of them could be read."""
        session = int(self._cursor[e.C_SESSION])
        row = self.sessions.table[session]
        each = _OPTION_WORK + template.least
        most = many if self._is_reliable(session) else max((e.MOST_WORK - int(self._cursor[e.C_WORK])) // each, 1)
        self._work(datagrams, _SET_WORK + each * min(many, most))
        if many > most:
            row[e.LEFT_OUT] += 1
        try:
            announced = list(read_options(template, body, min(many, most)))
            named = list(read_names(template, body, min(many, most))) if self._names else []
        except ValueError:
            row[e.BAD_OPTIONS] += 1
            return False
        yield from self._announced(datagrams, session, announced)
        yield from self._named(datagrams, session, named)
        return many <= most

    def _named(self, datagrams: Datagrams, session: int, named: Sequence[Named]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each name that is news."""
        sessions, place = self.sessions, int(self._cursor[e.C_DATAGRAM])
        head, row = self._heads[place], sessions.table[session]
        arrival = int(datagrams.arrival[place])
        said = int(head[e.H_EXPORT]) if head[e.H_EXPORT] != e.NO_TIME else arrival
        news = [one for each in named for one in sessions.name(session, each, said)]
        if not news:
            return
        exporter = sessions.keys[session].tobytes() if datagrams.addressed else None
        values: dict[str, Sequence[object] | object] = {
            "exporter": exporter, "exporter_port": int(row[e.T_PORT]), "domain": int(row[e.T_DOMAIN]),
            "version": int(row[e.T_VERSION]), "sampling": 1, "lost": int(head[e.H_LOST]),
            "received": int(head[e.H_RECEIVED]), "export_ts": None if head[e.H_EXPORT] == e.NO_TIME else said,
            "arrival_ts": None if arrival == e.NO_TIME else arrival,
            ANNOUNCED: [one.kind for one, _ in news],
            ANNOUNCED_AT: [None if at == e.NO_TIME else at for _, at in news],
            "announced_id": [one.number for one, _ in news], "announced_key": [one.key for one, _ in news],
            "announced_name": [one.name for one, _ in news],
            "announced_description": [one.description for one, _ in news],
        }  # fmt: skip
        columns = [_filled_with(values.get(field.name), len(news), field.type) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if self._heard is not None:
            # Records that came before are heard before; these tell of no flow, so they earn nobody a say.
            if self._cursor[e.C_ROWS]:
                self._work(datagrams, _FLUSH_WORK)
            yield from self._flush(datagrams)
            batch = self._heard(batch, parts_of(self._heads, _NONE_SPOKE, _NONE, 0, np.array([place])))
        for start in range(0, len(batch), self._batch_rows):
            yield batch.slice(start, self._batch_rows)

    def _late_options(
        self, datagrams: Datagrams, template: Template, plan: int, session: int, ready: deque[Held]
    ) -> Iterator[pa.RecordBatch]:
        """Read options that came before their template: what they announce is the latest, and holds from here on."""
        row, facts = self.sessions.table[int(self._cursor[e.C_SESSION])], self.sessions.plans.facts[plan]
        read, variable, least = facts[e.P_KIND] == e.K_READ_OPTIONS, int(facts[e.P_VARIABLE]), int(facts[e.P_SIZE])
        while ready:
            held = ready.popleft()
            body = held.body
            many, fault = len(body) // least, 0
            if variable:
                data = np.frombuffer(body, np.uint8)
                many, fault = w.measure(data, 0, len(body), least, variable, plan, self.sessions.plans.segments, many)
            if fault:
                row[fault] += 1
            self._count(session, held, int(many), ready, whole=not fault)
            row[e.OPTION_RECORDS] += many
            if read and many:
                yield from self._tell_options(datagrams, template, body, int(many))

    def _announced(
        self, datagrams: Datagrams, session: int, announced: Sequence[Announced]
    ) -> Iterator[pa.RecordBatch]:
        """Take note of what an exporter announces; of records that came before holds what held before."""
        sessions = self.sessions
        row = sessions.table[session]
        row[e.UNUSED_RATES] += sum(said.unused for said in announced)
        news = False
        for said in announced:
            if sessions.is_news(session, said):
                if not news:
                    news = True
                    if self._cursor[e.C_ROWS]:
                        self._work(datagrams, _FLUSH_WORK)
                    yield from self._flush(datagrams)
                sessions.announce(session, said)
        if news:
            self._tell(row)
