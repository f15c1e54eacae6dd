"""Results of windows before they are complete: `aggregate(..., early=oop.early("10 s"))`.

On event time, a part of a window that ends early is a window of its own, computed from the same slices. Other triggers
(`when`) fire as tuples and signals arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import cast, get_args

import attrs

from oop_engine.api.refinement import Refinement
from oop_engine.api.trigger import Trigger
from oop_engine.errors import PlanError
from oop_engine.plan.strategies import Strategy
from oop_engine.plan.ticks import Amount, positive, ticks_of
from oop_engine.plan.windows import Windowing, amount_text, window_text
from operators.data.schema import Schema
from operators.window import MadeOf, SlidingWindow, Window, made_of
from operators.window_aggregate.early.firing import Fire, Part
from operators.window_aggregate.triggers.condition import Condition

_SAID: Mapping[Refinement, str] = {"accumulate": "", "discard": ", discarding", "retract": ", retracting"}
_MOST = 1000
"""So many parts of windows at most are computed side by side."""


@attrs.frozen
class Early:
    """Hold when windows fire before they are complete; `oop.early` makes it, and several windows may share it.

    `every`, `at`, `when` and `refine` are as in `oop.early`.

    >>> early = oop.early("10 s", at=0.5)
    >>> early.every, early.at, early.refine
    ('10 s', (0.5,), 'accumulate')
    """

    every: Amount | None = None
    at: tuple[float | Amount, ...] = ()
    refine: Refinement = "accumulate"
    when: Trigger | None = None

    @classmethod
    def of(cls, given: Early | Trigger | Amount) -> Early:
        """Return what `aggregate(..., early=...)` was given as an Early: an amount alone says how often.

        - `given`: an Early, a trigger or an amount.

        >>> Early.of("10 s").every
        '10 s'
        """
        if isinstance(given, Early):
            return given
        return cls(when=given) if isinstance(given, Trigger) else early(given)

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
                    " over.\n  Sliding and tumbling windows give early results; of any other, ask a run for"
                    " running.partial()."
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

    def condition(
        self, windows: Mapping[str, Windowing], schema: Schema, *, strategy: Strategy, late: Amount
    ) -> Condition:
        """Return when windows fire as tuples arrive; PlanError for windows and options with which they cannot.

        - `windows`, `schema`: as in `parts`.
        - `strategy`, `late`: the strategy and the lateness that were asked for.

        >>> from operators.window import SlidingWindow
        >>> window, trigger = SlidingWindow("ts", size=10, slide=10), oop.Trigger.rows(5)
        >>> schema = oop.Schema.of(ts="int64")
        >>> str(oop.early(when=trigger).condition({"": window}, schema, strategy=oop.strategy("auto"), late=0))
        'after 5 rows'
        """
        assert self.when is not None
        for window in windows.values():
            if not isinstance(window, Window) or MadeOf.RANKS in made_of(window):
                raise PlanError(
                    f"aggregate(early=...): which tuples are in {window_text(window, schema)}, later tuples may"
                    " change.\n  Triggers fire windows whose window-ids a tuple alone tells: sliding, tumbling, n rows"
                    " of a partition.\n  Of any other, ask a run for running.partial()."
                )
        if late:
            raise PlanError(
                f"aggregate(early=..., lateness=...): windows that fire {self.when} are not given again for late"
                " tuples.\n  Leave lateness out, and give the stream so much more slack."
            )
        if strategy.name not in ("auto", "wid"):
            raise PlanError(
                f'aggregate(early=..., strategy="{strategy.name}"): a window that fires {self.when} has a partial'
                ' aggregate\n  of its own, which is strategy="wid". Leave strategy out.'
            )
        return self.when.condition

    def __str__(self) -> str:
        return " and ".join(self._said()) + _SAID[self.refine]

    def _said(self) -> list[str]:
        said = ([] if self.every is None else [f"every {self.every}"]) + [f"at {at}" for at in self.at]
        return said if self.when is None else [*said, str(self.when)]

    def _ticks(self, window: SlidingWindow, schema: Schema) -> dict[str, list[int]]:
        """Return the ticks, behind where the window begins and before its end, at which each trigger fires."""
        field, end = schema.field(window.wattr, where="early"), window.size
        found: dict[str, list[int]] = {}
        if self.every is not None:
            step = ticks_of(self.every, field, what="the time between early results")
            found[f"every {self.every}"] = list(range(step, min(end, (_MOST + 2) * step), step))
        for at in self.at:
            share = isinstance(at, float)
            tick = round(Fraction(str(at)) * end) if share else ticks_of(at, field, what="the time of an early result")
            found[f"at {at}"] = [tick] if 0 < tick < end else []
        return found


def early(
    every: Amount | None = None,
    *,
    at: float | Amount | Iterable[float | Amount] = (),
    when: Trigger | None = None,
    refine: Refinement = "accumulate",
) -> Early:
    """Make windows give results before they are complete: pass it as `aggregate(..., early=...)`.

    - `every`: fire when so much of a window has passed, and again and again, such as "10 s".
    - `at`: fire at these shares of a window, as 0.5, or times since it began; one or several.
    - `when`: fire as tuples come, at events, or by a clock: see `oop.Trigger`. Not together with `every` or `at`.
    - `refine`: how a result relates to the last one of its window. "accumulate" repeats the whole so far, "discard" has
      only what is new, "retract" repeats the last one with `sign` -1 before the new one with `sign` 1, and leaves out
      what has not changed.

    A result that fires at a tick T comes when all tuples before T are promised, and is over these alone: it is the same
    whatever the order of arrival. Results of "discard" add up to those of whole windows. Of the others, aggregates,
    joins and `distinct` behind them count the one that stands; group by `fired` to count each.

    A tuple that breaks the promise is missing in the results so far, and is in the next ones of its window; with
    "discard" it is in none, and counted as late. With "discard" a window has no final result if nothing came after its
    last firing. PlanError when it never fires.

    A result that fires `when` a trigger says is over the tuples that have come, at once: it depends on the order of
    arrival, and the final result does not. Its `fired` is null; `firing` numbers the results of a window and group.

    >>> stream = oop.rows([(1,), (6,)], oop.Schema.of(ts="int64"))
    >>> results = stream.window(range=10).aggregate(oop.count(), early=oop.early(at=0.5))
    >>> results.project("count", "fired", "final").to_arrow().to_pylist()
    [{'count': 1, 'fired': 5, 'final': False}, {'count': 2, 'fired': 10, 'final': True}]
    """
    if every is not None:
        positive(every, what="early(every)")
    several = isinstance(at, Iterable) and not isinstance(at, str | bytes)
    listed = tuple(map(_plain, cast("Iterable[object]", at) if several else (at,)))
    for one in listed:
        if isinstance(one, float):
            if not 0 < one < 1:
                raise PlanError(f"early(at={one}): a share of a window lies between 0 and 1, as 0.5 does.")
        else:
            positive(one, what="early(at)")
    if every is None and not listed and when is None:
        raise PlanError('early() fires never: say every="10 s", or at=0.5 for the middle of a window.')
    if when is not None and (every is not None or listed):
        raise PlanError(
            "early(when=...): results on event time (every, at) are the same whatever the order of arrival, others are"
            " not.\n  Write one of the two; two aggregates over one stream may differ in it."
        )
    if refine not in get_args(Refinement):
        raise PlanError(f'early(refine="{refine}"): write {", ".join(map(repr, get_args(Refinement)))}.')
    return Early(every, listed, refine, when)


def _plain(at: object) -> float | Amount:
    """Return numbers of other types, as numpy's, as Python's own; what is no number as it is."""
    if isinstance(at, bool):
        return cast("Amount", at)
    if isinstance(at, Integral):
        return int(at)
    return float(at) if isinstance(at, Real | Decimal) else cast("Amount", at)
