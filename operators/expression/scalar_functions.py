"""The functions of one tuple's values bind to Arrow's kernels; each says what it takes, and is null where its value is.

Text counts in characters (code points), the first is number 1. Patterns of `regexp_matches` are RE2's, which take time
linear in the text whatever they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.extremes import greatest, least
from operators.data.page import Page
from operators.data.schema import ip_field
from operators.errors import SchemaError, did_you_mean
from operators.expression.bound import Bound, Datum, Literally, Run, family
from operators.expression.common_type import united
from operators.expression.comparison import compare, truth
from operators.expression.constants import network_of
from operators.expression.names import TCP_FLAGS, flags_named

Binder: TypeAlias = Callable[[Sequence[Bound], str], Bound]
"""Makes the bound function of its bound arguments and of what the expression says."""

Places: TypeAlias = npt.NDArray[np.int64]


@attrs.frozen
class ScalarFunction:
    """A function by its example, how many arguments it takes (`most` None: any number), and what binds it."""

    example: str
    least: int
    most: int | None
    bind: Binder


def bind_function(name: str, arguments: Sequence[Bound], said: str) -> Bound:
    """Bind a function; SchemaError for another number of arguments or types than it takes."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise SchemaError(f'there is no function "{name}" of one tuple\'s values.\n  {did_you_mean(name, FUNCTIONS)}')
    count = len(arguments)
    if count < function.least or (function.most is not None and count > function.most):
        takes = str(function.least)
        if function.most is None:
            takes = f"at least {function.least}"
        elif function.most != function.least:
            takes = f"{function.least} to {function.most}"
        plural = "" if takes == "1" else "s"
        raise SchemaError(f"{said}: {name} takes {takes} argument{plural}, as in {function.example}.")
    return function.bind(arguments, said)


# Nulls and choices


def _coalesce(bounds: Sequence[Bound], said: str) -> Bound:
    field, runs = united(bounds, said)
    return Bound(field, lambda page: pc.coalesce(*(run(page) for run in runs)))


def _nullif(bounds: Sequence[Bound], said: str) -> Bound:
    value, other = bounds
    if value.literal is not None:
        raise SchemaError(f"{said}: the first argument of nullif is a column or computed, as in nullif(length, 0).")
    if other.literal is not None and other.literal.value is None:
        return Bound(value.field.with_name(said), value.run)
    same, nothing = compare("=", value, other, said), pa.scalar(None, value.type)
    return Bound(
        value.field.with_name(said).with_nullable(True),
        lambda page: pc.if_else(pc.fill_null(same.evaluate(page), False), nothing, value.run(page)),
    )


def _element_wise(function: Callable[[Sequence[Datum], pa.DataType], Datum]) -> Binder:
    def bind(bounds: Sequence[Bound], said: str) -> Bound:
        field, runs = united(bounds, said)
        if pa.types.is_boolean(field.type):
            raise SchemaError(f"{said}: truth values have no order; write AND or OR.")
        return Bound(field, lambda page: function([run(page) for run in runs], field.type))

    return bind


def _case(bounds: Sequence[Bound], said: str) -> Bound:
    """Bind condition, value, condition, value, ... and at last the value of all other tuples."""
    if len(bounds) % 2 == 0:
        bounds = [*bounds, _nothing()]
    conditions = bounds[:-1:2]
    for condition in conditions:
        known = condition.literal is None or isinstance(condition.literal.value, bool)
        if family(condition.field) != "truth value" or not known:
            raise SchemaError(
                f'{said}: "{condition.field.name}" is of type {condition.type}; WHEN takes a condition.\n'
                "  Compare it with something first."
            )
    field, values = united([*bounds[1:-1:2], bounds[-1]], said)
    tests = [condition.run for condition in conditions]

    def run(page: Page) -> Datum:
        taken = np.full(len(page), len(tests), np.int64)
        rest = np.arange(len(page))
        for number, test in enumerate(tests):
            found = _of_places(test, page, rest)
            hit = np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)
            taken[rest[hit]] = number
            rest = rest[~hit]
        parts, order = [], []
        for number, value in enumerate(values):
            places = np.flatnonzero(taken == number)
            if len(places):
                parts.append(_of_places(value, page, places))
                order.append(places)
        if not parts:
            return pa.array([], field.type)
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(page), np.int64)
        back[np.concatenate(order)] = np.arange(len(page))
        return pa.concat_arrays(parts).take(pa.array(back))

    return Bound(field, run)


