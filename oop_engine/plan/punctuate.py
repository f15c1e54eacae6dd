"""The promises that users give to sources: frozen descriptions that become punctuators when a plan runs.

Amounts are durations as text ("2s", "10 minutes"), or integers where the attribute is a number. The plan adds how often
to promise: once each smallest slide downstream (thesis 8.1).

`jump` bounds how far one tuple may move a promise. A tuple that is further ahead of the highest time believed so far
moves none, until 16 tuples in a row are that far; with `lull`, which says that tuples come as they happen, it moves
none while it is further ahead of the clock. The tuple itself stays in the stream and counts in its own windows. "auto"
is 5 minutes with `lull` and 1 hour without, for times; for numbers there is no bound unless it is given. None believes
every tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.durations import HOUR, MINUTE
from oop_engine.plan.ticks import Amount, tick_ns, ticks_of, ticks_text
from operators.data.schema import Schema
from operators.streams.by_key import ByKey
from operators.streams.key_clocks import KeyClocks
from operators.streams.learnt_slack import LearntSlack
from punctuation.punctuators import BlockEnd, Embedded, Heartbeat, Ordered, Punctuator, Slack, TupleSlack

Make: TypeAlias = Callable[[pa.Field, "int | None", int], Punctuator]

Jump: TypeAlias = "Amount | None"
"""An amount, "auto", or None for any."""

_AHEAD: Final = {True: 5 * MINUTE, False: HOUR}
"""The jump for times, in ns, where none is given, with a clock and without."""
_MOST: Final = 100_000_000
"""Tuples of slack at most: their values are kept."""


@attrs.frozen
class Promise:
    """Say which attributes will be promised, how, and how that reads in a plan."""

    on: str
    how: str
    make: Make = attrs.field(repr=False, eq=False)
    group: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    """The attributes of the keys that make progress on their own."""
    clocks: tuple[str, ...] = ()
    """The attributes from which the clocks of keys are estimated."""

    def punctuator(self, schema: Schema, step: int | None, origin: int) -> Punctuator:
        """Make the punctuator for a stream, with the plan's granularity unless the user gave one."""
        return self.make(schema.field(self.on, where="punctuate"), step, origin)

    def jump_text(self, schema: Schema) -> str | None:
        """Say how far ahead a tuple may be to move the promise, and of what; None where it may be any."""
        punctuator = self.punctuator(schema, None, 0)
        jump = getattr(punctuator, "jump", None)
        if jump is None:
            return None
        far = ticks_text(jump, schema.field(self.on, where="punctuate").type)
        if self.by:
            return f"{far} ahead of their own {', '.join(self.by)}"
        return f"{far} ahead of the {'stream' if getattr(punctuator, 'lull', None) is None else 'clock'}"

    @property
    def attributes(self) -> tuple[str, ...]:
        """Name the attributes of the promise."""
        return (*self.group, self.on)

    @property
    def reads(self) -> tuple[str, ...]:
        """Name the attributes that are read to make the promise."""
        return (*self.by, *self.clocks, *self.attributes)

    def __str__(self) -> str:
        return f"{self.how} on {self.on}"


