"""A decoder that takes up the whole state of another reads what follows as that one does, and counts on."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oop_engine.sources.flows import Datagrams, FlowDecoder
from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.admission import Admission
from operators.data.saved import UNFIT, decode_state, encode_state, read_batch, read_integers
from operators.protocol import State
from tests.examples import mostly_slow
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    a_set,
    address,
    flow_sample,
    four,
    header_record,
    ipfix,
    ipfix_templates,
    number,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_options,
    v9_templates,
)

LAYOUTS = ([(8, 4), (1, 4)], [(1, 4), (8, 4)], [(8, 4), (1, 4), (48, 1)])


def traffic(seed: int, many: int = 60) -> list[tuple[bytes, tuple[bytes, int], int]]:
    """Return datagrams of all protocols, with losses, disorder, restarts, templates that come late, and rates."""
    luck, sent = random.Random(seed), list[tuple[bytes, tuple[bytes, int], int]]()
    sequence = {"v5": 0, "v9": 0, "ipfix": 0, "sflow": 0}
    for k in range(many):
        kind, layout = luck.choice(list(sequence)), luck.choice(LAYOUTS)
        n = luck.randint(256, 257)
        whence = address(f"192.0.2.{luck.randint(1, 3)}"), 5000 + luck.randint(0, 1)
        record = b"".join(number(luck.randint(1, 9), length) for _, length in layout)
        at = sequence[kind]
        if kind == "v5":
            made, step = v5([v5_record(octets=k)] * 2, sequence=at, seconds=NOW + k), 2
        elif kind == "v9":
            sets = [v9_templates(template(n, layout))] * luck.randint(0, 1) + [a_set(n, record)]
            if luck.random() < 0.2:
                sets = [
                    v9_options(300, [(1, 4)], [(48, 1), (50, 4)]),
                    a_set(300, bytes(4) + number(1, 1) + number(9, 4)),
                ]
            made, step = v9(sets, sequence=at, seconds=NOW + k, uptime=100_000 + 1000 * k), 1
        elif kind == "ipfix":
            sets = [ipfix_templates(template(n, layout))] * luck.randint(0, 1) + [a_set(n, record)]
            made, step = ipfix(sets, sequence=at, seconds=NOW + k), 1
        else:
            frame = bytes(12) + b"\x08\x00" + b"\x45" + bytes(40) + four("10.0.0.1")
            made, step = sflow([flow_sample([header_record(frame)])], sequence=at, uptime=1000 * k), 1
        sequence[kind] = 0 if luck.random() < 0.02 else at + step * luck.choice([1, 1, 1, 1, 2, 5])
        sent.append((made, whence, (NOW + k) * SECOND))
    for _ in range(many // 5):
        place = luck.randrange(len(sent) - 1)
        sent[place], sent[place + 1] = sent[place + 1], sent[place]
    return sent


def decoder() -> FlowDecoder:
    return FlowDecoder(admission=Admission(), hold_for=20 * SECOND)


def take(taking: FlowDecoder, sent: list[tuple[bytes, tuple[bytes, int], int]]) -> list[dict[str, Any]]:
    made, whence, when = zip(*sent, strict=True) if sent else ((), (), ())
    datagrams = Datagrams.of(list(made), exporters=list(whence), arrival=list(when))
    return [row for batch in taking.decode(datagrams) for row in batch.to_pylist()]


def templates(state: State) -> list[tuple[Any, ...]]:
    """Return all there is of each template, by session and number."""
    names = ("session", "number", "scopes", "options", "facts")
    parts = [np.asarray(state[f"templates.{name}"]).tolist() for name in names]
    sizes = read_integers(state, "templates.sizes")
    own = np.split(read_integers(state, "templates.fields"), np.cumsum(sizes)[:-1]) if len(sizes) else []
    return sorted(zip(*parts, [part.tolist() for part in own], strict=True))


def same(one: State, other: State) -> bool:
    """Compare states; where a session's templates stand makes no difference."""
    assert templates(one) == templates(other)
    for name in one:
        a, b = one[name], other[name]
        if name.startswith("templates."):
            continue
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            assert np.array_equal(a, b), name
        elif name == "held":
            assert read_batch(one, name).equals(read_batch(other, name))
        else:
            assert a == b, name
    return True


@pytest.mark.parametrize("seed", mostly_slow(range(12), every=4))
def test_saved_anywhere_it_goes_on_as_if_nothing_had_been(seed: int) -> None:
    sent = traffic(seed)
    whole = decoder()
    expected = [take(whole, [one]) for one in sent]
    assert sum(map(len, expected)) > 20
    for cut in random.Random(seed).sample(range(len(sent)), 4):
        before, after = decoder(), decoder()
        for one in sent[:cut]:
            take(before, [one])
        after.restore_whole(decode_state(encode_state(before.whole_state())))
        assert same(before.whole_state(), after.whole_state())
        assert after.exporters() == before.exporters()
        assert [take(after, [one]) for one in sent[cut:]] == expected[cut:]
        assert after.exporters() == whole.exporters()
        assert same(whole.whole_state(), after.whole_state())


def test_a_state_shares_nothing_with_its_decoder() -> None:
    saving, sent = decoder(), traffic(3)
    take(saving, sent[:30])
    state = saving.whole_state()
    kept = encode_state(state)
    take(saving, sent[30:])
    assert encode_state(state) == kept


def test_data_that_waited_in_a_state_without_what_was_lost_are_read_when_their_template_comes() -> None:
    saving, after = decoder(), decoder()
    who = (address("192.0.2.1"), 5000)
    assert take(saving, [(ipfix([a_set(300, four("10.0.0.1") + number(7, 4))]), who, NOW * SECOND)]) == []
    state = saving.whole_state()
    held = read_batch(state, "held")
    place = held.schema.get_field_index("head")
    older = [head[: 8 * e.H_WIDTHS_BEFORE[0]] for head in held.column("head").to_pylist()]
    assert len(older) == 1
    state["held"] = held.set_column(place, held.schema.field("head"), pa.array(older, pa.binary()))
    after.restore_whole(state)
    learnt = ipfix([ipfix_templates(template(300, [(8, 4), (1, 4)]))], sequence=1)
    (row,) = take(after, [(learnt, who, NOW * SECOND + 1)])
    assert (row["srcIP"], row["bytes"]) == (address("10.0.0.1"), 7)


@pytest.mark.parametrize("entry", [e.T_RECENT, e.T_GAPS, e.T_SAMPLERS, e.T_READ, e.T_ALLOWANCE])
def test_a_forged_state_that_leads_out_of_its_arrays_is_refused(entry: int) -> None:
    saving = decoder()
    take(saving, traffic(1))
    for value in (-1, 1 << 40):
        state = saving.whole_state()
        table = state["table"]
        assert isinstance(table, np.ndarray)
        table[1, entry] = value
        with pytest.raises(ValueError, match=f"table {entry}"):
            decoder().restore_whole(state)


def test_a_state_that_lacks_a_part_is_refused() -> None:
    saving = decoder()
    take(saving, traffic(1))
    for name in saving.whole_state():
        state = saving.whole_state()
        del state[name]
        with pytest.raises(UNFIT):
            decoder().restore_whole(state)
