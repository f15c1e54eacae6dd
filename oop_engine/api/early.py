"""Results of windows before they are complete: `aggregate(..., early=oop.early("10 s"))`.

There are two ways to compute them. On event time alone, a part of a window that ends early is a window of its own,
computed from the same slices, and its result is exact; a trigger that hears anything else fires with what has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from numbers import Integral, Real
from operator import or_
from typing import TYPE_CHECKING, cast, get_args

import attrs

from oop_engine.api.disclaiming import patterns_of
from oop_engine.api.early_kinds import by_part, check_kind, counts_rows, has_wids, length_of, unpromised
from oop_engine.api.refinement import Refinement
from oop_engine.api.trigger import Trigger
from oop_engine.errors import PlanError
from oop_engine.plan.strategies import Strategy
from oop_engine.plan.ticks import Amount
from oop_engine.plan.ticks import length_of as length_in_ticks
from oop_engine.plan.windows import Windowing, amount_text, window_text
from operators.data.schema import Schema
from operators.signals import Event
from operators.window import LandmarkWindow, SlidingWindow
from operators.window_aggregate.early.firing import Fire, Part
from operators.window_aggregate.triggers.condition import Condition, Leaf, leaves, replaced
from operators.window_aggregate.triggers.promised import At, Every, Lull, Promised

if TYPE_CHECKING:
    from oop_engine.api.stream import Stream

_SAID: Mapping[Refinement, str] = {"accumulate": "", "discard": ", discarding", "retract": ", retracting"}
_MOST = 1000
"""So many parts of windows at most are computed side by side."""


@attrs.frozen
class Early:
    """Hold when windows fire before they are complete; `oop.early` makes it, and several windows may share it.

    - `when`: the trigger.
    - `refine`, `events`, `interval`: as in `oop.early`.

    >>> early = oop.early("10 s", at=0.5)
    >>> early.when == oop.Trigger.every("10 s") | oop.Trigger.at(0.5), early.refine
    (True, 'accumulate')
    """

    when: Trigger
    refine: Refinement = "accumulate"
    events: Stream | None = attrs.field(default=None, eq=False)
    interval: float | None = None

    @classmethod
    def of(cls, given: Early | Trigger | Amount) -> Early:
        """Return what `aggregate(..., early=...)` was given as an Early: an amount alone says how often.

        - `given`: an Early, a trigger or an amount.

        >>> Early.of("10 s").when
        Trigger(every 10 s of event time)
        """
        if isinstance(given, Early):
            return given
        return cls(given) if isinstance(given, Trigger) else early(given)

    @property
    def on_event_time(self) -> bool:
        """Return whether windows fire on event time alone, so that `parts` computes their early results.

        >>> oop.early("10 s").on_event_time, oop.early("10 s", when=oop.Trigger.rows(5)).on_event_time
        (True, False)
        """
        return self.when.on_event_time

    def parts(
        self, windows: Mapping[str, Windowing], schema: Schema, *, named: bool
    ) -> tuple[dict[str, SlidingWindow], Fire]:
        """Return the windows to compute, and the operator that makes early results of them.

        - `windows`: sliding windows by name.
        - `schema`: that of the stream.
        - `named`: results bear the names of their windows.

        PlanError where a window has no early part.

        >>> from operators.window import SlidingWindow
        >>> window = SlidingWindow("ts", size=10, slide=10)
        >>> parts, _ = oop.early(4).parts({"": window}, oop.Schema.of(ts="int64"), named=False)
        >>> list(parts)
        ['after 4', 'after 8', 'after 10']
        """
        computed: dict[str, SlidingWindow] = {}
        parts: dict[str, Part] = {}
        discard = self.refine == "discard"
        idle = set(self._said())
        for name, window in windows.items():
            if not isinstance(window, SlidingWindow):
                raise PlanError(
                    f"aggregate(early=...): {window_text(window, schema)} is not known to be of a length before it is"
                    " over.\n  Sliding and tumbling windows give early results, and sessions; of any other, ask a run"
                    " for running.partial()."
                )
            begin, ticks = 0, self._ticks(window, schema)
            idle -= {said for said, found in ticks.items() if found}
            for after in sorted({window.size}.union(*ticks.values())):
                # It ends `after` ticks behind where its window begins, and has the same window-id.
                origin = window.origin - window.size + after
                part = attrs.evolve(window, size=after - begin if discard else after, origin=origin, partial=True)
                label = f"{name} after {amount_text(after, window, schema)}".strip()
                computed[label] = part
                parts[label] = Part(name, after, window.size, None if window.partial else window.origin)
                begin = after
        if idle:
            texts = ", ".join(window_text(window, schema) for window in windows.values())
            raise PlanError(
                f"aggregate(early=...): {' and '.join(sorted(idle))} is not between the begin and the end of {texts}.\n"
                "  Leave it out."
            )
        if len(parts) > _MOST:
            raise PlanError(
                f"aggregate(early=...): windows would fire more than {_MOST:,} times, which is the most there is.\n"
                "  Let them fire less often."
            )
        return computed, Fire(parts, named=named, whole=not discard)

    def conditions(
        self, windows: Mapping[str, Windowing], schema: Schema, *, strategy: Strategy, late: Amount
    ) -> dict[str, Condition]:
        """Return when each window fires as tuples arrive; PlanError for windows and options with which it cannot.

        - `windows`, `schema`: as in `parts`; no sessions.
        - `strategy`, `late`: the strategy and the lateness that were asked for.

        >>> from operators.window import SlidingWindow
        >>> window, trigger = SlidingWindow("ts", size=10, slide=10), oop.Trigger.rows(5)
        >>> schema = oop.Schema.of(ts="int64")
        >>> found = oop.early(when=trigger).conditions({"": window}, schema, strategy=oop.strategy("auto"), late=0)
        >>> str(found[""])
        'after 5 rows'
        """
        for window in windows.values():
            check_kind(self, window, schema)
        if late and self.interval is not None:
            raise PlanError(
                "aggregate(early=oop.early(interval=...), lateness=...): an interval is for the value of a window when"
                " it is over, which\n  late tuples change. Leave one of them out."
            )
        if strategy.name != "auto" and not all(map(has_wids, windows.values())):
            raise PlanError(
                f'aggregate(early=..., strategy="{strategy.name}"): windows that tuples define have one way to be'
                " computed.\n  Leave strategy out."
            )
        if strategy.name not in ("auto", "wid"):
            raise PlanError(
                f'aggregate(early=..., strategy="{strategy.name}"): a window that fires {self.when} has a partial'
                ' aggregate\n  of its own, which is strategy="wid". Leave strategy out.'
            )
        when = self.when.condition
        return {
            name: replaced(when, lambda leaf, window=window: _of_window(leaf, window, schema))
            for name, window in windows.items()
        }

    def __str__(self) -> str:
        within = "" if self.interval is None else f", with an interval for {self.interval:.4g} of windows"
        return (" and ".join(self._said()) if self.on_event_time else f"{self.when}{within}") + _SAID[self.refine]

    def _said(self) -> list[str]:
        return [_plainly(leaf) for leaf in leaves(self.when.condition)]

    def _ticks(self, window: SlidingWindow, schema: Schema) -> dict[str, list[int]]:
        """Return the ticks, behind where the window begins and before its end, at which each trigger fires."""
        found: dict[str, list[int]] = {}
        for leaf in leaves(self.when.condition):
            assert isinstance(leaf, Every | At)
            tick, end = _tick(leaf, window, schema), window.size
            each = range(tick, min(end, (_MOST + 2) * tick), tick) if isinstance(leaf, Every) else (tick,)
            found[_plainly(leaf)] = [tick for tick in each if 0 < tick < end]
        return found


def _plainly(leaf: Leaf) -> str:
    """Say when a window fires on event time, where nothing else is spoken of."""
    return str(leaf).removesuffix(" of event time")


def _tick(leaf: Every | At, window: Windowing, schema: Schema) -> int:
    """Return how many ticks behind the begin of a window it fires, first; behind the window before it, of RANGE ALL."""
    field, amount = schema.field(window.wattr, where="early"), leaf.amount
    if isinstance(amount, float):
        if (length := length_of(window)) is None:
            raise PlanError(
                f"aggregate(early=...): how long {window_text(window, schema)} lasts is not known before it is over, so"
                f' {amount} of it\n  is no time. Write how long after its begin it fires, as at="10 s".'
            )
        return round(Fraction(str(amount)) * length)
    what = "the time between early results" if isinstance(leaf, Every) else "the time of an early result"
    return length_in_ticks(cast("Amount", amount), field, what=what)


def _of_window(leaf: Leaf, window: Windowing, schema: Schema) -> Leaf:
    """Return a part of a condition as a window has it; PlanError where the window never fires for it."""
    text = window_text(window, schema)
    if isinstance(leaf, Every | At):
        if counts_rows(window):
            raise PlanError(
                f"aggregate(early=...): {text} is measured in rows, and not in time, so that\n  none fires"
                f" {leaf}. Leave that out of the trigger."
            )
        tick, length = _tick(leaf, window, schema), length_of(window)
        if tick <= 0 or (length is not None and tick >= length):
            own = ", each of which begins where the one before it ends" * isinstance(window, LandmarkWindow)
            raise PlanError(
                f"aggregate(early=...): {_plainly(leaf)} is not between the begin and the end of {text}{own}.\n"
                "  Leave it out."
            )
        if not any(window.wattr in promise for promise in schema.progress if len(promise) == 1 or by_part(window)):
            raise PlanError(
                f'aggregate(early=...): nothing promises "{window.wattr}" of all tuples, so that no window'
                f" fires {leaf}.\n  Leave that out of the trigger, or give the stream a punctuator, e.g."
                f' punctuate=oop.slack("1 s", on="{window.wattr}").'
            )
        return attrs.evolve(leaf, ticks=tick)
    if isinstance(leaf, Lull):
        raise PlanError(
            f"aggregate(early=...): lulls are of sessions, and {text} fires at ticks, whatever comes.\n"
            f'  Leave "{leaf}" out of the trigger, or write oop.session(...), in text SESSION.'
        )
    if isinstance(leaf, Promised):
        if (why := unpromised(window)) is not None:
            raise PlanError(
                f"aggregate(early=...): {text} does not fire {leaf}, for {why}.\n"
                "  Leave that out of the trigger; rows, events and a clock fire such windows."
            )
        patterns = patterns_of(leaf.of, schema, "Trigger.promise")
        if not any(frozenset(patterns) <= promise for promise in schema.progress):
            promised = ", ".join(sorted("{" + ", ".join(sorted(promise)) + "}" for promise in schema.progress))
            raise PlanError(
                f"Trigger.promise({', '.join(map(repr, leaf.of))}): no promise of the stream is on"
                f" {' and '.join(patterns)}.\n"
                f"  It promises {promised or 'nothing'}. Name one of these, or give the stream a punctuator."
            )
        return attrs.evolve(leaf, patterns=tuple(patterns.items()))
    return leaf


def early(
    every: Amount | None = None,
    *,
    at: float | Amount | Iterable[float | Amount] = (),
    when: Trigger | None = None,
    refine: Refinement = "accumulate",
    events: Stream | None = None,
    interval: float | None = None,
) -> Early:
    """Make windows give results before they are complete: pass it as `aggregate(..., early=...)`.

    - `every`: fire when so much of a window has passed, and again and again, such as "10 s".
    - `at`: fire at these shares of a window, as 0.5, or times since it began; one or several.
    - `when`: fire as tuples come, at events, by a clock, or at promises, too: see `oop.Trigger`.
    - `refine`: how a result relates to the last one of its window. "accumulate" repeats the whole so far, "discard" has
      only what is new, "retract" repeats the last one with `sign` -1 before the new one with `sign` 1, and leaves out
      what has not changed.
    - `events`: a stream whose tuples fire events by name, beside `running.fire`: its attribute `event` names one that
      `when` hears. Attributes called as the groups, `wid`, `window_start` or `window_end` choose windows: those that
      have the same values, null for all. Such an event comes behind the tuples that arrived before it; of files, that
      source is read next which has promised least, in turns. Events that no window hears are counted, as
      `unheard_events`.
    - `interval`: estimate the final value of each count, sum and mean, with an interval that holds it in this share of
      all windows, such as 0.95. For triggers that are not on event time alone, and not with "discard".

    A result that fires at a tick T comes when all tuples before T are promised, and is over these alone: it is the same
    whatever the order of arrival. Results of "discard" add up to those of whole windows. Of the others, aggregates,
    joins and `distinct` behind them count the one that stands; group by `fired` to count each.

    A tuple that breaks the promise is missing in the results so far, and is in the next ones of its window; with
    "discard" it is in none, and counted as late. With "discard" a window has no final result if nothing came after its
    last firing. PlanError when it never fires.

    Where `when` hears anything but event time, all early results are over the tuples that have come: they depend on the
    order of arrival, and the final result does not. Then `fired` is null; `firing` numbers the results of a window and
    group.

    >>> stream = oop.rows([(1,), (6,)], oop.Schema.of(ts="int64"))
    >>> results = stream.window(range=10).aggregate(oop.count(), early=oop.early(at=0.5))
    >>> results.project("count", "fired", "final").to_arrow().to_pylist()
    [{'count': 1, 'fired': 5, 'final': False}, {'count': 2, 'fired': 10, 'final': True}]
    """
    several = isinstance(at, Iterable) and not isinstance(at, str | bytes)
    listed = tuple(map(_plain, cast("Iterable[object]", at) if several else (at,)))
    asked = [] if every is None else [Trigger.every(every)]
    asked += [*map(Trigger.at, listed), *(() if when is None else (when,))]
    if not asked:
        raise PlanError('early() fires never: say every="10 s", or at=0.5 for the middle of a window.')
    if refine not in get_args(Refinement):
        raise PlanError(f'early(refine="{refine}"): write {", ".join(map(repr, get_args(Refinement)))}.')
    found = Early(reduce(or_, asked), refine, events, None if interval is None else float(interval))
    if interval is not None:
        _check_interval(found, interval)
    if events is not None and not any(isinstance(leaf, Event) for leaf in leaves(found.when.condition)):
        raise PlanError(
            "early(events=...): no part of the trigger hears an event.\n"
            '  Name those that fire windows: when=oop.Trigger.event("flush").'
        )
    return found


def _check_interval(early: Early, interval: float) -> None:
    """Refuse an interval that is no share, or that these results do not need."""
    if early.on_event_time:
        raise PlanError(
            "early(interval=...): the interval is for what has not arrived yet, and results on event time (every, at)"
            " wait for it.\n  Write early(when=oop.Trigger..., interval=0.95)."
        )
    if isinstance(interval, bool) or not 0 < interval < 1:
        raise PlanError(f"early(interval={interval}): write a share between 0 and 1, such as 0.95.")
    if early.events is not None:
        raise PlanError("early(interval=..., events=...): these do not go together.\n  Leave one of them out.")
    if early.refine == "discard":
        raise PlanError(
            'early(interval=..., refine="discard"): an interval is for the whole of a window, and "discard" gives what'
            " is new.\n  Leave one of them out."
        )


def _plain(at: object) -> float | Amount:
    """Return numbers of other types, as numpy's, as Python's own; what is no number as it is."""
    if isinstance(at, bool):
        return cast("Amount", at)
    if isinstance(at, Integral):
        return int(at)
    return float(at) if isinstance(at, Real | Decimal) else cast("Amount", at)
