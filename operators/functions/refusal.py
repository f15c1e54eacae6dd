"""Why a user's function cannot be compiled is told in a line, in the words of whoever wrote the function.

The compiler speaks of instructions of Python, and of types and files of its own. The first thing in its report that is
known here is told as what stands in the function, and in which line; of what is not known, the compiler's own line is
given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Final, TypeAlias

Function: TypeAlias = Callable[..., object]
Say: TypeAlias = Callable[[re.Match[str], Function], str]
"""Gives what is not supported; what is instead may follow behind a semicolon."""

_STATEMENTS: Final = {
    "IMPORT_NAME": '"import" inside a function',
    "IMPORT_FROM": '"import" inside a function',
    "STORE_GLOBAL": '"global"',
    "DELETE_GLOBAL": '"global"',
    "LOAD_BUILD_CLASS": '"class" inside a function',
    "BEFORE_WITH": '"with"',
    "UNPACK_EX": '"*" on the left of "="',
    "MATCH_MAPPING": '"case" with a dict',
    "MATCH_SEQUENCE": '"case" with a list or tuple',
    "MATCH_CLASS": '"case" with a class',
}
"""What stands in a function, by the instruction of Python that it becomes."""
_SIGNS: Final = {
    "add": "+", "added": "+", "sub": "-", "subtracted": "-", "mul": "*", "multiplied": "*", "pow": "**", "raised": "**",
    "truediv": "/", "floordiv": "//", "mod": "%", "lshift": "<<", "shifted": "<<", "rshift": ">>", "neg": "-",
    "negated": "-", "and_": "&", "or_": "|", "xor": "^", "invert": "~", "getitem": "[]", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "contains": "in",
}  # fmt: skip
"""Operators by the names of their functions, those that look for overflow included."""
_KINDS: Final = {
    r".* generator\(": "a generator",
    r"u?int\d|Literal\[int\]": "a whole number",
    r"float\d": "a floating number",
    r"complex\d": "a complex number",
    r"bool|Literal\[bool\]": "a truth value",
    r"unicode_type|Literal\[str\]": "a text",
    r"none": "None",
    r"\w*Tuple\(": "a tuple",
    r"(reflected )?list\(": "a list",
    r"(reflected )?set\(": "a set",
    r"[Dd]ict": "a dict",
    r"slice": "a slice",
    r"array\(": "an array",
    r"Function\(|type\(CPUDispatcher": "a function",
}
"""Kinds of values by how the compiler's names of them begin; the first that fits."""


def reason(error: Exception, function: Function) -> str:
    """Say in a line what the compiler refuses in a function.

    >>> reason(ValueError("Use of unsupported opcode (STORE_GLOBAL) found. Raised from own.py (7)"), reason)
    '"global" is not supported'
    """
    told = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    found = [(match.start(), say, match) for pattern, say in _KNOWN if (match := re.search(pattern, told))]
    if not found:
        return _line(error, told)
    _, say, match = min(found, key=lambda known: known[0])
    what, _, instead = say(match, function).partition("; ")
    place = _place(told, function)
    return f"{what} is not supported" + (f" (line {place})" if place else "") + (f"; {instead}" if instead else "")


def _line(error: Exception, told: str) -> str:
    """Pick the line of a report that says most: the first, but for that which names the stage that failed."""
    lines = [line.strip() for line in told.splitlines() if line.strip()] or [""]
    line = lines[1] if len(lines) > 1 and lines[0].startswith("Failed in") else lines[0]
    line = line.partition(" Raised from ")[0].rstrip(".:")
    kind = type(error)
    return line if line and kind.__module__.startswith("numba.") else f"{kind.__name__}: {line}".rstrip(": ")


def _place(told: str, function: Function) -> int | None:
    """Return the first line of the function that a report names."""
    if not isinstance(function, FunctionType):
        return None
    lines = set(_lines(function.__code__))
    named = re.findall(r"(?:\bline |\()(\d+)(?::|\)$)", told, re.MULTILINE)
    return next((int(number) for number in named if int(number) in lines), None)


def _lines(code: CodeType) -> Iterator[int]:
    """Yield the lines of a function, those of functions within it included."""
    yield from (line for _, _, line in code.co_lines() if line is not None)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _lines(inner)


def _fixed(what: str) -> Say:
    return lambda match, function: what


def _statement(match: re.Match[str], function: Function) -> str:
    return _STATEMENTS.get(match[1], f"the instruction {match[1]} of Python")


