"""Prometheus scrapes a run over HTTP, in threads of their own: one path, and on loopback only names of loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from oop_engine.drive.latency import Releases
from oop_engine.drive.questions import Questions
from oop_engine.errors import PlanError
from oop_engine.sources.live.address import Listening

PATH: Final = "/metrics"
_TIMEOUT: Final = 10.0
"""Seconds in which a client must have written its request."""


@contextmanager
def scraped(questions: Questions, address: str, releases: Releases | None = None) -> Generator[str, None, None]:
    """Serve the metrics of a run at `address:port` until this is left, and yield where that is, as an address of HTTP.

    `releases` are measured elsewhere, if they are.

    SourceError for what is no address, PlanError where it cannot be listened on, or prometheus_client is missing.
    """
    listening = Listening.parse(address)
    answer = _answering(questions, releases)

    class Handler(BaseHTTPRequestHandler):
        """Answer one request."""

        timeout = _TIMEOUT
        server_version = "oop-engine"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer with the metrics."""
            if not listening.admits(self.headers.get("Host", "")):
                self._send(HTTPStatus.FORBIDDEN, b"metrics are served to names of this machine alone\n")
            elif self.path.partition("?")[0] != PATH:
                self._send(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}\n".encode())
            else:
                body, kind = answer(self.headers.get("Accept", ""))
                self._send(HTTPStatus.OK, body, kind)

        def _send(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of a request."""

    class Server(ThreadingHTTPServer):
        """Listen, and let a run end while a client is slow."""

        daemon_threads = True
        address_family = socket.AF_INET6 if listening.is_ipv6 else socket.AF_INET

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of a client that went away."""

    try:
        server = Server((listening.host, listening.port), Handler)
    except OSError as error:
        raise PlanError(
            f'metrics="{address}" (--metrics): {error.strerror or error}.\n'
            "  Name a port that is free, such as 127.0.0.1:9464; of :0 the system chooses one."
        ) from None
    with server:
        threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True).start()
        try:
            yield f"http://{Listening(listening.host, server.server_address[1])}{PATH}"
        finally:
            server.shutdown()


def _answering(questions: Questions, releases: Releases | None) -> Callable[[str], tuple[bytes, str]]:
    """Return what makes the body of an answer, and its type, for what a client accepts."""
    try:
        # Optional: prometheus_client.
        from prometheus_client.exposition import choose_encoder

        from oop_engine.drive.metrics import RunCollector
    except ImportError as error:
        if error.name != "prometheus_client":
            raise
        raise PlanError("metrics need prometheus_client: pip install 'oop-engine[metrics]'.") from None
    collector, lock = RunCollector(questions, releases), threading.Lock()

    def answer(accept: str) -> tuple[bytes, str]:
        encode, kind = choose_encoder(accept)
        with lock:
            return encode(collector), kind

    return answer
