"""What a shorter `idle` or `lull` is said to do is what it does: as many records are late, and the promise is made."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.live.exporters import SECOND, Rules
from oop_engine.sources.live.progress import ExporterProgress
from operators.data.saved import decode_state, encode_state
from punctuation import NO_TIME
from tests.examples import mostly_slow
from tests.naive_exporters import Export
from tests.oop_engine.live.test_exporter_progress import BOTH, A, B, C, export, heard, time

RULES = Rules(settle=2 * SECOND, trusted_after=1, lull=None, idle=60 * SECOND, inactive=0)


def events(seed: int, many: int = 150) -> list[tuple[float, list[Export]]]:
    """Return what three exporters send, which are silent now and then; nothing at a call of the timer."""
    draw, now, found = Random(seed), 0.0, list[tuple[float, list[Export]]]()
    silent = dict.fromkeys((A, B, C), 0.0)
    for _ in range(many):
        now += draw.choice((0.5, 1, 1, 2))
        sent = list[Export]()
        for who, until in silent.items():
            if now < until or draw.random() < 0.3:
                continue
            if draw.random() < 0.06:
                silent[who] = now + draw.choice((5, 12, 30, 45, 70))
            start = draw.choice((0, 1, 2, draw.randrange(6), draw.randrange(30)))
            sent.append(export(who, now, start=start, end=start / 2))
        found += [(now, sent), (now, [])] if sent else [(now, [])]
    return found


def follow(progress: ExporterProgress, found: list[tuple[float, list[Export]]], together: bool = True) -> None:
    for at, sent in found:
        for one in [sent] if together and sent else [[one] for one in sent]:
            progress.hear(heard(one, progress.attributes))
        if not sent:
            progress.elapse(time(at))


def made(rules: Rules, attributes: tuple[str, ...], step: int) -> ExporterProgress:
    progress = ExporterProgress(rules, attributes)
    progress.describe(dict.fromkeys(attributes, Grain(step * SECOND)))
    return progress


@pytest.mark.parametrize("seed", mostly_slow(range(1, 4), but=[1]))
@pytest.mark.parametrize("lull", [None, 8 * SECOND])
def test_a_shorter_time_has_just_so_many_late_records(seed: int, lull: int | None) -> None:
    rules, script = attrs.evolve(RULES, lull=lull), events(seed)
    attributes = BOTH if seed % 2 else ("ts",)
    progress, tried = made(rules, attributes, 5), set[tuple[str, int, int]]()
    for number, step in enumerate(script, 1):
        follow(progress, [step])
        need = progress.bound("ts") + 5 * SECOND
        if step[1] or number % 7 or progress.bound("ts") == NO_TIME:
            continue
        sooner = progress.sooner("ts", need, time(step[0]))
        if sooner is None:
            continue
        assert sooner.exact and sooner.length < (rules.idle if sooner.setting == "idle" else lull or 0)
        assert sooner.counted == sum(len(one.rows) for _, sent in script[:number] for one in sent)
        other = made(attrs.evolve(rules, **{sooner.setting: sooner.length}), attributes, 5)
        follow(other, script[:number], together=seed > 1)
        assert other.late == sooner.late and other.bound("ts") >= need
        longer = made(attrs.evolve(rules, **{sooner.setting: sooner.length + SECOND}), attributes, 5)
        follow(longer, script[:number])
        assert longer.bound("ts") < need
        tried.add((sooner.setting, sooner.length, sooner.late))
    assert len(tried) > 1 and any(late for *_, late in tried)
    assert {setting for setting, *_ in tried} == ({"idle"} if lull is None else {"idle", "lull"})


@pytest.mark.parametrize("cut", [40, 111])
def test_the_counts_survive_a_checkpoint_and_an_older_one_has_none(cut: int) -> None:
    script = events(0)
    whole, first = made(RULES, BOTH, 5), made(RULES, BOTH, 5)
    follow(whole, script)
    follow(first, script[:cut])
    state = decode_state(encode_state(first.state()))
    second = made(RULES, BOTH, 5)
    second.restore(state)
    follow(second, script[cut:])
    now, need = time(script[-1][0] + 30), whole.bound("ts") + 5 * SECOND
    assert second.sooner("ts", need, now) == whole.sooner("ts", need, now) is not None
    older, otherwise = made(RULES, BOTH, 5), made(attrs.evolve(RULES, idle=50 * SECOND), BOTH, 5)
    older.restore({name: value for name, value in state.items() if not name.startswith("shorter ")})
    otherwise.restore(state)
    assert older.shorter[0].counted == otherwise.shorter[0].counted == 0 < first.shorter[0].counted
    assert older.bound("ts") == otherwise.bound("ts") == first.bound("ts")