def _nothing() -> Bound:
    nothing = pa.scalar(None)
    return Bound(pa.field("null", pa.null()), lambda page: nothing, literal=Literally(None))


def _of_places(run: Run, page: Page, places: Places) -> pa.Array:
    """Compute a value for some tuples alone: what is not chosen need not be defined."""
    found = run(page if len(places) == len(page) else page.take(places))
    return pa.repeat(found, len(places)) if isinstance(found, pa.Scalar) else found


# Text


def _text_of(bound: Bound, said: str, pattern: str = "") -> Run:
    name, kind = bound.field.name, family(bound.field)
    if kind == "text":
        return bound.run
    write = f"Write cast({name}, 'string')."
    if kind == "IP address":
        write = f"Write {name} IN '{network_of(pattern) or '10.0.0.0/8'}', a network of addresses."
    raise SchemaError(f'{said}: "{name}" is of type {bound.type}, and here stands text.\n  {write}')


def _constant_text(bound: Bound, said: str, what: str) -> str:
    if bound.literal is None or not isinstance(bound.literal.value, str):
        raise SchemaError(f"{said}: {what} is a text in quotes, the same for every tuple, not {bound.field.name}.")
    return bound.literal.value


def _mapped(function: Callable[[Datum], Datum], kind: pa.DataType | None = None) -> Binder:
    def bind(bounds: Sequence[Bound], said: str) -> Bound:
        text = _text_of(bounds[0], said)
        result = bounds[0].type if kind is None else kind
        return Bound(pa.field(said, result), lambda page: function(text(page)).cast(result))

    return bind


def _matched(
    function: Callable[..., Datum], what: str, *, ignore_case: bool = False, of: Callable[[str], str] = str
) -> Binder:
    def bind(bounds: Sequence[Bound], said: str) -> Bound:
        written = _constant_text(bounds[1], said, f"the {what}")
        text, pattern = _text_of(bounds[0], said, written), of(written)
        try:
            function(pa.array([""]), pattern, ignore_case=ignore_case)
        except pa.ArrowInvalid as error:
            raise SchemaError(f'{said}: "{written}" is no {what}: {error}') from error
        return truth(lambda page: function(text(page), pattern, ignore_case=ignore_case), said)

    return bind


def _like(pattern: str) -> str:
    r"""Write a pattern of LIKE, in which % stands for any text, _ for any character and \ takes their meaning away."""
    written: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            written.append(re.escape(next(characters, "\\")))
        else:
            written.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return f"(?s)^{''.join(written)}$"


def _whole(bound: Bound, said: str, what: str, least: int, most: int) -> int:
    value = bound.literal.value if bound.literal is not None else None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        shown = bound.field.name
        raise SchemaError(f"{said}: {what} is a constant from {least} to {most}, not {shown}.")
    return value


def _substr(bounds: Sequence[Bound], said: str) -> Bound:
    text = _text_of(bounds[0], said)
    start = _whole(bounds[1], said, "where a part begins (the first character is 1)", 1, 2**31 - 1) - 1
    stop = start + _whole(bounds[2], said, "the length of a part", 0, 2**30) if len(bounds) == 3 else None
    return Bound(
        bounds[0].field.with_name(said), lambda page: pc.utf8_slice_codeunits(text(page), start=start, stop=stop)
    )


def _replace(bounds: Sequence[Bound], said: str) -> Bound:
    text = _text_of(bounds[0], said)
    old = _constant_text(bounds[1], said, "what is replaced")
    new = _constant_text(bounds[2], said, "what replaces it")
    if not old:
        raise SchemaError(f"{said}: what is replaced is empty.")
    return Bound(
        bounds[0].field.with_name(said),
        lambda page: pc.replace_substring(text(page), pattern=old, replacement=new),
    )


# Addresses and flags


