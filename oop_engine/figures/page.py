"""The report of all figures as one HTML page that stands alone: no script, no font, no file beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pc

from oop_engine.figures.drawn import Drawn
from oop_engine.figures.figure import SERIES, Figure
from oop_engine.figures.picture import amount

_MOST_ROWS: Final = 60
_STYLE: Final = """
:root { color-scheme: light dark; --back: #ffffff; --ink: #1f2329; --soft: #57606b; --line: #d5dae0; --good: #00643f;
  --bad: #a5212b; --none: #6b5600; --link: #0a5cad }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --ink: #e6edf4; --soft: #9ea7b2; --line: #30373f;
  --good: #4fd09a; --bad: #ff8f92; --none: #e3c94f; --link: #6cb6ff } }
* { box-sizing: border-box } html { background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
body { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem } a { color: var(--link) }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .25rem }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem }
p { max-width: 44rem; margin: .5rem 0 } .soft { color: var(--soft); font-size: .9rem }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0 } .pictures svg { flex: 1 1 22rem; min-width: 0;
  max-width: 40rem; height: auto } .wide { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums } th { font-weight: 600 }
th:first-child, td:first-child, .text td, .text th { text-align: left; white-space: normal; vertical-align: top }
.holds { color: var(--good) } .fails { color: var(--bad) } .open { color: var(--none) }
.verdict { font-weight: 600 } ul { margin: .4rem 0; padding-left: 1.2rem; max-width: 44rem } code { font-size: .9em }
pre { overflow-x: auto } summary { cursor: pointer; color: var(--link) }
:focus-visible { outline: 2px solid var(--link) }
"""
_CLASSES: Final = {"holds": "holds", "does not hold": "fails", "failed": "fails"}


def page(figures: Sequence[Figure], drawn: Mapping[str, Drawn], folder: Path) -> str:
    """Return the report of the figures that were drawn, with an index of verdicts, as HTML.

    - `figures`: all figures, in order.
    - `drawn`: what is known of each, by name.
    - `folder`: where pictures and tables are.
    """
    known = [figure for figure in figures if figure.name in drawn]
    counts: dict[str, int] = {}
    for figure in known:
        outcome = drawn[figure.name].outcome
        counts[outcome] = counts.get(outcome, 0) + 1
    summary = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items(), key=lambda item: -item[1]))
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Figures of the papers, measured with oop-engine</title><style>{_STYLE}</style></head><body><main>",
        "<h1>Figures of the papers, measured with oop-engine</h1>",
        f"<p>Each figure was measured again on generated data. {len(known)} of {len(figures)} figures are drawn:"
        f" {escape(summary)}. A verdict is computed from the numbers below it.</p>",
        '<div class="wide"><table class="text"><thead><tr><th>Figure<th>What it shows<th>Verdict</thead><tbody>',
        *(_index_row(figure, drawn[figure.name]) for figure in known),
        "</tbody></table></div>",
    ]
    for figure in known:
        lines += _section(figure, drawn[figure.name], folder)
    return "\n".join([*lines, "</main></body></html>\n"])


def _outcome(found: Drawn) -> str:
    return f'<span class="verdict {_CLASSES.get(found.outcome, "open")}">{escape(found.outcome)}</span>'


def _index_row(figure: Figure, found: Drawn) -> str:
    link = f'<a href="#figure-{figure.name}">{escape(figure.name)}</a>'
    return f"<tr><td>{link}<td>{escape(figure.title)} ({escape(figure.paper)})<td>{_outcome(found)}"


def _section(figure: Figure, found: Drawn, folder: Path) -> Iterator[str]:
    yield f'<section id="figure-{figure.name}"><h2>{escape(figure.name)}: {escape(figure.title)}</h2>'
    yield f'<p class="soft">{escape(figure.paper)}</p>'
    yield f"<p><b>Claim.</b> {escape(figure.claim)}</p><p><b>Here:</b> {_outcome(found)}.</p>"
    if found.verdict is None:
        trace = f"<details><summary>The whole error</summary><pre>{escape(found.trace)}</pre></details>"
        yield f"<p>{escape(found.error)}</p>{trace}"
    else:
        if found.verdict.why:
            yield f"<p><b>Why.</b> {escape(found.verdict.why)}</p>"
        yield "<ul>"
        for check in found.verdict.checks:
            word = '<span class="holds">yes</span>' if check.holds else '<span class="fails">no</span>'
            yield f"<li>{word}: {escape(check.says)}"
        yield "</ul>"
        pictures = [(folder / f"{name}.svg").read_text() for name in found.pictures]
        yield f'<div class="pictures">{"".join(pictures)}</div>'
        yield from (f'<p class="soft">{escape(note)}</p>' for note in found.notes)
        table = pc.read_csv(folder / f"{figure.name}.csv")
        yield f'<details><summary>The numbers</summary><div class="wide">{_table(figure, table)}</div></details>'
    command = f"oop-engine figures {figure.name}" + (" --paper" if found.size == "paper" else "")
    yield f'<p class="soft">Repeat it: <code>{command}</code>. It took {found.seconds:.1f} s at size {found.size},'
    yield f"version {escape(found.version)}, {found.day}, {escape(found.machine)}.</p></section>"


def _table(figure: Figure, table: pa.Table) -> str:
    """Write a table: a column a series where there is one y for each x, else as it is."""
    rows = table.to_pylist()
    names, x = table.column_names, figure.x.column
    series = list(dict.fromkeys(row[SERIES] for row in rows))
    if len(series) > 1 and len(names) == 3 and len({(row[SERIES], row[x]) for row in rows}) == len(rows):
        y = next(name for name in names if name not in (SERIES, x))
        wide: dict[object, dict[str, object]] = {}
        for row in rows:
            wide.setdefault(row[x], {})[row[SERIES]] = row[y]
        names, rows = [x, *series], [{x: place, **values} for place, values in wide.items()]
    head = "".join(f"<th>{escape(str(name).replace('_', ' '))}" for name in names)
    step = -(-len(rows) // _MOST_ROWS)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(name))}" for name in names) for row in rows[::step])
    said = (
        f'<p class="soft">Every {step}th of {len(rows):,} rows; all are in {figure.name}.csv.</p>' if step > 1 else ""
    )
    return f'<table><thead><tr>{head}</thead><tbody>{body}</tbody></table><p class="soft">{said}</p>'


def _cell(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return amount(value)
    return "" if value is None else escape(str(value))
