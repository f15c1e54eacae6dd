"""A rate holds for what it was announced for: an interface, a template, a sampler, or all that an exporter sends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.flows.source import trouble
from tests.oop_engine.flows.exporter import (
    Spec,
    a_set,
    ipfix,
    ipfix_options,
    ipfix_templates,
    number,
    read,
    template,
    v9,
    v9_options,
    v9_templates,
)
from tests.oop_engine.flows.test_exporter_state import rows_of, taught

PLAIN = [(1, 4), (10, 4), (14, 4)]


def record(inward: int, outward: int, *more: int) -> bytes:
    return b"".join(number(value, 4) for value in (1, inward, outward, *more))


def message(
    version: int, scopes: Sequence[Spec], said: Sequence[Sequence[int]], *records: bytes, more: Sequence[Spec] = ()
) -> bytes:
    """Give templates 256 and 257, options that announce a rate for each of these scopes, and records of both."""
    layout = [*PLAIN, *more]
    templates = template(256, layout), template(257, layout)
    body = b"".join(number(value, 4) for row in said for value in row)
    data = [a_set(kind, part) for kind in (256, 257) for part in records]
    if version == 9:
        options = v9_options(300, scopes, [(34, 4)])
        return v9([v9_templates(*templates), options, a_set(300, body), *data])
    return ipfix([ipfix_templates(*templates), ipfix_options(300, scopes, [(34, 4)]), a_set(300, body), *data])


@pytest.mark.parametrize(
    ("version", "scopes", "rates"),
    [
        (10, [(10, 4)], [10, 1000, 1, 1]),
        (10, [(14, 4)], [1, 10, 1000, 1]),
        (10, [(149, 4), (14, 4)], [1, 10, 1000, 1]),
        (9, [(2, 4)], [10, 1000, 1000, 1]),  # by which packets come, else go
        (9, [(1, 4), (2, 4)], [10, 1000, 1000, 1]),
    ],
)
def test_a_rate_of_an_interface_is_of_the_records_of_that_interface(
    version: int, scopes: list[Spec], rates: list[int]
) -> None:
    said = [[9] * (len(scopes) - 1) + [interface, rate] for interface, rate in ((1, 10), (2, 1000))]
    records = record(1, 3), record(2, 1), record(3, 2), record(4, 4)
    seen = read([message(version, scopes, said, *records)])
    assert seen.column("sampling") == rates * 2 and seen.only.unused_rates == 0


@pytest.mark.parametrize(("version", "scope"), [(9, (5, 4)), (10, (145, 4))])
def test_a_rate_of_a_template_is_of_the_records_of_that_template(version: int, scope: Spec) -> None:
    payload = message(version, [scope], [(256, 10), (257, 1000)], record(1, 2))
    assert read([payload]).column("sampling") == [10, 1000]
    for columns in (["bytes", "sampling"], ["sampling"]):
        assert read([payload], columns=columns).column("sampling") == [10, 1000]


@pytest.mark.parametrize(
    ("version", "scopes"),
    [(9, [(3, 4)]), (9, [(4, 4)]), (9, [(2, 4), (3, 4)]), (10, [(141, 4)]), (10, [(10, 4), (14, 4)]), (10, [(138, 4)])],
)
def test_a_rate_of_what_no_record_tells_is_counted_and_not_used(version: int, scopes: list[Spec]) -> None:
    said = [[k] * len(scopes) + [rate] for k, rate in ((1, 10), (2, 1000))]
    seen = read([message(version, scopes, said, record(1, 2))])
    assert seen.column("sampling") == [1, 1] and seen.only.unused_rates == 2
    assert "2 sampling rates not used" in (trouble(seen.only) or "")


@pytest.mark.parametrize(("version", "scope"), [(9, (1, 4)), (10, (149, 4)), (10, (143, 4)), (10, (144, 4))])
def test_a_rate_of_the_whole_exporter_is_of_all_records(version: int, scope: Spec) -> None:
    seen = read([message(version, [scope], [(7, 64)], record(1, 2))])
    assert seen.column("sampling") == [64, 64] and seen.only.unused_rates == 0


@pytest.mark.parametrize("element", [48, 302, 34, 50, 305])
def test_a_sampler_of_which_nothing_is_known_and_an_interval_of_none_leave_it_to_the_interface(element: int) -> None:
    for version in (9, 10):
        scope = (2, 4) if version == 9 else (10, 4)
        told = message(version, [scope], [(5, 64)], record(5, 6, 0), more=[(element, 4)])
        assert read([told]).column("sampling") == [64, 64]
        whole = message(
            version, [(1, 4) if version == 9 else (149, 4)], [(5, 32)], record(5, 6, 0), more=[(element, 4)]
        )
        assert read([whole]).column("sampling") == [32, 32]
    own = message(9, [(2, 4)], [(5, 64)], record(5, 6, 7), more=[(element, 4)])
    assert read([own]).column("sampling") == [7 if element in (34, 50, 305) else 64] * 2


def test_rates_of_interfaces_and_templates_outlive_a_decoder() -> None:
    decoder = FlowDecoder()
    rows_of(decoder, [message(10, [(145, 4)], [(256, 10)])])
    later = [ipfix([a_set(256, record(1, 2))], sequence=1)]
    (row,) = rows_of(taught(decoder), later)
    assert row["sampling"] == 10


def test_the_oldest_rate_goes_where_there_is_no_room() -> None:
    said = [(k, 10 + k) for k in range(300)]
    seen = read([message(10, [(10, 4)], said, *(record(k, 0) for k in (0, 43, 44, 299)))])
    assert seen.column("sampling") == [1, 1, 54, 309] * 2


NAMING = [(1, 4), (48, 1)]
SAMPLER = v9_options(300, [(1, 4)], [(48, 1), (50, 4)])


def named(*samplers: int, more: bytes = b"") -> bytes:
    return a_set(256, b"".join(number(100, 4) + number(sampler, 1) + more for sampler in samplers))


def rate_of(sampler: int, rate: int) -> bytes:
    return a_set(300, number(0, 4) + number(sampler, 1) + number(rate, 4))


@pytest.mark.parametrize("columns", [None, ["bytes", "sampling"]])
def test_records_of_a_sampler_that_is_not_announced_are_counted(columns: list[str] | None) -> None:
    layout = v9_templates(template(256, NAMING))
    seen = read(
        [
            v9([layout, named(1, 1, 0)]),
            v9([SAMPLER, rate_of(1, 1000), named(1, 2, 0, 2)], sequence=1),
            v9([rate_of(2, 10), named(1, 2)], sequence=2),
        ],
        columns=columns,
    )
    assert seen.column("sampling") == [1, 1, 1, 1000, 1, 1, 1, 1000, 10]
    assert seen.only.unrated == 4
    assert "4 records of a sampler that is not announced, which stand for themselves alone" in (
        trouble(seen.only) or ""
    )


@pytest.mark.parametrize("element", [48, 302])
def test_a_record_whose_rate_is_told_otherwise_is_not_counted(element: int) -> None:
    for scope, said in ([(1, 4)], [(7, 64)]), ([(2, 4)], [(5, 64)]), ([(5, 4)], [(256, 64), (257, 64)]):
        told = message(9, scope, said, record(5, 6, 3), more=[(element, 4)])
        seen = read([told])
        assert seen.column("sampling") == [64, 64] and seen.only.unrated == 0
    for own, kept in ((34, 1), (50, 7), (305, 1)):
        told = message(9, [(3, 4)], [(5, 64)], record(5, 6, 3, kept), more=[(element, 4), (own, 4)])
        assert read([told]).only.unrated == 0
    without = message(9, [(3, 4)], [(5, 64)], record(5, 6, 3, 0), more=[(element, 4), (34, 4)])
    assert read([without]).only.unrated == 2
    assert read([without], columns=["bytes"]).only.unrated == 0


@pytest.mark.parametrize("whole", [True, False])
def test_options_whose_template_follows_hold_from_there_on(whole: bool) -> None:
    layout = v9_templates(template(256, NAMING))
    payloads = [
        v9([layout, rate_of(1, 500), rate_of(1, 1000), named(1)]),
        v9([named(1), SAMPLER, named(1)], sequence=1),
        v9([named(1)], sequence=2),
    ]
    seen = read(payloads, block=0 if whole else 1)
    assert seen.column("sampling") == [1, 1, 1000, 1000]
    assert (seen.only.no_template, seen.only.held, seen.only.options, seen.only.unrated) == (0, 0, 2, 2)


def test_options_whose_template_follows_are_as_bounded_as_others_and_may_be_cut() -> None:
    long = [(346, 4)], [(34, 4), (82, 65535)]
    body = number(1, 4) + number(8, 4) + b"\x09abc"
    seen = read([ipfix([a_set(300, body)]), ipfix([ipfix_options(300, *long)])])
    assert seen.only.malformed == {"record": 1} and (seen.only.no_template, seen.only.options) == (0, 0)
    many = b"".join(number(1, 4) + number(k, 4) for k in range(1, 3000))
    seen = read([ipfix([a_set(300, many)]), ipfix([ipfix_options(300, [(149, 4)], [(34, 4)])])])
    assert seen.only.left_out == 1 and seen.only.options > 100
