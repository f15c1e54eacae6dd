"""A Prometheus server takes what its sink sends; killed in the middle, it has each sample once."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

import oop_engine as oop
from oop_engine.sinks.prometheus import PrometheusSink
from oop_engine.sinks.retry import Retry
from operators.data.page import Page, concatenate

PROGRAM = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Prometheus is not installed (Debian package prometheus)")
WEB = Path(__file__).parents[2] / "demos/captures/web.pcap.gz"


@attrs.define
class Server:
    """A server that takes remote write, in a folder of its own, which only this machine reaches."""

    folder: Path
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, or start it again after it was killed, and wait until it answers."""
        assert PROGRAM is not None
        (self.folder / "empty.yml").write_text("")
        self.process = subprocess.Popen(
            [
                PROGRAM, f"--config.file={self.folder}/empty.yml", f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address={self.uri}", "--web.enable-remote-write-receiver", "--log.format=logfmt",
                "--storage.tsdb.retention.time=100y",
            ],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        said: list[str] = []
        for line in self.process.stderr:
            said.append(line)
            if "ready to receive web requests" in line:
                return
        raise AssertionError("".join(said))

    def kill(self) -> None:
        """Kill the server, which then writes nothing more."""
        assert self.process is not None
        with self.process:
            self.process.kill()

    def samples(self, until: float) -> list[dict[str, Any]]:
        """Return all samples of ours: name, labels, second and value."""
        asked = {"query": '{__name__=~"oop_.+"}[10y]', "time": str(until)}
        found = httpx.get(f"http://{self.uri}/api/v1/query", params=asked).raise_for_status().json()["data"]["result"]
        return [
            {**series["metric"], "second": float(second), "value": float(value)}
            for series in found
            for second, value in series["values"]
        ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(tmp_path, port)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def counted() -> oop.Stream:
    packets = oop.read(WEB, punctuate=oop.ordered("ts"))
    return packets.window(range="1 s").aggregate(oop.count(), by="srcIP", bytes=oop.sum("length"))


def expected(counted: oop.Stream) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in counted.to_arrow().to_pylist():
        second = row["window_end"].timestamp()
        for name in ("count", "bytes"):
            one = {"__name__": f"oop_{name}", "srcIP": str(row["srcIP"]), "second": second, "value": float(row[name])}
            found.append(one)
    return found


def ordered(samples: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(sample.items())) for sample in samples)


def test_it_has_the_samples_of_a_run(server: Server, counted: oop.Stream) -> None:
    wanted = expected(counted)
    counted.to(f"prometheus://{server.uri}?labels=srcIP").run()
    assert len(wanted) > 100
    assert ordered(server.samples(max(sample["second"] for sample in wanted))) == ordered(wanted)


def test_killed_in_the_middle_it_has_each_sample_once(server: Server, counted: oop.Stream) -> None:
    """The sink waits for a server that is gone; what that has taken may come again, as after a death of ours."""
    wanted, deaths = expected(counted), list[float]()

    def sleep(seconds: float) -> None:
        deaths.append(seconds)
        server.start()

    sink = PrometheusSink.named(f"prometheus://{server.uri}?labels=srcIP")
    sink = attrs.evolve(sink, server=attrs.evolve(sink.server, retry=Retry(attempts=3, sleep=sleep)))
    given: list[Page] = []
    counted.to(given.append).run()
    whole = concatenate(given[0].schema, given)
    pages = [whole.slice(first, min(first + 10, len(whole))) for first in range(0, len(whole), 10)]
    assert len(pages) > 5
    with sink.opened(whole.schema) as deliver:
        for number, page in enumerate(pages):
            if number == len(pages) // 2:
                server.kill()
                deliver(pages[number - 1])
            deliver(page)
    assert len(deaths) == 1
    assert ordered(server.samples(max(sample["second"] for sample in wanted))) == ordered(wanted)