def ordered(
    on: str = "ts",
    *,
    every: int | None = None,
    step: Amount | None = None,
    lull: Amount | None = None,
    jump: Jump = "auto",
) -> Promise:
    """Promise the last value, of a stream that arrives in order.

    - `on`: the attribute that ascends.
    - `every`: promise once this many tuples; `step`: or once this much of `on`. By default as often as the plan needs.
    - `lull`: the source is live: after this much silence, promise by the clock.
    - `jump`: how far ahead a tuple may be and still move the promise: an amount, "auto" (1 hour, with `lull` 5
      minutes), or None for any.

    >>> stream = oop.rows(iter([(1,), (4,), (12,)]), oop.Schema.of(ts="int64"), punctuate=oop.ordered())
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        chosen, origin = _step(field, step, every, planned, origin)
        far = _jump(jump, field, lull is not None)
        return Ordered(on, every=every, step=chosen, origin=origin, lull=_amount(lull, field), jump=far)

    return Promise(on, f"ordered{_said(jump)}", make)


def every(step: Amount, on: str = "ts", *, lull: Amount | None = None, jump: Jump = "auto") -> Promise:
    """Promise the last value once every `step`, of a stream that arrives in order.

    - `step`: distance between two promises, such as "1 s".
    - `on`, `lull`, `jump`: as in `oop.ordered`.

    >>> stream = oop.rows(iter([(1,), (12,)]), oop.Schema.of(ts="int64"), punctuate=oop.every(5))
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 1]
    """
    return ordered(on, step=step, lull=lull, jump=jump)


def slack(
    amount: Amount,
    on: str = "ts",
    *,
    every: int | None = None,
    step: Amount | None = None,
    lull: Amount | None = None,
    jump: Jump = "auto",
    late_share: str | float | None = None,
) -> Promise:
    """Promise the highest value seen less `amount`: no tuple is further behind than that.

    - `amount`: such as "2 s", or an integer where `on` is a number. `oop.disorder` measures how much a stream needs.
      "auto" learns it from the tuples, and learns it anew as they become more or less late; the first promise then
      comes after 256 of them.
    - `late_share`: with "auto", the share of the tuples that may be further behind, by default "0.1 %".
    - `on`, `every`, `step`, `lull`, `jump`: as in `oop.ordered`.

    >>> stream = oop.rows(iter([(3,), (1,), (12,)]), oop.Schema.of(ts="int64"), punctuate=oop.slack(2))
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """

    if amount == "auto":
        return _learnt(on, every, step, lull, jump, _per_million("0.1 %" if late_share is None else late_share))
    if late_share is not None:
        raise PlanError(f'late_share is for a slack that is learnt, and this is {amount}; write oop.slack("auto").')

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        chosen, origin = _step(field, step, every, planned, origin)
        allowance = ticks_of(amount, field, what="slack")
        far = _jump(jump, field, lull is not None)
        return Slack(on, allowance, every=every, step=chosen, origin=origin, lull=_amount(lull, field), jump=far)

    return Promise(on, f"slack {amount}{_said(jump)}", make)


def _learnt(
    on: str, every: int | None, step: Amount | None, lull: Amount | None, jump: Jump, per_million: int
) -> Promise:
    """Promise by a slack that is learnt of the whole stream."""
    if every is not None:
        raise PlanError(f"every={every} and a slack that is learnt do not go together; give step=, or neither.")

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        chosen, origin = _step(field, step, None, planned, origin)
        far = _jump(jump, field, lull is not None)
        return LearntSlack(
            on, late_per_million=per_million, step=chosen, origin=origin, lull=_amount(lull, field), jump=far
        )  # fmt: skip

    return Promise(on, f"slack for {per_million / 10_000:g} % late{_said(jump)}", make)


def by_key(
    keys: str | Iterable[str],
    slack: Amount,
    on: str = "ts",
    *,
    idle: Amount = "1 minute",
    late_share: str | float = "0.1 %",
    step: Amount | None = None,
    lull: Amount | None = None,
    jump: Jump = "auto",
    arrival: str | None = None,
    clock: str | None = None,
    correct: bool | Iterable[str] = False,
) -> Promise:
    """Promise what every key has reached: its highest value less `slack`, the least over all keys that are not idle.

    So a key whose clock is ahead makes no tuple of another late. Tuples of a new key that are behind what was promised
    before it came are late, and counted by key. Promises do not depend on page sizes: each replay makes the same.

    - `keys`: the attribute that tells who sent a tuple, such as "exporter", or several; null is a key of its own.
    - `slack`: how far a tuple may be behind its own key, such as "35 s". "auto" learns it of each key.
    - `on`: the attribute that is promised.
    - `late_share`: the share of the tuples of a key that may be further behind it than a slack that is learnt, such as
      "0.1 %" or 0.001. While a key has too few tuples to tell, its slack is twice what it, or any key, needed so far.
    - `idle`: how far event time moves on until a silent key holds nothing back, or a key that was never heard: another
      key has had two tuples so far apart since. It may take an eighth longer.
    - `step`: as in `oop.ordered`.
    - `lull`: the source is live: a key is also idle after `idle` by the clock, and when all are, the clock less `lull`
      is promised.
    - `jump`: as in `oop.ordered`, but ahead of the tuple's own key.
    - `arrival`: the time at which a tuple came by your own clock, such as arrival_ts: one of the data, or that which
      `arrival_ts=True` adds. With it the clock of each key is estimated, as exporters' are: by how much its times are
      ahead of their arrivals at least. The notes of the run name the clocks that are off by more than a second.
    - `clock`: the time by the key's own clock when it sent a tuple, such as export_ts, where that is not `on`. Say it
      where tuples are sent long after their time, as flows are.
    - `correct`: put the times of each key right by its estimated clock: True for `on` and `clock`, or names of others
      besides, such as ("end_ts",). Windows, joins and results have the corrected times.

    >>> rows = [("fast", 100), ("slow", 3), ("fast", 109), ("slow", 4), ("fast", 130), ("slow", 9), ("slow", 31)]
    >>> schema = oop.Schema.of(who="string", ts="int64")
    >>> stream = oop.rows(iter(rows), schema, punctuate=oop.by_key("who", slack=5, idle=16))
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [3, 1, 2, 1]
    """
    by = (keys,) if isinstance(keys, str) else tuple(keys)
    if not by or not all(isinstance(name, str) and name for name in by):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(f'by_key is of {keys!r}; write the attribute that tells who sent a tuple, such as "exporter".')
    if on in by:
        raise PlanError(f'by_key makes promises on "{on}" by "{on}" itself; name the attribute of the keys.')

    others = () if isinstance(correct, bool) else (correct,) if isinstance(correct, str) else tuple(correct)
    if arrival is None and (clock is not None or correct):
        raise PlanError(
            'by_key estimates clocks from when tuples came: name that time, e.g. arrival="arrival_ts", which a source\n'
            "  adds with arrival_ts=True."
        )
    own = on if clock is None else clock
    right = tuple(dict.fromkeys((on, own, *others))) if correct else ()
    learns = slack == "auto"
    share = _per_million(late_share) if learns else None

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        chosen, origin = _step(field, step, None, planned, origin)
        rests = ticks_of(idle, field, what="idle")
        if rests <= 0:
            raise PlanError(f"idle is {idle}, so that every key would be idle at once; it must be positive")
        quiet, far = _amount(lull, field), _jump(jump, field, lull is not None)
        return ByKey(
            on, by, slack=0 if learns else ticks_of(slack, field, what="slack"), idle=rests, step=chosen,
            origin=origin, lull=quiet, jump=far, late_per_million=share,
            clocks=None if arrival is None else KeyClocks(by, own, arrival, right),
        )  # fmt: skip

    said = f"slack for {share / 10_000:g} % late" if share is not None else f"slack {slack}"
    how = "" if arrival is None else f", clocks {'corrected' if right else 'estimated'} by {arrival}"
    return Promise(
        on, f"{said} by {', '.join(by)}, idle after {idle}{_said(jump)}{how}", make, by=by,
        clocks=() if arrival is None else tuple(dict.fromkeys((own, arrival))),
    )  # fmt: skip


def tuple_slack(
    n: int,
    on: str = "ts",
    *,
    displacement: str = "position",
    every: int | None = None,
    lull: Amount | None = None,
    jump: Jump = "auto",
) -> Promise:
    """Promise what is true if tuples are at most `n` tuples late.

    - `n`: how many tuples.
    - `displacement`: "position": a larger value arrives at most `n` places before a tuple; "larger": at most `n` larger
      values arrive before a tuple, however far (BSort).
    - `on`, `every`, `lull`, `jump`: as in `oop.ordered`.

    >>> stream = oop.rows(iter([(3,), (1,), (12,)]), oop.Schema.of(ts="int64"), punctuate=oop.tuple_slack(1))
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """

    if not 0 <= n <= _MOST:
        raise PlanError(f"a slack of {n} tuples is not from 0 to {_MOST:,}; that many values are kept. Give a time.")

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        chosen, origin = _step(field, None, every, planned, origin)
        quiet, far = _amount(lull, field), _jump(jump, field, lull is not None)
        return TupleSlack(
            on, n, displacement=displacement, every=every, step=chosen, origin=origin, lull=quiet, jump=far
        )  # fmt: skip

    return Promise(on, f"slack of {n} tuples{_said(jump)}", make)


def blocks(on: str = "ts", *, length: Amount | None = None, block: str | None = None, jump: Jump = "auto") -> Promise:
    """Promise at the end of each block: blocks ascend, inside them the order is any (Fig 6-9).

    - `on`: the attribute whose blocks ascend.
    - `length`: length of a block, such as "1 minute"; `block`: or an attribute that numbers the blocks.
    - `jump`: as in `oop.ordered`.

    >>> stream = oop.rows(iter([(3,), (1,), (12,)]), oop.Schema.of(ts="int64"), punctuate=oop.blocks(length=10))
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        ticks = None if length is None else ticks_of(length, field, what="block")
        if ticks is not None and ticks <= 0:
            raise PlanError(f"blocks of {length} on {field.name} hold nothing; their length must be positive")
        far = _jump(jump, field, False)
        return BlockEnd(on, length=ticks, block=block, step=planned, origin=origin, jump=far)

    how = "block end" if length is None else f"block end, blocks of {length}"
    return Promise(on, f"{how}{_said(jump)}", make)


