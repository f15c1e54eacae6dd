"""Any bytes give records or a counted reason: never an exception, and never more state than the bounds allow."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.flows import Datagrams, FlowDecoder, flow_columns
from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import walk as w
from oop_engine.sources.flows.plans import Plan
from oop_engine.sources.flows.sessions import Plans, Sessions
from oop_engine.sources.flows.templates import Template
from tests.capture_files import ether, ipv4, ipv6, tcp, udp
from tests.examples import share
from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    SECOND,
    VARIABLE,
    a_set,
    address,
    flow_sample,
    four,
    header_record,
    ipfix,
    ipfix_options,
    ipfix_templates,
    long,
    number,
    read,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_options,
    v9_templates,
    xdr,
)

_FIELDS = template(256, [(8, 4), (27, 16), (22, 4), (21, 4), (1, 8), (48, 1), (96, VARIABLE), (161, 4)])
_V9_FIELDS = template(256, [(8, 4), (27, 16), (22, 4), (21, 4), (1, 8), (48, 1), (10, 2), (161, 4)])
_BODY = four("10.0.0.1") + bytes(16) + number(90_000, 4) * 2 + number(5, 8) + b"\1" + long(b"dns") + number(5, 4)
_V9_BODY = four("10.0.0.1") + bytes(16) + number(90_000, 4) * 2 + number(5, 8) + b"\1\0\7" + number(5, 4)
_SAMPLING = number(7, 4) + b"\1" + number(99, 4)

VALID = [
    v5([v5_record(), v5_record(proto=17)]),
    v9([v9_templates(_V9_FIELDS), v9_options(512, [(1, 4)], [(48, 1), (50, 4)]), a_set(512, _SAMPLING),
        a_set(256, _V9_BODY * 3)]),
    v9([a_set(256, _V9_BODY * 2, padding=3)], sequence=1),
    ipfix([ipfix_templates(_FIELDS), ipfix_options(512, [(149, 4)], [(48, 1), (305, 4)]), a_set(512, _SAMPLING),
           a_set(256, _BODY * 3)]),
    ipfix([a_set(256, _BODY * 2), a_set(999, _BODY)], sequence=4),
    ipfix([ipfix_templates(template(999, [(152, 8), (160, 8), (22, 4), (29_305, 1, 4)]))], sequence=6),
    sflow([flow_sample([header_record(ether(ipv4(tcp(), 6))),
                        xdr(1002, struct.pack(">I4sII", 1, four("1.2.3.4"), 8, 9))]),
           flow_sample([xdr(3, bytes(32))], expanded=True), xdr(2, bytes(20))]),
    sflow([flow_sample([header_record(ether(ipv6(udp(), 17), 0x86DD)),
                        xdr(1003, struct.pack(">I4sIIIIIII", 1, bytes(4), 1, 2, 3, 1, 1, 1, 9))])], sequence=1),
]  # fmt: skip
MORE = ("applicationName", "sourceMacAddress", "6871/40", "octetTotalCount", "systemInitTimeMilliseconds")

damage = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)), max_size=5
)
payloads = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.builds(
            lambda head, rest: head + rest,
            st.sampled_from([b"\0\5", b"\0\x09", b"\0\x0a", b"\0\0\0\5\0\0\0\1"]),
            st.binary(max_size=120),
        ),
        st.builds(
            lambda which, changes, cut, gap: _damaged(VALID[which], changes, cut, gap),
            st.integers(0, len(VALID) - 1),
            damage,
            st.integers(0, 400),
            st.sampled_from([0, 0, 0, 1, 4, 30]),
        ),
    ),
    max_size=14,
)


def _damaged(payload: bytes, changes: list[tuple[int, int]], cut: int, gap: int) -> bytes:
    out = bytearray(payload)
    for where, value in changes:
        out[where % len(out)] = value
    start = cut % len(out)
    del out[start : start + gap]
    return bytes(out)


def check(given_payloads: list[bytes], *, apart: int = 1, **options: Any) -> FlowDecoder:
    """Decode what comes `apart` ns apart; check that batches are well-formed and all that came is accounted for."""
    decoder = FlowDecoder(available=flow_columns(MORE), **options)
    rows = 0
    times = [NOW * SECOND + k * apart for k in range(len(given_payloads))]
    for batch in decoder.decode(Datagrams.of(given_payloads, arrival=times, exporters=[HERE] * len(given_payloads))):
        batch.validate(full=True)
        rows += len(batch)
    decoder.finish()
    found = decoder.exporters()
    assert sum(one.records for one in found) == rows <= 2000 * len(given_payloads)
    assert sum(one.datagrams for one in found) == len(given_payloads)
    for one in found:
        assert one.held == 0
        for number_of in (one.lost, one.reordered, one.duplicated, one.restarts, one.no_template, one.untimed):
            assert 0 <= number_of < 2**40
        assert all(count > 0 for count in one.malformed.values())
    return decoder


@share(10)
@given(payloads, st.booleans(), st.sampled_from([1, 7, 65_536]))
def test_any_bytes_give_records_or_a_counted_reason(given_payloads: list[bytes], reliable: bool, rows: int) -> None:
    check(given_payloads, reliable=reliable, batch_rows=rows)


@share(2.5)
@given(payloads)
def test_blocks_do_not_change_what_any_bytes_give(given_payloads: list[bytes]) -> None:
    whole = read(given_payloads, more=MORE)
    for block in (1, 3):
        assert repr(read(given_payloads, more=MORE, block=block)) == repr(whole)  # floats may be no numbers


def test_noise_beside_a_good_exporter_leaves_its_answer_alone() -> None:
    rng = random.Random(13)
    good = [v9([v9_templates(_V9_FIELDS)])]
    good += [
        v9([a_set(256, _V9_BODY * 3)], sequence=k, seconds=NOW + k, uptime=100_000 + 1000 * k) for k in range(1, 40)
    ]
    other = (address("198.51.100.1"), 9)
    noise = [_damaged(rng.choice(VALID), [(rng.randrange(400), rng.randrange(256)) for _ in range(3)], 0, 0)
             for _ in range(3000)]  # fmt: skip
    mixed = [(payload, HERE) for payload in good]
    for k, payload in enumerate(noise):
        mixed.insert(k * len(mixed) // len(noise), (payload, other))
    seen = read([p for p, _ in mixed], exporters=[e for _, e in mixed], arrival=[NOW * SECOND] * len(mixed))
    alone = read(good)
    assert [row for row in seen.rows if row["exporter"] == HERE[0]] == alone.rows
    assert [one for one in seen.exporters if one.address == HERE[0]] == alone.exporters


def test_sessions_and_templates_have_bounds_and_every_count_is_kept() -> None:
    rng = random.Random(14)
    flood = [
        v9([v9_templates(template(rng.randrange(256, 4096), [(1, rng.randrange(1, 9)), (210, rng.randrange(1, 90))]))],
           source=rng.randrange(3000), sequence=k)
        for k in range(6000)
    ]  # fmt: skip
    flood += [v9([v9_templates(template(256 + k, [(1, 4)]))], source=5000, sequence=k) for k in range(600)]
    decoder = check(flood, apart=SECOND // 100)
    sessions = decoder.sessions
    assert len(sessions.known) == 1025 and sessions.evicted > 0
    assert max(len(known.templates) for known in sessions.known) == 256 and sessions.evicted_templates == 600 - 256
    assert sum(one.templates for one in decoder.exporters()) == 6600
    assert len(sessions.plans.facts) <= 4096


def test_an_exporter_that_gives_records_outlives_those_that_do_not() -> None:
    good = v9([v9_templates(_V9_FIELDS), a_set(256, _V9_BODY)], source=1)
    flood = [v9([], source=k) for k in range(100, 5000)]
    seen = read([good, *flood, v9([a_set(256, _V9_BODY)], source=1, sequence=1)])
    assert len(seen.rows) == 2


def test_exporters_that_are_not_allowed_are_counted_and_not_read() -> None:
    near, far = (address("192.0.2.1"), 1), (address("203.0.113.1"), 2)
    allow = [(address("192.0.2.0"), address("192.0.2.255"))]
    payload = v5([v5_record()])
    seen = read([payload] * 2, exporters=[near, far], allow=allow)
    assert [(one.address, one.records, one.refused) for one in seen.exporters] == [(near[0], 1, 0), (far[0], 0, 1)]


def test_a_datagram_full_of_templates_is_bounded() -> None:
    many = v9([v9_templates(*[template(256 + k, [(1, 4)]) for k in range(180)])])
    one = read([many]).only
    assert (one.templates, one.malformed) == (100, {"template": 1})


def test_no_datagrams_give_nothing() -> None:
    decoder = FlowDecoder()
    assert list(decoder.decode(Datagrams.of([]))) == [] and decoder.exporters() == []
    assert pa.Table.from_batches([], schema=decoder.schema).num_columns == 31


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60))
def test_sessions_and_templates_are_found_whatever_came_and_went(changes: list[tuple[int, bool]]) -> None:
    """The tables are open-addressed: taking one entry out must not hide another."""
    sessions = Sessions(Plans(np.zeros((8, 1), np.uint8)), index=np.full(64, -1, np.int32))
    plan = Plan(np.zeros((0, e.O_WIDTH), np.int32), np.zeros(1, np.uint8), np.zeros(1, np.int32), 4, 0)
    host = sessions.admit((9, 9), (9, 9), 9, 9, 9, refused=False)
    numbers: dict[int, int] = {}
    for key, come in changes:
        if come and key not in numbers:
            numbers[key] = sessions.admit((0, key // 2), (0, key), 1, 9, 7, refused=False)
            made = sessions.plans.add(256 + 512 * key, key, 0)
            sessions.plans.compiled(made, plan, e.K_FLOWS)
            sessions.learn(host, Template(256 + 512 * key, ()), made)
        elif not come and key in numbers:
            w.remove_session(sessions.keys, sessions.senders, sessions.table, sessions.index, numbers.pop(key))
            sessions.drop(host, 256 + 512 * key)
        for other in range(31):
            none, agent, sender = np.uint64(0), np.uint64(other // 2), np.uint64(other)
            place = int(
                w.find_session(
                    sessions.keys, sessions.senders, sessions.table, sessions.index, none, agent, none, sender, 1, 9, 7
                )
            )  # fmt: skip
            slot = int(w.find_template(sessions.slot_ids, host, 256 + 512 * other))
            assert (place >= 0) == (slot >= 0) == (other in numbers)
            if other in numbers:
                assert sessions.index[place] == numbers[other]
                assert sessions.plans.facts[sessions.slot_plans[host, slot], e.P_EXPIRES] == other


def test_the_session_and_the_template_least_used_go_first() -> None:
    decoder = FlowDecoder()

    def send(*payloads: bytes) -> None:
        list(decoder.decode(Datagrams.of(list(payloads), exporters=[HERE] * len(payloads))))

    send(*[v9([], source=k) for k in range(1024)])
    send(v9([], source=0, sequence=1), v9([], source=5000))
    domains = {one.domain for one in decoder.exporters() if one.address is not None}
    assert domains == {*range(1024), 5000} - {1}
    send(v9([v9_templates(*[template(256 + k, [(1, 4)]) for k in range(90)])], source=7, sequence=1))
    send(*[v9([v9_templates(template(346 + k, [(1, 4)]))], source=7, sequence=2 + k) for k in range(166)])
    send(v9([a_set(256, bytes(4))], source=7, sequence=168))
    send(v9([v9_templates(template(9000, [(1, 4)]))], source=7, sequence=169))
    (known,) = [k.templates for k in decoder.sessions.known if k.templates]
    assert set(known) == {*range(256, 512), 9000} - {257}
