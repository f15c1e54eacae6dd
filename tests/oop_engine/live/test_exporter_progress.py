"""Nothing is promised that an exporter which keeps its rules could break, and nobody can push time ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.flows.decoder import FlowDecoder, flow_columns
from oop_engine.sources.live import progress as progress_module
from oop_engine.sources.live.exporters import MINUTE, SAVED_BEFORE, SECOND, Exporter, Rules
from oop_engine.sources.live.progress import ExporterProgress, Heard
from oop_engine.sources.live.report import Report
from oop_engine.sources.live.roster import MOST_EXPORTERS
from operators.data.saved import decode_state, encode_state
from punctuation import NO_TIME, GroupPromise, Punctuation
from tests.naive_exporters import Export, NaiveExporters, Said

A, B, C = (bytes(15) + bytes([n]) for n in (1, 2, 3))
NOW = 1_750_000_000 * SECOND
BOTH = ("ts", "end_ts")
PLAIN = Rules(settle=0, trusted_after=1, lull=None, idle=10**9 * SECOND)


def heard(exports: Sequence[Export], attributes: Sequence[str] = BOTH) -> Heard:
    """Give datagrams as the decoder tells of them."""
    keys = sorted({e.key for e in exports})
    first = np.cumsum([0, *(len(e.rows) for e in exports)])[:-1]
    times = {
        a: np.array([NO_TIME if (v := row[a]) is None else v for e in exports for row in e.rows], np.int64)
        for a in attributes
    }
    return Heard(
        keys, np.array([keys.index(e.key) for e in exports]), np.array([e.header for e in exports], np.int64),
        np.array([e.arrival for e in exports], np.int64), first.astype(np.int64), times,
        np.array([not e.silent for e in exports]),
    )  # fmt: skip


def export(
    who: bytes, at: float, *, ahead: float = 0, start: float = 0, end: float = 0, domain: int = 0, port: int = 0
) -> Export:
    """Give a datagram at second `at` whose clock is `ahead`, with a record that starts and ends so long before it."""
    header = NOW + round((at + ahead) * SECOND)
    row = {"ts": header - round(start * SECOND), "end_ts": header - round(end * SECOND)}
    return Export((who, domain, port), header, NOW + round(at * SECOND), [row])


def time(seconds: float) -> int:
    return NOW + round(seconds * SECOND)


def said(punctuations: Sequence[Punctuation]) -> list[Said]:
    """Give promises apart: attribute, exporter, bound, assumed."""
    found: list[Said] = []
    for p in punctuations:
        group = GroupPromise.of(p)
        if group is None:
            (name,) = p.attributes
            found.append((name, None, p.bound(name), p.assumed))  # type: ignore[arg-type]
        else:
            found += [(str(group.shape[1]), key[0], group.bound, p.assumed) for key in group.keys]  # type: ignore[misc]
    return found


def told(progress: ExporterProgress, exports: Sequence[Export], at: float) -> list[Said]:
    """Hear datagrams one by one, then ask at a time."""
    for one in exports:
        progress.hear(heard([one], progress.attributes))
    return said(progress.elapse(time(at)))


halves = st.integers(0, 60).map(lambda n: n / 2)


@st.composite
def scripts(draw: st.DrawFn) -> list[list[Export]]:
    """Draw batches of datagrams of three exporters whose clocks are off, stepped and mad, with records of any age."""
    now, batches = 0.0, list[list[Export]]()
    ahead = {key: draw(st.sampled_from([0, 0, -3, 7, 90, -86_400, 400])) for key in ((A, 0, 0), (A, 1, 0), (B, 0, 0))}
    for _ in range(draw(st.integers(1, 12))):
        batch: list[Export] = []
        for _ in range(draw(st.integers(1, 4))):
            now += draw(st.sampled_from([0, 0.5, 1, 5, 20, 70]))
            key = draw(st.sampled_from(sorted(ahead)))
            if draw(st.integers(0, 9)) == 0:
                ahead[key] += draw(st.sampled_from([-30, 15, 3 * 10**8]))
            header = time(now + ahead[key] + draw(st.sampled_from([0, -0.5, -2, -20])))
            ages = draw(st.lists(st.tuples(halves, halves, st.integers(0, 9)), min_size=1, max_size=3))
            rows = [
                {"ts": None if odd == 0 else header - round((a + b) * SECOND), "end_ts": header - round(b * SECOND)}
                for a, b, odd in ages
            ]
            if draw(st.integers(0, 9)) == 0:
                rows[0]["end_ts"] = 0
            if draw(st.integers(0, 9)) == 0:
                header = NO_TIME
            silent = draw(st.integers(0, 4)) == 0
            batch.append(Export(key, header, time(now), [] if silent else rows, silent))
        batches.append(batch)
    return batches


rules = st.builds(
    Rules,
    active=st.sampled_from([None, 20 * SECOND]), inactive=st.sampled_from([None, 10 * SECOND]),
    scan=st.sampled_from([0, 5 * SECOND]), settle=st.sampled_from([0, 10 * SECOND]),
    lull=st.sampled_from([None, 5 * SECOND]), idle=st.sampled_from([30 * SECOND, 10**6 * SECOND]),
    trusted_after=st.integers(1, 3), correct=st.booleans(),
)  # fmt: skip


@given(scripts(), rules, st.booleans(), st.sampled_from([SECOND, 7 * SECOND]), st.lists(halves, min_size=12))
def test_it_says_what_the_rules_say_of_the_whole_history(
    batches: list[list[Export]], chosen: Rules, by_exporter: bool, step: int, waits: list[float]
) -> None:
    grains = {"ts": Grain(step, 3)}
    progress = ExporterProgress(chosen, BOTH, by_exporter, grains)
    naive = NaiveExporters(chosen, BOTH, by_exporter)
    for batch, wait in zip(batches, waits, strict=False):
        progress.hear(heard(batch))
        naive.hear(batch)
        now = batch[-1].arrival + round(wait * SECOND)
        found, expected = said(progress.elapse(now)), naive.elapse(now, grains)
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert (progress.late, progress.contradicted) == (naive.late, naive.contradicted)


@given(
    scripts(), rules, st.booleans(), st.lists(halves, min_size=12), st.integers(0, 11), st.sampled_from(["ts", "both"])
)
def test_a_run_that_is_saved_and_restored_at_any_moment_says_the_same(
    batches: list[list[Export]], chosen: Rules, by_exporter: bool, waits: list[float], moment: int, on: str
) -> None:
    attributes = BOTH if on == "both" else ("ts",)
    whole, parted = (ExporterProgress(chosen, attributes, by_exporter, {"ts": Grain(SECOND)}) for _ in range(2))
    for k, (batch, wait) in enumerate(zip(batches, waits, strict=False)):
        found: list[list[Said]] = []
        for progress in (whole, parted):
            shifts = progress.hear(heard(batch, attributes))
            found.append(said(progress.elapse(batch[-1].arrival + round(wait * SECOND))))
            found[-1] += [] if shifts is None else [("shift", None, n, False) for n in shifts.tolist()]
        assert found[0] == found[1]
        if k == moment:
            state = encode_state(parted.state())
            parted = ExporterProgress(chosen, attributes, by_exporter, {"ts": Grain(SECOND)})
            parted.restore(decode_state(state))
            assert encode_state(parted.state()) == state
    assert (whole.late, whole.contradicted, whole.roster.forgotten) == (
        parted.late, parted.contradicted, parted.roster.forgotten,
    )  # fmt: skip
    assert encode_state(whole.state()) == encode_state(parted.state())


@given(scripts(), rules, st.booleans(), st.integers(0, 11), st.sampled_from([0, 3, 40, 4000]))
def test_what_was_promised_before_nobody_listened_holds_after_it(
    batches: list[list[Export]], chosen: Rules, by_exporter: bool, moment: int, hours: int
) -> None:
    progress, bounds = ExporterProgress(chosen, BOTH, by_exporter), dict[tuple[str, bytes | None], int]()
    for batch in batches[:moment]:
        progress.hear(heard(batch))
        for attribute, who, bound, _ in said(progress.elapse(batch[-1].arrival)):
            bounds[attribute, who] = bound
    again = ExporterProgress(chosen, BOTH, by_exporter)
    again.restore(progress.state())
    away = hours * 60 * MINUTE
    repeated = {(a, who): bound for a, who, bound, _ in said(again.resume(progress.latest + away))}
    lowest = {a: bounds.get((a, None), NO_TIME) for a in BOTH}
    assert repeated == {key: bound for key, bound in bounds.items() if key[1] is None or bound > lowest[key[0]]}
    for batch in batches[moment:]:
        moved = [
            attrs.evolve(e, header=NO_TIME if e.header == NO_TIME else e.header + away, arrival=e.arrival + away)
            for e in batch
        ]
        again.hear(heard(moved))
        for attribute, who, bound, _ in said(again.elapse(moved[-1].arrival)):
            assert bound > bounds.get((attribute, who), NO_TIME) and bound > bounds.get((attribute, None), NO_TIME)
            bounds[attribute, who] = bound


@given(scripts(), rules, st.booleans())
def test_bounds_only_rise_and_never_beyond_the_clock_here_and_five_minutes(
    batches: list[list[Export]], chosen: Rules, by_exporter: bool
) -> None:
    progress, bounds = ExporterProgress(chosen, BOTH, by_exporter), dict[tuple[str, bytes | None], int]()
    for batch in batches:
        progress.hear(heard(batch))
        now = batch[-1].arrival
        for attribute, who, bound, _ in said([*progress.elapse(now), *progress.poll(now)]):
            assert bound > bounds.get((attribute, who), NO_TIME)
            assert bound > bounds.get((attribute, None), NO_TIME) or who is None
            assert bound <= now + 5 * MINUTE
            bounds[attribute, who] = bound


@attrs.frozen
class Obedient:
    """An exporter that keeps its timeouts: when it sends, and how old its records are then."""

    who: bytes
    ahead: int
    sends: list[tuple[int, list[tuple[int, int]]]]


ACTIVE, INACTIVE, SCAN = 20, 10, 5


@st.composite
def obedient(draw: st.DrawFn) -> list[Export]:
    """Draw what exporters send that keep active 20 s, inactive 10 s and a scan of 5 s, in any interleaving."""
    exports: list[Export] = []
    for who in (A, B, C)[: draw(st.integers(1, 3))]:
        ahead, now, records = draw(st.integers(-120, 120)), 0, 0
        for gap in draw(st.lists(st.integers(0, 9), min_size=1, max_size=8)):
            now += gap
            rows = []
            for _ in range(draw(st.integers(1, 3))):
                end = draw(st.integers(0, INACTIVE + SCAN))
                start = draw(st.integers(end, end + ACTIVE))
                header = time(now + ahead)
                rows.append({"ts": header - start * SECOND, "end_ts": header - end * SECOND})
                records += 1
            exports.append(Export((who, draw(st.integers(0, 1)), 0), time(now + ahead), time(now), rows))
    return sorted(exports, key=lambda e: e.arrival)


def broken(exports: Sequence[Export], chosen: Rules, cut: int, *, by_exporter: bool = False) -> int:
    """Count records that come behind a promise made before them, each compared by hand."""
    progress, count = ExporterProgress(chosen, BOTH, by_exporter), 0
    promised: list[Said] = []
    for k in range(0, len(exports), cut):
        batch = exports[k : k + cut]
        for one in batch:
            for row in one.rows:
                count += any(
                    row[name] < bound  # type: ignore[operator]
                    for name, who, bound, _ in promised
                    if who in (None, one.key[0])
                )
        progress.hear(heard(batch))
        promised += said(progress.elapse(batch[-1].arrival))
    assert progress.late == count
    return count


KEPT = attrs.evolve(PLAIN, active=ACTIVE * SECOND, inactive=INACTIVE * SECOND, scan=SCAN * SECOND)


@given(obedient(), st.integers(1, 4))
def test_who_keeps_the_timeouts_never_breaks_its_own_promise(exports: list[Export], cut: int) -> None:
    for who in (A, B, C):
        for domain in (0, 1):
            own = [e for e in exports if e.key == (who, domain, 0)]
            assert broken(own, KEPT, cut, by_exporter=True) == 0


@given(obedient(), st.integers(1, 4))
def test_of_several_nobody_breaks_what_all_promise_once_all_are_heard(exports: list[Export], cut: int) -> None:
    keys = {e.key for e in exports}
    hello = [export(who, -1, domain=domain, ahead=-200) for who, domain, _ in sorted(keys)]
    assert broken([*hello, *exports], KEPT, cut if cut < len(hello) else len(hello)) == 0


HOUR = 60 * MINUTE


@st.composite
def pairs(draw: st.DrawFn) -> list[Export]:
    """Draw what two exporters send that keep the timeouts and are never silent for 10 s, and greet at the beginning."""
    exports: list[Export] = []
    for who in (A, B):
        ahead, now = draw(st.integers(-120, 120)), 0
        exports.append(export(who, -1, ahead=ahead))
        for gap in draw(st.lists(st.integers(1, 9), min_size=4, max_size=12)):
            now += gap
            end = draw(st.integers(0, INACTIVE + SCAN))
            exports.append(export(who, now, ahead=ahead, start=end + draw(st.integers(0, ACTIVE)), end=end))
    return sorted(exports, key=lambda e: e.arrival)


def later(one: Export, by: int) -> Export:
    rows = [{name: t + by for name, t in row.items() if t is not None} for row in one.rows]
    return Export(one.key, one.header + by, one.arrival + by, rows)


def broken_after_a_break(exports: Sequence[Export], parting: int) -> int:
    """Count records behind a promise when, after `parting` datagrams, nobody listens for an hour."""
    progress, again = (ExporterProgress(attrs.evolve(KEPT, lull=20 * SECOND, idle=MINUTE), BOTH) for _ in range(2))
    progress.hear(heard(exports[:2]))
    for one in exports[2:parting]:
        progress.hear(heard([one]))
        progress.elapse(one.arrival)
    again.restore(progress.state())
    back = exports[parting - 1].arrival + HOUR
    again.resume(back)
    again.elapse(back)
    for one in exports[parting:]:
        again.hear(heard([later(one, HOUR)]))
        again.elapse(one.arrival + HOUR)
    return again.late


@given(pairs(), st.integers(2, 25))
def test_who_keeps_the_timeouts_breaks_no_promise_when_nobody_listened_for_a_time(
    exports: list[Export], parting: int
) -> None:
    assert broken_after_a_break(exports, min(parting, len(exports))) == 0


@pytest.mark.parametrize("forgotten", ["that nobody listened", "the bounds", "the exporters"])
def test_what_a_restart_must_not_forget(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exports = [export(A, -1), export(B, -1, ahead=-90)]
    exports += [export(who, k, ahead=ahead, start=35, end=15) for k in range(1, 9) for who, ahead in ((A, 0), (B, -90))]
    assert broken_after_a_break(exports, 10) == 0
    progress = ExporterProgress(KEPT, BOTH)
    (first, *_) = told(progress, exports[:2], 0)
    if forgotten == "that nobody listened":
        monkeypatch.setattr(ExporterProgress, "resume", lambda self, now: [])
        assert broken_after_a_break(exports, 10) > 0
        return
    again = ExporterProgress(KEPT, BOTH)
    again.restore(progress.state())
    assert said(again.resume(time(100)))[0] == first
    assert told(again, [export(A, 101)], 101) == []
    anew = ExporterProgress(KEPT, BOTH)
    if forgotten == "the bounds":
        anew.restore({**ExporterProgress(KEPT, BOTH).state(), "exporters": progress.state()["exporters"]})
        assert anew.resume(time(100)) == []
    else:
        assert told(anew, [export(A, 101)], 101)[0][2] == time(101 - 35)


def test_an_attribute_that_was_not_promised_before_is_settled_for_and_foreign_states_are_refused() -> None:
    progress, chosen = ExporterProgress(PLAIN), attrs.evolve(PLAIN, settle=10 * SECOND)
    told(progress, [export(A, 0, start=5)], 0)
    again = ExporterProgress(chosen, BOTH)
    again.restore(progress.state())
    assert said(again.resume(time(1))) == [("ts", None, time(-25), True)]
    assert told(again, [export(A, 2, end=3)], 9) == []
    assert ("end_ts", None, time(12 - 25), True) in told(again, [export(A, 12)], 12)
    with pytest.raises(ValueError, match='record batch "exporters"'):
        again.restore({"bound": 3})
    with pytest.raises(ValueError, match="exporters are saved as"):
        again.restore({**progress.state(), "exporters": pa.RecordBatch.from_pydict({"address": [1]})})


def test_a_clock_that_was_put_right_before_is_not_where_nobody_asks_for_it() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, correct=True))
    told(progress, [export(A, k, ahead=-90) for k in range(3)], 3)
    for correct, offset in ((True, 90), (False, 0)):
        again = ExporterProgress(attrs.evolve(KEPT, correct=correct))
        again.restore(progress.state())
        assert [e.offset for e in again.exporters] == [offset * SECOND]


@pytest.mark.parametrize("mutant", ["scan", "active", "least", "lull"])
def test_a_planted_fault_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exports = [export(A, k, start=34, end=14) if k % 3 == 0 else export(A, k) for k in range(30)]
    exports += [export(B, k + 0.5, ahead=-60, start=34, end=14) for k in range(30)]
    exports.sort(key=lambda e: e.arrival)
    assert broken(exports, attrs.evolve(KEPT, settle=2 * SECOND), 1) == 0
    wrong = KEPT
    if mutant == "scan":
        wrong = attrs.evolve(KEPT, scan=0)
    elif mutant == "active":
        wrong = attrs.evolve(KEPT, active=0)
    elif mutant == "least":
        monkeypatch.setattr(
            progress_module,
            "min",
            lambda values, *rest: max([*values]) if not rest else min(values, *rest),
            raising=False,
        )
    else:
        monkeypatch.setattr(Exporter, "reach", lambda self, attribute, chosen, now: (now, False))
    assert broken(exports, attrs.evolve(wrong, settle=2 * SECOND), 1) > 0


def test_the_end_is_promised_by_the_inactive_timeout_and_the_scan_the_start_by_the_active_one_too() -> None:
    progress = ExporterProgress(KEPT, BOTH)
    assert told(progress, [export(A, 0)], 0) == [
        ("ts", None, time(-35), False),
        ("end_ts", None, time(-15), False),
    ]


def test_what_is_announced_is_a_promise_what_is_only_seen_an_assumption() -> None:
    seen = ExporterProgress(PLAIN)
    assert told(seen, [export(A, 0, start=12.5)], 0) == [("ts", None, time(-27), True)]
    seen.announce((A, 0, 0), active=30 * SECOND, inactive=15 * SECOND)
    assert told(seen, [export(A, 60)], 60) == [("ts", None, time(60 - 55), False)]
    ends = ExporterProgress(PLAIN, ("end_ts",))
    told(ends, [export(A, 0)], 0)
    ends.announce((A, 0, 0), active=None, inactive=15 * SECOND)
    assert told(ends, [export(A, 60)], 60) == [("end_ts", None, time(60 - 25), False)]


def test_timeouts_are_learnt_and_until_then_twice_what_was_seen_is_allowed_for() -> None:
    progress = ExporterProgress(PLAIN, ("end_ts",))
    assert told(progress, [export(A, 0, end=2)], 0)[-1] == ("end_ts", None, time(-25), True)
    # 20 s were seen, so that 42 may come; after four times as long, what was seen tells.
    assert told(progress, [export(A, 60, end=20)], 60)[-1] == ("end_ts", None, time(60 - 42), True)
    assert told(progress, [export(A, 167)], 167)[-1] == ("end_ts", None, time(167 - 42), True)
    assert told(progress, [export(A, 168)], 168)[-1] == ("end_ts", None, time(168 - 21), True)


@pytest.mark.parametrize("on", ["ts", "end_ts"])
def test_no_record_of_exporters_that_announce_no_timeouts_is_late(on: str) -> None:
    stream = oop.netflow("demos/captures/exports.pcap.gz", progress="exporters", on=on)
    outcome = oop.query(f"SELECT count(*) [RANGE 10 s, WA {on}] FROM F", F=stream).run()
    assert (outcome.statistics.tuples, outcome.statistics.late) == (4235, 0)


def test_a_made_up_domain_holds_promises_back_by_what_is_believed_at_most() -> None:
    chosen = attrs.evolve(PLAIN, idle=60 * SECOND, scan=0)
    for said_by_user in (False, True):
        rules = attrs.evolve(chosen, active=ACTIVE * SECOND, inactive=INACTIVE * SECOND) if said_by_user else chosen
        progress = ExporterProgress(rules)
        forged = [export(A, 0, ahead=-299, start=7199, domain=666), export(A, 1, ahead=-299, start=10**9, domain=666)]
        told(progress, [export(A, 0), *forged], 1)
        progress.announce((A, 666, 0), active=2**32 * SECOND, inactive=2**32 * SECOND)
        assert told(progress, [export(A, 2)], 2) == []
        lag = ACTIVE + INACTIVE if said_by_user else 7200
        assert progress.bound("ts") == time(1 - 299 - lag)
        # The real exporter's clock is as it was, and once the forger is silent nobody waits for it.
        assert [e.skew for e in progress.exporters] == [0, 299 * SECOND]
        assert told(progress, [export(A, 62)], 62)[0][2] == time(62 - (ACTIVE + INACTIVE if said_by_user else 1))


def test_who_does_not_keep_to_what_it_announces_is_believed_what_is_seen() -> None:
    progress = ExporterProgress(attrs.evolve(PLAIN, scan=0))
    told(progress, [export(A, 0)], 0)
    progress.announce((A, 0, 0), active=5 * SECOND, inactive=5 * SECOND)
    found = told(progress, [export(A, 60, start=30), export(A, 61)], 61)
    assert found == [("ts", None, time(61 - 31), True)]


def test_a_users_word_on_timeouts_is_taken_as_it_is_and_what_breaks_it_counted() -> None:
    progress = ExporterProgress(KEPT)
    told(progress, [export(A, 0)], 0)
    assert told(progress, [export(A, 1, start=90)], 1) == [("ts", None, time(-34), False)]
    assert (progress.late, progress.contradicted) == (1, 0)


def test_one_mad_header_moves_nothing_and_three_that_agree_are_a_clock_that_was_stepped() -> None:
    progress = ExporterProgress(KEPT, ("end_ts",))
    assert told(progress, [export(A, k) for k in range(5)], 4) == [("end_ts", None, time(-11), False)]
    assert told(progress, [export(A, 5, ahead=200), export(A, 5.5, ahead=-200), export(A, 6, ahead=200)], 6) == []
    assert told(progress, [export(A, 7)], 7) == [("end_ts", None, time(-8), False)]
    assert told(progress, [export(A, 8 + k, ahead=30) for k in range(3)], 10) == [("end_ts", None, time(25), False)]
    (exporter,) = progress.exporters
    assert exporter.steps == 1 and exporter.skew == -30 * SECOND
    stepped_back = [export(A, 11 + k, ahead=0) for k in range(3)]
    assert told(progress, stepped_back, 13) == [] and exporter.steps == 2
    assert told(progress, [export(A, 45)], 45) == [("end_ts", None, time(30), False)]


def test_an_exporter_of_the_future_is_set_aside_and_alone_gets_no_further_than_its_arrivals() -> None:
    progress = ExporterProgress(KEPT)
    ten_years = 10 * 365 * 86_400
    found = told(progress, [export(A, k, ahead=ten_years) for k in range(9)], 9)
    assert found == [("ts", None, time(8 - 35), True)]
    assert told(progress, [export(B, 10)], 10) == [("ts", None, time(10 - 35), True)]
    alone = ExporterProgress(attrs.evolve(KEPT, skew=10**12 * SECOND))
    ((_, _, bound, _),) = told(alone, [export(A, k, ahead=ten_years) for k in range(9)], 9)
    assert time(8) < bound <= time(9) + 5 * MINUTE - 35 * SECOND


def test_nobody_has_a_say_before_it_sent_three_datagrams_with_records() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, trusted_after=3))
    assert told(progress, [export(A, 0), export(A, 1)], 1) == []
    assert told(progress, [export(A, 2), export(B, 2, ahead=-100)], 2) == [("ts", None, time(2 - 35), False)]


def test_nothing_is_promised_while_exporters_settle() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, settle=10 * SECOND))
    assert told(progress, [export(A, k) for k in range(9)], 9) == []
    assert told(progress, [export(B, 9, ahead=-50)], 10) == [("ts", None, time(9 - 85), False)]


def test_a_silent_exporter_is_assumed_to_go_on_with_the_time() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, lull=10 * SECOND), ("end_ts",))
    assert told(progress, [export(A, 0, ahead=-3), export(B, 0)], 0) == [("end_ts", None, time(-18), False)]
    assert told(progress, [export(B, 9)], 10) == []
    assert told(progress, [export(B, 11)], 14) == [("end_ts", None, time(14 - 3 - 10 - 15), True)]
    late = export(A, 14.5, ahead=-3, end=14)
    assert told(progress, [late], 14.5) == [("end_ts", None, time(11 - 15), False)] and progress.late == 0
    told(progress, [export(B, 40)], 40)
    assert told(progress, [export(A, 40, ahead=-30, end=5)], 40) == []
    assert (progress.late, progress.contradicted) == (1, 1)


def test_all_silent_exporters_together_are_assumed_to_go_on_too() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, lull=5 * SECOND, idle=20 * SECOND), ("end_ts",))
    told(progress, [export(A, 0)], 0)
    assert said(progress.elapse(time(500))) == [("end_ts", None, time(500 - 20), True)]
    waiting = ExporterProgress(attrs.evolve(KEPT, lull=None, idle=20 * SECOND), ("end_ts",))
    told(waiting, [export(A, 0)], 0)
    assert said(waiting.elapse(time(500))) == []


def test_an_idle_exporter_holds_nobody_back_and_what_it_brings_late_is_counted() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, idle=60 * SECOND), ("end_ts",))
    told(progress, [export(A, 0, ahead=-5), export(B, 0)], 0)
    assert told(progress, [export(B, 60)], 60) == []
    assert told(progress, [export(B, 61)], 61) == [("end_ts", None, time(61 - 15), True)]
    assert told(progress, [export(A, 62, ahead=-5, end=15)], 62) == []
    assert (progress.late, progress.contradicted) == (1, 1)
    assert progress.bound("end_ts") == time(61 - 15)
    # Both have a say again: the bound waits for the slower one, and goes on from where it was.
    assert told(progress, [export(B, 66), export(A, 66, ahead=-5)], 66) == []
    assert told(progress, [export(B, 70), export(A, 70, ahead=-5)], 70) == [("end_ts", None, time(50), False)]


@pytest.mark.parametrize("ahead", [0, 90, -90, 86_400, -86_400])
def test_clocks_are_put_right_by_what_arrivals_tell(ahead: float) -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, correct=True))
    for k in range(200):
        delay, drift = (k * 37 % 11) / 20, k * 1e-4
        one = export(A, k + delay, ahead=ahead - delay + drift)
        shifts = progress.hear(heard([one], ("ts",)))
        shift = 0 if shifts is None else int(shifts[0])
        assert abs(one.header + shift - time(k)) <= 2 * SECOND
    ((_, _, bound, _),) = said(progress.elapse(time(200)))
    assert time(199 - 37) <= bound <= time(200 - 34) and progress.late == 0


def test_a_clock_that_is_right_is_left_alone() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, correct=True))
    for k in range(100):
        assert progress.hear(heard([export(A, k + 0.9, ahead=-0.9)], ("ts",))) is None


def test_each_exporters_own_progress_is_promised_where_it_is_ahead_of_all() -> None:
    progress = ExporterProgress(KEPT, ("end_ts",), by_exporter=True)
    found = told(progress, [export(A, 0), export(B, 0, ahead=-100), export(A, 0, ahead=-20, domain=1)], 0)
    assert found == [("end_ts", None, time(-115), False), ("end_ts", A, time(-35), False)]
    assert told(progress, [export(A, 5)], 5) == []
    assert told(progress, [export(A, 5, ahead=-20, domain=1)], 5) == [("end_ts", A, time(-30), False)]
    told(progress, [export(A, 6, ahead=-20, end=17, domain=1), export(B, 6, ahead=-100)], 6)
    assert sorted((e.address, e.domain, e.late) for e in progress.exporters) == [(A, 0, 0), (A, 1, 1), (B, 0, 0)]


def test_finer_promises_appear_when_they_are_asked_for_and_exact_ones_on_demand() -> None:
    progress = ExporterProgress(KEPT, ("end_ts",), grains={"end_ts": Grain(60 * SECOND)})
    minute = NOW - NOW % (60 * SECOND)
    (first,) = told(progress, [export(A, 0.25)], 1)
    assert first[2] == minute - (60 * SECOND if minute > time(-15) else 0)
    assert told(progress, [export(A, 1.25)], 2) == []
    assert progress.describe({"end_ts": Grain(SECOND), "other": Grain()})
    assert told(progress, [export(A, 2.25)], 3) == [("end_ts", None, time(2 - 15), False)]
    assert said(progress.poll(time(3))) == [("end_ts", None, time(2.25 - 15), False)]
    assert said(progress.poll(time(3))) == [] and not progress.describe({"other": Grain()})


def test_records_that_trail_too_far_or_have_no_time_are_not_learnt_from() -> None:
    progress = ExporterProgress(PLAIN)
    old = Export((A, 0, 0), time(0), time(0), [{"ts": 0, "end_ts": None}, {"ts": time(-4), "end_ts": None}])
    progress.hear(heard([old, attrs.evolve(old, rows=[{"ts": None, "end_ts": None}])]))
    assert said(progress.elapse(time(0))) == [("ts", None, time(-25), True)]


def test_who_tells_no_time_is_held_to_its_arrivals_which_is_only_assumed() -> None:
    progress = ExporterProgress(KEPT)
    timeless = [Export((A, 0, 0), NO_TIME, time(k), [{"ts": time(k)}]) for k in range(3)]
    assert progress.hear(heard(timeless, ("ts",))) is None
    assert said(progress.elapse(time(2))) == [("ts", None, time(2 - 35), True)]
    (exporter,) = progress.exporters
    assert (exporter.timeless, exporter.undated, exporter.skew) == (3, 3, 0)
    # Once its clock is set, it promises itself.
    assert told(progress, [export(A, 9)], 9) == [("ts", None, time(9 - 35), False)]
    assert (exporter.timeless, exporter.undated) == (3, 0)
    progress.hear(heard([attrs.evolve(timeless[0], arrival=NO_TIME)], ("ts",)))
    assert exporter.datagrams == 4


@pytest.mark.parametrize(
    ("ahead", "lull", "bound"), [(360, 10, 99 - 35), (-360, 10, 99 - 360 - 35), (360, None, 99 - 35)]
)
def test_exporters_that_are_all_set_aside_hold_no_windows_for_ever(ahead: int, lull: int | None, bound: int) -> None:
    chosen = attrs.evolve(KEPT, lull=None if lull is None else lull * SECOND, idle=60 * SECOND)
    progress = ExporterProgress(chosen)
    assert told(progress, [export(A, k, ahead=ahead) for k in range(100)], 99) == [("ts", None, time(bound), True)]
    assert progress.late == 0
    # One that is right about the time and comes late to it is not late.
    assert told(progress, [export(B, 100)], 100) == [("ts", None, time(100 - 35), True)] and progress.late == 0
    if lull is None:
        # When it has left, nobody waits for it either.
        assert told(progress, [export(A, 200, ahead=ahead)], 200) == [("ts", None, time(200 - 35), True)]


def beyond(progress: ExporterProgress, exports: Sequence[Export]) -> dict[str, list[bool]]:
    """Give which times of what is heard are not believed."""
    told_of = heard(exports)
    shifts = progress.hear(told_of)
    return {attribute: far.tolist() for attribute, far in progress.beyond(told_of, shifts).items()}


def test_times_too_far_ahead_of_their_arrival_are_not_believed_and_counted() -> None:
    progress, minutes = ExporterProgress(PLAIN), 60
    late = export(A, 0, start=-5 * minutes, end=-5 * minutes)
    assert beyond(progress, [late, export(B, 0)]) == {}
    odd = export(A, 1, start=-5 * minutes - 0.5, end=-6 * minutes)
    odd = attrs.evolve(odd, rows=[{"ts": None, "end_ts": 2**62}, *odd.rows, {"ts": time(1), "end_ts": None}])
    found = beyond(progress, [odd, export(B, 1), attrs.evolve(export(B, 1), rows=[])])
    assert found == {"ts": [False, True, False, False], "end_ts": [True, True, False, False]}
    assert [e.future for e in progress.exporters] == [2, 0]
    assert beyond(progress, []) == {} and beyond(progress, [attrs.evolve(late, rows=[])]) == {}


@pytest.mark.parametrize("correct", [True, False])
def test_who_is_ahead_loses_no_records_for_that_unless_it_is_more_than_a_day(correct: bool) -> None:
    progress, hour, day = ExporterProgress(attrs.evolve(PLAIN, correct=correct)), 3600, 86_400
    assert beyond(progress, [export(A, 0, ahead=hour), export(B, 0, ahead=2 * day), export(C, 0, ahead=-hour)]) == (
        {} if correct else {"ts": [False, True, False], "end_ts": [False, True, False]}
    )
    odd = [
        export(A, 1, ahead=hour, start=-400, end=-400),
        export(C, 1, ahead=-hour, start=-hour - 299, end=-hour - 301),
    ]
    assert beyond(progress, odd) == (
        {"ts": [True, True], "end_ts": [True, True]} if correct else {"ts": [True, False], "end_ts": [True, True]}
    )
    timeless = Export((A, 7, 0), NO_TIME, NO_TIME, [{"ts": 2**62, "end_ts": None}])
    assert beyond(progress, [timeless]) == {}


@pytest.mark.parametrize("before", SAVED_BEFORE)
def test_what_was_saved_before_ports_were_told_apart_or_times_ahead_counted_is_taken_up(before: pa.Schema) -> None:
    progress = ExporterProgress(KEPT)
    told(progress, [export(A, 0)], 0)
    state = progress.state()
    saved = state["exporters"]
    assert isinstance(saved, pa.RecordBatch)
    again = ExporterProgress(KEPT)
    again.restore({**state, "exporters": saved.select(before.names)})
    assert [e.port for e in again.exporters] == [None]
    for one in (progress, again):
        told(one, [export(A, 1)], 1)
    assert encode_state(again.state()) == encode_state(progress.state())


def test_forged_exporters_push_out_each_other_and_memory_stays_bounded() -> None:
    progress = ExporterProgress(attrs.evolve(KEPT, trusted_after=2))
    for k in range(2):
        progress.hear(heard([export(A, k)], ("ts",)))
    for n in range(3000):
        progress.hear(heard([export(n.to_bytes(16, "big"), 1, domain=9)], ("ts",)))
    assert len(progress.exporters) == MOST_EXPORTERS and (A, 0) in {(e.address, e.domain) for e in progress.exporters}
    assert progress.roster.forgotten == 3001 - MOST_EXPORTERS
    assert said(progress.elapse(time(2))) == [("ts", None, time(1 - 35), False)]


@pytest.mark.parametrize("wrong", [{"scan": -1}, {"idle": -5}, {"active": -1}])
def test_lengths_of_time_are_not_negative(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not negative"):
        Rules(**wrong)


def test_the_exporter_that_holds_the_promise_back_is_named_with_what_explains_it() -> None:
    rules = attrs.evolve(PLAIN, idle=MINUTE, active=60 * SECOND, inactive=15 * SECOND)
    progress = ExporterProgress(rules, attributes=BOTH)
    report = Report("exporters", FlowDecoder(["ts"], available=flow_columns(())), progress)
    nobody = report.holder("ts", time(0))
    assert nobody is not None and nobody.bound is None and nobody.facts == ("nothing was heard of any exporter",)
    progress.hear(heard([export(A, at) for at in range(40)]))
    progress.hear(heard([export(B, at, ahead=-95) for at in range(20)]))
    progress.poll(time(40))
    found = report.holder("end_ts", time(40))
    assert found is not None and found.name == "exporter ::2"
    assert found.bound == progress.bound("end_ts") == time(19 - 95 - 25)
    assert found.facts == (
        "it is silent for 21 s", "its clock is 95 s behind", "its records may trail its header by 25 s",
    )  # fmt: skip
    assert found.released == time(19 + 60) and not found.moves
    later = report.holder("end_ts", time(80))
    assert later is not None and later.name == "exporter ::1"