def _outside(match: re.Match[str], function: Function) -> str:
    """Say what a name outside the function, or the function itself, is."""
    name, kind = match[1], match[2].rpartition(".")[2]
    if not isinstance(function, FunctionType):
        own = getattr(function, "__qualname__", None)
        return f"{own}()" if own else f"an object of class {kind} as a function"
    if kind == "builtin_function_or_method":
        return f"{name}()"
    if kind == "function":
        if name == function.__name__:
            return "a function that calls itself"
        return f"{name}(), which is not compiled itself,; with numba.njit it is"
    return f"{name}, {_a(kind)} from outside the function,"


def _constant(match: re.Match[str], function: Function) -> str:
    kind = _kind(match[1])
    instead = "; a tuple is" if kind == "a list" else ""
    return f"{match[2]}, {kind or 'a value'} from outside the function,{instead}"


def _attribute(match: re.Match[str], function: Function) -> str:
    name, of = match[1], match[2]
    if owner := re.match(r"(?:Module\(<module|Function\(<class) '([\w.]+)'", of):
        return f"{owner[1]}.{name}"
    kind = _kind(of)
    return f'"{name}" of {kind}' if kind else f'"{name}"'


def _call(match: re.Match[str], function: Function) -> str:
    """Say which function is not there for which kinds of values."""
    name, given = match[1].rpartition(".")[2], _parted(match[2])
    what = f'"{_SIGNS[name]}"' if name in _SIGNS and len(given) < 3 else f"{name}()"
    if keyword := next((known[1] for one in given if (known := re.match(r"(\w+)=", one))), None):
        return f'{what} with "{keyword}"'
    kinds = [_kind(one) for one in given]
    if name == "getitem" and match[2].startswith("Tuple(") and kinds[-1] == "a whole number":
        return f"{what} with a number that is computed, of a tuple of several types,"
    if not kinds or not all(kinds):
        return f"{what} of these arguments"
    return f"{what} of {', '.join(kinds[:-1])}{' and ' if len(kinds) > 1 else ''}{kinds[-1]}"


def _unlike(match: re.Match[str], function: Function) -> str:
    one, other = _kind(match[1]), _kind(match[2])
    what = "a value" if match[3].startswith("$") else match[3].partition(".")[0]
    if not one or not other or one == other:
        return f"{what} that is of one type here and of another there"
    return f"{what} that is {one} here and {other} there"


def _kind(name: str) -> str:
    """Return the kind of a value by the compiler's name of its type; "" when it is not known."""
    return next((kind for start, kind in _KINDS.items() if re.match(start, name)), "")


def _parted(given: str) -> list[str]:
    """Part arguments at the commas that stand in no brackets."""
    given = re.sub(r"Literal\[str\]\([^)]*\)", "unicode_type", given)
    parts, depth = [""], 0
    for sign in given:
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _a(kind: str) -> str:
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


_KNOWN: Final[tuple[tuple[str, Say], ...]] = (
    (r"unsupported opcode \((\w+)\)", _statement),
    (r"format spec in f-strings", _fixed("a format in an f-string")),
    (r"Exception object cannot be stored", _fixed('"except ... as"')),
    (
        r"No implementation of function Function\(<intrinsic exception_match>",
        _fixed('"except" of one kind of error; "except Exception" is'),
    ),
    (r"Illegal IR, del found", _fixed('"del"')),
    (r"use of yield in a closure", _fixed("a generator; a list is, [... for ... in ...]")),
    (r"Unsupported context manager|with \(context manager\)", _fixed('"with"')),
    (r"Untyped global name '(\w+)':.*<class '([^']+)'>", _outside),
    (r"use of a (.+?) type, assigned to variable '(\w+)'", _constant),
    (r"Unknown attribute '(\w+)' of type (.+)", _attribute),
    (r"unsupported NumPy function '([\w.]+)'", lambda match, function: match[1]),
    (
        r"No implementation of function Function\(<(?:class|ufunc|function|built-in function|intrinsic) '?([\w.]+)"
        r".*\s+>>> \w+\((.*)\)",
        _call,
    ),
    (r"Cannot unify (.+) and (.+) for '([^']+)'", _unlike),
    (r"list\(undefined\)", _fixed("a list of unknown type")),
    (r"Type of variable .* cannot be determined", _fixed("a value of unknown type")),
    (r"\*args in function call should be a tuple", _fixed('"*" before what is no tuple')),
    (r"print\(\) function implementation", _fixed("print() with keywords")),
)
"""What the compiler reports, and how it is told; of what comes at one place in a report, the first here."""
