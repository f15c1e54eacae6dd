"""A key index answers as a dictionary would, for keys of every type, in any order of entering and freeing."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Hashable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from operators.data.keys import KeyIndex, Words
from operators.data.saved import decode_state, encode_state
from operators.errors import SchemaError
from operators.kernels.data.keys import NEAR

MANY = st.integers(0, 5)
MAPPED = b"\0" * 10 + b"\xff\xff"
VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]),
    pa.float64(): st.sampled_from([0.0, -0.0, 0.1, math.nan, struct.unpack("d", b"\1" + b"\xff" * 7)[0], math.inf]),
    pa.bool_(): st.booleans(),
    pa.string(): st.one_of(st.sampled_from(["", "a", "a\0", "a\0b", "é", "x" * 5000]), st.text(max_size=3)),
    pa.large_string(): st.text(max_size=2),
    pa.binary(): st.binary(max_size=2),
    pa.binary(16): st.integers(0, 30).map(lambda n: MAPPED + bytes([n & 3, 0, 0, n]) if n < 30 else MAPPED[:1] * 16),
    pa.binary(5): MANY.map(lambda n: bytes([n] * 5)),
    pa.date32(): MANY.map(lambda n: dt.date(1960 + n, 1, 1)),
    pa.time64("us"): MANY.map(lambda n: dt.time(n)),
    pa.timestamp("s"): MANY.map(lambda n: dt.datetime(1960 + n, 1, 1)),
    pa.duration("ms"): MANY.map(lambda n: dt.timedelta(n - 2)),
    pa.decimal128(12, 2): MANY.map(lambda n: Decimal(n - 2) / 4),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["", "a", "b"]),
    pa.dictionary(pa.int8(), pa.int64()): MANY,
}

Key = tuple[Hashable, ...]


class Colliding(KeyIndex):
    """An index whose digests are all but useless."""

    def _digest(self, text: object, at: int, words: Words) -> None:
        super()._digest(text, at, words)  # type: ignore[arg-type]
        words[:, at] = 0
        words[:, at + 1] %= np.uint64(3)


def one(value: object) -> Hashable:
    """Give a value under which equal keys are equal: every NaN is one."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value  # type: ignore[return-value]


class AgainstADictionary(RuleBasedStateMachine):
    """Ids are distinct while keys live, keys come back as they were given, and what is freed is gone."""

    live = Bundle("live")
    kinds = st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3)
    make = KeyIndex

    @initialize(kinds=kinds)
    def begin(self, kinds: list[pa.DataType]) -> None:
        self.fields = [pa.field(f"k{i}", kind) for i, kind in enumerate(kinds)]
        self.index = self.make(self.fields)
        self.model: dict[Key, int] = {}

    def drawn(self, data: st.DataObject, *, nulls: bool) -> tuple[list[pa.Array], list[Key]]:
        n = data.draw(st.integers(0, 6))
        before = data.draw(st.integers(0, 2))
        columns: list[pa.Array] = []
        for field in self.fields:
            values = VALUES[field.type]
            values = st.one_of(st.none(), values) if nulls else values
            listed = data.draw(st.lists(values, min_size=n + before, max_size=n + before))
            columns.append(pa.array(listed, field.type).slice(before))
        return columns, keys_of(columns)

    @rule(data=st.data(), nulls=st.booleans(), target=live)
    def assign(self, data: st.DataObject, nulls: bool) -> object:
        columns, keys = self.drawn(data, nulls=nulls)
        ids, fresh = self.index.assign_new(columns)
        for key, number, new in zip(keys, ids.tolist(), fresh.tolist(), strict=True):
            assert new == (key not in self.model)
            assert self.model.setdefault(key, number) == number
        return multiple(*keys)

    @rule(data=st.data(), nulls=st.booleans())
    def find(self, data: st.DataObject, nulls: bool) -> None:
        columns, keys = self.drawn(data, nulls=nulls)
        assert self.index.find(columns).tolist() == [self.model.get(key, -1) for key in keys]

    @rule(chosen=st.lists(live, unique=True, min_size=1, max_size=4))
    def free(self, chosen: list[Key]) -> None:
        gone = [self.model.pop(key) for key in chosen if key in self.model]
        self.index.free(np.array(gone, np.int32))

    @rule()
    def free_all(self) -> None:
        self.index.free(self.index.live())
        self.model.clear()

    @rule()
    def save_and_restore(self) -> None:
        state = decode_state(encode_state(self.index.state()))
        self.index = self.make(self.fields)
        self.index.restore(state)

    @invariant()
    def it_holds_what_the_dictionary_holds(self) -> None:
        ids = np.array(list(self.model.values()), np.int32)
        assert len(set(ids.tolist())) == len(ids) == len(self.index)
        assert sorted(self.index.live().tolist()) == sorted(ids.tolist())
        columns = self.index.keys(ids)
        assert [column.type for column in columns] == [field.type for field in self.fields]
        assert keys_of(columns) == list(self.model)
        assert self.index.find(columns).tolist() == ids.tolist()


