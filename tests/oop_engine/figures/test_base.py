"""What all figures share: verdicts, pictures, files, the report and the command."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import attrs
import pyarrow.csv as pc
import pytest
from click.testing import CliRunner, Result

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.figures import catalogue
from oop_engine.figures.drawn import draw, read
from oop_engine.figures.figure import Axis, Check, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, cores
from oop_engine.figures.page import page
from oop_engine.figures.picture import svgs
from tests.oop_engine.figures.made_up import FAILING, FIGURE, ROWS, measure

TINY = Size("tiny")
VOID = {"meta"}
OPTIONAL = {"li", "tr", "td", "th", "p"}


class Parsed(HTMLParser):
    """Keep what a page has: links inside it, ids, and tags that are left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [str(found["href"])] if tag == "a" else []
        self.loads += [tag] if tag in ("script", "link", "img", "iframe") or "src" in found else []
        if tag not in VOID | OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in OPTIONAL:
            assert self.open.pop() == tag


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalogue be two figures: one that is made up, and one that fails."""
    monkeypatch.setattr(catalogue.thesis, "FIGURES", (FIGURE, FAILING))
    monkeypatch.setattr(catalogue.hammer, "FIGURES", ())
    monkeypatch.setattr(catalogue.scotty, "FIGURES", ())
    monkeypatch.setattr(catalogue.beyond, "FIGURES", ())
    monkeypatch.setattr(catalogue.extra, "FIGURES", ())


def command(*arguments: object) -> Result:
    return CliRunner().invoke(commands, ["figures", *map(str, arguments)])


def test_a_claim_holds_if_all_its_parts_do() -> None:
    yes, no = Check(True, "1 < 2"), Check(False, "2 < 1")
    assert Verdict.of(yes, yes).outcome == "holds"
    assert Verdict.of(yes, yes, why="never said").why == ""
    assert attrs.astuple(Verdict.of(yes, no, why="it is not"))[::2] == ("does not hold", "it is not")


def test_series_that_disagree_are_named_and_nothing_is_timed() -> None:
    with pytest.raises(oop.PlanError, match='"lazy" and "eager" give different answers') as error:
        agreed({"lazy": [1, 2], "other": [1, 2], "eager": [1, 3]})
    assert "[1, 3]" in str(error.value)
    assert agreed({"lazy": [1], "eager": [1]}) == [1]


def test_the_median_of_alternate_runs_leaves_out_the_first() -> None:
    order: list[str] = []
    first, second = iter([100.0, 1.0, 9.0, 2.0]), iter([0.0, 5.0, 5.0, 6.0])

    def work(name: str, values: object) -> float:
        order.append(name)
        return next(values)  # type: ignore[call-overload]

    found = alternate({"a": lambda: work("a", first), "b": lambda: work("b", second)}, 3)
    assert (found, "".join(order)) == ({"a": 2.0, "b": 5.0}, "abababab")


@pytest.mark.parametrize("shape", ["lines", "points", "bars"])
def test_a_picture_is_whole_light_and_dark(shape: str) -> None:
    figure = attrs.evolve(FIGURE, shape=shape, ys=[Axis("tuples", "tuples"), Axis("tuples", "closer", most=2)])
    drawn = svgs(figure, measure(TINY))
    assert list(drawn) == ["0-1a", "0-1b"]
    assert drawn == svgs(figure, measure(TINY))
    for name, text in drawn.items():
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = "|".join(root.itertext())
        assert all(part in texts for part in ("IOP", "OOP", "Skew & memory", "skew, s", "prefers-color-scheme: dark"))
        ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        assert len(ids) == len(set(ids)) and all(each.startswith(f"f{name}-") for each in ids)
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', text)) <= set(ids)
        # Every colour has its partner on dark ground.
        used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", re.sub("<style>.*?</style>", "", text)))
        assert used and all(f': {colour}"] {{' in text for colour in used)


def test_nine_lines_all_look_different() -> None:
    rows = [{"series": f"series {number}", "skew": x, "tuples": x + number} for number in range(9) for x in (0, 1)]
    (text,) = svgs(FIGURE, Measured.of(rows)).values()
    lines = re.findall(r'style="(fill: none;[^"]*stroke-width: 1.6[^"]*)"', text)
    assert len(lines) == len(set(lines)) == 9


def test_labels_at_the_ends_of_lines_do_not_touch() -> None:
    rows = [{"series": f"s{n}", "skew": x, "tuples": 5 + n / 100 * x} for n in range(5) for x in (0, 1)]
    (text,) = svgs(FIGURE, Measured.of(rows)).values()
    heights = sorted(float(y) for y in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>s\d</text>', text))
    assert len(heights) == 5
    assert all(below - above > 9 for above, below in pairwise(heights))


@pytest.mark.usefixtures("figures")
def test_a_report_stands_alone_and_shows_the_figures_that_failed(tmp_path: Path) -> None:
    for figure in (FIGURE, FAILING):
        draw(figure, TINY, tmp_path)
    found = read(["0-1", "0-2", "0-3"], tmp_path)
    assert {name: each.outcome for name, each in found.items()} == {"0-1": "holds", "0-2": "failed"}
    text = page([FIGURE, FAILING], found, tmp_path)
    parsed = Parsed(text)
    assert (parsed.open, parsed.loads) == ([], [])
    assert parsed.links == ["#figure-0-1", "#figure-0-2"] and {"figure-0-1", "figure-0-2"} <= set(parsed.ids)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "Skew &amp; memory" in text and "&lt;of nothing&gt;" in text and "yes</span>: 3 &lt; 9" in text
    assert "ValueError: no tiny numbers" in text and "Traceback" in text
    assert "2 of 2 figures are drawn: 1 holds, 1 failed" in text
    assert [row["tuples"] for row in pc.read_csv(tmp_path / "0-1.csv").to_pylist()] == [row["tuples"] for row in ROWS]


def test_a_table_without_a_column_of_its_axes_is_refused(tmp_path: Path) -> None:
    lacking = attrs.evolve(FIGURE, measure=lambda _: Measured.of([{"series": "OOP", "skew": 1}]))
    drawn = draw(lacking, TINY, tmp_path)
    assert drawn.outcome == "failed" and "lacks tuples" in drawn.error
    assert "1 rows of series, skew" in drawn.error and not (tmp_path / "0-1.csv").exists()


@pytest.mark.usefixtures("figures")
def test_the_command_draws_what_is_named_and_keeps_the_rest(tmp_path: Path) -> None:
    done = command("0-1", "--out", tmp_path / "new")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "0-1 holds" in done.stderr and "index.html" in done.stderr
    other = command("0-2", "--out", tmp_path / "new")
    assert other.exit_code == 3 and "0-2 failed" in other.stderr
    text = (tmp_path / "new" / "index.html").read_text()
    assert 'id="figure-0-1"' in text and 'id="figure-0-2"' in text and "made up at size small" in text
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "0-1.csv", "0-1.json", "0-1.svg", "0-2.json", "index.html"
    }  # fmt: skip
    listed = command("--list", "--out", tmp_path / "new").stdout
    assert "0-1  Skew & memory (nobody; holds, size small" in listed and "    OOP holds less." in listed
    assert "not drawn yet" in command("--list", "--out", tmp_path / "other").stdout
    assert not (tmp_path / "other").exists()


def test_an_unknown_figure_is_corrected() -> None:
    done = command("tesis", "--list")
    assert (
        done.exit_code == 2 and 'there is no figure "tesis"' in done.stderr and 'Did you mean "thesis"?' in done.stderr
    )
    assert [figure.name for figure in catalogue.chosen(["6-10", "6-8"])] == ["6-8", "6-10"]
    assert catalogue.chosen([]) == catalogue.chosen(sorted({figure.paper for figure in catalogue.figures().values()}))


def test_without_matplotlib_figures_are_listed_and_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oop_engine.figures.picture.find_spec", lambda name: None)
    done = command("6-8", "--out", tmp_path / "new")
    assert done.exit_code == 2 and 'pip install "oop-engine[plot]"' in done.stderr
    assert not (tmp_path / "new").exists()
    assert command("--list").exit_code == 0


@pytest.mark.usefixtures("figures")
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = command("0-1", "--out", tmp_path / "file" / "new")
    assert refused.exit_code == 2 and "Traceback" not in refused.stderr and "0-1" not in refused.stderr
    assert f'figures cannot be written to "{tmp_path / "file" / "new"}": Not a directory.' in refused.stderr
    assert "Name a folder that you may write to, e.g. --out figures." in refused.stderr


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64
