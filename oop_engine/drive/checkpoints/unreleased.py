"""Say what the windows of a job waited for at its last checkpoint, where the job does not run and cannot be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from oop_engine.drive.checkpoints.state import JobState, state
from oop_engine.drive.why import EDGES, NOT_RUNNING, Wait
from operators.data.readable import tick_text
from operators.window_aggregate.results import START, STOP, WINDOW

_SHOWN: Final = 4
"""Sources whose promises are told, those that are least far."""


def waits(folder: str | Path, said: str) -> tuple[Wait, ...]:
    """Return what each operator with open windows waited for at the last checkpoint; `said` is why nobody can be asked.

    CheckpointError where there is no job, or it is damaged.
    """
    job = state(folder, most=1)
    when = f"its last checkpoint is of {job.when}"
    holder = f'the job in "{folder}"'
    if job.ended:
        return (Wait(str(folder), None, None, None, "ended", holder, (), (f"it has ended; {when}",)),)
    found = tuple(
        Wait(
            name, name, _window(table), None, NOT_RUNNING, f"{holder} to run", (),
            (said, when, *_promises(job), "start it again with the same command"),
        )
        for name, table in job.windows.items()
        if {START, STOP} <= set(table.column_names)
    )  # fmt: skip
    unread = tuple(f"the windows of {name} are not told: {reason}" for name, reason in job.unread.items())
    facts = (said, when, "no window was open then" if not unread else "no other window was open then", *unread)
    return found or (Wait(str(folder), None, None, None, NOT_RUNNING, f"{holder} to run", (), facts),)


def _window(table: pa.Table) -> Mapping[str, object]:
    """Return the window that ends first; a table does not tell the groups from the results."""
    row: dict[str, Any] = {}
    for name in (WINDOW, START, STOP):
        if name in table.column_names:
            field, value = table.schema.field(name), table.column(name)[0]
            if not value.is_valid and name in EDGES:
                row[name] = EDGES[name]
            elif pa.types.is_timestamp(field.type):
                row[name] = tick_text(value.value, field.type.unit)
            else:
                row[name] = str(value.as_py())
    return row


def _promises(job: JobState) -> Iterator[str]:
    """Yield how far the sources had promised, the one that is furthest behind first."""
    rows = [row for row in job.promises.to_pylist() if row["source"]]
    rows.sort(key=lambda row: (row["below"] is None, row["below"] or 0))
    for row in rows[:_SHOWN]:
        yield f"{row['operator']} had promised {row['attribute']} to {row['text']}"
    promised = {row["operator"] for row in rows}
    for row in job.sources.to_pylist():
        if row["source"] not in promised and not row["ended"]:
            yield f"{row['source']} had promised nothing"