class CollidingAgainstADictionary(AgainstADictionary):
    """The same where most texts have the digest of another."""

    kinds = st.lists(
        st.sampled_from([pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string()), pa.bool_()]),
        min_size=1,
        max_size=3,
    )
    make = Colliding

    @initialize(kinds=kinds)
    def begin(self, kinds: list[pa.DataType]) -> None:
        super().begin(kinds)


def keys_of(columns: Sequence[pa.Array]) -> list[Key]:
    return list(zip(*(map(one, column.to_pylist()) for column in columns), strict=True))


TestAgainstADictionary = AgainstADictionary.TestCase
TestAgainstADictionary.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
TestColliding = CollidingAgainstADictionary.TestCase
TestColliding.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)


def test_a_known_key_is_found_beside_a_null_that_no_key_has_yet() -> None:
    index = KeyIndex([pa.field("k", pa.string())])
    index.assign([pa.array(["a", ""])])
    assert index.find([pa.array(["", None, "a", "b"])]).tolist() == [1, -1, 0, -1]


def test_a_null_is_told_from_zero_in_the_seventieth_attribute_too() -> None:
    index = KeyIndex([pa.field(f"k{i}", pa.int64()) for i in range(70)])
    columns = [pa.array([0, None if i == 69 else 0], pa.int64()) for i in range(70)]
    assert index.assign(columns).tolist() == [0, 1]
    assert index.keys(np.array([1], np.int32))[69].to_pylist() == [None]


def test_words_tell_keys_apart_and_enter_none() -> None:
    index = KeyIndex([pa.field("k", pa.string()), pa.field("n", pa.int64())])
    columns = [pa.array(["a", "b", None, "a"]), pa.array([1, 1, 0, 1])]
    words = index.words(columns)
    assert len(index) == 0 and index.width == 3 and words.shape == (4, 4)
    assert (words[0] == words[3]).all() and len({row.tobytes() for row in words}) == 3
    assert words[:, index.width :].any(axis=1).tolist() == [False, False, True, False]


def test_a_null_within_a_dictionary_is_a_null() -> None:
    index = KeyIndex([pa.field("k", pa.dictionary(pa.int32(), pa.string()))])
    numbers = pa.array([0, 1, 2, None], pa.int32())
    column = pa.DictionaryArray.from_arrays(numbers, pa.array(["a", None, ""]))
    assert index.assign([column]).tolist() == [0, 1, 2, 1]
    assert index.keys(np.array([0, 1, 2], np.int32))[0].to_pylist() == ["a", None, ""]


def test_a_text_is_found_after_another_with_its_digest_was_freed() -> None:
    index = Colliding([pa.field("k", pa.string())])
    texts = [f"text {i}" for i in range(30)]
    ids = index.assign([pa.array(texts)])
    assert sorted(ids.tolist()) == list(range(30))
    index.free(ids[::2])
    assert index.find([pa.array(texts)]).tolist() == [-1 if i % 2 == 0 else int(ids[i]) for i in range(30)]


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.null(), pa.list_(pa.int8()), pa.decimal256(50, 2)])
def test_a_type_without_comparable_values_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match='cannot group by "k"'):
        KeyIndex([pa.field("k", kind)])


