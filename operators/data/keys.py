"""A key index gives each combination of attribute values a dense id, and takes the id back when the key is freed.

Keys of any mix of types become machine words: one for a number or a time, two for an IP address (one while all are of
IPv4), two for the digest of a text or a binary. Text is compared byte by byte with what is kept for its id, so two
texts with one digest are two keys all the same (the second is entered under a bumped digest). NaN is one key, -0.0 is
0.0, null is a key of its own; a dictionary is looked up, so its numbering makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Bools
from operators.data.saved import ROOM, apart, bounded
from operators.errors import SchemaError
from operators.kernels.data import address as addresses
from operators.kernels.data import keys as kernels

Ids = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
_LEAST = 16
_PLACES = 4
"""Places of a table by value for each key that there is room for."""
_ADDRESS = pa.binary(16)
T = TypeVar("T", bound=np.generic)


@attrs.define
class Keys(memory.Stateful):
    """Live keys as they are saved: the id of each, its words and texts, and the ids that are free."""

    ids: Ids = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array())
    words: Words = attrs.field(factory=lambda: np.empty(0, np.uint64), metadata=memory.array())
    made: int = attrs.field(default=0, metadata=memory.integer(least=0, most=ROOM))
    """How many ids were ever given away: each of them is in use or free."""
    free: Ids = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array())
    heaps: list[pa.RecordBatch] = attrs.field(factory=list, metadata=memory.batches("heap"))


@attrs.define
class KeyIndex(memory.Stateful):
    """Map keys to ids in amortised O(1) a tuple; memory is 8 bytes a word and about 24 bytes a key, plus texts.

    Keys of one word that lie close together, as ports do and the addresses of a network, are looked up by their value.

    >>> index = KeyIndex([pa.field("k", pa.string())])
    >>> index.assign([pa.array(["a", "b", "a", None])]).tolist(), len(index)
    ([0, 1, 0, 2], 3)
    """

    fields: Sequence[pa.Field]
    _full: list[_Words] = attrs.field(init=False)
    """Where the words of each attribute are in keys that are saved, and shown."""
    _layout: list[_Words] = attrs.field(init=False)
    """Where they are here: an address has one word until there is one that is not of IPv4."""
    _width: int = attrs.field(init=False)
    _nulls: bool = attrs.field(init=False, default=False, metadata=memory.flag())
    _bumped: bool = attrs.field(init=False, default=False, metadata=memory.flag())
    _form: None = attrs.field(init=False, default=None, metadata=memory.form(Keys, "_become", lambda own: own.held()))
    _keys: Words = attrs.field(init=False, metadata=memory.rebuilt())
    _table: Ids = attrs.field(init=False, metadata=memory.rebuilt())
    _beside: Words = attrs.field(init=False, metadata=memory.rebuilt())
    _low: np.uint64 | None = attrs.field(init=False, default=None)
    """The key that the first place of the table is for, where a place is a value; None where keys are hashed."""
    _free: Ids = attrs.field(init=False, metadata=memory.rebuilt())
    _counters: npt.NDArray[np.int64] = attrs.field(init=False)
    _heaps: list[_Heap] = attrs.field(init=False, metadata=memory.counted(several=True))
    _places: Words = attrs.field(init=False, factory=lambda: np.empty(kernels.AHEAD, np.uint64))
    forgotten: int = attrs.field(init=False, default=0)
    """How many keys were forgotten so far: as long as it stays, an id is that of the key that it was of."""

    def __attrs_post_init__(self) -> None:
        self._full = _laid(self.fields, short=False)
        short = _laid(self.fields, short=True)
        self._lay(short if any(words.short for words in short) else self._full)
        self._clear()

    def _lay(self, layout: list[_Words]) -> None:
        self._layout, self._width = layout, _width(layout)

    def _clear(self) -> None:
        self._nulls, self._bumped = False, False
        self._keys = np.zeros((_LEAST, self._width), np.uint64)
        self._fresh_table(2 * _LEAST)
        self._free = np.empty(_LEAST, np.int32)
        self._counters = np.zeros(3, np.int64)
        self._heaps = [_Heap() for words in self._layout if words.text]

    def __len__(self) -> int:
        """Return the number of live keys."""
        return int(self._counters[0])

    @property
    def capacity(self) -> int:
        """Return one more than the largest id ever made since the index was last empty."""
        return int(self._counters[1])

    @property
    def width(self) -> int:
        """Return the number of words of a key, as `words` gives them, apart from those that say what is null."""
        return _width(self._full)

    def assign(self, columns: Sequence[pa.Array]) -> Ids:
        """Return the id of each tuple's key, shape (n,), making ids for new keys."""
        return self.assign_new(columns)[0]

    def assign_new(self, columns: Sequence[pa.Array]) -> tuple[Ids, Bools]:
        """Return ids as `assign` does, and mark the tuples, shape (n,), that introduced a key that was not live."""
        words, texts, others = self._encode(columns)
        if others is not None:
            self._lengthen()
            words, texts, _ = self._encode(columns)
        ids = np.empty(len(words), np.int32)
        fresh = np.empty(len(words), np.bool_)
        self._enter(words, ids, fresh)
        introduced = np.flatnonzero(fresh) if texts else np.empty(0, np.int64)
        while texts:
            self._keep(texts, ids, introduced)
            differs = self._differing(texts, ids)
            if differs is None:
                break
            self._bump(words, differs)
            self._bumped = True
            again = np.ascontiguousarray(words[differs])
            some_ids, some_fresh = np.empty(len(again), np.int32), np.empty(len(again), np.bool_)
            self._enter(again, some_ids, some_fresh)
            ids[differs], fresh[differs] = some_ids, some_fresh
            introduced = np.flatnonzero(differs)[some_fresh]
        return ids, fresh

    def find(self, columns: Sequence[pa.Array]) -> Ids:
        """Return the id of each key, shape (n,), -1 where the key is not live."""
        words, texts, unknown = self._encode(columns, looking=True)
        ids = np.empty(len(words), np.int32)
        if words.shape[1] != self._keys.shape[1]:
            # No key has a null as yet.
            null = words[:, self._width :].any(axis=1)
            unknown = null if unknown is None else unknown | null
            words = np.ascontiguousarray(words[:, : self._width])
        if self._low is None:
            kernels.find(words, self._keys, self._table, ids)
        else:
            ids[:] = self._at(words[:, 0] - self._low)
        while texts and (differs := self._differing(texts, ids)) is not None:
            self._bump(words, differs)
            some = np.empty(int(differs.sum()), np.int32)
            kernels.find(np.ascontiguousarray(words[differs]), self._keys, self._table, some)
            ids[differs] = some
        if unknown is not None:
            ids[unknown] = -1
        return ids

    def words(self, columns: Sequence[pa.Array]) -> Words:
        """Return the words of each key, shape (n, w), without entering it: `width` of its values, then its nulls.

        Equal keys have equal words. Those of nulls are there if a column has one, and are not zero for such a key; two
        texts of one digest are alike.
        """
        return self._encode(columns, looking=True, full=True)[0]

    def keys(self, ids: Ids) -> list[pa.Array]:
        """Return the keys of these ids as one array a field, each of the field's type."""
        rows = self._keys[ids] if self._nulls else None
        arrays: list[pa.Array] = []
        heaps = iter(self._heaps)
        for position, words in enumerate(self._layout):
            null = None if rows is None else self._null(rows, position)
            if words.text:
                arrays.append(next(heaps).gather(ids, words.field.type, null))
            else:
                # A column by itself is read several times as fast as a few side by side.
                one = self._keys[:, words.at].take(ids).reshape(-1, 1) if words.width == 1 else None
                found = self._keys[ids, words.at : words.at + words.width] if one is None else one
                arrays.append(words.decode(found, null))
        return arrays

    def free(self, ids: Ids) -> None:
        """Forget the keys of these ids, each live and named once; their ids will be given to other keys."""
        if len(ids) == 0:
            return
        self.forgotten += len(ids)
        if len(ids) == len(self):
            self._clear()
            return
        if len(self._free) < len(self._keys):
            self._free = _grown(self._free, len(self._keys))
        if self._low is None:
            kernels.remove(ids, self._keys, self._table, self._beside, self._counters, self._free)
        else:
            kernels.remove_near(ids, self._keys.reshape(-1), self._table, self._low, self._counters, self._free)
        for heap in self._heaps:
            heap.forget(ids)
            if heap.wasteful:
                heap.compact(self.live())
        if self._bumped:
            self._settle()

    def live(self) -> Ids:
        """Return the ids of all live keys, in no particular order."""
        ids = np.empty(len(self), np.int32)
        kernels.occupied(self._table, ids)
        return ids

    def check_live(self, ids: npt.NDArray[np.integer], name: str) -> None:
        """Check that a restored part names live keys alone; ValueError, which names its entry, if not."""
        alive = np.zeros(int(self._counters[1]), np.bool_)
        alive[self.live()] = True
        if not alive[bounded(ids, name, below=len(alive))].all():
            raise ValueError(f'the saved state names keys in "{name}" that it does not have')

    def held(self) -> Keys:
        """Return the live keys and their ids."""
        live, kind = self.live(), pa.large_binary()
        heaps = [pa.RecordBatch.from_arrays([heap.gather(live, kind, None)], ["bytes"]) for heap in self._heaps]
        made, free = int(self._counters[1]), self._free[: int(self._counters[2])]
        return Keys(live, self._lengthened(self._keys[live]).reshape(-1), made, free, heaps)

    def _become(self, keys: Keys) -> None:
        ids, made, free = keys.ids, keys.made, keys.free
        if made != len(ids) + len(free):
            raise ValueError(f'the saved state has {made} as "made", where {len(ids)} ids are live, {len(free)} free')
        apart(np.concatenate((ids, free)), "ids", below=made)
        width, size = self.width + (self._null_words if self._nulls else 0), _power(made)
        words = bounded(keys.words, "words", least=None, below=None, length=len(ids) * width).reshape(len(ids), width)
        short = self._shortened(words)
        if short is None:
            self._lay(self._full)
        words = words if short is None else short
        self._keys = np.zeros((size, words.shape[1]), np.uint64)
        self._keys[ids] = words
        self._free = np.empty(size, np.int32)
        self._free[: len(free)] = free
        self._counters[:] = (len(ids), made, len(free))
        self._rebuild(ids.astype(np.int32))
        if len(keys.heaps) != len(self._heaps):
            raise ValueError(f"the saved state has texts of {len(keys.heaps)} attributes, not of {len(self._heaps)}")
        for number, (heap, batch) in enumerate(zip(self._heaps, keys.heaps, strict=True)):
            texts = batch.column(0)
            if len(texts) != len(ids) or not pa.types.is_large_binary(texts.type):
                raise ValueError(f'the saved state has {len(texts)} values of {texts.type} in "heap{number}"')
            heap.keep(_Text.of(texts), np.arange(len(ids)), ids, size)

    def _enter(self, words: Words, ids: Ids, fresh: Bools) -> None:
        done = 0
        single = words.shape[1] == 1
        while True:
            if self._low is not None:
                done = kernels.assign_near(
                    words.reshape(-1), self._keys.reshape(-1), self._table, self._low, self._counters, self._free, ids,
                    fresh, done,
                )  # fmt: skip
            elif single:
                args = (
                    words.reshape(-1),
                    self._keys.reshape(-1),
                    self._table,
                    self._beside,
                    self._counters,
                    self._free,
                    ids,
                    fresh,
                    done,
                    self._places,
                )
                done = kernels.assign_single(*args)
            else:
                done = kernels.assign(
                    words, self._keys, self._table, self._counters, self._free, ids, fresh, done, self._places
                )
            if done == len(words):
                return
            self._grow(words[done : done + 1, 0])

    def _fresh_table(self, size: int) -> None:
        self._low = None
        self._table = np.full(size, kernels.EMPTY)
        self._beside = np.zeros(size if self._keys.shape[1] == 1 else 0, np.uint64)

    def _rebuild(self, live: Ids, following: Words | None = None) -> None:
        """Enter these keys into a table by their value, if they and the `following` are close enough, or by hashes."""
        room, words = _PLACES * len(self._keys), self._keys[live, 0]
        if following is not None:
            words = np.concatenate((words, following))
        if self._keys.shape[1] == 1 and (low := _start(words, room)) is not None:
            self._low, self._table, self._beside = low, np.full(room, kernels.EMPTY), np.empty(0, np.uint64)
            self._table[self._keys[live, 0] - low] = live
        else:
            self._hash(live)

    def _hash(self, live: Ids) -> None:
        self._fresh_table(2 * len(self._keys))
        kernels.rehash(live, self._keys, self._table, self._beside)

    def _at(self, places: Words) -> Ids:
        """Return the id at each place of a table by value, -1 for none."""
        ids = self._table[np.minimum(places, np.uint64(len(self._table) - 1))]
        ids[places >= len(self._table)] = -1
        return ids

    def _grow(self, following: Words) -> None:
        """Let there be room for the next key: more, or, where it has no place by its value, in another table."""
        live, size = self.live(), 2 * len(self._keys)
        if self._low is not None and (self._counters[1] < len(self._keys) or self._counters[2] > 0):
            self._rebuild(live, following)
            return
        keys = np.zeros((size, self._keys.shape[1]), np.uint64)
        keys[: len(self._keys)] = self._keys
        self._keys = keys
        self._free = _grown(self._free, size)
        self._rebuild(live, following)

    def _widen(self) -> None:
        """Make room for the words that say which attributes are null, from the first null on."""
        live = self.live()
        self._nulls = True
        self._keys = np.ascontiguousarray(np.pad(self._keys, ((0, 0), (0, self._null_words))))
        self._hash(live)

    def _lengthen(self) -> None:
        """Let addresses have two words each, as one of them is not of IPv4."""
        live = self.live()
        self._keys = self._lengthened(self._keys)
        self._lay(self._full)
        self._hash(live)

    def _lengthened(self, keys: Words) -> Words:
        """Return the full words of keys, shape (n, width)."""
        if self._layout is self._full:
            return keys
        words = np.zeros((len(keys), self.width + keys.shape[1] - self._width), np.uint64)
        words[:, self.width :] = keys[:, self._width :]
        for position, (one, full) in enumerate(zip(self._layout, self._full, strict=True)):
            own = keys[:, one.at : one.at + one.width]
            words[:, full.at : full.at + full.width] = _lengthened(own[:, 0]) if one.short else own
            if one.short and self._nulls:
                words[self._null(keys, position), full.at : full.at + 2] = 0
        return words

    def _shortened(self, words: Words) -> Words | None:
        """Return the words of keys here, shape (n, width), from their full ones; None where addresses need them all."""
        if self._layout is self._full:
            return words
        keys = np.zeros((len(words), self._width + words.shape[1] - self.width), np.uint64)
        keys[:, self._width :] = words[:, self.width :]
        for position, (one, full) in enumerate(zip(self._layout, self._full, strict=True)):
            own = words[:, full.at : full.at + full.width]
            if not one.short:
                keys[:, one.at : one.at + one.width] = own
                continue
            keys[:, one.at], others = _shortened(np.ascontiguousarray(own).reshape(-1))
            if others is None:
                continue
            null = self._null(keys, position) if self._nulls else np.zeros(len(keys), np.bool_)
            if (others & ~null).any():
                return None
            keys[null, one.at] = 0
        return keys

    def _settle(self) -> None:
        """Enter texts of one digest anew: a search ends where nothing is, and may not end where a freed key stood."""
        live = self.live()
        words = self._keys[live]
        heaps = iter(self._heaps)
        for position, layout in enumerate(self._layout):
            if layout.text:
                text = _Text.of(next(heaps).gather(live, pa.large_binary(), None))
                null = self._null(words, position) if self._nulls else None
                self._digest(text, layout.at, words)
                if null is not None:
                    words[null, layout.at : layout.at + layout.width] = 0
        taken: set[bytes] = set()
        self._bumped = False
        for row in range(len(words)):
            while (key := words[row].tobytes()) in taken:
                self._bump(words, np.arange(len(words)) == row)
                self._bumped = True
            taken.add(key)
        self._keys[live] = words
        self._hash(live)

    @property
    def _null_words(self) -> int:
        return -(-len(self._layout) // 64)

    def _null(self, words: Words, position: int) -> Bools:
        """Return which keys have a null at this attribute."""
        bits = words[:, self._width + position // 64] >> np.uint64(position % 64)
        return np.asarray(bits & np.uint64(1) != 0)

    def _digest(self, text: _Text, at: int, words: Words) -> None:
        kernels.digest(text.offsets, text.data, at, words)

    def _encode(
        self, columns: Sequence[pa.Array], *, looking: bool = False, full: bool = False
    ) -> tuple[Words, list[_Text], Bools | None]:
        """Return the words and the texts of keys, and which have an address that is too long; None where none has."""
        columns = [_looked_up(column) for column in columns]
        length = len(columns[0]) if columns else 0
        nulls = any(column.null_count for column in columns)
        if nulls and not self._nulls and not looking:
            self._widen()
        layout, width = (self._full, self.width) if full else (self._layout, self._width)
        room = width + (self._null_words if self._nulls or nulls else 0)
        if len(layout) == 1 and room == 1 and not layout[0].text:
            only, others = layout[0].words(columns[0])
            return only.reshape(-1, 1), [], others
        words = np.zeros((length, room), np.uint64)
        texts: list[_Text] = []
        unfit: Bools | None = None
        for position, (one, column) in enumerate(zip(layout, columns, strict=True)):
            others = None
            if one.text:
                text = _Text.of(column)
                self._digest(text, one.at, words)
                texts.append(text)
            else:
                found, others = one.words(column)
                words[:, one.at : one.at + one.width] = found.reshape(length, one.width)
            if column.null_count:
                null = np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False))
                words[null, one.at : one.at + one.width] = 0
                words[:, width + position // 64] |= null.astype(np.uint64) << np.uint64(position % 64)
                others = None if others is None else others & ~null
            if others is not None and others.any():
                unfit = others if unfit is None else unfit | others
        return words, texts, unfit

    def _keep(self, texts: list[_Text], ids: Ids, introduced: npt.NDArray[np.int64]) -> None:
        for heap, text in zip(self._heaps, texts, strict=True):
            heap.keep(text, introduced, ids[introduced], len(self._keys))

    def _differing(self, texts: list[_Text], ids: Ids) -> Bools | None:
        differs = np.zeros(len(ids), np.bool_)
        count = sum(
            kernels.differing(text.offsets, text.data, ids, heap.data, heap.start, heap.length, differs)
            for heap, text in zip(self._heaps, texts, strict=True)
        )
        return differs if count else None

    def _bump(self, words: Words, differs: Bools) -> None:
        for layout in self._layout:
            if layout.text:
                words[differs, layout.at + 1] += np.uint64(1)


@attrs.frozen
class _Words:
    """The place of one attribute in a key's words, and the conversion of its values there and back."""

    field: pa.Field
    at: int
    width: int
    text: bool
    short: bool = False
    """Whether addresses are those of IPv4 alone, as numbers."""

    @classmethod
    def of(cls, field: pa.Field, at: int, *, short: bool) -> _Words:
        kind = _value_type(field.type)
        if short and kind == _ADDRESS:
            return cls(field, at, 1, False, True)
        if pa.types.is_decimal128(kind) or (pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16):
            return cls(field, at, 2, False)
        if _is_text(kind):
            return cls(field, at, 2, True)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return cls(field, at, 2, True)
        if (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
        ):
            return cls(field, at, 1, False)
        raise SchemaError(
            f'cannot group by "{field.name}" of type {field.type}: a key is a number, a time, a boolean, text, binary'
            " or an IP address.\n  Project it to one of these first."
        )

    def words(self, column: pa.Array) -> tuple[Words, Bools | None]:
        """Return the words of values, shape (n * width,), and which are not what these hold; None where all are."""
        if self.short:
            return _shortened(_pairs(column))
        return (_pairs(column) if self.width == 2 else self._single(column)), None

    def _single(self, column: pa.Array) -> Words:
        kind = column.type
        if pa.types.is_floating(kind):
            values = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
            return np.where(np.isnan(values), np.nan, values).view(np.uint64)
        if pa.types.is_date32(kind) or pa.types.is_time32(kind):
            column = column.view(pa.int32())
        elif pa.types.is_temporal(kind):
            column = column.view(pa.int64())
        elif pa.types.is_boolean(kind):
            column = column.cast(pa.uint8())
        filled = column.fill_null(0) if column.null_count else column
        return filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)

    def decode(self, words: Words, null: Bools | None) -> pa.Array:
        """Return the values of keys as an array of the field's type."""
        return _numbered(self._plain(words, null), self.field.type)

    def _plain(self, words: Words, null: Bools | None) -> pa.Array:
        kind = _value_type(self.field.type)
        mask = pa.array(null) if null is not None and null.any() else None
        if self.width == 2 or self.short:
            data = _lengthened(words[:, 0]) if self.short else np.ascontiguousarray(words)
            array = pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(data)])
            return array if mask is None else pc.if_else(mask, pa.scalar(None, kind), array)
        values = np.ascontiguousarray(words[:, 0])
        if pa.types.is_floating(kind):
            return pa.array(values.view(np.float64), mask=null).cast(kind)
        if pa.types.is_integer(kind):
            return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), mask=null)
        integers = pa.array(values.view(np.int64), mask=null)
        if pa.types.is_date32(kind) or pa.types.is_time32(kind):
            return integers.cast(pa.int32()).view(kind)
        if pa.types.is_temporal(kind):
            return integers.view(kind)
        return integers.cast(kind)