def _network(bounds: Sequence[Bound], said: str) -> Bound:
    argument = bounds[0]
    if family(argument.field) != "IP address":
        raise SchemaError(
            f'{said}: "{argument.field.name}" is of type {argument.type}; only an IP address has a network.'
        )
    short = _whole(bounds[1], said, "the prefix of IPv4 (that of IPv6 stands third)", 0, 32)
    long = _whole(bounds[2], said, "the prefix of IPv6", 0, 128) if len(bounds) == 3 else 64
    masks = np.stack([_mask(long), _mask(96 + short)])
    mapped = np.frombuffer(b"\0" * 10 + b"\xff\xff", np.uint8)

    def run(page: Page) -> Datum:
        found = argument.evaluate(page)
        _, values = found.buffers()
        octets = np.frombuffer(values if values is not None else b"", np.uint8)
        octets = octets[16 * found.offset : 16 * (found.offset + len(found))].reshape(len(found), 16)
        four = (octets[:, :12] == mapped).all(axis=1)
        kept = pa.py_buffer(np.ascontiguousarray(octets & masks[four.astype(np.intp)]))
        made = pa.Array.from_buffers(argument.type, len(found), [None, kept])
        return pc.if_else(found.is_valid(), made, pa.scalar(None, argument.type)) if found.null_count else made

    return Bound(ip_field(said), run)


def _mask(bits: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer((((1 << bits) - 1) << (128 - bits)).to_bytes(16, "big"), np.uint8)


def _has(bounds: Sequence[Bound], said: str) -> Bound:
    flags = bounds[0]
    if family(flags.field) != "integer":
        raise SchemaError(f'{said}: "{flags.field.name}" is of type {flags.type}; flags are a whole number.')
    text = _constant_text(bounds[1], said, "what HAS asks for")
    wanted = flags_named(text)
    if wanted is None:
        near = did_you_mean(text.strip().upper(), TCP_FLAGS)
        raise SchemaError(f"{said}: \"{text}\" names no flags of TCP; write 'SYN', or 'SYN+ACK' for both.\n  {near}")
    if wanted.bit_length() > flags.type.bit_width:
        raise SchemaError(f'{said}: "{flags.field.name}" ({flags.type}) has no room for the flag.')
    mask = pa.scalar(wanted, pa.int64())
    return truth(lambda page: pc.equal(pc.bit_wise_and(pc.cast(flags.run(page), pa.int64()), mask), mask), said)


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "case": ScalarFunction("CASE WHEN length > 100 THEN 1 ELSE 0 END", 2, None, _case),
    "coalesce": ScalarFunction("coalesce(vlan, 0)", 1, None, _coalesce),
    "contains": ScalarFunction("contains(host, 'example')", 2, 2, _matched(pc.match_substring, "text to find")),
    "ends_with": ScalarFunction("ends_with(host, '.org')", 2, 2, _matched(pc.ends_with, "text to find")),
    "greatest": ScalarFunction("greatest(a, b)", 1, None, _element_wise(greatest)),
    "has": ScalarFunction("flags HAS 'SYN'", 2, 2, _has),
    "ilike": ScalarFunction(
        "host ILIKE '%.ORG'", 2, 2, _matched(pc.match_substring_regex, "pattern", ignore_case=True, of=_like)
    ),
    "least": ScalarFunction("least(a, b)", 1, None, _element_wise(least)),
    "length": ScalarFunction("length(host)", 1, 1, _mapped(pc.utf8_length, pa.int64())),
    "like": ScalarFunction("host LIKE '%.org'", 2, 2, _matched(pc.match_substring_regex, "pattern", of=_like)),
    "lower": ScalarFunction("lower(host)", 1, 1, _mapped(pc.utf8_lower)),
    "network": ScalarFunction("network(srcIP, 24)", 2, 3, _network),
    "nullif": ScalarFunction("nullif(length, 0)", 2, 2, _nullif),
    "regexp_matches": ScalarFunction(
        "regexp_matches(host, '^www[0-9]')", 2, 2, _matched(pc.match_substring_regex, "regular expression")
    ),
    "replace": ScalarFunction("replace(host, 'www.', '')", 3, 3, _replace),
    "starts_with": ScalarFunction("starts_with(host, 'www.')", 2, 2, _matched(pc.starts_with, "text to find")),
    "substr": ScalarFunction("substr(host, 1, 3)", 2, 3, _substr),
    "trim": ScalarFunction("trim(host)", 1, 1, _mapped(lambda text: pc.utf8_trim(text, characters=" "))),
    "upper": ScalarFunction("upper(host)", 1, 1, _mapped(pc.utf8_upper)),
}
"""Every function by its name."""
OPERATORS: Final = frozenset({"case", "has", "ilike", "like"})
"""Those that a query writes as operators."""
