"""On exports of any templates, whole or damaged, the compiled decoder gives what its naive twin gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.flows import ELEMENTS, Element
from tests.examples import share
from tests.naive_flows import naive_flows
from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    SECOND,
    VARIABLE,
    Spec,
    a_set,
    address,
    ipfix,
    ipfix_options,
    ipfix_templates,
    long,
    read,
    template,
    v5,
    v5_record,
    v9,
    v9_options,
    v9_templates,
)

MORE = (ELEMENTS["applicationName"], ELEMENTS["octetTotalCount"], Element("own", 40, "octetArray", enterprise=6871))

_TIMES = [150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 21, 22, 160, 161, 162, 322, 323, 324, 325]
_SIZES = {4: 4, 8: 4, 12: 4, 15: 4, 27: 16, 28: 16, 62: 16, 21: 4, 22: 4, 150: 4, 151: 4, 161: 4, 162: 4, 322: 4}
_SIZES |= {number: 8 for number in (152, 153, 154, 155, 156, 157, 160, 323, 324, 325)} | {158: 4, 159: 4}

numbers = st.sampled_from(
    [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 23, 27, 28, 29, 30, 34, 48, 50, 58, 61, 62, 85, 86, 136, 180,
     181, 182, 183, 193, 210, 231, 232, 243, 252, 302, 305, 306, 40_001 & 0x7FFF, *_TIMES]
)  # fmt: skip
lengths = st.sampled_from([1, 2, 3, 4, 4, 4, 7, 8, 8, 9, 16, 0])


@st.composite
def fields(draw: st.DrawFn, variable: bool) -> list[Spec]:
    """Draw the fields of a template, most of a length that fits."""
    found: list[Spec] = []
    for number in draw(st.lists(numbers, min_size=1, max_size=9)):
        fits = _SIZES.get(number)
        found.append((number, fits if fits is not None and draw(st.integers(0, 9)) else draw(lengths)))
        if variable and draw(st.integers(0, 3)) == 0:
            found.append(draw(st.sampled_from([(96, VARIABLE), (6871, 40, VARIABLE), (29_305, 1, 4), (29_305, 6, 1)])))
    return found


times = st.integers(-3_000_000_000_000, 3_000_000_000_000).map(lambda off: NOW * SECOND + off)


def _value(draw: st.DrawFn, spec: Spec) -> bytes:
    length = spec[-1]
    if length == VARIABLE:
        return long(draw(st.binary(max_size=6) | st.just(b"x" * 300)), wide=draw(st.booleans()))
    number = spec[0] if len(spec) == 2 else -1
    if length == 8 and number in (152, 153, 160, 323) and draw(st.booleans()):
        return (draw(times) // 1_000_000).to_bytes(8, "big")
    if length == 8 and number in (154, 155, 156, 157, 324, 325) and draw(st.booleans()):
        return (draw(times) // SECOND + 2_208_988_800).to_bytes(4, "big") + draw(st.binary(min_size=4, max_size=4))
    if length == 4 and number in (150, 151, 322) and draw(st.booleans()):
        return (draw(times) // SECOND).to_bytes(4, "big")
    if length == 2 and number in (5, 145) and draw(st.booleans()):
        return draw(st.integers(256, 258)).to_bytes(2, "big")
    if length in (1, 4) and number in (2, 10, 14, 48) and draw(st.booleans()):
        return draw(st.integers(0, 3)).to_bytes(length, "big")
    return draw(st.binary(min_size=length, max_size=length) | st.just(bytes(length)))


@st.composite
def exports(draw: st.DrawFn) -> list[bytes]:
    """Draw datagrams of one exporter in each protocol, their sequences in order."""
    version = draw(st.sampled_from([5, 9, 10]))
    if version == 5:
        sizes = draw(st.lists(st.integers(0, 4), max_size=6))
        records = [[v5_record(octets=draw(st.integers(0, 2**32 - 1)), last=draw(st.integers(0, 2**32 - 1)))
                    for _ in range(size)] for size in sizes]  # fmt: skip
        return [
            v5(
                part,
                sequence=sum(sizes[:k]),
                sampling=draw(st.integers(0, 0xFFFF)),
                nanoseconds=draw(st.integers(0, 2**32 - 1)),
            )
            for k, part in enumerate(records)
        ]
    known: dict[int, list[Spec]] = {}
    payloads: list[bytes] = []
    for k in range(draw(st.integers(1, 5))):
        sets: list[bytes] = []
        for _ in range(draw(st.integers(1, 4))):
            what = draw(st.sampled_from(["template", "data", "data", "data", "options"]))
            if what == "options":
                scope, said = draw(
                    st.sampled_from([([(1, 4)], [(34, 4)]), ([(2, 4)], [(34, 4)]), ([(1, 4)], [(48, 1), (50, 4)]),
                                     ([(1, 4)], [(160, 8)]), ([(149, 4)], [(305, 4), (306, 4)]),
                                     ([(10, 4)], [(34, 4)]), ([(14, 4)], [(34, 4)]), ([(145, 2)], [(34, 4)]),
                                     ([(5, 2)], [(34, 4)]), ([(3, 4)], [(34, 4)]), ([(149, 4), (14, 4)], [(34, 2)])])
                )  # fmt: skip
                make = v9_options if version == 9 else ipfix_options
                body = b"".join(_value(draw, spec) for spec in (*scope, *said))
                sets += [make(700, scope, said), a_set(700, body)]
                continue
            number = draw(st.sampled_from([256, 257, 258]))
            if what == "template" or number not in known:
                new = draw(fields(version == 10))
                one = template(number, new)
                if what == "template" or draw(st.booleans()):
                    sets.append(v9_templates(one) if version == 9 else ipfix_templates(one))
                known[number] = new
                if what == "template":
                    continue
            records = [b"".join(_value(draw, spec) for spec in known[number]) for _ in range(draw(st.integers(0, 4)))]
            sets.append(a_set(number, b"".join(records), padding=draw(st.sampled_from([0, 0, 0, 1, 3]))))
        seconds = NOW + draw(st.sampled_from([0, k]))
        payloads.append(
            v9(sets, sequence=k, seconds=seconds, uptime=100_000 + 1000 * (seconds - NOW))
            if version == 9
            else ipfix(sets, sequence=1000 * k, seconds=seconds)
        )
    return payloads


def check(payloads: list[bytes], block: int) -> None:
    whence = [HERE] * len(payloads)
    when = [NOW * SECOND + k for k in range(len(payloads))]
    seen = read(payloads, more=MORE, exporters=whence, arrival=when, block=block)
    want = naive_flows(payloads, when, whence, [MORE[0], MORE[2]])
    total: list[dict[str, Any]] = [
        {n: row[n] for n in seen.schema.names if n != "octetTotalCount"} for row in seen.rows
    ]
    assert total == [{name: row[name] for name in total[0]} for row in want] if total else not want


@share(12.5)
@given(exports(), st.sampled_from([0, 1]))
def test_exports_of_any_templates(payloads: list[bytes], block: int) -> None:
    check(payloads, block)


@share(12.5)
@given(
    exports(), st.lists(st.tuples(st.integers(0, 4), st.integers(24, 200), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_exports_damaged_behind_their_headers(payloads: list[bytes], changes: list[tuple[int, int, int]]) -> None:
    damaged = [bytearray(payload) for payload in payloads]
    for which, where, value in changes:
        if which < len(damaged) and where < len(damaged[which]):
            damaged[which][where] = value
    check([bytes(payload) for payload in damaged], 0)


def test_the_twin_reads_what_was_written_by_hand() -> None:
    data = a_set(256, bytes.fromhex("0a000001 03646e73"))
    payload = ipfix([ipfix_templates(template(256, [(8, 4), (96, VARIABLE)])), data])
    (row,) = naive_flows([payload], [NOW * SECOND], [HERE], [MORE[0]])
    assert (row["srcIP"], row["applicationName"], row["sampling"]) == (address("10.0.0.1"), "dns", 1)
