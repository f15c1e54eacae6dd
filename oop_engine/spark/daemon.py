"""Fork Spark's Python workers from a process that has loaded the compiled kernels, so that none waits for them.

Run by Spark in the place of `pyspark.daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import gc
import io
import struct
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from socket import socket
from typing import Final

_MODULES: Final = (
    "numpy", "pandas", "pyarrow", "pyarrow.compute", "pyspark.worker", "pyspark.sql.worker.plan_data_source_read",
    "oop_engine.spark.results", "oop_engine.spark.sources", "oop_engine.spark.batch", "oop_engine.spark.streaming",
)  # fmt: skip


def preload() -> None:
    """Import what readers and operators use and run the kernels that make pages of captures once."""
    for name in _MODULES:
        with suppress(ImportError):
            import_module(name)

    # Optional: a daemon that cannot preload is still a daemon.
    from oop_engine.sources.capture import Capture
    from oop_engine.spark.narrow import FEWEST, narrowed

    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    record = struct.pack("<IIII", 1, 0, 14, 14) + bytes(14)
    for batch in Capture(io.BytesIO(header + record * FEWEST)).batches():
        narrowed(batch)


def settle() -> None:
    """Take what is loaded by now out of garbage collection, which Spark calls for behind every task."""
    gc.collect()
    gc.freeze()


def main() -> None:
    """Preload, then be Spark's daemon."""
    # A daemon that cannot preload is still a daemon: what is wrong shows where it is used.
    with suppress(Exception):
        preload()
    # Optional: pyspark.
    from pyspark import daemon

    work: Callable[[socket, bool], int] = daemon.worker

    settled = False

    def worker(connection: socket, authenticated: bool) -> int:
        """Work, and say nothing when Spark has seen enough (a LIMIT) and hangs up."""
        nonlocal settled
        try:
            return work(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 0
        finally:
            if not settled:
                settle()
                settled = True

    settle()
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
