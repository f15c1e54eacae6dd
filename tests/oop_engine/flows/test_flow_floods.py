"""Templates and options are work, of which an exporter may make so much; what is more is left out, and counted."""

from __future__ import annotations

import pytest

from oop_engine.sources.flows import Datagrams, FlowDecoder
from oop_engine.sources.flows import decoder as decoding
from oop_engine.sources.flows.source import trouble
from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    SECOND,
    Spec,
    a_set,
    address,
    four,
    ipfix,
    ipfix_options,
    ipfix_templates,
    number,
    read,
    template,
    v9,
    v9_templates,
)

ELSEWHERE = (address("198.51.100.66"), 6000)
LAYOUT: list[Spec] = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (1, 8), (2, 8), *[(300 + k, 4) for k in range(18)]]


def changing(k: int) -> bytes:
    """Give a datagram of 100 templates, each of which is another than the last one of its number."""
    made = [template(256 + (100 * k + n) % 60_000, [(8, 4), ((k + n) % 300 + 1, 4)]) for n in range(100)]
    return ipfix([ipfix_templates(*made)])


def test_hundreds_of_templates_at_the_start_are_all_read() -> None:
    numbers = range(256, 496)
    payloads = [
        v9(
            [v9_templates(*[template(number, LAYOUT) for number in numbers[k : k + 10]])],
            source=source,
            sequence=k // 10,
        )
        for source in range(4)
        for k in range(0, len(numbers), 10)
    ]
    size = sum(length for _, length in LAYOUT)
    payloads += [v9([a_set(n, bytes(size)) for n in numbers], source=k, sequence=24) for k in range(4)]
    seen = read(payloads)
    assert len(seen.rows) == 4 * len(numbers) and {one.left_out for one in seen.exporters} == {0}


def test_a_flood_of_templates_is_left_out_and_counted_and_others_are_heard() -> None:
    good = [v9([v9_templates(template(256, [(8, 4), (1, 4)])), a_set(256, four("10.0.0.1") + number(k, 4))], sequence=k)
            for k in range(300)]  # fmt: skip
    mixed = [one for k in range(300) for one in ((changing(k), ELSEWHERE), (good[k], HERE))]
    later = [(ipfix([ipfix_templates(template(999, [(1, 4)])), a_set(999, number(7, 4))]), ELSEWHERE)]
    times = [NOW * SECOND] * len(mixed) + [(NOW + 60) * SECOND]
    both = mixed + later
    seen = read([p for p, _ in both], exporters=[who for _, who in both], arrival=times)
    bad, fine = seen.exporters
    assert bad.templates + 100 * bad.left_out == 300 * 100 + 1 and 10 < 300 - bad.left_out < 150
    assert (fine.records, fine.left_out) == (300, 0)
    assert [row["bytes"] for row in seen.rows if row["exporter"] == ELSEWHERE[0]] == [7]
    assert f"{bad.left_out} sets of templates or options left out" in (trouble(bad) or "")
    # All domains of a sender share what it may do.
    domains = [
        v9([v9_templates(*[template(256 + n, [(8, 4), (n + 1, 4)]) for n in range(100)])], source=k) for k in range(300)
    ]
    assert sum(one.left_out for one in read(domains).exporters) > 150
    reliable = read([changing(k) for k in range(300)], reliable=True).only
    assert (reliable.left_out, reliable.templates) == (0, 30_000)


def test_a_datagram_brings_no_more_templates_and_rates_than_one_may() -> None:
    sets = [ipfix_templates(*[template(256 + 90 * k + n, LAYOUT) for n in range(90)]) for k in range(6)]
    one = read([ipfix(sets)]).only
    assert one.left_out == 5 and one.templates < 100
    options = ipfix_options(300, [(302, 4)], [(34, 4)])
    announced = a_set(300, b"".join(number(k, 4) + number(k + 1, 4) for k in range(2000)))
    one = read([ipfix([options, announced])]).only
    assert (one.left_out, one.options) == (1, 2000)


def test_a_template_is_compiled_when_data_come_and_once_for_all_of_its_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []
    whole = decoding.compile_plan
    monkeypatch.setattr(decoding, "compile_plan", lambda *given: (compiled.append(given[0].number), whole(*given))[1])
    decoder = FlowDecoder()
    compiled.clear()

    def send(*sets: bytes, sequence: int) -> int:
        datagrams = Datagrams.of([v9(list(sets), sequence=sequence)], exporters=[HERE], arrival=[NOW * SECOND])
        return sum(len(batch) for batch in decoder.decode(datagrams))

    send(v9_templates(*[template(256 + k, LAYOUT) for k in range(30)]), sequence=0)
    assert compiled == []
    size = sum(length for _, length in LAYOUT)
    assert send(*[a_set(256 + k, bytes(size)) for k in range(30)], sequence=1) == 30
    assert compiled == [256]


def test_data_that_would_be_too_much_work_are_left_out_and_those_behind_them_read() -> None:
    def burst(k: int) -> bytes:
        layouts = [[(1, 4), (300 + 40 * k + n, 4)] for n in range(40)]
        made = [template(256 + n, layout) for n, layout in enumerate(layouts)]
        return v9([v9_templates(*made), *[a_set(256 + n, bytes(8)) for n in range(40)]], sequence=k)

    payloads = [burst(k) for k in range(60)]
    seen = read(payloads)
    assert seen.only.records + seen.only.left_out + seen.only.no_template >= 60 * 40 - 60 and seen.only.left_out > 0
    slow = read(payloads, arrival=[(NOW + k) * SECOND for k in range(60)])
    assert (slow.only.records, slow.only.left_out) == (60 * 40, 0)
