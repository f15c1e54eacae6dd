"""`oop-engine explain`: the plan of a query as text, Mermaid or SVG."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oop_engine.cli.errors import on_terminal, reported
from oop_engine.cli.naming import Naming, naming_options, query_text
from oop_engine.cli.options import memory_options

if TYPE_CHECKING:
    from oop_engine.plan.graph import Plan
    from oop_engine.report.bounds import Bound


@click.command(
    name="explain",
    context_settings={"allow_extra_args": True},
    short_help="Show the plan of a query: text, Mermaid or SVG.",
)
@click.argument("text")
@naming_options
@click.option(
    "--threads",
    type=click.IntRange(min=1, max=256),
    metavar="N",
    help="Say how so many threads share the work of each operator, or why they do not.  [default: OOP_THREADS, or 1]",
)
@memory_options
@click.option("--mermaid", is_flag=True, help="Write a Mermaid flowchart.")
@click.option("--svg", is_flag=False, flag_value="-", default=None, metavar="[FILE]", help="Draw the plan as SVG.")
def command(
    text: str, naming: Naming, threads: int | None, memory: str | None, memory_policy: str | None, mermaid: bool,
    svg: str | None,
) -> None:  # fmt: skip
    """Show the plan of a query: operators, schemas, what each stream is punctuated on, window class, physical choice.

    Only the files' headers are read, to know their attributes.
    """
    if mermaid and svg is not None:
        raise click.UsageError("choose one of --mermaid and --svg.")
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.hints import translated
        from oop_engine.drive.limit import bound_of
        from oop_engine.drive.overwriting import check_files
        from oop_engine.report import drawing
        from oop_engine.rewrite.passes import prepared
        from oop_engine.sinks.files import written

        plan = prepared(translated(query_text(text), naming).node)
        check_files(plan)
        if svg is not None and svg != "-":
            with written(Path(svg), example="plan.svg") as file:
                file.write(drawing.svg(plan).encode())
            return
        if mermaid or svg is not None:
            shown = drawing.mermaid(plan) if mermaid else drawing.svg(plan)
        else:
            shown = _words(plan, threads, bound_of(memory or False, memory_policy))
        click.echo(shown, nl=False)


def _words(plan: Plan, threads: int | None, bound: Bound | None) -> str:
    """Write the plan as text, no wider than the terminal; where there is none, as wide as documents take."""
    # Start-up: help needs nothing of the engine.
    from oop_engine.drive.workers import threads_of
    from oop_engine.report.explain import WIDTH, explain

    width = min(WIDTH, shutil.get_terminal_size().columns) if on_terminal() else WIDTH
    return explain(plan, width=width, threads=threads_of(threads), bound=bound) + "\n"
