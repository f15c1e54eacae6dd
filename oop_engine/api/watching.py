"""A run in Python is watched by its caller, by a page and by a record, as far as its options ask for them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import Deliver, Watch
from oop_engine.plan.graph import Plan


@contextmanager
def watched(
    plan: Plan,
    watch: Watch | None = None,
    *,
    page: str | None = None,
    page_token: str | None = None,
    record: str | Path | None = None,
) -> Generator[tuple[Watch | None, Deliver | None]]:
    """Open the page and the record of a run of a plan, and yield who watches it, and who is to see its results.

    - `watch`: who watches the run beside them.
    - `page`, `page_token`, `record`: as in `Output.run`. A page shows the results of a plan with one output.
    """
    if page is None and page_token is None and record is None:
        yield watch, None
        return
    # Start-up: few runs show themselves.
    from oop_engine.page.shown import Shown

    schema = plan.outputs[0].schema if len(plan.outputs) == 1 else None
    with Shown(plan, page, page_token, record, schema) as shown:

        def both(circuit: Circuit) -> bool:
            shown.watch(circuit)
            return watch is not None and bool(watch(circuit))

        yield both, shown.take
