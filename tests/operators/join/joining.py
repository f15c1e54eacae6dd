"""Two toy inputs, the windows that are tried on them, and what a join must have emitted, promised and kept by when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pyarrow as pa
from hypothesis import strategies as st

from operators.data.page import Row
from operators.data.schema import Schema
from operators.join import Band, JoinWindow, OAJoin, SameWindow, Steps, WidJoin
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from punctuation import Below, Equals, Progress, Punctuation, before
from tests.naive_join import Meets, Together, band, may_still_meet, naive_join, related, same_window

LEFT = Schema.of(s=pa.int64(), k=pa.string(), x=pa.int32(), progress=["s", ("k", "s")])
RIGHT = Schema.of(t=pa.int64(), k=pa.string(), y=pa.int64(), progress=["t", ("k", "t")])
TIMES = ("s", "t")
ON = (("k", "k"),)
NAMES = {"k": "right_k"}


def sliding(wattr: str, size: int, slide: int) -> SlidingWindow:
    return SlidingWindow(wattr, size=size, slide=slide)


def widjoin(left: tuple[int, int], right: tuple[int, int], *steps: int) -> tuple[JoinWindow, Meets]:
    """Give a join by windows, and the same by definition."""
    window = WidJoin(sliding("s", *left), sliding("t", *right), Steps(*steps))
    return window, related(left, right, lambda i, j: j - i in steps)


WINDOWS: dict[str, tuple[JoinWindow, Meets]] = {
    "open band": (Band("s", "t", left=3, right=2), band(3, 2)),
    "wide open band": (Band("s", "t", left=2, right=5), band(2, 5)),
    "closed band": (Band("s", "t", left=1, right=3, closed=True), band(1, 3, closed=True)),
    "equal times": (Band("s", "t", left=0, right=0, closed=True), band(0, 0, closed=True)),
    "tumbling": (SameWindow("s", "t", size=3), same_window(3)),
    "tumbling from 1": (SameWindow("s", "t", size=4, origin=1), same_window(4, 1)),
    "same sliding window": widjoin((3, 1), (2, 1), 0),
    "window before": widjoin((3, 3), (3, 3), -1),
    "overlapping windows": widjoin((4, 2), (3, 2), -1, 0),
    "windows apart": widjoin((3, 3), (3, 3), -1, 1),
    "windows with gaps": widjoin((2, 3), (3, 3), 0, 1),
}


def scripts(*promises: str, tuples: int = 7) -> st.SearchStrategy[Script]:
    """Draw what arrives on both ports."""
    kinds = promises or ("linear", "group", "general")
    return streams([LEFT, RIGHT], wattr=TIMES, group=("k",), tuples=tuples, nulls=("k", "x"), promises=kinds)


@attrs.frozen
class Case:
    """A join and what is known of its right answer."""

    window: JoinWindow
    meets: Meets
    on: tuple[tuple[str, str], ...] = ON
    kind: str = "inner"
    together: Together | None = None

    def naive(self, *tables: list[Row]) -> list[Row]:
        """Give the answer."""
        return naive_join(
            *tables,
            meets=self.meets,
            times=TIMES,
            on=self.on,
            residual=self.together,
            kind=self.kind,
            names=NAMES,
            columns=(LEFT.names, RIGHT.names),
        )

    def open(self, row: Row, port: int, tables: Sequence[list[Row]], progress: Sequence[Progress]) -> bool:
        """Tell whether a tuple that came may still meet a later one, and anybody would care."""
        if self.kind in ("semi", "anti") and port == 0:
            alone = naive_join(
                [row], tables[1], meets=self.meets, times=TIMES, on=self.on, residual=self.together, kind="anti"
            )
            if not alone:
                return False
        return may_still_meet(row, port, progress[1 - port], meets=self.meets, times=TIMES, on=self.on)

    def kept(self, tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        """Give how many tuples must be held."""
        return sum(self.open(row, port, tables, progress) for port in (0, 1) for row in tables[port])

    def settled(self, tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        """Give what must have been emitted: all but the tuples without a partner that may still get one."""
        found = self.naive(*tables)
        for port, only in ((0, ("left", "full", "anti")), (1, ("right", "full"))):
            if self.kind in only:
                for row in [row for row in tables[port] if self.open(row, port, tables, progress)]:
                    alone = self.naive([row], []) if port == 0 else self.naive([], [row])
                    for one in alone:
                        if one in found:
                            found.remove(one)
        return found

    def promised(self, tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Punctuation]:
        """Give what can be promised of each time and of both, and of the time of single keys: no less could be."""
        found: list[Punctuation] = []
        for port in (0,) if self.kind in ("semi", "anti") else (0, 1):
            bound = progress[port].bound(TIMES[port])
            if progress[port].ended or not isinstance(bound, int):
                continue
            waiting = [row for row in tables[port] if self.open(row, port, tables, progress)]
            found.append(before(TIMES[port], _least(waiting, port, bound)))
            name = "k" if port == 0 else "right_k"
            for key in ("a", "b", "") if self.on else ():
                own = progress[port].effective((("k",), TIMES[port]), (key,))
                if isinstance(own, int) and own > bound:
                    alike = [row for row in waiting if row["k"] == key]
                    patterns = {name: Equals(key), TIMES[port]: Below(_least(alike, port, own))}
                    found.append(Punctuation(patterns))
        left, right = (p.bound(name) for p, name in zip(progress, TIMES, strict=True))
        if isinstance(left, int) and isinstance(right, int) and self.kind not in ("semi", "anti"):
            ticks = [(left - i, right - j) for i in (1, 2, 4) for j in (1, 2, 4)]
            found += [
                Punctuation({"s": Equals(one), "t": Equals(other)}) for one, other in ticks if self.meets(one, other)
            ]
        return found

    def check(self, make: Callable[[], OAJoin], script: Script, *, strict: bool = True) -> None:
        """Check all laws; `strict` also that nothing is kept, held back or left unpromised longer than need be."""
        oracles = {"kept": self.kept, "settled": self.settled, "promised": self.promised} if strict else {}
        check_operator(make, script, naive=self.naive, **oracles)  # type: ignore[arg-type]


def _least(rows: Sequence[Row], port: int, bound: int) -> int:
    return min([int(str(row[TIMES[port]])) for row in rows] + [bound])
