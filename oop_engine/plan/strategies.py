"""The ways to compute a window aggregate, by name and with their options. The choice never changes an answer.

stream.window(range="1 minute").aggregate(oop.count(), by="srcIP", strategy="slicing")
stream.window(range="1 minute").aggregate(oop.count(), by="srcIP", strategy=oop.strategy("two_level", flush="slow"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import attrs

from oop_engine.errors import PlanError
from operators.errors import SchemaError
from operators.window_aggregate.partial_final import CompleteFlush, Flush, InOrderFlush, LazyFlush, SlowFlush

if TYPE_CHECKING:
    from operators.baselines.adaptive.cost import Cost

_CARRYING: Final = "which pays from some 20,000 partial aggregates a window on, slices times groups"
STRATEGIES: Final = {
    "auto": "chosen by the window, the functions and the order of the stream",
    "wid": "one partial aggregate for each window and group, each tuple into all its windows (thesis 6.1)",
    "panes": "one partial aggregate for each slice and group, combined anew for each window (Paned-WID, 6.2)",
    "differential": f"as panes; from window to window what leaves is subtracted (Eq. 6.2), {_CARRYING}",
    "two_stacks": f"as panes; from window to window by two stacks of slices, for every group at once, {_CARRYING}",
    "slicing": "slices shared by concurrent windows of all kinds (Scotty)",
    "stacks": "stacks of panes over a stream in order, without groups (Hammer Slide)",
    "adaptive": "each group eagerly or lazily, whichever is smaller (AdaptWID, 6.3)",
    "adaptive_panes": "as adaptive, by panes",
    "buffer": "tuples are kept, and aggregated when a window is complete (3.1)",
    "buffer_panes": "as buffer, a pane once",
    "negative": "tuples are inserted into a relation and deleted from it as they expire (negative tuples, 3.1)",
    "two_level": "a table of fixed size makes partial aggregates, which a window aggregate rolls up (8.3.3)",
}
_FLUSHES: Final[Mapping[str, Callable[..., Flush]]] = {
    "complete": CompleteFlush,
    "in_order": InOrderFlush,
    "slow": SlowFlush,
    "lazy": LazyFlush,
}
_ALWAYS: Final = ("lazy", "eager")
_COSTS: Final[Mapping[str, type[float]]] = {"aggr": float, "tup": float}
_OPTIONS: Final[Mapping[str, Mapping[str, tuple[str, ...] | type[int] | type[float] | type[str]]]] = {
    "auto": {"tuples": int, "groups": int},
    "slicing": {"store": ("auto", "lazy", "eager")},
    "stacks": {"technique": ("auto", "recompute", "subtract", "two_stacks", "daba")},
    "adaptive": {"always": _ALWAYS, "source": str, "band": float, **_COSTS},
    "adaptive_panes": {"always": _ALWAYS, "source": str, **_COSTS},
    "two_level": {"size": int, "probes": int, "flush": tuple(_FLUSHES), "every": int, "delay": int},
}
"""By strategy and option the words that can be said, or the type of what can."""


@attrs.frozen
class Strategy:
    """Hold a strategy and its options; `oop.strategy` makes it.

    - `name`: one of `oop_engine.plan.strategies.STRATEGIES`.
    - `options`: as `oop.strategy` explains them.

    >>> str(oop.strategy("two_level", size=1024))
    'two_level, size 1024'
    """

    name: str
    options: Mapping[str, object] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return ", ".join([self.name, *(f"{name} {value}" for name, value in self.options.items())])


def strategy(name: str, **options: object) -> Strategy:
    """Choose how to compute a window aggregate: pass it as `aggregate(..., strategy=...)`.

    - `name`: one of `oop_engine.plan.strategies.STRATEGIES`.
    - `options`: those of the strategy:

    "auto": `tuples` of a window and `groups` of a pane, if known; by them the costs of Eq. 6.1 to 6.3 decide between
    "panes", "differential" and "wid". Otherwise they are counted, and the choice follows what is seen.

    "slicing": `store` "lazy" or "eager": combine slices when a window is complete, or ahead of the windows. With groups
    that pays from some hundred slices a window for thousands of groups, from thousands for few. Ahead takes about twice
    the memory, and needs windows whose edges are the same for all groups.

    "stacks": `technique` "recompute", "subtract", "two_stacks" or "daba".

    "adaptive" and "adaptive_panes": `always` "lazy" or "eager" for all groups; `source`, the attribute that names the
    data source of a tuple; `aggr` and `tup`, what a partial aggregate and a buffered tuple cost, in any one unit, by
    default their bytes. "adaptive" alone: `band`, the part of its threshold by which an eager group must fall below it
    to turn lazy, 0.2 by default (two thresholds, thesis 6.3.4.2).

    "two_level" (thesis 8.3.3): `size` of the table in front, in groups; `probes` for a place in it; `flush`, when old
    groups leave it: "complete", on the promise; "in_order" or "slow", one for `every` so many tuples; "lazy", when
    their place is needed. "slow" and "lazy" are at most `delay` windows late.

    PlanError for an unknown name, option or value; the message lists the known ones.

    >>> stream = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64"))
    >>> eager = oop.strategy("slicing", store="eager")
    >>> stream.window(range=10).aggregate(oop.count(), strategy=eager).to_arrow()["count"].to_pylist()
    [2]
    """
    if name not in STRATEGIES:
        near = get_close_matches(name, STRATEGIES, 1)
        hint = f'Did you mean "{near[0]}"?' if near else f"Known are {', '.join(STRATEGIES)}."
        raise PlanError(f'aggregate(strategy="{name}"): there is no such strategy.\n  {hint}')
    known = _OPTIONS.get(name, {})
    for option, value in options.items():
        if option not in known:
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise PlanError(f'strategy("{name}", {option}=...): there is no such option.\n  {has}')
        allowed = known[option]
        if isinstance(allowed, tuple):
            if value not in allowed:
                raise PlanError(f'strategy("{name}", {option}={value!r}): write one of {", ".join(allowed)}.')
        elif not isinstance(value, (int, float) if allowed is float else allowed) or isinstance(value, bool):
            what = {int: "a whole number", float: "a number", str: "the name of an attribute"}[allowed]
            raise PlanError(f'strategy("{name}", {option}={value!r}): write {what}.')
        elif allowed is int and isinstance(value, int) and value < 1 and option not in ("every", "delay"):
            raise PlanError(f'strategy("{name}", {option}={value!r}): write a whole number from 1 on.')
    if name == "two_level":
        flush_of(options)
    if name.startswith("adaptive"):
        cost_of(options)
    return Strategy(name, options)


def variants(name: str, **others: object) -> Iterator[Strategy]:
    """Yield a strategy by itself, and with each word that one of its options can be.

    - `name`: one of `STRATEGIES`.
    - `others`: further options that go with each word; those that the strategy does not have are left out.

    >>> [str(one) for one in variants("slicing")]
    ['slicing', 'slicing, store lazy', 'slicing, store eager']
    """
    yield strategy(name)
    known = _OPTIONS.get(name, {})
    others = {option: value for option, value in others.items() if option in known}
    for option, words in known.items():
        if isinstance(words, tuple):
            for word in words:
                if word != "auto":
                    yield strategy(name, **{option: word}, **others)


def named_strategy(given: str | Strategy) -> Strategy:
    """Return the strategy that is meant, by its name or as it is; PlanError for an unknown name."""
    if isinstance(given, Strategy):
        return given
    if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"aggregate(strategy={given!r}): a strategy is named, or made by oop.strategy.\n"
            f"  Known are {', '.join(STRATEGIES)}."
        )
    return strategy(given)


def cost_of(options: Mapping[str, object]) -> Cost | None:
    """Return the costs that the options of "adaptive" give, None for those by bytes; PlanError where one is missing."""
    # Start-up: few plans choose AdaptWID.
    from operators.baselines.adaptive.cost import Cost

    given = {name: float(str(options[name])) for name in ("aggr", "tup", "band") if name in options}
    if len(given.keys() & _COSTS.keys()) == 1:
        (said,) = given.keys() & _COSTS.keys()
        (other,) = _COSTS.keys() - {said}
        raise PlanError(f'strategy("adaptive", {said}=...): both costs are in one unit; give {other}, too.')
    try:
        cost = Cost(**given)
    except SchemaError as error:
        raise PlanError(f'strategy("adaptive"): {error}') from None
    return cost if given.keys() & _COSTS.keys() else None


def flush_of(options: Mapping[str, object], call: str = 'strategy("two_level", ') -> Flush:
    """Return the flush that options ask for; PlanError for one that it does not have. A message begins with `call`."""
    name = str(options.get("flush", "complete"))
    given = {key: value for key in ("every", "delay") if isinstance(value := options.get(key), int)}
    has = {a.name for a in attrs.fields(_FLUSHES[name]) if a.init}
    for key in given:
        if key not in has:
            raise PlanError(
                f'{call}flush="{name}", {key}=...): this flush has no such option.\n'
                f"  It has {', '.join(sorted(has)) or 'none'}."
            )
    try:
        return _FLUSHES[name](**given)
    except ValueError as error:
        raise PlanError(f'{call}flush="{name}"): {error}') from None
