"""The windows that share slices, as the arrays that the slicer reads: bands, session gaps, and windows to be asked.

A band is a context-free window that repeats: sliding, tumbling, or one fixed stretch. Sessions share the slices of the
smallest gap. All others say themselves where a cell ends, once for each cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from operators.data.labels import Labels
from operators.data.page import Int64s
from operators.errors import SchemaError
from operators.kernels.slicing import release as kernels
from operators.kernels.slicing.layout import NEXT_WID, OWNER
from operators.kernels.ticks import BEFORE_ALL, FAR, FOREVER, LIMIT
from operators.window import SlidingWindow
from operators.window.delimited import DelimitedWindow, FixedBandWindow
from operators.window.session import SessionWindow
from operators.window.user import AskedWindow, Contextual
from operators.window_aggregate.stores.slices.slices import Grid
from operators.window_aggregate.stores.slices.tracked import Tracked
from operators.window_aggregate.stores.slices.user_windows import CountingFrom
from operators.window_aggregate.strategy import Context

_UNKNOWN = np.zeros(0, np.int64)
_BITS = 62
CHUNK = 1 << 14
"""Windows looked for at a time, once there are more than usual."""
Columns: TypeAlias = tuple[Int64s, Int64s, Int64s, Int64s, Int64s]
"""Windows in columns: place, window-id, begin, end, and which of the ticks that were asked about is the first in it."""
Spec: TypeAlias = SlidingWindow | FixedBandWindow | SessionWindow | AskedWindow | Contextual
_KNOWN = (SlidingWindow, FixedBandWindow, SessionWindow)
"""The windows of which arrays say everything."""


@attrs.define(eq=False)
class Windows:
    """Hold windows by name, and the arrays made of them, anew after `add` and `remove`.

    Windows may be a million, so what is known of each stands in columns.
    """

    names: list[str] = attrs.field(factory=list)
    specs: list[Spec] = attrs.field(factory=list)
    _since: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """The tick from which on each window counts."""
    _nexts: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """The first window-id of each that was not released when `keep` took notice of it last."""
    _bits: dict[str, int] = attrs.field(init=False, factory=dict)
    """The bits of session windows."""
    _followed: dict[str, Tracked] = attrs.field(init=False, factory=dict)
    """The contexts at work of windows that have one."""
    bands: Int64s = attrs.field(init=False, factory=lambda: np.zeros((0, 6), np.int64))
    ahead: Int64s = attrs.field(init=False, factory=lambda: _nothing_known(np.zeros(0, np.int64)))
    """The first window of each band that is not released, and what is known of it; see `complete`."""
    sessions: Int64s = attrs.field(init=False, factory=lambda: np.zeros((0, 4), np.int64))
    asked: list[tuple[int, AskedWindow]] = attrs.field(init=False, factory=list)
    """The windows that are asked for every cell, with their places."""
    tracked: list[tuple[int, Tracked]] = attrs.field(init=False, factory=list)
    """Those of them that have a context."""
    contexts: Sequence[Context] = attrs.field(init=False, default=())
    """The classes of the windows, each once."""
    _told: int = attrs.field(init=False, default=0)
    """How many windows were told last; a guess before."""
    _following: tuple[int, int] = attrs.field(init=False, default=(FAR, FAR))
    """The least begin and the least end of the windows after those that `completed` told."""
    labels: Labels = attrs.field(init=False, factory=lambda: Labels.of(()))

    @classmethod
    def of(cls, windows: Mapping[str, Spec]) -> Windows:
        """Take windows that count from the beginning."""
        self = cls()
        self._use(windows, -FAR)
        self.compile()
        return self

    @classmethod
    def again(
        cls,
        specs: Mapping[str, Spec],
        since: Sequence[int],
        nexts: Sequence[int],
        bits: Mapping[str, int],
        contexts: Mapping[str, Tracked],
    ) -> Windows:
        """Take windows up where `columns`, `bit` and `context` say that others were."""
        self = cls(list(specs), list(specs.values()))
        self._since, self._nexts = np.array(since, np.int64), np.array(nexts, np.int64)
        self._bits, self._followed = dict(bits), dict(contexts)
        self.compile()
        return self

    def columns(self) -> Iterator[tuple[str, Spec, int, int]]:
        """Yield the name of each window, what it is, from which tick it counts, and the first that is not released."""
        self.keep()
        return zip(self.names, self.specs, self._since.tolist(), self._nexts.tolist(), strict=True)

    def context(self, name: str) -> Tracked | None:
        """Return the context of a window at work; None where it has none."""
        return self._followed.get(name)

    @property
    def looks_back(self) -> bool:
        """Return whether some context may find a window that begins where no edge was set."""
        return any(window.horizon < FAR for _, window in self.tracked)

    def bit(self, name: str) -> int:
        """Return the bit of a session window among those of slices, 0 for other windows."""
        return self._bits.get(name, 0)

    def unfinished(self, bound: int) -> tuple[int, int]:
        """Return the least begin and the least end of the windows, sessions apart, that a bound does not complete."""
        begin, end = kernels.unfinished(self.bands, bound)
        return self._with_asked(bound, int(begin), int(end))

    def upcoming(self, bound: int) -> tuple[int, int]:
        """Return what `unfinished` does, when the bands have told all that a bound completes."""
        return self._with_asked(bound, *self._following)

    def completed(self, bound: int, keys: Int64s, grid: Grid, nexts: Int64s | None = None) -> Iterator[Columns]:
        """Yield the windows of bands that a bound completes and that have one of these ascending ticks, then go on.

        `nexts` are the first windows to tell, by default those after the ones told before.
        """
        if len(self.bands) == 0:
            return
        ahead = self.ahead if nexts is None else _nothing_known(nexts)
        # More windows than there is room for are told in several rounds.
        count = room = self.room
        while count == room:
            found = np.empty((5, room), np.int64)
            count, begin, end = kernels.complete(self.bands, ahead, bound, keys, grid, 0, _UNKNOWN, found, 0, room)
            # Columns of results are made of these without copying, so what is not used must not live on with them.
            places, wids, opens, closes, firsts = found[:, :count] if 2 * count > room else found[:, :count].copy()
            yield places, wids, opens, closes, firsts
            if count == room:
                count = room = CHUNK
            elif nexts is None:
                self.follow(int(count), int(begin), int(end))

    @property
    def room(self) -> int:
        """Return how many windows to look for at first: some more than last time, so that they lie close together."""
        return 16 + max(2 * self._told, len(self.bands) // 4)

    def follow(self, told: int, begin: int, end: int) -> None:
        """Take how many were told, and the least begin and the least end of the windows after these."""
        self.tell(told)
        self._following = begin, end

    def tell(self, told: int) -> None:
        """Take how many were told, for `room`."""
        self._told = told

    def _with_asked(self, bound: int, begin: int, end: int) -> tuple[int, int]:
        for _, window in self.asked:
            # Only a tuple at the bound may show a context that a window ends there.
            end = min(end, bound if isinstance(window, Tracked) else bound + 1)
            begin = min(begin, window.unfinished(bound))
        return begin, end

    def ends(self, places: Int64s, closes: Int64s) -> Int64s:
        """Return the ends of windows as results have them: FOREVER where a user's window ends behind all ticks."""
        if not self.asked:
            return closes
        asked = np.isin(places, [place for place, _ in self.asked])
        return np.where(asked & (closes >= LIMIT), FOREVER, closes)

    def skip(self, bound: int) -> None:
        """Count the windows of bands that a bound completes as given."""
        if bound > -FAR:
            given = (bound - self.bands[:, 2]) // self.bands[:, 1]
            self.ahead = _nothing_known(np.maximum(self.ahead[NEXT_WID], np.maximum(given, self.bands[:, 3])))

    def wid(self, bound: int, begin: int) -> int | None:
        """Return the first window-id that is not complete, by bound or by begin, where there is a single window."""
        if len(self.specs) != 1 or self.asked:
            return None
        if len(self.sessions):
            return begin
        _, slide, origin, least, *_ = self.bands[0].tolist()
        return max((bound - origin) // slide, least)

    def slices_a_window(self) -> int:
        """Estimate how many slices the longest window has when it is complete and slices were joined behind it."""
        if len(self.bands) == 0:
            return 1
        sizes, slides = self.bands[:, 0], self.bands[:, 1]
        edges = float((np.where(sizes % slides, 2, 1) / slides).sum())
        return int(min(np.ceil(sizes / slides).sum(), edges * float(sizes.max())))

    @property
    def gappy(self) -> bool:
        """Return whether some tick may be in no window, as far as the specifications say."""
        if len(self.sessions):
            return False
        endless = (self.bands[:, 3] == BEFORE_ALL) & (self.bands[:, 4] >= FAR)
        return not bool(((self.bands[:, 0] >= self.bands[:, 1]) & endless).any())

    def add(self, name: str, spec: Spec, since: int) -> None:
        """Take a window, of which those that begin before `since` do not count."""
        self.keep()
        self._use({name: spec}, since)
        self.compile()

    def _use(self, windows: Mapping[str, Spec], since: int) -> None:
        for name, spec in windows.items():
            if isinstance(spec, SessionWindow):
                self._bits[name] = self._free_bit()
            elif (tracked := _tracked(name, spec, since)) is not None:
                self._followed[name] = tracked
        self.names += windows.keys()
        self.specs += windows.values()
        self._since = np.append(self._since, np.full(len(windows), since))
        self._nexts = np.append(self._nexts, np.full(len(windows), BEFORE_ALL))

    def _free_bit(self) -> int:
        taken = set(self._bits.values())
        bit = next((1 << i for i in range(_BITS) if 1 << i not in taken), 0)
        if bit == 0:
            raise SchemaError(f"slicing: {_BITS} session windows share slices at most; run the others apart.")
        return bit

    def remove(self, name: str) -> None:
        """Let a window go."""
        self.keep()
        place = self.names.index(name)
        del self.names[place], self.specs[place]
        self._since, self._nexts = np.delete(self._since, place), np.delete(self._nexts, place)
        self._bits.pop(name, None)
        self._followed.pop(name, None)
        self.compile()

    def keep(self) -> None:
        """Take notice of how far each band has been released."""
        self._nexts[self.bands[:, OWNER]] = self.ahead[NEXT_WID]

    def compile(self) -> None:
        """Make the arrays anew."""
        # Windows may be thousands: what is made for each of them here is numbers.
        bands: list[int] = []
        gaps: list[tuple[int, int, int, int]] = []
        asked: list[tuple[int, AskedWindow]] = []
        tracked: list[tuple[int, Tracked]] = []
        contexts: dict[Context, None] = {}
        for i, (name, spec, since) in enumerate(zip(self.names, self.specs, self._since.tolist(), strict=True)):
            if isinstance(spec, SlidingWindow):
                least = spec.least
                if since > -FAR:
                    # The first window that begins at `since` or later.
                    least = max(least, -((spec.origin - spec.size - since) // spec.slide) - 1)
                bands += (spec.size, spec.slide, spec.origin, least, FAR, i)
                contexts["CF"] = None
                continue
            if isinstance(spec, FixedBandWindow):
                counts = spec.start >= since
                bands += (spec.size, spec.size, spec.start, 0, 0 if counts else -1, i)
            elif isinstance(spec, SessionWindow):
                gaps.append((spec.gap, since, self._bits[name], i))
            elif (followed := self._followed.get(name)) is not None:
                asked.append((i, followed))
                tracked.append((i, followed))
            elif isinstance(spec, AskedWindow):
                asked.append((i, CountingFrom(spec, since) if since > -FAR else spec))
            contexts["session" if isinstance(spec, SessionWindow) else _class(spec.context)] = None
        gaps.sort()
        # Without a band, none would ever be told to follow.
        self._following = FAR, FAR
        self.labels = Labels.of(self.names)
        self.asked, self.tracked, self.contexts = asked, tracked, tuple(contexts)
        self.bands = np.array(bands, np.int64).reshape(-1, 6)
        self._told = min(2 * len(self.bands), CHUNK)
        self.ahead = _nothing_known(self._nexts[self.bands[:, OWNER]])
        self.sessions = np.array(gaps, np.int64).reshape(-1, 4)


def _nothing_known(nexts: Int64s) -> Int64s:
    """Return what is known of the next window of each band, but for its window-id, before any was told."""
    ahead = np.full((3, len(nexts)), -FAR, np.int64)
    ahead[NEXT_WID] = nexts
    return ahead


def _tracked(name: str, spec: Spec, since: int) -> Tracked | None:
    """Return the context of a window at work, where it has one."""
    return None if isinstance(spec, _KNOWN) or not isinstance(spec, Contextual) else Tracked(name, spec, since)


def dump_windows(windows: Windows) -> str:
    """Return the windows in use as text; a user's window is saved by its name and has to be there again."""
    listed: list[dict[str, object]] = []
    for name, spec, since, following in windows.columns():
        kind, tracked = type(spec).__name__, windows.context(name)
        listed.append(
            {
                "name": name,
                "kind": kind,
                "spec": attrs.asdict(spec) if kind in _KINDS else None,
                "since": since,
                "bit": windows.bit(name),
                "next": following,
                "tracked": None if tracked is None else tracked.state(),
            }
        )
    return json.dumps(listed)


def read_windows(text: str, known: Mapping[str, Spec]) -> Windows:
    """Return the windows that `dump_windows` saved; ValueError when a user's window is not among the known ones."""
    listed: list[dict[str, Any]] = json.loads(text)
    specs: dict[str, Spec] = {}
    contexts: dict[str, Tracked] = {}
    for saved in listed:
        name = saved["name"]
        if saved["spec"] is None and name not in known:
            raise ValueError(
                f'the saved state has a window "{name}" of the user\'s own kind {saved["kind"]}, which is not among'
                f" {', '.join(known)}; make the operator with it, or add it, before restoring"
            )
        specs[name] = spec = known[name] if saved["spec"] is None else _KINDS[saved["kind"]](**saved["spec"])
        tracked = _tracked(name, spec, saved["since"])
        if tracked is not None:
            tracked.restore(saved["tracked"])
            contexts[name] = tracked
    if len(specs) < len(listed):
        raise ValueError("the saved state names two windows alike")
    since, nexts = ([saved[key] for saved in listed] for key in ("since", "next"))
    bits = {saved["name"]: saved["bit"] for saved in listed if saved["bit"]}
    return Windows.again(specs, since, nexts, bits, contexts)


_KINDS: dict[str, Callable[..., Spec]] = {
    kind.__name__: kind for kind in (SlidingWindow, FixedBandWindow, SessionWindow, DelimitedWindow)
}


def _class(context: str) -> Context:
    return "CF" if context == "CF" else "FCF" if context == "FCF" else "FCA"