def test_a_heap_of_texts_that_come_and_go_stays_as_small_as_what_is_live() -> None:
    index = KeyIndex([pa.field("k", pa.string())])
    index.assign([pa.array(["the one that stays"])])
    for round_ in range(50):
        ids = index.assign([pa.array([f"{round_} {i} {'x' * 100}" for i in range(500)])])
        index.free(ids)
    assert len(index) == 1 and index.nbytes < 500_000
    assert index.keys(index.live())[0].to_pylist() == ["the one that stays"]


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from([pa.uint32(), pa.int64(), pa.int8(), pa.binary(16)]))
def test_keys_that_lie_close_together_are_told_apart_whatever_comes_between(seed: int, kind: pa.DataType) -> None:
    """By their value or by hashes: keys come and go, closer together and further apart, and the index is saved.

    Those of 16 bytes are addresses of IPv4, and later of IPv6 among them.
    """
    rng, fields = np.random.default_rng(seed), [pa.field("k", kind)]
    index, model = KeyIndex(fields), dict[Hashable, int]()
    other = rng.integers(2, 20)
    least, most = (-128, 127) if kind == pa.int8() else (0, 2**32 - 1)
    base = int(rng.integers(least, most))
    for turn in range(12):
        width = int(rng.choice([20, 100, 400, 10**6]))
        drawn = np.clip(base + rng.integers(-width // 2, width // 2, int(rng.integers(1, 200))), least, most)
        keys: list[Hashable] = drawn.tolist()
        if kind == pa.binary(16):
            keys = [MAPPED + n.to_bytes(4, "big") for n in drawn.tolist()]
            keys += [bytes(range(turn, turn + 16))] if turn >= other else []
        columns = [pa.array(keys, kind)]
        ids, fresh = index.assign_new(columns)
        for key, number, new in zip(keys, ids.tolist(), fresh.tolist(), strict=True):
            assert new == (key not in model)
            assert model.setdefault(key, number) == number
        gone = [key for key in model if rng.random() < rng.choice([0.0, 0.5, 0.95])]
        index.free(np.array([model.pop(key) for key in gone], np.int32))
        if rng.random() < 0.3:
            state = index.state()
            index = KeyIndex(fields)
            index.restore(state)
        asked = [*model, *gone, bytes(16) if kind == pa.binary(16) else base]
        assert index.find([pa.array(asked, kind)]).tolist() == [model.get(key, -1) for key in asked]
        assert sorted(index.live().tolist()) == sorted(model.values())
        assert index.keys(np.array(list(model.values()), np.int32))[0].to_pylist() == list(model)


def test_a_table_by_value_that_no_near_cache_holds_gives_the_same_ids_and_takes_them_back() -> None:
    index, known = KeyIndex([pa.field("k", pa.int64())]), np.full(300_000, -1, np.int64)
    random = np.random.default_rng(1)
    for page in range(12):
        keys = random.integers(0, 60_000 + 20_000 * page, 30_000)
        ids, fresh = index.assign_new([pa.array(keys)])
        old = known[keys] >= 0
        assert (ids[old] == known[keys[old]]).all()
        first = np.zeros(len(keys), np.bool_)
        first[np.unique(keys, return_index=True)[1]] = True
        assert (fresh == first & ~old).all()
        known[keys] = ids
        live = np.flatnonzero(known >= 0)
        assert (known[keys] == ids).all() and len(np.unique(known[live])) == len(live) == len(index)
        gone = random.choice(live, len(live) // 3, replace=False)
        index.free(known[gone].astype(np.int32))
        known[gone] = -1
        assert (index.find([pa.array(gone)]) == -1).all()
    assert index._low is not None and len(index._table) > NEAR


def test_a_table_by_value_takes_no_more_memory_than_one_by_hashes() -> None:
    near, far = KeyIndex([pa.field("k", pa.int64())]), KeyIndex([pa.field("k", pa.int64())])
    near.assign([pa.array(range(5000))])
    far.assign([pa.array(range(0, 5000 * 10**9, 10**9))])
    assert near._low is not None and far._low is None
    assert near.nbytes <= far.nbytes
    near.assign([pa.array([10**9])])
    assert near._low is None and near.nbytes == far.nbytes, "one that is far away has no place among them"
    near.assign([pa.array(range(10_000))])
    assert near._low is None
    near.free(near.find([pa.array([10**9])]))
    near.assign([pa.array(range(100_000))])
    assert near._low is not None, "it is looked at again when there are more"


def test_keys_that_rise_while_old_ones_are_freed_stay_in_a_table_by_value() -> None:
    index, tables = KeyIndex([pa.field("k", pa.int64())]), set[int]()
    index.assign([pa.array(range(1000))])
    for number in range(1000, 50_000, 100):
        ids = index.assign([pa.array(range(number, number + 100))])
        assert index.find([pa.array([number])]).tolist() == ids[:1].tolist()
        index.free(index.find([pa.array(range(number - 1000, number - 900))]))
        tables.add(-1 if index._low is None else int(index._low))
    assert -1 not in tables
    assert len(tables) < 60, "a table serves for hundreds of new keys"
    assert len(index) == 1000


def test_addresses_of_ipv4_take_one_word_until_there_is_another() -> None:
    field = pa.field("a", pa.binary(16))
    index, wide = KeyIndex([field]), KeyIndex([field])
    four = pa.array([MAPPED + bytes([10, 0, i // 250, i % 250]) for i in range(1000)], pa.binary(16))
    six, nothing = pa.array([bytes(range(16))], pa.binary(16)), pa.array([None], pa.binary(16))
    wide.assign([six])
    ids, words = index.assign([four]), index.words([four])
    wide.assign([four])
    assert index._low is not None and index.nbytes <= wide.nbytes
    assert index.find([six]).tolist() == [-1] and len(index) == 1000
    assert index.assign([nothing]).tolist() == [1000] and index.assign([six]).tolist() == [1001]
    assert index.find([four]).tolist() == ids.tolist() and index.width == 2
    assert (index.words([four])[:, :2] == words).all() and (wide.words([four]) == words).all()
    found = pa.concat_arrays(index.keys(np.arange(1002, dtype=np.int32)))
    assert found.equals(pa.concat_arrays([four, nothing, six]))
