"""Ask any run what it waits for: one of this program, one of another process, or one that ended or was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oop_engine.api.running import Running
from oop_engine.api.started import Started
from oop_engine.drive.checkpoints.store import CURRENT
from oop_engine.drive.checkpoints.unreleased import waits
from oop_engine.drive.outcome import Outcome
from oop_engine.drive.run_socket import ask
from oop_engine.drive.why import Wait
from oop_engine.errors import NotRunning

_TOLD: Final = 3
"""Late tuples of a source that a sentence tells."""


def why(run: Running | Started | Outcome | str | Path | int) -> tuple[Wait, ...]:
    """Return what each output of a run waits for: its next window, the promise that this lacks, who does not make it.

    - `run`: what `start()` or `run()` gave, the folder of a job (`checkpoint`), or the number of a process.

    A job that does not run is answered for by its last checkpoint, and a run that has ended by its counts. NotRunning
    where no run is there, or it does not answer; CheckpointError where the checkpoint is damaged.

    >>> per_host = oop.packets(20_000).window(range="1 s").aggregate(oop.count(), by="srcIP")
    >>> [wait.cause for wait in oop.why(per_host.run())]
    ['ended']
    >>> ran = per_host.to("hosts.csv").run(checkpoint="hosts")
    >>> [wait.cause for wait in oop.why("hosts")]
    ['ended']
    """
    if isinstance(run, Running):
        return (run.why(),)
    if isinstance(run, Started):
        return run.why()
    if isinstance(run, Outcome):
        return _ended(run)
    try:
        answer = ask(run, "why")["why"]
    except NotRunning as error:
        if isinstance(run, int) or not (Path(run).expanduser() / CURRENT).is_file() or error.answers:
            raise
        return waits(run, str(error).rstrip("."))
    assert isinstance(answer, list)
    return tuple(map(Wait.from_json, answer))


def _ended(run: Outcome) -> tuple[Wait, ...]:
    """Say that a run has ended, and which of its tuples were late."""
    statistics = run.statistics
    label = statistics.operators[-1].label if statistics.operators else "the run"
    late = [
        f"{o.label} left out {o.details['late']:,} late tuples" for o in statistics.operators if o.details.get("late")
    ]
    late += [f"{o.label}: {one}" for o in statistics.operators for one in o.late_tuples[:_TOLD]]
    how = "it was interrupted: windows that were open were not released" if statistics.interrupted else "it has ended"
    return (Wait(label, None, None, None, "ended", "the run", (), (how, *late)),)