@attrs.frozen
class _Text:
    """A column of byte strings as offsets and bytes; nulls are empty."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, column: pa.Array) -> _Text:
        if column.null_count:
            column = column.fill_null(b"" if pa.types.is_binary(column.type) else _blank(column.type))
        column = column.cast(pa.large_string() if _is_text(column.type) else pa.large_binary())
        _, offsets, data = column.buffers()
        table = np.frombuffer(offsets, np.int64, column.offset + len(column) + 1)[column.offset :]
        return cls(table, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8))


@attrs.define
class _Heap:
    """The byte strings of live keys, by id; freed ones leave holes until these are more than half of it."""

    data: npt.NDArray[np.uint8] = attrs.field(factory=lambda: np.empty(256, np.uint8))
    start: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(_LEAST, np.int64))
    length: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(_LEAST, np.int64))
    used: int = 0
    dead: int = 0

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.start.nbytes + self.length.nbytes

    @property
    def wasteful(self) -> bool:
        return self.dead > 4096 and 2 * self.dead > self.used

    def keep(self, text: _Text, rows: npt.NDArray[np.int64], ids: Ids, capacity: int) -> None:
        if len(self.start) < capacity:
            self.start, self.length = _grown(self.start, capacity), _grown(self.length, capacity)
        if len(rows) == 0:
            return
        needed = self.used + int((text.offsets[rows + 1] - text.offsets[rows]).sum())
        if needed > len(self.data):
            self.data = _grown(self.data, max(needed, 2 * len(self.data)))
        self.used = int(kernels.keep(text.offsets, text.data, rows, ids, self.data, self.used, self.start, self.length))

    def gather(self, ids: Ids, kind: pa.DataType, null: Bools | None) -> pa.Array:
        offsets = np.empty(len(ids) + 1, np.int64)
        data = np.empty(int(self.length[ids].sum()), np.uint8)
        kernels.gather(ids, self.data, self.start, self.length, offsets, data)
        plain = pa.large_string() if _is_text(_value_type(kind)) else pa.large_binary()
        array = pa.Array.from_buffers(plain, len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        if null is not None and null.any():
            array = pc.if_else(pa.array(null), pa.scalar(None, plain), array)
        return _numbered(array.cast(_value_type(kind)), kind)

    def forget(self, ids: Ids) -> None:
        self.dead += int(self.length[ids].sum())
        self.length[ids] = 0

    def compact(self, live: Ids) -> None:
        offsets = np.empty(len(live) + 1, np.int64)
        data = np.empty(max(256, int(self.length[live].sum())), np.uint8)
        kernels.gather(live, self.data, self.start, self.length, offsets, data)
        self.start[live] = offsets[:-1]
        self.data, self.used, self.dead = data, int(offsets[-1]), 0


def _laid(fields: Sequence[pa.Field], *, short: bool) -> list[_Words]:
    """Return where the words of each attribute are; with `short`, addresses have one."""
    layout: list[_Words] = []
    for field in fields:
        layout.append(_Words.of(field, layout[-1].at + layout[-1].width if layout else 0, short=short))
    return layout


def _width(layout: Sequence[_Words]) -> int:
    return max(1, sum(words.width for words in layout))


def _pairs(column: pa.Array) -> Words:
    """Return the two words of each value of 16 bytes, shape (2 n,)."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(2 * len(column), np.uint64)
    return np.frombuffer(data, np.uint64, 2 * (column.offset + len(column)))[2 * column.offset :]


