"""A decoder that takes up what another was taught decodes as that one would have; what it did not see is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import LIFETIME, FlowDecoder
from operators.data.saved import decode_state, encode_state
from tests.oop_engine.flows.exporter import (
    NOW,
    a_set,
    address,
    four,
    ipfix,
    ipfix_options,
    ipfix_templates,
    number,
    template,
    v9,
    v9_templates,
)
from tests.oop_engine.flows.test_flow_sequence import PROTOCOLS, stream

SECOND = 10**9


def rows_of(decoder: FlowDecoder, payloads: Sequence[bytes], who: str = "192.0.2.1") -> list[dict[str, object]]:
    given_by = [(address(who), 2055)] * len(payloads)
    batches = decoder.decode(Datagrams.of(payloads, exporters=given_by, arrival=[NOW * SECOND] * len(payloads)))
    return [row for batch in batches for row in batch.to_pylist()]


def taught(decoder: FlowDecoder, **options: object) -> FlowDecoder:
    """Give a fresh decoder what another was taught, by way of bytes."""
    fresh = FlowDecoder(**options)  # type: ignore[arg-type]
    state = encode_state(decoder.state())
    fresh.restore(decode_state(state))
    return fresh


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(sizes=st.lists(st.integers(1, 4), min_size=4, max_size=12), cut=st.integers(1, 11), away=st.integers(0, 3))
def test_it_goes_on_as_if_nothing_had_happened_but_for_what_it_did_not_see(
    protocol: str, sizes: list[int], cut: int, away: int
) -> None:
    payloads, units = stream(protocol, sizes, 2**32 - 7)
    cut = min(cut, len(payloads) - 1)
    whole, first = FlowDecoder(), FlowDecoder()
    expected = rows_of(whole, payloads)
    found = rows_of(first, payloads[:cut])
    second = taught(first)
    seen = payloads[cut + away :]
    found += rows_of(second, seen)
    unseen = sum(many for many in sizes[cut : cut + away]) if protocol != "sflow" else 0
    assert len(found) == len(expected) - unseen
    assert found == expected if not away else found[-1:] == expected[-1:] or not seen
    counted = second.exporters()[0]
    assert counted.lost == (sum(units[cut : cut + away]) if seen else 0)
    assert counted.datagrams == len(seen) and counted.restarts == 0


LAYOUT = template(256, [(8, 4), (1, 4)])
RATES = ipfix([ipfix_options(512, [(302, 8)], [(304, 2), (305, 4), (306, 4)]),
               a_set(512, number(5, 8) + number(1, 2) + number(1, 4) + number(9, 4))])  # fmt: skip


def test_templates_rates_and_timeouts_are_kept() -> None:
    sampled = ipfix_templates(template(257, [(8, 4), (1, 4), (302, 8)]))
    timeouts = [ipfix_options(513, [(149, 4)], [(36, 2), (37, 2)])]
    timeouts.append(a_set(513, number(7, 4) + number(60, 2) + number(15, 2)))
    decoder = FlowDecoder()
    assert rows_of(decoder, [RATES, ipfix([sampled]), ipfix(timeouts, sequence=1)]) == []
    record = four("10.0.0.4") + number(400, 4) + number(5, 8)
    later = [ipfix([a_set(257, record)], sequence=2)]
    (row,) = rows_of(taught(decoder), later)
    assert row == rows_of(decoder, later)[0] and row["sampling"] == 10
    (known,) = taught(decoder).sessions.known[1:]
    assert (known.active, known.inactive) == (60 * SECOND, 15 * SECOND)
    assert len(rows_of(taught(decoder, columns=["srcIP", "bytes"]), later)) == 1
    assert rows_of(FlowDecoder(hold_for=0), later) == []


def test_a_template_that_is_too_old_is_not_used_and_nobody_enters_who_may_not_any_more() -> None:
    decoder = FlowDecoder()
    rows_of(decoder, [v9([v9_templates(LAYOUT)])])
    data = v9([a_set(256, four("10.0.0.3") + number(3, 4))], sequence=1)
    late = Datagrams.of([data], exporters=[(address("192.0.2.1"), 2055)], arrival=[NOW * SECOND + LIFETIME + 1])
    fresh = taught(decoder)
    assert list(fresh.decode(late)) == [] and fresh.exporters()[0].expired == 1
    closed = taught(decoder, allow=[(address("10.0.0.0"), address("10.255.255.255"))])
    assert closed.exporters() == []


def test_what_is_no_such_state_is_refused() -> None:
    with pytest.raises(ValueError, match="sessions are saved as"):
        FlowDecoder().restore({"sessions": pa.RecordBatch.from_pydict({"address": [1]})})
    decoder = FlowDecoder()
    rows_of(decoder, [v9([v9_templates(LAYOUT)])])
    state = decoder.state()["sessions"]
    assert isinstance(state, pa.RecordBatch) and len(state)
    for name, forged, said in (
        ("address", None, 'has in "sessions" what does not fit: TypeError'),
        ("facts", None, 'has in "sessions" what does not fit: TypeError'),
        ("facts", [1], "has 1 facts of a session"),
    ):
        rows = [{**row, name: forged} for row in state.to_pylist()]
        with pytest.raises(ValueError, match=said):
            FlowDecoder().restore({"sessions": pa.RecordBatch.from_pylist(rows, state.schema)})
