"""The page in a browser: names stay text, nothing is loaded from elsewhere, it fits a phone, and keys reach all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oop_engine.page.address import Address
from oop_engine.page.feed import Feed, Results
from oop_engine.page.record import Record
from oop_engine.page.serving import Served
from operators.data.page import Page
from tests.oop_engine.page.test_page import HOSTILE, running

LESSON = Path(__file__).parents[3] / "demos" / "joint_promises.oop"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.slow

CONTRASTS = """
() => {
  const parts = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [r, g, b] = parts(text).map((one) => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const boxed = at.matches(".box");
      const color = boxed ? getComputedStyle(at.querySelector("rect")).fill : getComputedStyle(at).backgroundColor;
      if (parts(color).length === 3 || parts(color)[3] === 1) return color;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const found = [];
  for (const node of document.querySelectorAll("p, h1, h2, td, th button, text, output, li")) {
    if (!node.textContent.trim() || node.closest("[hidden]") || node.closest("noscript")) continue;
    const style = getComputedStyle(node);
    const both = [light(node.matches("text") ? style.fill : style.color), light(ground(node))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    found.push([ratio, `${node.tagName}.${node.getAttribute("class")} ${node.textContent.slice(0, 30)}`]);
  }
  return found;
}
"""
"""Gives the contrast of each text with what it stands on, as WCAG measures it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt install chromium")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def page() -> Iterator[Served]:
    """Serve a run that waits for a source of a hostile name."""
    run, rest = running(HOSTILE)
    feed = Feed(Results(run.plan.outputs[0].schema))
    feed.take(run.circuit)
    assert feed.results is not None
    feed.results.take(next(element for element in rest if isinstance(element, Page)))
    with Served.of_plan(Address.of("127.0.0.1:0"), run.plan, feed, HOSTILE) as served:
        yield served


@pytest.fixture(scope="module")
def lesson() -> Iterator[Served]:
    """Serve a record, which has a slider."""
    record = Record(LESSON)
    with Served(Address.of("127.0.0.1:0"), record.title, record.outlined, record) as served:
        yield served


def opened(browser: Any, page: Served, **options: Any) -> tuple[Any, list[str]]:
    """Open the page, and give it with what went wrong or elsewhere."""
    shown, wrong = browser.new_page(**options), list[str]()
    shown.on("pageerror", lambda error: wrong.append(str(error)))
    shown.on("console", lambda message: wrong.append(message.text))
    shown.on("dialog", lambda dialog: wrong.append(dialog.message))
    shown.on("request", lambda request: request.url.startswith(page.url) or wrong.append(request.url))
    shown.goto(page.url)
    shown.wait_for_selector("#lanes svg")
    return shown, wrong


def test_a_hostile_name_is_text_and_nothing_is_loaded_from_elsewhere(browser: Any, page: Served) -> None:
    shown, wrong = opened(browser, page)
    shown.wait_for_selector("#nodes td")
    named = "<img src=x onerror=alert(1)>\\x1b[31m\\u202e"
    assert named in shown.inner_text("#why") and named in shown.inner_text("h1")
    assert named in shown.inner_text("#nodes")
    assert shown.evaluate("document.images.length") == 0 and wrong == []
    assert shown.evaluate("document.cookie") == "" and shown.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(browser: Any, page: Served, scheme: str) -> None:
    shown, _ = opened(browser, page, color_scheme=scheme)
    shown.wait_for_selector("#results td")
    faint = [(round(ratio, 2), text) for ratio, text in shown.evaluate(CONTRASTS) if ratio < 4.5]
    assert faint == [] and len(shown.evaluate(CONTRASTS)) > 20


def test_it_fits_a_phone(browser: Any, page: Served) -> None:
    shown, _ = opened(browser, page, viewport={"width": 360, "height": 740})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_small_plan_is_not_blown_up(browser: Any, page: Served) -> None:
    shown, _ = opened(browser, page, viewport={"width": 1600, "height": 900})
    wide = "document.querySelector('#graph svg')"
    assert shown.evaluate(f"{wide}.clientWidth <= {wide}.viewBox.baseVal.width + 1")


def test_keys_reach_boxes_and_sort_tables(browser: Any, page: Served) -> None:
    shown, wrong = opened(browser, page)
    shown.focus(".box.operator")
    assert "promises:" in shown.inner_text("#told")
    shown.focus("#nodes th:nth-child(2) button")
    shown.keyboard.press("Enter")
    assert shown.get_attribute("#nodes th:nth-child(2)", "aria-sort") == "descending"
    shown.keyboard.press("Enter")
    cells = "[...document.querySelectorAll('#nodes td:nth-child(2)')]"
    numbers = shown.evaluate(f"{cells}.map((td) => Number(td.textContent))")
    assert numbers == sorted(numbers) and wrong == []


@pytest.mark.parametrize(("name", "scheme"), [("page", "light"), ("lesson", "dark")])
def test_axe_finds_nothing(browser: Any, request: pytest.FixtureRequest, name: str, scheme: str) -> None:
    """All rules of axe-core, also those that are best practice alone."""
    api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    shown, _ = opened(browser, request.getfixturevalue(name), color_scheme=scheme)
    shown.wait_for_selector("#nodes td")
    found = api.Axe().run(shown).response
    broken = [(rule["id"], [node["html"][:80] for node in rule["nodes"]]) for rule in found["violations"]]
    assert broken == [] and len(found["passes"]) > 30


def test_tab_goes_through_all_there_is_and_out_again(browser: Any, lesson: Served) -> None:
    shown, _ = opened(browser, lesson)
    shown.wait_for_selector("#nodes td")
    there = shown.evaluate(
        "() => { const all = [...document.querySelectorAll('button, input, [tabindex=\"0\"]')];"
        " window.all = all.filter((one) => one.checkVisibility()); return window.all.length; }"
    )
    reached = list[int]()
    for _ in range(there + 1):
        shown.keyboard.press("Tab")
        reached.append(shown.evaluate("window.all.indexOf(document.activeElement)"))
    assert reached[:there] == list(range(there)) and reached[there] in (-1, 0) and there > 15


def test_arrows_move_through_the_moments(browser: Any, lesson: Served) -> None:
    shown, wrong = opened(browser, lesson)
    shown.focus("#moment")
    for _ in range(3):
        shown.keyboard.press("ArrowRight")
    shown.wait_for_selector("#moment-text:text-matches('^4 of')")
    shown.keyboard.press("End")
    shown.wait_for_selector("#why:has-text('ended')")
    assert shown.inner_text("#why").startswith("Output 0: ") and wrong == []


def test_it_prints_whole(browser: Any, lesson: Served) -> None:
    """On paper nothing can be scrolled to, and no part is cut."""
    shown, _ = opened(browser, lesson, viewport={"width": 720, "height": 1000})
    shown.wait_for_selector("#nodes td")
    shown.emulate_media(media="print")
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => getComputedStyle(one).overflowX !== 'visible')"
    assert shown.evaluate(f"{cut}.length") == 0 and shown.evaluate("document.documentElement.scrollWidth") <= 720
    assert not shown.is_visible("#play") and shown.pdf(format="A4")[:4] == b"%PDF"
