"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

log_option = click.option(
    "--log", type=click.Choice(["text", "json"]), default="text", show_default=True, expose_value=False,
    help='How to write messages on standard error; "json": an object a line, for programs.',
)  # fmt: skip

spreadsheet_option = click.option(
    "--spreadsheet",
    is_flag=True,
    help="In CSV, put an apostrophe before text that a spreadsheet would run as a formula (= + - @ first).",
)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write results to standard output as NDJSON: an object a line."
)

form_option = click.option(
    "--to-format", metavar="FORMAT", help='Write results in this format, whatever the name of the file: csv, tsv,'
    ' ndjson, jsonl, arrows, also for "-"; parquet, arrow for files.',
)  # fmt: skip

partition_option = click.option(
    "--partition-by", metavar="ATTR,...", help="Write a folder of Parquet files in folders as Hive names them, by"
    " attributes, hour(ATTR) or day(ATTR): --to flows --partition-by 'hour(window_start)'.",
)  # fmt: skip


def listen_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of sockets that exporters send to."""
    for option in reversed(
        (
            click.option(
                "--sockets", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N", help="UDP sockets"
                " that share each address (Linux), each with its own receive buffer.",
            ),
            click.option(
                "--certificate", metavar="FILE", help="Certificate (PEM, with those that signed it) that tls:// shows.",
            ),
            click.option("--key", metavar="FILE", help="Its private key (PEM); may be in the same file."),
            click.option(
                "--client-ca", metavar="FILE", help="Accept only exporters that show a certificate that one in this"
                " file signed.",
            ),
        )
    ):  # fmt: skip
        command = option(command)
    return command


threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1, max=256),
    metavar="N",
    help="How many threads share the work of operators.  [default: OOP_THREADS, or 1]",
)


prefer_option = click.option(
    "--prefer", multiple=True, metavar="NAME", help="Read this source before others whenever both have something, as"
    " --stats names it; results are the same. Can be given several times, the first one first.",
)  # fmt: skip


def memory_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that limit what operators hold in memory."""
    function = click.option(
        "--memory-policy", type=click.Choice(["spill", "shed", "error"]),
        help="What becomes of state beyond --memory: temporary files (TMPDIR), with the same results; new groups"
        " refused, counted, and results marked; or an error.  [default: spill]",
    )(function)  # fmt: skip
    return click.option(
        "--memory",
        metavar="SIZE",
        help='How much what operators hold may take, as "2GB" or "500MB".  [default: OOP_MEMORY, or no limit]',
    )(function)


def page_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that serve a page of a run, and record it."""
    function = click.option(
        "--record", metavar="FILE", help="Keep the promises and the outlines of windows of the run, not its data, for"
        " `oop-engine page FILE`, which shows any moment of it.",
    )(function)  # fmt: skip
    function = click.option(
        "--page-token", metavar="TOKEN", help="What readers of --page must know, 8 letters and digits or more; needed"
        " where other machines reach the address.",
    )(function)  # fmt: skip
    return click.option(
        "--page", metavar="ADDRESS:PORT", help="Serve a page that shows the run: what it waits for, promises, open"
        " windows, results; e.g. 127.0.0.1:8080. It needs oop-engine[page].",
    )(function)  # fmt: skip


metrics_option = click.option(
    "--metrics", metavar="ADDRESS:PORT", help="Serve metrics of the run to Prometheus, at http://ADDRESS:PORT/metrics;"
    " e.g. 127.0.0.1:9464. It needs oop-engine[metrics]. With otlp://ADDRESS:PORT (otlps:// for HTTPS) they are sent to"
    " a receiver of OpenTelemetry instead, every 10 s and at the end; it needs oop-engine[otel].",
)  # fmt: skip


def expanded(text: str) -> Path:
    """Return a path of the command line, a leading ~ as the home folder; UsageError where nobody has that name."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise click.UsageError(
            f'"{text}": there is no such user, or no home of one; write the whole path, or ./{text}'
        ) from None


def file_of(text: str | None) -> str | None:
    """Return a file of the command line, a leading ~ as the home folder; None where an option is missing."""
    return None if text is None else str(expanded(text))


def checkpoint_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that keep how far a run is."""
    function = click.option(
        "--checkpoint-failures", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
        help="Go on though N checkpoints in a row could not be written, with a note each; one more ends the run.",
    )(function)  # fmt: skip
    function = click.option(
        "--checkpoint-every", default="10s", show_default=True, metavar="DURATION",
        help="How often --checkpoint is written.",
    )(function)  # fmt: skip
    return click.option(
        "--checkpoint",
        metavar="DIR",
        help="Keep how far the run is in this folder; the same command again goes on from there, also after kill -9."
        " --to is then a folder of parts (.parquet, .arrow), .csv, .ndjson, .pages, a database or a server.",
    )(function)


def savepoint_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that begin a run with --checkpoint from a savepoint."""
    function = click.option(
        "--drop-state", multiple=True, metavar="OPERATOR",
        help="Let go of what this operator of the savepoint holds. Can be given several times.",
    )(function)  # fmt: skip
    return click.option(
        "--from", "savepoint", metavar="NAME",
        help="Begin from this savepoint of --checkpoint, also with a changed query: parts that mean the same keep their"
        " state. A path names the folder of another job, or of a savepoint there.",
    )(function)  # fmt: skip


def partial_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that write open windows as far as they are."""
    function = click.option(
        "--partial-every", default="10s", show_default=True, metavar="DURATION", help="How often --partial is written."
    )(function)
    return click.option(
        "--partial",
        metavar="FILE",
        help="Write the open windows, as far as they are, to this file, again and again.",
    )(function)