def embedded(marker: str, on: str = "ts", *, group: tuple[str, ...] = ()) -> Promise:
    """Read the promises out of the data: a marked row promises that nothing below its own value follows.

    - `marker`: the attribute that marks such rows, where it is true.
    - `on`: the attribute that is promised.
    - `group`: attributes; then a row promises only for tuples with its values of these.

    >>> schema = oop.Schema.of(ts="int64", last="bool")
    >>> stream = oop.rows(iter([(3, False), (10, True), (12, False)]), schema, punctuate=oop.embedded("last"))
    >>> stream.window(range=10).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 1]
    """

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        return Embedded(on, marker=marker, group=group)

    return Promise(on, f"embedded, marked by {marker}", make, group)


def heartbeat(sources: Mapping[str, tuple[Amount, Amount]], on: str = "ts") -> Promise:
    """Promise by the clock: the present time less skew and delay, the least over all sources.

    - `sources`: for each source by name, how far its clock may be behind, and how long a tuple takes to get here.
    - `on`: the attribute that is promised.

    >>> promise = oop.heartbeat({"Main1": ("1s", "500ms"), "Main2": ("2s", "1s")})
    >>> str(promise)
    'heartbeat on ts'
    """
    if not isinstance(sources, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"heartbeat is {sources!r}, and wants the skew and the delay of each source by its name.\n"
            '  Write oop.heartbeat({"Main1": ("1s", "500ms")}).'
        )

    def make(field: pa.Field, planned: int | None, origin: int) -> Punctuator:
        bounds = {
            name: (ticks_of(skew, field, what="skew"), ticks_of(delay, field, what="delay"))
            for name, (skew, delay) in sources.items()
        }
        return Heartbeat(on, bounds, step=planned, origin=origin)

    return Promise(on, "heartbeat", make)


