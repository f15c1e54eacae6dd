"""What the README and the pages in docs show is what happens: commands and programs are run, their output compared.

`python -m tests.test_readme` writes the outputs anew. The pages of reference are written by `docs/generate.py`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import oop_engine
import oop_engine.queries
import oop_engine.spark
from oop_engine.cli import commands
from oop_engine.sources.capture import FURTHER_SCHEMA, PACKET_SCHEMA
from oop_engine.sources.flows import FLOW_ALIASES, FLOW_SCHEMA
from oop_engine.sources.flows.nfdump import NFDUMP_SCHEMA
from oop_engine.sources.flows.zeek import ZEEK_ALIASES
from operators.functions import _KNOWN as FUNCTIONS

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
COOKBOOK = ROOT / "docs" / "cookbook.md"
"""Its many commands run in the process of the tests, which is started once."""
PAGES = (README, *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"))
BLOCK = re.compile(r"```(console|python)\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)

PLAIN = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        others = ("hypercorn", "psycopg", "maxminddb", "pyspark", "hypothesis")
        if name in ("pandas", "matplotlib", "datasketches", "duckdb", *others):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
"""
"""What makes a program do without the packages of all extras."""


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Give (kind, what is run, expected output) of a page; a program without imports is a sketch that is not run."""
    for kind, body, shown in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python" and "import" not in body:
            continue
        if kind == "console":
            command, _, output = body.partition("\n")
            yield "inside" if page == COOKBOOK else kind, command.removeprefix("$ "), output
        else:
            yield kind, body, shown


def run(kind: str, text: str) -> str:
    """Run a command or a program in the repository's folder and give what it prints on standard output."""
    if kind == "inside":
        with contextlib.chdir(ROOT):
            result = CliRunner().invoke(commands, shlex.split(text)[1:], prog_name="oop-engine")
        assert result.exit_code == 0, result.output
        return result.stdout
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
    """Give the blocks; those that start Spark, or a process for a page that is not read first, are marked as slow."""
    for page in PAGES:
        for kind, text, shown in blocks(page):
            first = page == README or kind == "inside" or page.parent.name == "guides"
            marks = [pytest.mark.slow] if "oop.spark" in text or not first else []
            yield pytest.param(kind, text, shown, marks=marks)


@pytest.mark.parametrize(("kind", "text", "shown"), list(marked()), ids=lambda part: str(part)[:40])
def test_what_a_page_shows_is_what_happens(kind: str, text: str, shown: str) -> None:
    assert run(kind, text) == shown


def test_pages_have_commands_and_programs() -> None:
    kinds = {page: [kind for kind, _, _ in blocks(page)] for page in PAGES}
    assert kinds[README].count("console") >= 2
    assert kinds[README].count("python") >= 1
    assert sum(found.count("python") for found in kinds.values()) >= 6


def test_question_1_2_takes_at_most_twelve_lines() -> None:
    program = next(text for kind, text, _ in blocks(README) if kind == "python" and "meld" in text)
    assert len([line for line in program.splitlines() if line.strip()]) <= 12


def stale() -> list[str]:
    """Name the pages of reference that differ from what `docs/generate.py` makes."""
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    return [] if done.returncode == 0 else [done.stderr]


def test_the_reference_is_what_the_grammar_and_the_registries_say() -> None:
    assert stale() == []


def test_the_reference_leaves_nothing_out() -> None:
    """Every public name, option, function and attribute has its place, whatever the generator goes through."""
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")}
    rooms = {
        "oop": oop_engine.__all__,
        "oop.queries": oop_engine.queries.__all__,
        "oop.spark": oop_engine.spark.__all__,
    }
    titles = [f"### {room}.{name}\n" for room, names in rooms.items() for name in names]
    assert [title for title in titles if title not in pages["python"]] == []
    context = click.Context(commands)
    for name in commands.list_commands(context):
        assert f"oop-engine {name}" in pages["commands"]
    options = [option for command in leaves(commands) for param in command.params for option in param.opts]
    assert len(options) > 50
    assert [option for option in options if option.startswith("--") and f"{option}" not in pages["commands"]] == []
    assert [name for name in FUNCTIONS if f"{name}(" not in pages["functions"]] == []
    attributes = {
        *PACKET_SCHEMA.names,
        *FURTHER_SCHEMA.names,
        *FLOW_SCHEMA.names,
        *FLOW_ALIASES,
        *NFDUMP_SCHEMA.names,
        *ZEEK_ALIASES,
    }
    assert [name for name in attributes if f"`{name}`" not in pages["attributes"]] == []


def leaves(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from leaves(command) if isinstance(command, click.Group) else (command,)


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in (*PAGES, *(ROOT / "docs" / "reference").glob("*.md"))
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def write() -> None:
    """Put the true outputs into the pages."""

    def renewed(match: re.Match[str]) -> str:
        kind, body = match.group(1), match.group(2)
        if kind == "console":
            command = body.partition("\n")[0]
            return f"```console\n{command}\n{run(kind, command.removeprefix('$ '))}```"
        if "import" not in body:
            return match.group(0)
        return f"```python\n{body}```\n\n```text\n{run(kind, body)}```"

    for page in PAGES:
        page.write_text(BLOCK.sub(renewed, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
