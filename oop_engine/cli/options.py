"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable

import click

spreadsheet_option = click.option(
    "--spreadsheet",
    is_flag=True,
    help="In CSV, put an apostrophe before text that a spreadsheet would run as a formula (= + - @ first).",
)


def partial_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that ask for what open windows have so far."""
    function = click.option(
        "--partial-every", default="10s", show_default=True, metavar="DURATION", help="How often --partial is written."
    )(function)
    return click.option(
        "--partial",
        metavar="FILE",
        help="Write what open windows have so far to this file, again and again.",
    )(function)