def _shortened(words: Words) -> tuple[Words, Bools | None]:
    """Return addresses of two words each, shape (2 n,), as numbers, and which are not of IPv4; None where all are."""
    short, others = np.empty(len(words) // 2, np.uint64), np.empty(len(words) // 2, np.bool_)
    words = words.view()
    words.flags.writeable = False
    return short, others if addresses.shorten(words, short, others) else None


def _lengthened(short: Words) -> Words:
    """Return the two words of IPv4 addresses that are numbers, shape (n, 2)."""
    words = np.empty((len(short), 2), np.uint64)
    addresses.lengthen(np.ascontiguousarray(short), words.reshape(-1))
    return words


def _start(words: Words, room: int) -> np.uint64 | None:
    """Return a word so that these, and as many below as above, are among the `room` that follow; None if not so.

    A fourth is left for others, so that keys that rise, and are freed, do not ask for another table at each step.
    """
    if len(words) == 0:
        return None
    values = words.view(np.int64)
    least, span = int(values.min()), int(values.max()) - int(values.min())
    return None if span >= room - room // 4 else np.uint64((least - (room - span) // 2) % (1 << 64))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _looked_up(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numbered(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _blank(kind: pa.DataType) -> str | bytes:
    return bytes(kind.byte_width) if pa.types.is_fixed_size_binary(kind) else ("" if _is_text(kind) else b"")


def _grown(array: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


def _power(n: int) -> int:
    return max(_LEAST, 1 << max(0, n - 1).bit_length())
