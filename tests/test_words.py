"""Docstrings of public names say what to do with them: a verb, every parameter, and an example that is run."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import attrs
import pytest

import oop_engine as oop

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("oop_engine", "operators", "punctuation")
VERBS = frozenset(
    re.findall(
        r"\w+",
        "Add Aggregate Apply Average Bind Cast Check Choose Close Collect Compare Compile Compute Count Delay Describe "
        "Draw Estimate Explain Find Fire Generate Hold Join Keep List Make Measure Merge Name Number Poll Promise Put "
        "Raise Read Register Remove Report Return Run Select Show Sort Specify Spread Start Stop Test Unite Use Yield ",
    )
)
"""First words of docstrings. A new one goes here, if it is a verb in the imperative that says what a caller gets."""

Named = tuple[str, object, object]
"""A public name, what it names, and the class it belongs to, None for functions and classes."""


def public() -> Iterator[Named]:
    """Yield the public names of the Python interface, and the public members of its classes."""
    for package in (oop, oop.queries, oop.spark):
        prefix = package.__name__.replace("oop_engine", "oop")
        for name in package.__all__:
            value = getattr(package, name)
            yield f"{prefix}.{name}", value, None
            if inspect.isclass(value):
                for member, found in members(value):
                    yield f"{prefix}.{name}.{member}", found, value


def members(owner: type) -> Iterator[tuple[str, object]]:
    """Yield methods and properties that a class of ours adds to what Python gives every class."""
    for name, static in inspect.getmembers_static(owner):
        home = next(base for base in owner.__mro__ if name in vars(base) or base is object)
        if name.startswith("_") or not home.__module__.startswith(PACKAGES):
            continue
        if isinstance(static, property):
            yield name, static.fget
        elif inspect.isroutine(static):
            yield name, getattr(owner, name)


NAMES = list(public())


def of_each(names: list[tuple[str, object, object]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("name", "value", "owner"), names, ids=[name for name, _, _ in names])


each = of_each(NAMES)


def is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def text_of(value: object) -> str:
    return inspect.getdoc(value) or ""


def parameters(value: object) -> list[str]:
    """List what a caller passes; of a class that others make, its fields, which callers read."""
    if is_error(value):
        return []
    return [name for name in inspect.signature(value).parameters if name not in ("self", "cls") and name[0] != "_"]  # type: ignore[arg-type]


@each
def test_it_begins_with_a_verb(name: str, value: object, owner: object) -> None:
    first = text_of(value).partition(" ")[0]
    assert first in VERBS, f"{name}: {text_of(value)[:100]!r}"


@each
def test_it_names_every_parameter(name: str, value: object, owner: object) -> None:
    quoted = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", text_of(value)))))
    assert [given for given in parameters(value) if given not in quoted] == [], name


def examples(text: str) -> str:
    return "\n".join(example.source for example in doctest.DocTestParser().get_examples(text))


@of_each([named for named in NAMES if not is_error(named[1]) and not is_error(named[2])])
def test_it_shows_an_example(name: str, value: object, owner: object) -> None:
    member = name.rpartition(".")[2]
    shown = examples(text_of(value)) or (owner is not None and f".{member}" in examples(text_of(owner)))
    assert shown, f"neither {name} nor its class shows how it is used"


SPARK = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def shown() -> Iterator[object]:
    """Yield the docstrings with examples; those that start Spark marked as slow."""
    for name, value, _ in NAMES:
        if found := examples(text_of(value)):
            marks = SPARK if "spark.session(" in found else []
            yield pytest.param(name, value, marks=marks, id=name)


@pytest.mark.parametrize(("name", "value"), list(shown()))
def test_what_its_example_shows_is_what_happens(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "demos").symlink_to(ROOT / "demos")
    (tmp_path / "nfdump").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    module = inspect.getmodule(value)
    assert module is not None
    test = doctest.DocTestParser().get_doctest(text_of(value), {**vars(module), "oop": oop}, name, None, None)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    result = runner.run(test, out=report.append)
    assert result.failed == 0, "".join(report)


RIDDLES = re.compile(r"(What|Who|Whose|Whom|Whether|Which|Those|That|How|Give|Tell)\b")
"""First words that make a reader guess who does what: a sentence names its agent, a function what it returns."""
NO_VERBS = re.compile(r"(As|One|Since|Their|The|An?|No|Below|Nothing|Number of|\w+ type of|Buffered)\b")
"""First words of functions that name a thing, where a reader looks for what is done."""
ABSENT = re.compile(r"features?(\.md)? row|\brows? [A-Z]\d|design/")
"""References to documents that are not in the repository."""


MUDDLED = re.compile(
    r"\b(nobody|somebody|one's own|a say|says all|nothing says|(is|are) said|what comes in by itself)\b"
)
"""Phrases of messages that a reader has to decode: who does it, and what to write?"""


@attrs.frozen
class Text:
    """A text in the code, where it stands, and what it is of: "docstring", "function's docstring" or "message"."""

    place: str
    of: str
    text: str


@cache
def texts() -> Sequence[Text]:
    """Read all texts of all modules once; their trees would make every later garbage collection take longer."""
    found: list[Text] = []
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
                found.append(Text(place, "message", node.value))
            elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                of = "function's docstring" if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else "docstring"
                found.append(Text(place, of, ast.get_docstring(node) or ""))
    return found


def first_sentences(matching: re.Pattern[str], *of: str) -> list[str]:
    """Return the first sentence of each text of a kind that begins as a pattern says, with its place."""
    return [f"{one.place} {one.text.partition('.')[0]}" for one in texts() if one.of in of and matching.match(one.text)]


def test_no_message_has_to_be_decoded() -> None:
    assert [f"{one.place} {one.text}" for one in texts() if one.of == "message" and MUDDLED.search(one.text)] == []


def test_no_docstring_begins_with_a_riddle() -> None:
    assert first_sentences(RIDDLES, "docstring", "function's docstring") == []


def test_no_function_begins_with_what_is_no_verb() -> None:
    assert first_sentences(NO_VERBS, "function's docstring") == []


def test_no_docstring_refers_to_a_document_that_is_not_there() -> None:
    docstrings = [one for one in texts() if one.of != "message"]
    found = [(one.place, name) for one in docstrings for name in re.findall(r"[\w/-]+\.md\b", one.text)]
    assert [(place, name) for place, name in found if not (ROOT / name).exists()] == []
    assert [one.place for one in docstrings if ABSENT.search(one.text)] == []
