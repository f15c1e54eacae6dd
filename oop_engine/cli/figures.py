"""`oop-engine figures`: the figures of the papers, measured here and drawn beside what the papers claim."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import click

from oop_engine.cli.errors import reported
from oop_engine.messages import say

if TYPE_CHECKING:
    from oop_engine.figures.drawn import Drawn
    from oop_engine.figures.figure import Figure


@click.command(
    name="figures",
    short_help="Measure and draw the figures of the papers.",
    epilog="""\b
Examples:
  oop-engine figures --list
  oop-engine figures 6-10 6-12 --out figures
  oop-engine figures thesis --paper""",
)
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option(
    "--out", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("figures"), show_default=True,
    metavar="DIR", help="Write pictures, tables and index.html there.",
)  # fmt: skip
@click.option("--small/--paper", "small", default=True, help="Minutes for all, or as much data as the papers.")
@click.option("--list", "listing", is_flag=True, help="List the figures, their claims, and what was drawn into DIR.")
def command(names: tuple[str, ...], folder: Path, small: bool, listing: bool) -> None:
    """Measure figures of the papers on generated data, and say of each whether its claim holds here.

    NAMES are figures, such as 6-10, or papers, such as thesis; all when none is named. DIR/index.html shows each with
    its claim, a verdict with the numbers that decide it, and how to repeat it. Figures that DIR has already stay in
    the report until they are drawn again.

    Exit status: 0 done, whatever the verdicts; 2 refused before anything ran; 3 a figure failed.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.figures.catalogue import chosen, figures
        from oop_engine.figures.drawn import draw, read
        from oop_engine.figures.figure import Size
        from oop_engine.figures.page import page
        from oop_engine.figures.picture import check_plot

        wanted = chosen(names)
        if listing:
            _list(wanted, read([figure.name for figure in wanted], folder))
            return
        check_plot()
        _make(folder)
        failed = 0
        everything = list(figures().values())
        for figure in wanted:
            drawn = draw(figure, Size("small" if small else "paper"), folder)
            failed += drawn.verdict is None
            say(f"{figure.name} {drawn.outcome} ({drawn.seconds:.1f} s): {figure.title}")
            report = page(everything, read([f.name for f in everything], folder), folder)
            (folder / "index.html").write_text(report)
        say(f"{folder / 'index.html'} shows them.")
    if failed:
        raise click.exceptions.Exit(3)


def _make(folder: Path) -> None:
    """Make a folder for figures before anything is measured for it; SinkError where it cannot be written."""
    # Start-up: help needs nothing of the engine.
    from oop_engine.sinks.errors import SinkError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        # What a folder allows is found out by writing to it.
        with NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SinkError(
            f'figures cannot be written to "{folder}": {error.strerror or error}.\n'
            "  Name a folder that you may write to, e.g. --out figures."
        ) from None


def _list(wanted: list[Figure], drawn: dict[str, Drawn]) -> None:
    for figure in wanted:
        found = drawn.get(figure.name)
        state = "not drawn yet" if found is None else f"{found.outcome}, size {found.size}, {found.day}"
        click.echo(f"{figure.name}  {figure.title} ({figure.paper}; {state})\n    {figure.claim}")
