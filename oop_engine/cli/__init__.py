"""The command line: its commands are loaded when they are called, so that help costs no compiler and no Arrow."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Final

import click

from oop_engine import __version__
from oop_engine.messages import log_as, logs_json, printable, say

_COMMANDS: Final = {
    "query": ("Run a window query over captures and tables.", "oop_engine.cli.query"),
    "collect": ("Run a query over NetFlow, IPFIX and sFlow as it comes in.", "oop_engine.cli.collect"),
    "detect": ("Find attacks in captures and flow exports.", "oop_engine.cli.detect"),
    "rates": ("Compute rates to bill by: 95th percentile and maximum.", "oop_engine.cli.rates"),
    "explain": ("Show the plan of a query: text, Mermaid or SVG.", "oop_engine.cli.explain"),
    "why": ("Ask a run what its next window waits for.", "oop_engine.cli.why"),
    "top": ("Watch a run in a table: rates, promises, open windows.", "oop_engine.cli.top"),
    "page": ("Show the page of a run that was recorded.", "oop_engine.cli.page"),
    "job": ("Show what a run with --checkpoint keeps.", "oop_engine.cli.job"),
    "disorder": ("Measure the disorder of captures, exports and tables.", "oop_engine.cli.disorder"),
    "demo": ("Run a query of the thesis on three generated links.", "oop_engine.cli.demo"),
    "figures": ("Measure and draw the figures of the papers.", "oop_engine.cli.figures"),
    "capacity": ("Find the highest rate that a query keeps up with.", "oop_engine.cli.capacity"),
    "warm": ("Compile kernels ahead, for images and CI.", "oop_engine.cli.warm"),
    "pipeline": ("Turn a folder of captures into hourly tables, on Spark.", "oop_engine.cli.pipeline"),
}


_OTHERWISE: Final = {
    **dict.fromkeys(("-o", "--out", "--output", "--outfile", "--write"), "--to"),
    **dict.fromkeys(("-i", "--in", "--input", "--infile", "--read", "--file"), "--stream"),
}
"""What other programs call an option of ours."""


class _Commands(click.Group):
    """Know every command by name, and load one when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name][1]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            # Start-up: only unknown commands are compared.
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, 1, 0.5)
            if not near and args[0].lstrip("( \n").lower().startswith("select"):
                ctx.fail(f'a query is run with "query": {ctx.command_path} query "SELECT ..." --stream NAME=PATH')
            hint = f' Did you mean "{near[0]}"?' if near else f" Commands are {', '.join(_COMMANDS)}."
            ctx.fail(f'there is no command "{args[0]}".{hint}')
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; what click says of its arguments may hold the names of files, which others may have chosen."""
        # Known before the options are read, of which one may be wrong.
        log_as("json" if "--log=json" in ctx.args or ("--log", "json") in pairwise(ctx.args) else "text")
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            meant = _OTHERWISE.get(error.option_name) if isinstance(error, click.NoSuchOption) else None
            known = [name for option in error.ctx.command.params for name in option.opts] if error.ctx else []
            hint = f" Write {meant}." if meant in known else ""
            if logs_json():
                say(error.format_message() + hint, "error")
                raise click.exceptions.Exit(error.exit_code) from None
            raise click.UsageError(printable(error.format_message()) + hint, error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (says, _) in _COMMANDS.items()])


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Start with "oop-engine demo"; "oop-engine query --help" shows how to name streams.',
)
@click.version_option(__version__, message="oop-engine %(version)s")
def commands() -> None:
    """Out-of-order processing of data streams: window queries under punctuation, right whatever the arrival order."""


__all__ = ["commands"]
