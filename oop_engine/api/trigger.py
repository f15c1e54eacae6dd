"""Triggers are values: they say when open windows give what they have so far, compose, and serve many windows.

early = oop.early(when=oop.Trigger.rows(1000) | oop.Trigger.event("flush"), refine="retract")
packets.window("1 minute").aggregate(oop.count(), by="srcIP", early=early)
"""

from __future__ import annotations

from numbers import Integral

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.ticks import Amount, duration_of, positive
from operators.errors import SchemaError
from operators.signals import Clock, Event
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Compiled, Condition, Rows, Then, Until
from operators.window_aggregate.triggers.promised import At, Every, Lull, Promised


@attrs.frozen(repr=False)
class Trigger:
    """Describe when an open window of a group gives what it has so far: `aggregate(..., early=trigger)`.

    Make one with `Trigger.rows`, `every`, `at`, `event`, `clock`, `lull` or `promise`. Compose them: `one | other`
    fires as soon as one holds, `one & other` once both do; `one.then(other)` and `one.until(other)` change over time.

    A trigger counts for each window and group by itself, and begins again whenever the window fires. A window fires
    behind the tuple, the event or the promise that makes its trigger hold, and not where no tuple has come since it
    last fired. `every` and `at` alone, or joined by `|`, are exact: see `oop.early`.

    - `condition`: the operators' form of it. What depends on a window in it, each window decides.

    >>> trigger = oop.Trigger.rows(1000) | oop.Trigger.event("flush")
    >>> trigger.until(oop.Trigger.rows(5000))
    Trigger((after 1,000 rows or on 'flush') until after 5,000 rows)
    """

    condition: Condition

    @classmethod
    def rows(cls, rows: int) -> Trigger:
        """Fire when so many tuples of a window and group have come since it last fired.

        - `rows`: how many, from 1 on. PlanError for others.

        >>> stream = oop.rows([(1,), (2,), (3,)], oop.Schema.of(ts="int64")).window(range=10)
        >>> results = stream.aggregate(oop.count(), early=oop.Trigger.rows(2))
        >>> results.project("count", "final", "firing").to_arrow().to_pylist()
        [{'count': 2, 'final': False, 'firing': 0}, {'count': 3, 'final': True, 'firing': 1}]
        """
        whole = isinstance(rows, Integral) and not isinstance(rows, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not whole or rows < 1:
            raise PlanError(f"Trigger.rows({rows!r}): write how many tuples, a whole number from 1 on.")
        return cls(Rows(int(rows)))

    @classmethod
    def event(cls, name: str) -> Trigger:
        """Fire when somebody fires an event: `running.fire(name)`, or `started.fire(name)`.

        - `name`: what the event is called. PlanError for an empty one.

        >>> stream = oop.rows(iter([(1,), (2,)]), oop.Schema.of(ts="int64"), punctuate=oop.slack(0))
        >>> trigger = oop.Trigger.rows(1).then(oop.Trigger.event("flush"))
        >>> with stream.window(range=10).aggregate(oop.count(), early=trigger).start(page_rows=1) as running:
        ...     first = next(running)
        ...     running.fire("flush")
        ...     [(row["count"], row["final"]) for page in running for row in page.rows()]
        [(2, True)]
        """
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(f"Trigger.event({name!r}): write the name of the event, which running.fire(name) fires.")
        return cls(Event(name))

    @classmethod
    def clock(cls, period: Amount) -> Trigger:
        """Fire when a clock ticks that begins with the run: processing time.

        - `period`: the time between two ticks, such as "5 s". PlanError for one without a unit.

        What a window has at a tick depends on how fast tuples come. A replay of a file goes as fast as it is read.

        >>> oop.Trigger.clock("500 ms")
        Trigger(every 0.5 s by the clock)
        """
        duration = duration_of(positive(period, what="Trigger.clock"), what="Trigger.clock")
        if duration.unit != "ns":
            raise PlanError(f'Trigger.clock({period!r}) needs a unit of time.\n  Write text such as "5 s".')
        return cls(Clock(duration.value))

    @classmethod
    def every(cls, amount: Amount) -> Trigger:
        """Fire when so much of a window has passed in event time, and again and again.

        - `amount`: such as "10 s", or a number of ticks. PlanError for others.

        Beside other triggers, it fires behind the promise that reaches a tick of the window, with the tuples that have
        come. A window hears of the ticks behind its first tuple; an `until` counts those before it, too.

        >>> stream = oop.rows([(1,), (2,), (6,), (7,)], oop.Schema.of(ts="int64"), punctuate=oop.ordered("ts"))
        >>> trigger = oop.Trigger.every(5) | oop.Trigger.rows(4)
        >>> results = stream.window(range=10).aggregate(oop.count(), early=trigger)
        >>> [row["count"] for row in results.to_arrow().to_pylist()]
        [3, 4]
        """
        return cls(Every(positive(amount, what="Trigger.every")))

    @classmethod
    def at(cls, moment: float | Amount) -> Trigger:
        """Fire when event time reaches a moment of a window.

        - `moment`: a share of the window, as 0.5, or a time since it began, such as "10 s". PlanError for others.

        >>> oop.Trigger.at(0.9).then(oop.Trigger.rows(10))
        Trigger(first at 0.9 of event time, then after 10 rows)
        """
        if isinstance(moment, float):
            if not 0 < moment < 1:
                raise PlanError(f"Trigger.at({moment}): a share of a window lies between 0 and 1, as 0.5 does.")
            return cls(At(moment))
        return cls(At(positive(moment, what="Trigger.at")))

    @classmethod
    def lull(cls, amount: Amount) -> Trigger:
        """Fire a session when nothing of it has come for so long in event time, and it is not over yet.

        - `amount`: shorter than the gap of the session, such as "2 s", or a number of ticks. PlanError for others.

        It fires behind the promise that reaches so far behind the last tuple of the session. A later tuple of it that
        has come by then has ended the lull: in a stream in order, promises come with the tuples of other groups.

        >>> given = [(1, "a"), (2, "a"), (7, "b"), (8, "a"), (30, "b")]
        >>> stream = oop.rows(given, oop.Schema.of(ts="int64", k="string"), punctuate=oop.ordered("ts", step=1))
        >>> results = stream.window(oop.session(9)).aggregate(oop.count(), by="k", early=oop.Trigger.lull(4))
        >>> found = [row for page in results.start(page_rows=1) for row in page.rows()]
        >>> [(row["k"], row["count"], row["final"]) for row in found if row["k"] == "a"]
        [('a', 2, False), ('a', 3, True)]
        """
        return cls(Lull(positive(amount, what="Trigger.lull")))

    @classmethod
    def promise(cls, *of: str) -> Trigger:
        """Fire when the stream carries a promise that matches a pattern: it names all attributes of the pattern.

        - `of`: attributes, whatever is promised of them; and conditions, as "sensor = 7": the promise is of such tuples
          alone. PlanError for none.

        It fires the windows and groups that the promise speaks of: those whose groups match it and that have times in
        it. A promise that says nothing new fires none.

        >>> oop.Trigger.promise("sensor = 7") | oop.Trigger.rows(1000)
        Trigger(on a promise of sensor = 7 or after 1,000 rows)
        """
        if not of or not all(isinstance(one, str) and one.strip() for one in of):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PlanError(
                f"Trigger.promise({', '.join(map(repr, of))}): write the attribute that is promised, or a condition:"
                ' "sensor = 7".'
            )
        return cls(Promised(tuple(one.strip() for one in of)))

    @property
    def on_event_time(self) -> bool:
        """Return whether it fires at ticks of windows alone, so that its results are over the tuples before these.

        >>> (oop.Trigger.every("10 s") | oop.Trigger.at(0.5)).on_event_time, oop.Trigger.rows(3).on_event_time
        (True, False)
        """
        return all(isinstance(part, Every | At) for part in _parts(self, AnyOf))

    def __or__(self, other: Trigger) -> Trigger:
        """Return the trigger that fires as soon as one of the two holds."""
        return Trigger(AnyOf((*_parts(self, AnyOf), *_parts(other, AnyOf))))

    def __and__(self, other: Trigger) -> Trigger:
        """Return the trigger that fires as soon as both hold."""
        return Trigger(AllOf((*_parts(self, AllOf), *_parts(other, AllOf))))

    def then(self, other: Trigger) -> Trigger:
        """Return the trigger that fires once as this one says, and from then on as the other does.

        - `other`: counts from that first firing.

        >>> oop.Trigger.rows(1).then(oop.Trigger.rows(1000))
        Trigger(first after 1 row, then after 1,000 rows)
        """
        return _checked(Then(self.condition, other.condition))

    def until(self, other: Trigger) -> Trigger:
        """Return the trigger that fires as this one says until the other holds, and never after that.

        - `other`: counts from the first tuple of the window, not from its last firing. PlanError for one with `then` or
          `until` in it.

        >>> oop.Trigger.rows(10).until(oop.Trigger.rows(100))
        Trigger(after 10 rows until after 100 rows)
        """
        return _checked(Until(self.condition, other.condition))

    def __str__(self) -> str:
        return str(self.condition)

    def __repr__(self) -> str:
        """Return the trigger in words."""
        return f"Trigger({self.condition})"


def _parts(trigger: Trigger, several: type[AnyOf | AllOf]) -> tuple[Condition, ...]:
    condition = trigger.condition
    return condition.of if isinstance(condition, several) else (condition,)


def _checked(condition: Condition) -> Trigger:
    try:
        Compiled.of(condition)
    except SchemaError as error:
        raise PlanError(str(error)) from None
    return Trigger(condition)
