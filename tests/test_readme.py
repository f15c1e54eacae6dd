"""What the README shows is what happens: its commands and programs are run and their output compared.

`python -m tests.test_readme` writes the outputs anew.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"```(console|python)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)

PLAIN = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "matplotlib", "datasketches", "pyspark", "hypothesis"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
"""
"""What makes a program do without the packages of all extras."""


def blocks() -> Iterator[tuple[str, str, str]]:
    """Give (kind, what is run, expected output)."""
    for kind, body, shown in BLOCK.findall(README.read_text()):
        if kind == "console":
            command, _, output = body.partition("\n")
            yield kind, command.removeprefix("$ "), output
        else:
            yield kind, body, shown


def run(kind: str, text: str) -> str:
    """Run a command or a program in the repository's folder and give what it prints on standard output."""
    if kind == "console":
        name, *arguments = shlex.split(text)
        assert name == "oop-engine"
        command = [sys.executable, "-m", "oop_engine", *arguments]
    else:
        command = [sys.executable, "-c", text if "oop.spark" in text else PLAIN + text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def marked() -> Iterator[object]:
    """Give the blocks, those that start Spark marked as slow."""
    for kind, text, shown in blocks():
        marks = [pytest.mark.slow, pytest.mark.xdist_group("spark")] if "oop.spark" in text else []
        yield pytest.param(kind, text, shown, marks=marks)


@pytest.mark.parametrize(("kind", "text", "shown"), list(marked()), ids=lambda part: str(part)[:40])
def test_the_readme_shows_what_happens(kind: str, text: str, shown: str) -> None:
    assert run(kind, text) == shown


def test_the_readme_has_commands_and_programs() -> None:
    kinds = [kind for kind, _, _ in blocks()]
    assert kinds.count("console") >= 2
    assert kinds.count("python") >= 2


def test_question_1_2_takes_at_most_twelve_lines() -> None:
    program = next(text for kind, text, _ in blocks() if kind == "python" and "meld" in text)
    assert len([line for line in program.splitlines() if line.strip()]) <= 12


def write() -> None:
    """Put the true outputs into the README."""

    def renewed(match: re.Match[str]) -> str:
        kind, body = match.group(1), match.group(2)
        if kind == "console":
            command = body.partition("\n")[0]
            return f"```console\n{command}\n{run(kind, command.removeprefix('$ '))}```"
        return f"```python\n{body}```\n\n```text\n{run(kind, body)}```"

    README.write_text(BLOCK.sub(renewed, README.read_text()))


if __name__ == "__main__":
    write()
