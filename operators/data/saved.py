"""Write the state of an operator as bytes, and read it back exactly; damaged or foreign bytes are refused.

The form: magic, version, length of the index, the index (JSON), then one Arrow IPC stream an array or batch, then the
SHA-256 of all that. Nothing in it can run: no pickle. What of a state is outside of memory can stay there, see `Saved`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar, cast

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.distinct import distinct
from operators.data.page import Page, concatenate
from operators.data.schema import Schema
from operators.kernels.ranked import chains as kernels
from operators.protocol import Operator, Outside, State, StateValue
from punctuation import Meet
from punctuation.plain import dump_progress, read_progress

T = TypeVar("T", bound=np.generic)
ROOM: Final = 1 << 28
"""No state that was saved has as many ids, slots or rows in one part."""
UNFIT: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
    pa.ArrowException,
)  # fmt: skip
"""What is raised where a state that nobody wrote is taken up."""
MAGIC = b"OOPSTATE"
VERSION = 1
_HEAD = len(MAGIC) + 2 + 8
_DIGEST = 32
_KINDS = "biufMmSU"
_RAW = pa.schema([pa.field("raw", pa.uint8())])
_SCALARS = (bool, int, float, str)


@attrs.frozen
class Saved:
    """Hold a state as bytes, beside what of it is outside of memory and stays there.

    >>> saved = Saved.of({"bound": 7, "part": Outside(2, lambda: b"ab")})
    >>> saved.decoded()["bound"], saved.outside["part"].read(), saved.size - len(saved.encoded)
    (7, b'ab', 2)
    """

    encoded: bytes
    outside: Mapping[str, Outside] = attrs.field(factory=dict, repr=False)
    """By their names in the state."""

    @classmethod
    def of(cls, state: Mapping[str, StateValue]) -> Saved:
        """Return a state so; TypeError as `encode_state` raises it."""
        outside = {name: value for name, value in state.items() if isinstance(value, Outside)}
        return cls(encode_state({name: value for name, value in state.items() if name not in outside}), outside)

    def decoded(self) -> State:
        """Return the state that this was made of; ValueError as `decode_state` raises it."""
        return {**decode_state(self.encoded), **self.outside}

    @property
    def size(self) -> int:
        """Return the bytes of all of it."""
        return len(self.encoded) + sum(value.size for value in self.outside.values())


def encode_state(state: Mapping[str, StateValue]) -> bytes:
    """Return a state as bytes; TypeError for a value that cannot be saved, such as an array of Python objects.

    What is outside of memory is read, and comes back as an array of bytes; `Saved` leaves it where it is.

    >>> decode_state(encode_state({"bound": 7, "open": np.array([1, 2])}))
    {'bound': 7, 'open': array([1, 2])}
    """
    index: dict[str, object] = {}
    parts: list[bytes | pa.Buffer] = []
    for name, value in state.items():
        entry, raw = _encode(name, np.frombuffer(value.read(), np.uint8) if isinstance(value, Outside) else value)
        index[name] = entry if raw is None else {**entry, "bytes": raw.size}
        if raw is not None:
            parts.append(raw)
    head = json.dumps(index).encode()
    body = [MAGIC, VERSION.to_bytes(2, "big"), len(head).to_bytes(8, "big"), head, *parts]
    digest = hashlib.sha256()
    for part in body:
        digest.update(part)
    # A state may be most of the memory, so it is copied once.
    return b"".join([*body, digest.digest()])


def decode_state(saved: bytes) -> State:
    """Read what `encode_state` gave; arrays are fresh and writable. ValueError for anything else, with the reason."""
    if not saved.startswith(MAGIC):
        raise ValueError(f"these bytes are no saved state: they begin with {saved[:8]!r}, not {MAGIC!r}")
    if len(saved) < _HEAD + _DIGEST:
        raise ValueError(f"the saved state is cut short: {len(saved)} bytes")
    version = int.from_bytes(saved[len(MAGIC) : len(MAGIC) + 2], "big")
    if version != VERSION:
        raise ValueError(f"the saved state has format version {version}; this engine reads version {VERSION}")
    body, digest = saved[:-_DIGEST], saved[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError(f"the saved state is damaged or cut short: its checksum does not fit its {len(saved)} bytes")
    start = _HEAD + int.from_bytes(saved[len(MAGIC) + 2 : _HEAD], "big")
    index: dict[str, dict[str, object]] = json.loads(body[_HEAD:start])
    state: State = {}
    for name, entry in index.items():
        length = entry.get("bytes", 0)
        assert isinstance(length, int)
        state[name] = _decode(entry, body[start : start + length])
        start += length
    return state


def restore(operator: Operator, state: Mapping[str, StateValue]) -> None:
    """Make a fresh operator the one whose `state` this was; ValueError where it cannot be, whatever the reason.

    A digest that fits does not show that an operator wrote the bytes, so no index, length or offset of a state reaches
    a kernel before it was checked: each part declares its bounds where it reads (`read_int`, `read_integers`,
    `bounded`, `apart`, `chained`), and what Python and NumPy refuse besides is told here.
    """
    try:
        operator.restore(state)
    except UNFIT as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{type(operator).__name__} cannot be restored: {reason}.\n"
            "  The state is damaged, or another plan or version wrote it: begin anew, or give the state that was saved."
        ) from error


@contextmanager
def fitting(name: str) -> Generator[None]:
    """Raise what else Python, NumPy or a package refuses of an entry as ValueError, which names the entry."""
    try:
        yield
    except (RuntimeError, *UNFIT) as error:
        if type(error) is ValueError:
            raise
        raise ValueError(
            f'the saved state has in "{name}" what does not fit: {type(error).__name__}: {error}'
        ) from error


def bounded(
    values: npt.NDArray[T], name: str, *, least: int | None = 0, below: int | None = ROOM, length: int | None = None
) -> npt.NDArray[T]:
    """Return `length` rows of values in [least, below); ValueError, which names the entry, if they are not."""
    if length is not None and len(values) != length:
        raise ValueError(f'the saved state should have {length} rows in "{name}", it has {len(values)}')
    if values.size and least is not None and values.min() < least:
        raise ValueError(f'the saved state has {values.min()} in "{name}", where {least} is the least there can be')
    if values.size and below is not None and values.max() >= below:
        raise ValueError(f'the saved state has {values.max()} in "{name}", where all should be below {below}')
    return values


def apart(values: npt.NDArray[T], name: str, *, below: int) -> npt.NDArray[T]:
    """Return values that are in [0, below) and all different; ValueError, which names the entry, if not."""
    if len(distinct(bounded(values, name, below=below))) < len(values):
        raise ValueError(f'the saved state has a value in "{name}" twice, where all should be different')
    return values


def chained(heads: npt.NDArray[np.integer], after: npt.NDArray[np.integer], name: str) -> npt.NDArray[np.bool_]:
    """Return which places chains reach; ValueError, which names the entry, where one leaves them or comes to one twice.

    Each chain begins at a head and goes on at `after` of the place where it is; negative numbers end it.
    """
    reached = np.zeros(len(after), np.bool_)
    if not kernels.reach(heads.astype(np.int64), after.astype(np.int64), reached):
        raise ValueError(f'the saved state has chains in "{name}" that lead out of it, or come together')
    return reached


def read_int(state: Mapping[str, StateValue], name: str, *, least: int | None = None, most: int | None = None) -> int:
    """Return one integer of a state; ValueError when it is missing or something else, or not in [least, most]."""
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f'the saved state should have an integer "{name}", it has {value!r}')
    if not (-1 << 63 if least is None else least) <= value <= ((1 << 63) - 1 if most is None else most):
        raise ValueError(f'the saved state has {value} as "{name}", which is beyond what it can be')
    return value


def read_counts(state: Mapping[str, StateValue], names: Iterable[str], *, added: Container[str] = ()) -> dict[str, int]:
    """Return the counters of a state; those `added` since begin at 0 where an older one lacks them."""
    return {n: 0 if n in added and f"count.{n}" not in state else read_int(state, f"count.{n}") for n in names}


def read_flag(state: Mapping[str, StateValue], name: str) -> bool:
    """Return one truth value of a state; ValueError when it is missing or something else."""
    value = state.get(name)
    if not isinstance(value, bool):
        raise ValueError(f'the saved state should have a truth value "{name}", it has {value!r}')
    return value


def read_text(state: Mapping[str, StateValue], name: str) -> str:
    """Return one text of a state; ValueError when it is missing or something else."""
    value = state.get(name)
    if not isinstance(value, str):
        raise ValueError(f'the saved state should have a text "{name}", it has {value!r}')
    return value


def read_integers(
    state: Mapping[str, StateValue],
    name: str,
    *,
    least: int | None = None,
    below: int | None = None,
    length: int | None = None,
    width: int | None = None,
) -> npt.NDArray[np.int64]:
    """Return one array of integers of a state, as a copy; ValueError when it is missing or something else.

    The same where values are not in [least, below), or rows are not `length`. With `width` it has rows of so many
    columns, shape (n, width); else it is as it was saved.
    """
    value = state.get(name)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or not value.ndim:
        raise ValueError(f'the saved state should have an array of integers "{name}", it has {value!r}')
    if width is not None:
        if value.size % width:
            raise ValueError(f'the saved state should have rows of {width} in "{name}", it has {value.size} values')
        value = value.reshape(-1, width)
    return bounded(value.astype(np.int64), name, least=least, below=below, length=length)


def read_array(state: Mapping[str, StateValue], name: str, *, like: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return a writable copy of an array of a state; ValueError unless it has the type and row shape of `like`.

    Integers of another width are taken where they fit, and rows as one after the other, as older states have them.
    If rows of `like` are empty, rows of any width are.
    """
    value = state.get(name)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and like.dtype.kind in "iu":
        if value.dtype != like.dtype:
            info = np.iinfo(cast(np.dtype[np.integer], like.dtype))
            value = bounded(value, name, least=int(info.min), below=int(info.max) + 1).astype(like.dtype)
        if value.ndim == 1 and like.ndim == 2 and like.shape[1] and value.size % like.shape[1] == 0:
            value = value.reshape(-1, like.shape[1])
    fits = isinstance(value, np.ndarray) and value.dtype == like.dtype and value.ndim == like.ndim
    if not isinstance(value, np.ndarray) or not fits or (like.shape[1:] != (0,) and value.shape[1:] != like.shape[1:]):
        raise ValueError(
            f'the saved state: "{name}" is {_kind(value)}; an array of {like.dtype} with rows of shape '
            f"{like.shape[1:]} is needed"
        )
    return np.array(value, like.dtype)


