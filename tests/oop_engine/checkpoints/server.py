"""A PostgreSQL server of this test run alone, in a folder of its own, which only this machine reaches."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import attrs
import psycopg

PROGRAMS = Path(
    shutil.which("initdb") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), ".")
).parent
THERE = (PROGRAMS / "initdb").exists()
MISSING = "PostgreSQL is not installed (Debian package postgresql)"


@attrs.define
class Server:
    """A server and its folder."""

    folder: Path
    port: int

    @classmethod
    def new(cls) -> Self:
        """Make a server in a new folder."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        folder = Path(tempfile.mkdtemp(prefix="oop-postgresql-"))
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        server = cls(folder, port)
        server._run(
            "initdb", "-D", f"{folder}/data", "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8",
            "--locale=C.UTF-8",
        )  # fmt: skip
        return server

    @property
    def uri(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server, or start it again after it was killed, and wait until it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off -k {self.folder}"
        for left in reversed(range(50)):
            try:
                self._run(
                    "pg_ctl", "start", "-w", "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-o", options
                )
                return
            except subprocess.CalledProcessError:
                # Of a server that was killed, the memory is in use until all its processes are gone.
                if not left:
                    raise

    def start_again(self) -> None:
        """Start the server if it was killed."""
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", self.port)):
                self.start()

    def kill(self) -> None:
        """Kill all processes of the server, the first of all first: it would see to the others."""
        first = (self.folder / "data/postmaster.pid").read_text().split()[0]
        for number in (first, *Path(f"/proc/{first}/task/{first}/children").read_text().split()):
            os.kill(int(number), signal.SIGKILL)

    def end(self) -> None:
        """End the server, if it runs."""
        with suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "stop", "-m", "immediate", "-D", f"{self.folder}/data")

    def query(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(text)  # pyright: ignore[reportArgumentType]
            return cursor.fetchall() if cursor.description is not None else []

    def _run(self, name: str, *arguments: str) -> None:
        # A server refuses to run as root.
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        subprocess.run(
            [*user, str(PROGRAMS / name), *arguments], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip


@contextmanager
def serving(server: Server) -> Generator[Server]:
    """Start a server, and remove it in the end."""
    try:
        server.start()
        yield server
    finally:
        server.end()
        shutil.rmtree(server.folder, ignore_errors=True)
