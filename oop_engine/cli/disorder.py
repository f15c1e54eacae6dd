"""`oop-engine disorder`: measure the disorder of captures, exports, logs and tables, and suggest promises."""

from __future__ import annotations

import json

import click

from oop_engine.cli.errors import on_terminal, reported
from oop_engine.cli.naming import types_said
from oop_engine.messages import printable, say
from oop_engine.sources.said_format import FORMATS, said_format


@click.command(
    name="disorder",
    short_help="Measure the disorder of captures, exports and tables.",
    epilog="""\b
Examples:
  oop-engine disorder capture.pcap
  oop-engine disorder netflow:exports.pcap --plot disorder.svg
  oop-engine disorder dns.log.gz --json
  oop-engine disorder events.parquet --on event_time --by host --share 0""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--on", multiple=True, metavar="ATTR", help="Attributes to measure.  [default: all times but of arrival]")
@click.option(
    "--by",
    multiple=True,
    metavar="ATTR",
    help="Measure each value of these separately.  [default: exporter, or interface]",
)
@click.option("--whole", is_flag=True, help="Measure nothing separately.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.001,
    show_default=True,
    help="The share of tuples that may stay late beyond the slack that is suggested.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Format, if neither suffix nor content shows it.")
@click.option("--types", multiple=True, metavar="ATTR=TYPE,...", help="Types of columns of tables, as of a query.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, times in seconds.")
@click.option("--plot", metavar="FILE", help="Draw events over arrival and lateness, as .svg or .png (Fig 6-8, 6-9).")
@click.option("--against", metavar="ATTR", help="Attribute on the x axis of a plot.  [default: the number of arrival]")
def command(
    files: tuple[str, ...],
    on: tuple[str, ...],
    by: tuple[str, ...],
    whole: bool,
    share: float,
    format_: str | None,
    types: tuple[str, ...],
    as_json: bool,
    plot: str | None,
    against: str | None,
) -> None:
    """Measure how late tuples are, find whether they come in a band or in blocks, and suggest promises.

    FILE is whatever a query reads; netflow:FILE reads flow records out of a capture of exports. A tuple is late when
    one with a larger time came before it. Everything is read once.
    """
    if whole and by:
        raise click.UsageError("--whole tells nothing apart, and --by does; leave out one.")
    if format_ is None:
        format_, first = said_format(files[0])
        files = (first, *files[1:])
    kinds = types_said(types)
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.api.disorder import disorder
        from oop_engine.cli.compiling import compiled, notice
        from oop_engine.report.disorder_words import HEAD, LEFT, advice, cells
        from oop_engine.report.facts import one_line
        from oop_engine.report.scatter import check

        if plot is not None:
            check(plot)
        if not compiled(("streams.disorder",)):
            say(notice())
        report = disorder(
            files[0],
            *files[1:],
            on=on,
            by=() if whole else by or None,
            against=against,
            share=share,
            samples=0 if plot is None else 8192,
            format=format_,
            types=kinds,
        )
        if plot is not None:
            report.plot(plot)
        if as_json:
            click.echo(json.dumps(report.plain(), indent=2))
            return
        if on_terminal():
            # Start-up: JSON needs no table.
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

            # Text is no markup, whatever brackets a name or a value has.
            title = f"{one_line(report.name)}: {report.tuples:,} tuples in order of arrival"
            shown = Table(title=Text(title), title_justify="left")
            for name in HEAD:
                shown.add_column(name, justify="left" if name in LEFT else "right")
            for row in cells(report):
                shown.add_row(*map(Text, row))
            Console().print(shown)
            for line in advice(report):
                say(line)
        else:
            click.echo(printable(str(report)))
