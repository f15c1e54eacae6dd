"""Metrics of a run go out by an address: Prometheus scrapes them there, or a receiver of OpenTelemetry gets them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from oop_engine.drive.latency import Releases
from oop_engine.drive.questions import Questions
from oop_engine.drive.scraped import scraped
from oop_engine.errors import PlanError

_EVERY: Final = 10.0
"""Seconds from one sending to the next."""


@contextmanager
def published(
    questions: Questions,
    address: str,
    releases: Releases | None = None,
    *,
    told: Callable[[str], object],
    alarmed: Callable[[str], object] | None = None,
    every: float = _EVERY,
) -> Generator[str]:
    """Serve the metrics of a run, or send them, until this is left; yield where.

    - `address`: `HOST:PORT` to serve them at, or `otlp://HOST:PORT` or `otlps://HOST:PORT` to send them to.
    - `releases`: measured elsewhere, if they are.
    - `told`: called at the end with what was not taken; `alarmed`: called from another thread, when that begins.
    - `every`: seconds from one sending to the next.

    SourceError for what is no address, PlanError where it cannot be listened on, names no receiver, or needs a package
    that is not installed.
    """
    if "://" not in address:
        with scraped(questions, address, releases) as place:
            yield place
        return
    try:
        # Optional: opentelemetry and prometheus_client.
        from oop_engine.drive.exported import exported
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("opentelemetry", "prometheus_client"):
            raise
        raise PlanError(f'metrics="{address}" needs OpenTelemetry: pip install "oop-engine[otel]".') from None
    with exported(questions, address, releases, every, told, alarmed) as place:
        yield place