def _per_million(share: str | float) -> int:
    """Return how many of a million a share is; PlanError for one that is not between 0 and a half."""
    text = str(share).strip()
    try:
        found = float(text.removesuffix("%")) * (1e4 if text.endswith("%") else 1e6)
    except ValueError:
        found = float("nan")
    if not 1 <= found <= 500_000:
        raise PlanError(
            f'late_share is {share!r}; write a share from 0.0001 % to 50 % of the tuples, such as "0.1 %" or 0.001.'
        )
    return round(found)


def _amount(amount: Amount | None, field: pa.Field) -> int | None:
    return None if amount is None else ticks_of(amount, field, what="lull")


def _jump(jump: Jump, field: pa.Field, live: bool) -> int | None:
    """Return how far ahead a tuple may be, in ticks; None where any may be."""
    if jump != "auto":
        return None if jump is None else ticks_of(jump, field, what="jump")
    tick = tick_ns(field.type)
    # Days are too coarse for it.
    return None if tick is None or tick > _AHEAD[live] else _AHEAD[live] // tick


def _said(jump: Jump) -> str:
    """Say a jump that was given."""
    return "" if jump == "auto" else ", any jump" if jump is None else f", jump {jump}"


def _step(
    field: pa.Field, step: Amount | None, every: int | None, planned: int | None, origin: int
) -> tuple[int | None, int]:
    if step is not None:
        ticks = ticks_of(step, field, what="step")
        if ticks <= 0:
            raise PlanError(f"a step of {step} on {field.name} is no step; it must be positive")
        return ticks, 0
    return (None, 0) if every is not None else (planned, origin)