def read_batch(state: Mapping[str, StateValue], name: str) -> pa.RecordBatch:
    """Return one record batch of a state; ValueError when it is missing or something else."""
    value = state.get(name)
    if not isinstance(value, pa.RecordBatch):
        raise ValueError(f'the saved state should have a record batch "{name}", it has {value!r}')
    return value


def save_schema(schema: pa.Schema) -> pa.RecordBatch:
    """Return a schema as a state value: a record batch without tuples."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def save_input(schema: Schema, name: str = "input") -> State:
    """Return the state of a schema and its promises."""
    return {name: save_schema(schema.arrow), _promises(name): _dump(schema)}


def read_input(state: Mapping[str, StateValue], name: str = "input") -> Schema | None:
    """Read what `save_input` returned; None where nothing was saved."""
    if name not in state:
        return None
    progress = _progress(state, _promises(name)) if _promises(name) in state else []
    return Schema(read_batch(state, name).schema, progress=progress)


def save_page(pages: Sequence[Page], name: str = "page") -> State:
    """Return pages as one, with the promises of their schema if it is called "page"; nothing where there are none."""
    if not pages:
        return {}
    schema = pages[0].schema
    state: State = {name: concatenate(schema, pages).batch}
    return {**state, "progress": _dump(schema)} if name == "page" else state


def read_page(state: Mapping[str, StateValue], name: str = "page") -> Page | None:
    """Read what `save_page` returned; None where nothing was saved."""
    if name not in state:
        return None
    batch = read_batch(state, name)
    return Page(Schema(batch.schema, progress=_progress(state) if name == "page" else []), batch)


def save_meet(meet: Meet) -> State:
    """Return what every port and the whole has promised."""
    ports: State = {f"port{i}": dump_progress(meet.port(i)) for i in range(meet.ports)}
    return {**ports, "emitted": dump_progress(meet.emitted)}


def load_meet(ports: int, state: Mapping[str, StateValue]) -> Meet:
    """Read what `save_meet` returned."""
    meet = Meet(ports)
    for name, progress in [("emitted", meet.emitted), *((f"port{i}", meet.port(i)) for i in range(ports))]:
        saved = read_progress(read_text(state, name))
        for promise in saved.promises():
            progress.advance(promise)
        progress.stale = saved.stale
    return meet


def prefixed(prefix: str, state: Mapping[str, StateValue]) -> State:
    """Return a part's state under names that begin with a prefix."""
    return {f"{prefix}{name}": value for name, value in state.items()}


