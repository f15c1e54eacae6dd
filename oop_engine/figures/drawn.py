"""Figures that were drawn, as files of a folder: pictures (.svg), tables (.csv), and what was found (.json)."""

from __future__ import annotations

import datetime as dt
import json
import platform
import traceback
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.csv as pc

from oop_engine import __version__
from oop_engine.figures.figure import Check, Figure, Measured, Size, Verdict, check_columns
from oop_engine.figures.picture import svgs
from oop_engine.sinks.files import written

_CPUINFO: Final = Path("/proc/cpuinfo")


@attrs.frozen
class Drawn:
    """Hold the verdict of a figure that was measured, or the error of one that failed.

    - `name`: of the figure; `size`: as it was measured.
    - `verdict`: None if it failed; then `error` is the last line of the error, and `trace` all of it.
    - `notes`: on the data.
    - `pictures`: names of its pictures.
    - `seconds`: how long measuring and drawing took, on a clock.
    - `machine`, `day`, `version`: where, when and with what.
    """

    name: str
    size: str
    seconds: float
    verdict: Verdict | None = None
    notes: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    pictures: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    error: str = ""
    trace: str = attrs.field(default="", repr=False)
    machine: str = attrs.field(factory=lambda: machine())
    day: str = attrs.field(factory=lambda: f"{dt.datetime.now(dt.UTC):%Y-%m-%d}")
    version: str = __version__

    @property
    def outcome(self) -> str:
        """Say in a word what came of it."""
        return "failed" if self.verdict is None else self.verdict.outcome


def machine() -> str:
    """Describe the processor, the system and Python."""
    model = platform.machine()
    if _CPUINFO.exists():
        lines = _CPUINFO.read_text(errors="replace").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, {platform.system()}, Python {platform.python_version()}"


def draw(figure: Figure, size: Size, folder: Path) -> Drawn:
    """Measure a figure, judge it, and write its files; an error of the figure is written down, not raised.

    - `figure`: what to measure.
    - `size`: how large.
    - `folder`: where its files go; must be there.

    PlanError if matplotlib is not installed.
    """
    begun = monotonic()
    try:
        measured = figure.measure(size)
        check_columns(figure, measured)
        verdict = figure.judge(measured)
        pictures = svgs(figure, measured)
    # One figure that fails must not take the others with it; the report shows the error.
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip()
        drawn = Drawn(figure.name, size.name, monotonic() - begun, error=last, trace=traceback.format_exc())
    else:
        for name, picture in pictures.items():
            _write(folder / f"{name}.svg", picture.encode())
        _write(folder / f"{figure.name}.csv", csv(measured))
        drawn = Drawn(figure.name, size.name, monotonic() - begun, verdict, measured.notes, tuple(pictures))
    said = attrs.asdict(drawn)
    _write(folder / f"{figure.name}.json", json.dumps(said, indent=1, ensure_ascii=False).encode())
    return drawn


def _write(path: Path, content: bytes) -> None:
    with written(path, example="figures") as file:
        file.write(content)


def csv(measured: Measured) -> bytes:
    """Write a table as CSV."""
    out = pa.BufferOutputStream()
    pc.write_csv(measured.table, out, pc.WriteOptions(quoting_style="needed"))
    return bytes(out.getvalue())


def read(names: Iterable[str], folder: Path) -> dict[str, Drawn]:
    """Return what is known of those of these figures that were drawn into a folder; files of other versions too."""
    found: dict[str, Drawn] = {}
    fields = {field.name for field in attrs.fields(Drawn)}
    for name in names:
        path = folder / f"{name}.json"
        if not path.is_file():
            continue
        said = {key: value for key, value in json.loads(path.read_text()).items() if key in fields}
        if said["verdict"] is not None:
            checks = [Check(**check) for check in said["verdict"]["checks"]]
            said["verdict"] = Verdict(said["verdict"]["outcome"], checks, why=said["verdict"]["why"])
        found[name] = Drawn(**said)
    return found
