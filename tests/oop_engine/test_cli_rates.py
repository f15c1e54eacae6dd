"""`oop-engine rates` writes bills of files and of what exporters send, as `oop.queries.rates` computes them."""

from __future__ import annotations

import csv
import io

from click.testing import CliRunner, Result

import oop_engine as oop
from oop_engine.cli import commands

EXPORTS = "demos/captures/exports.pcap.gz"


def rates(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["rates", *arguments], prog_name="oop-engine")


def test_bills_of_a_capture_are_those_of_the_query() -> None:
    done = rates("--by", "exporter,in_if", "--slot", "1s", "--per", "15m", "--once", f"netflow:{EXPORTS}")
    assert done.exit_code == 0, done.output
    stream = oop.netflow(EXPORTS, columns=["lost", "received"])
    expected = oop.queries.rates(stream, by=["exporter", "in_if"], slot="1 s", per="15 minutes", once=True).to_arrow()
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    for name in ("exporter", "bytes", "max_bps", "duplicates", "lost", "missing"):
        assert [row[name] for row in found] == [f"{value:.15g}" if isinstance(value, float) else str(value)
                                                for value in expected[name].to_pylist()], name  # fmt: skip


def test_an_expression_with_a_name_is_billed() -> None:
    done = rates("--by", "network(destIP, 24) AS customer", "--by", "proto", "--per", "day", f"netflow:{EXPORTS}")
    assert done.stdout.startswith("customer,proto,p95_bps,max_bps,bytes"), done.output


def test_what_cannot_be_is_refused_in_words() -> None:
    for options, says in (
        (("--by", "exporter,nothing", f"netflow:{EXPORTS}"), 'no attribute "nothing"'),
        (("--zone", "Mars/Olympus", f"netflow:{EXPORTS}"), "there is no time zone"),
        (("--per", "1s", f"netflow:{EXPORTS}"), "shorter than a slot"),
        (("--once", "--by", "srcIP", "demos/captures/web.pcap.gz"), "packets have no observers"),
        (("--slot", "0s", f"netflow:{EXPORTS}"), "slot must be more than nothing"),
        ((), "name files to read, or --netflow"),
    ):
        done = rates(*options)
        assert (done.exit_code, says in done.output) == (2, True), done.output


def test_what_is_written_in_python_is_an_option_in_the_errors_of_a_command() -> None:
    for options, says in (
        (("--once", "--lateness", "1s", f"netflow:{EXPORTS}"), "PlanError: --once and --lateness: what was promised"),
        (("--netflow", "0.0.0.0:29055"), "--allow 192.0.2.0/24, or listen on 127.0.0.1; --anyone opens it to all"),
        (("--memory", "5", f"netflow:{EXPORTS}"), "PlanError: --memory 5: write how much"),
    ):
        done = rates(*options)
        assert (done.exit_code, says in done.output) == (2, True), done.output