def part(prefix: str, state: Mapping[str, StateValue]) -> State:
    """Return what `prefixed` was given."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _dump(schema: Schema) -> str:
    return json.dumps(sorted(sorted(promise) for promise in schema.progress))


def _promises(name: str) -> str:
    return "progress" if name == "input" else f"{name}.progress"


def _progress(state: Mapping[str, StateValue], name: str = "progress") -> list[list[str]]:
    return json.loads(read_text(state, name))


def _kind(value: StateValue) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with rows of shape {value.shape[1:]}"
    return "missing" if value is None else f"{value!r:.60}"


def _encode(name: str, value: StateValue) -> tuple[dict[str, object], pa.Buffer | None]:
    if value is None or isinstance(value, _SCALARS):
        return {"kind": "scalar", "value": value}, None
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise TypeError(
                f'state "{name}" is an array of {value.dtype}; an array of numbers, times, truth values or fixed-size '
                "text can be saved, other values as a record batch"
            )
        raw = pa.py_buffer(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
        column = pa.Array.from_buffers(pa.uint8(), raw.size, [None, raw])
        batch = pa.RecordBatch.from_arrays([column], schema=_RAW)
        return {"kind": "array", "dtype": value.dtype.str, "shape": list(value.shape)}, _write(batch)
    if isinstance(value, pa.RecordBatch):
        return {"kind": "batch"}, _write(value)
    if isinstance(value, bytes):
        return {"kind": "bytes", "value": value.hex()}, None
    raise TypeError(
        f'state "{name}" is of type {type(value).__name__}; save arrays, record batches, numbers, text, bytes or None'
    )


def _decode(entry: Mapping[str, object], raw: bytes) -> StateValue:
    kind, value, dtype, shape = (entry.get(name) for name in ("kind", "value", "dtype", "shape"))
    if kind == "scalar" and (value is None or isinstance(value, _SCALARS)):
        return value
    if kind == "batch":
        return _read(raw)
    if kind == "bytes" and isinstance(value, str):
        return bytes.fromhex(value)
    if kind != "array" or not isinstance(dtype, str) or not isinstance(shape, list):
        raise ValueError(f"the saved state has an entry of an unknown kind: {entry!r}")
    column: npt.NDArray[np.uint8] = _read(raw).column(0).to_numpy()
    try:
        numbers = np.dtype(dtype)
    except TypeError as error:
        raise ValueError(f"the saved state has an array of an unknown type: {error}") from error
    return np.frombuffer(column.tobytes(), numbers).reshape([int(str(n)) for n in shape]).copy()


def _write(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(raw: bytes) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(pa.py_buffer(raw)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (OSError, StopIteration, pa.ArrowException) as error:
        raise ValueError(f"the saved state has an entry that Arrow cannot read: {error}") from error
    return batch
