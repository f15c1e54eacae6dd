"""Short runs of records are filled together, and each keeps what its own datagram and exporter say."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import share
from tests.oop_engine.flows.exporter import (
    NOW,
    Spec,
    a_set,
    address,
    ipfix,
    ipfix_options,
    ipfix_templates,
    number,
    read,
    template,
    v5,
    v5_record,
)

EXPORTERS = [(address(f"192.0.2.{last}"), 5000 + last) for last in range(1, 4)]
LAST = 4_102_444_800
"""The second from which on there are no times."""

whose = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([0, 1, 1, 2, 7, 30, 30, 30]),
        st.sampled_from([NOW, NOW + 1, NOW + 5000, LAST - 100, LAST, 0]),
        st.sampled_from([100_000, 100_001, 5, 2**32 - 1]),
    ),
    max_size=30,
)
"""Datagrams: of which exporter, how many records, when exported, and the uptime then."""

FIELDS: list[list[Spec]] = [
    [(8, 4), (158, 4), (159, 3), (2, 4)],
    [(160, 8), (22, 4), (21, 4), (1, 8)],
    [(22, 4), (21, 4), (5, 1)],
    [(4, 1), (34, 4), (7, 2)],
]


def check(payloads: list[bytes], exporters: list[tuple[bytes, int]]) -> int:
    """Read all at once and one by one; give how many records there are."""
    one = read(payloads, exporters=exporters, block=1)
    for rows in (65_536, 100):
        assert read(payloads, exporters=exporters, batch_rows=rows).rows == one.rows
    return len(one.rows)


def _record(fields: list[Spec], k: int) -> bytes:
    """Give a record whose numbers tell that it is the k-th."""
    return b"".join(
        number((NOW * 1000 - 5000 if spec[0] == 160 else 77_000 * k + spec[0]) % 256 ** spec[-1], spec[-1])
        for spec in fields
    )


@share(25)
@given(whose)
def test_runs_of_many_exporters_of_one_format(sent: list[tuple[int, int, int, int]]) -> None:
    payloads: list[bytes] = []
    sequences: Counter[int] = Counter()
    for k, (who, many, seconds, uptime) in enumerate(sent):
        records = [v5_record(octets=1000 * k + i, first=90_000 + i, last=(95_000 << i % 17)) for i in range(many)]
        payloads.append(v5(records, seconds=seconds, uptime=uptime, sequence=sequences[who], nanoseconds=k))
        sequences[who] += many
    exporters = [EXPORTERS[who] for who, *_ in sent]
    assert check(payloads, exporters) == sum(many for _, many, _, _ in sent)


@share(25)
@given(st.sampled_from(FIELDS), whose, st.booleans())
def test_runs_of_one_template(fields: list[Spec], sent: list[tuple[int, int, int, int]], begun: bool) -> None:
    """Of exporters of which some may have told when their clocks began."""
    payloads: list[bytes] = []
    sequences: Counter[int] = Counter()
    for k, (who, many, seconds, _) in enumerate(sent):
        sets = [ipfix_templates(template(300, fields))] if not sequences[who] else []
        if begun and who and not sequences[who]:
            said = number(NOW * 1000 - 100_000 * who, 8)
            sets += [ipfix_options(700, [(149, 4)], [(160, 8)]), a_set(700, number(7, 4) + said)]
        sets.append(a_set(300, b"".join(_record(fields, 1000 * k + i) for i in range(many))))
        payloads.append(ipfix(sets, sequence=sequences[who], seconds=seconds))
        sequences[who] += many
    check(payloads, [EXPORTERS[who] for who, *_ in sent])


def test_more_records_than_are_filled_together() -> None:
    """Whole datagrams of 30 records, of exporters by turns, each with its time."""
    payloads = [
        v5([v5_record(octets=100 * k + i) for i in range(30)], sequence=30 * (k // 3), seconds=NOW + k)
        for k in range(60)
    ]
    exporters = [EXPORTERS[k % 3] for k in range(60)]
    seen = read(payloads, exporters=exporters)
    assert [row["bytes"] for row in seen.rows] == [100 * k + i for k in range(60) for i in range(30)]
    assert [row["exporter"] for row in seen.rows] == [EXPORTERS[k % 3][0] for k in range(60) for _ in range(30)]
    assert [row["ts"] for row in seen.rows] == [(NOW + k - 10) * 10**9 for k in range(60) for _ in range(30)]
