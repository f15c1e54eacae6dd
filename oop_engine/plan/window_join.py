"""A window join as a plan has it: the join itself, what it needs to know of each input, and what is said of it.

Pages come with the attributes that anybody reads, from a meld not all with the same ones; the join wants each input's
attributes in one order. Attributes that no operator reads are neither asked of the inputs, nor stored, nor emitted
(`keeping`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.plan.ticks import ticks_text
from oop_engine.plan.windows import window_text
from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.join import Band, FlushedJoin, OAJoin, OPIBJoin, OPOBJoin, SameWindow, WidJoin
from operators.join.cardinality import CARDINALITIES
from operators.join.paces import join_paces
from operators.pace import Paces
from operators.plan_facts import Attributes, HeldBack, HoldsBack, InOrder, Outlasts, Together, disclaimed_groups
from operators.protocol import Emit, State, StateValue
from operators.protocol_checks import fits
from operators.retractions import SIGN, Retracted, Retracting, refused
from operators.window_aggregate.partial_final import CompleteFlush, Flush
from punctuation import Punctuation

SIDES = ("left", "right")
Buffered: TypeAlias = Literal["", "output", "input"]


@attrs.define(eq=False)
class WindowJoin:
    """Run a join over pages that have more attributes than it needs, or lack some that only their names matter of.

    Pass, Keep, Propagate, cost: those of `join`. Source: thesis 5.2 and 7.1.

    >>> from operators.drive import drive, rows
    >>> schema = Schema.of(ts=pa.int64(), k=pa.string(), n=pa.int64(), progress=["ts"])
    >>> join = WindowJoin(OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")]), (schema, schema))
    >>> join = join.keeping({"right_n"})
    >>> [sorted(names) for names in join.reads]
    [['k', 'ts'], ['k', 'n', 'ts']]
    >>> one = Page.of(schema, {"ts": [7], "k": ["a"], "n": [1]})
    >>> other = Page.of(schema, {"ts": [8], "k": ["a"], "n": [2]})
    >>> rows(drive(join, [(0, one), (1, other)]))
    [{'right_n': 2}]
    """

    join: OAJoin
    schemas: tuple[Schema, Schema]
    """The attributes of each input that the join knows of."""
    buffered: Buffered = attrs.field(default="", kw_only=True)
    """What is held back for the sake of order in the left time: pairs ("output"), left tuples ("input"), or nothing."""
    signed: bool = attrs.field(default=False, kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """Whether tuples of an input may take back others: a pair is taken back by the pair of what takes back one side."""
    flush: Flush = attrs.field(default=CompleteFlush(), kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """How tuples without a partner leave once they are settled, where results need no order."""
    _running: OAJoin | FlushedJoin | OPOBJoin | OPIBJoin = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._running = self._made()
        self._running.output_schema(*self.schemas)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return attrs.evolve(found, standing=frozenset[str]()) if found and self.signed else refused(self, found)

    @property
    def multiplies(self) -> bool:
        """Return whether the signs of both inputs may be multiplied: each pair comes out, and its signs decide none."""
        asked = {names[SIGN] for names in self.names if SIGN in names} & self._asked()
        # A tuple and what takes it back have one partner each, but their partner has two.
        plain = self.join.kind == "inner" and self.join.cardinality == "many to many"
        return plain and not asked and not any(self._extremes.values())

    @property
    def inputs(self) -> int:
        return 2

    @property
    def wattrs(self) -> tuple[str, str]:
        """Return the windowing attribute of each input."""
        left, right = (
            schema.resolve(name, where="join")
            for schema, name in zip(self.schemas, self.join.window.attributes, strict=True)
        )
        return left, right

    @property
    def on(self) -> tuple[tuple[str, str], ...]:
        """Return the equality attributes, left and right."""
        left, right = self.schemas
        return tuple((left.resolve(a, where="join"), right.resolve(b, where="join")) for a, b in self.join.on)

    @property
    def names(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the names of each input's attributes where both are seen at once."""
        left, right = self.schemas
        return {n: n for n in left.names}, {n: self.join.prefix + n if n in left else n for n in right.names}

    @property
    def reads(self) -> tuple[Attributes, Attributes]:
        """Return the attributes of each input that are looked at, or come out."""
        seen = {*self._kept(), *self._asked()}
        left, right = (frozenset(name for name, called in names.items() if called in seen) for names in self.names)
        keys = self.on
        return left | {self.wattrs[0], *(a for a, _ in keys)}, right | {self.wattrs[1], *(b for _, b in keys)}

    def keeping(self, names: Collection[str]) -> WindowJoin:
        """Return the join that puts out these attributes alone; one of its own when it would be none."""
        left, right = self.names
        called = list(left.values()) if self._filtering else [*left.values(), *right.values()]
        kept = [name for name in called if name in names and name in self._kept()]
        if self.buffered == "output" and (time := left[self.wattrs[0]]) not in kept:
            kept = [time, *kept]
        extremes = {which: name if name in names else "" for which, name in self._extremes.items()}
        if not kept and not any(extremes.values()):
            # Both tuples of a pair have the value of an equality attribute, so the stored one is not looked for.
            kept = [left[self.on[0][0] if self.on else self.wattrs[0]]]
        join = attrs.evolve(self.join, attributes=kept, **extremes)
        return attrs.evolve(self, join=join)._narrowed()

    def holding(self, buffered: Buffered) -> WindowJoin:
        """Return the join that keeps order by holding something back; what is sorted has the left time with it."""
        time, kept = self._times()[0], self.join.attributes
        if buffered == "output" and kept and time not in kept:
            kept = (time, *kept)
        return attrs.evolve(self, join=attrs.evolve(self.join, attributes=kept), buffered=buffered)

    def in_order(self, wanted: str | None, buffer: str, *inputs: Schema) -> InOrder:
        time = self._times()[0]
        if wanted is not None and wanted != time and self.output_schema(*inputs).progressing(wanted):
            # In the order of another time the pairs are sorted above.
            return InOrder(self.holding(""), self.wattrs)
        inputs_held = buffer == "input" and self.join.kind == "inner" and self.join.cardinality == "many to many"
        return InOrder(self.holding("input" if inputs_held else "output"), self.wattrs, time)

    def output_schema(self, *inputs: Schema) -> Schema:
        left, right = (_knowing(given, own) for given, own in zip(inputs, self.schemas, strict=True))
        return self._made().output_schema(left, right)

    def pairing(self) -> tuple[str, str, int]:
        first, last = self.join.window.partners(np.zeros(1, np.int64), 0)
        return (*self.wattrs, max(abs(int(first[0])), abs(int(last[0])), self.join.window.span // 2))

    def together(self, *inputs: Schema) -> Together:
        if self.buffered:
            return Together.in_order(self)
        if not self.on:
            return Together(why="a join without an equality: any two tuples may be partners")
        left, right = self.names
        kept = {"full": (), "right": ({}, right)}.get(self.join.kind, (left,))
        return Together(keys=(tuple(a for a, _ in self.on), tuple(b for _, b in self.on)), kept=kept)

    def disclaimed(self, unwanted: Punctuation, *inputs: Schema) -> Sequence[Punctuation | None]:
        left, right = ({called: name for name, called in names.items()} for names in self.names)
        whole = (self.join.kind in ("inner", "left", "semi", "anti"), self.join.kind in ("inner", "right"))
        groups = disclaimed_groups(self.together(*inputs), unwanted, inputs)
        # Every tuple of the output has one of such an input.
        return [
            (unwanted.onto(names) if all_of_it else None) or group
            for names, all_of_it, group in zip((left, right), whole, groups, strict=True)
        ]

    def needless(self, port: int) -> Punctuation | None:
        running = self._running
        return running.needless(port) if fits(running, Outlasts) else None

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return self.reads

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        extremes = {"least": self.join.least, "greatest": self.join.greatest}
        window, names = self.join.window, self.names
        return join_paces(window, wanted, schemas=self.schemas, wattrs=self.wattrs, names=names, **extremes)

    def promised_when(self, attribute: str, bound: int) -> Sequence[tuple[int, str, int]]:
        join = attrs.evolve(self.join)
        join.output_schema(*self.schemas)
        return join.promised_when(attribute, bound)

    def held_back(self, attribute: str, bound: int | None) -> HeldBack | None:
        running = self._running
        return running.held_back(attribute, bound) if fits(running, HoldsBack) else None

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._running.process(self._known(page, port), emit, port)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._running.punctuate(punctuation, emit, port)

    def statistics(self) -> dict[str, int]:
        return self._running.statistics()

    def state(self) -> State:
        return self._running.state()

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self._running.restore(state)

    def notes(self, counts: Mapping[str, int]) -> Iterator[str]:
        if number := counts.get("not_unique", 0):
            yield (
                f"{number:,} tuple{'s' * (number > 1)} had a key that a near tuple of the same input had, too; some"
                " pairs may be missing: leave the cardinality of the join out"
            )

    def remarks(self) -> tuple[str, ...]:
        """Say what `explain` says of the join: which pairs, how they are found, what is kept and for how long."""
        kind, on, residual = self.join.kind, self.on, self.join.residual
        found = [self._which()]
        keys = ", ".join(f"{a} = {self.names[1][b]}" for a, b in on)
        found.append(f"hashed on {keys}" if on else "no equality: all pairs within the window are looked at")
        if residual is not None:
            found.append(f"of these the pairs with {residual}")
        for port in (0, 1):
            attributes = ", ".join(n for n in self.schemas[port].names if n in self.reads[port])
            found.append(f"keeps of the {SIDES[port]} {attributes}: {self._stays(port)}")
        if kind in ("left", "right", "full"):
            whose = "a tuple" if kind == "full" else f"a {kind} tuple"
            found.append(f"{whose} without a partner leaves once, beside nulls, when it can get none any more")
        elif kind == "semi":
            found.append("a left tuple leaves once, with its first partner, and is then forgotten")
        elif kind == "anti":
            found.append("a left tuple leaves when it can get no partner any more, and is forgotten when it gets one")
        found += self._once()
        if self.signed:
            found.append("pairs are taken back, by sign -1, when one of their tuples is")
        if self.join.promises != "both":
            found.append(f"makes {self.join.promises} promises only")
        if self.flush.delay:
            found.append(self._flushed())
        if self.buffered:
            held = {"output": "pairs are held back", "input": "left tuples are held back, with all their partners"}
            found.append(f"{held[self.buffered]} until they can leave in the order of {self._times()[0]}")
        return tuple(found)

    def _made(self) -> OAJoin | FlushedJoin | OPOBJoin | OPIBJoin:
        join = attrs.evolve(self.join)
        if self.buffered == "output":
            return OPOBJoin(join)
        if self.buffered == "input":
            return OPIBJoin(join)
        flush = self.flush
        return FlushedJoin(join, every=flush.every, delay=flush.delay) if flush.delay else join

    @property
    def _filtering(self) -> bool:
        return self.join.kind in ("semi", "anti")

    @property
    def _extremes(self) -> dict[str, str]:
        return {"least": self.join.least, "greatest": self.join.greatest}

    def _kept(self) -> Collection[str]:
        """Name the inputs' attributes that come out."""
        if self.join.attributes:
            return self.join.attributes
        left, right = self.names
        return left.values() if self._filtering else [*left.values(), *right.values()]

    def _asked(self) -> frozenset[str]:
        """Name the attributes that the residual predicate looks at."""
        if self.join.residual is None:
            return frozenset()
        fields = [
            schema.arrow.field(name).with_name(called)
            for schema, names in zip(self.schemas, self.names, strict=True)
            for name, called in names.items()
        ]
        joined = Schema(pa.schema(fields))
        return self.join.residual.reads(joined, where="join")

    def _narrowed(self) -> WindowJoin:
        """Return the join with the attributes it reads, and the left ones that share a right one's name.

        Of these the name must stay known, for the right one is renamed because of them.
        """
        left, right = self.reads
        known = (left | (right & frozenset(self.schemas[0].names)), right)
        schemas = tuple(_only(schema, names) for schema, names in zip(self.schemas, known, strict=True))
        return attrs.evolve(self, schemas=schemas)

    def _known(self, page: Page, port: int) -> Page:
        schema = self.schemas[port]
        if page.schema.names == schema.names:
            return page
        # A name alone matters of an attribute that is not there.
        arrays = [page.column(f.name) if f.name in page.schema else pa.nulls(len(page), f.type) for f in schema.arrow]
        return Page(schema, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))

    def _once(self) -> list[str]:
        """Say which tuples go with their only partner, as their user states, and what makes sure of that."""
        found: list[str] = []
        for port, once in enumerate(CARDINALITIES[self.join.cardinality]):
            if once:
                keys = ", ".join(pair[1 - port] for pair in self.on) or "the time alone"
                found.append(
                    f"a {SIDES[port]} tuple goes with its first partner: {self.join.cardinality} states that {keys} of"
                    f" the {SIDES[1 - port]} input is a key, which is checked"
                )
        return found

    def _flushed(self) -> str:
        """Say how tuples without a partner leave."""
        if self.buffered:
            return "tuples without a partner leave at once: results are held back for their order anyway"
        every, late = self.flush.every, self.amount(self.flush.delay * self.join.window.span, 0)
        how = f"leave one for every {every} tuples that come, and" if every else "wait, and leave"
        return f"tuples without a partner {how} at most {late} late"

    def _which(self) -> str:
        left, right = self._times()
        window = self.join.window
        match window:
            case Band():
                less = "<=" if window.closed else "<"
                earlier = f"{left} - {self.amount(window.right, 1)}" if window.right else left
                later = f"{left} + {self.amount(window.left, 0)}" if window.left else left
                return f"band {earlier} {less} {right} {less} {later}: {self._apart(window)}"
            case SameWindow():
                size = self.amount(window.size, 0)
                origin = f", counted from {self.amount(window.origin, 0)}" if window.origin else ""
                return f"pairs in the same window of {size}{origin}: floor({left} / {size}) = floor({right} / {size})"
            case WidJoin():
                one, other = (window_text(w, s) for w, s in zip((window.left, window.right), self.schemas, strict=True))
                return f"pairs of windows {one} of the left and {other} of the right, related by {window.relation}"
            case _:
                return f"pairs of {left} and {right} that are related by {window}"

    def _apart(self, window: Band) -> str:
        """Say in words how far apart two tuples of a band may be."""
        within = "at most" if window.closed else "less than"
        after, before = (
            f"{within} {self.amount(length, port)}" if length else ""
            for port, length in enumerate((window.left, window.right))
        )
        if after and before:
            return f"the right one is {after} after the left one, or {before} before it"
        if after or before:
            where, never = ("after", "before") if after else ("before", "after")
            return f"the right one is {after or before} {where} the left one, and not {never} it"
        return "both have one time"

    def _stays(self, port: int) -> str:
        """Say until when a tuple is kept."""
        window, time = self.join.window, self._times()[port]
        other = SIDES[1 - port]
        if isinstance(window, Band):
            length = window.left if port == 0 else window.right
            last = f"{time} + {self.amount(length, port)}" if length else time
            return f"a tuple until the {other} input is promised {'past' if window.closed else 'up to'} its {last}"
        if isinstance(window, SameWindow):
            return f"a tuple until the {other} input is promised up to the end of its window"
        return f"a tuple until the {other} input is promised past its last partner"

    def _times(self) -> tuple[str, str]:
        names, wattrs = self.names, self.wattrs
        return names[0][wattrs[0]], names[1][wattrs[1]]

    def amount(self, ticks: int, port: int) -> str:
        """Write an amount of an input's windowing attribute as people do."""
        return ticks_text(ticks, self.schemas[port].field(self.wattrs[port]).type)


def _knowing(given: Schema, own: Schema) -> Schema:
    """Return a schema of own attributes with the promises of a given one that are on these."""
    names = set(own.names)
    return own.with_progress([promise for promise in given.progress if promise <= names])


def _only(schema: Schema, names: Attributes) -> Schema:
    arrow = pa.schema([field for field in schema.arrow if field.name in names])
    return Schema(arrow, progress=[promise for promise in schema.progress if promise <= names])
