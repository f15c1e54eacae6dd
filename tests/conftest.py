"""Which examples property tests try, and which tests are unit tests.

By default each property tries 50 random examples. The seed is the year and the week, so that everybody's runs of a week
try the same, and the next week's others; `--hypothesis-seed=7` takes another. `-m unit` tries a few fixed ones instead,
HYPOTHESIS_PROFILE=ci more of those that cost much, and nightly 1,000, with the day in the seed. One that fails is
printed with the line (`@reproduce_failure`) that repeats it. None has a deadline, as first calls compile.

Nobody marks a unit test: it is one that is not slow, and uses nothing OUTSIDE this process and nothing that is COMPILED
anew, neither itself nor through a function or a fixture of the tests. `longer.txt` lists those that are none because
they take a fifth of a second or more, all their parameters together; some are listed with one parameter alone. CI
sees to it that each is quick (`--most-seconds`).

Those that show what is in the papers are the tests that docs/papers.md names; `-m papers` runs exactly these.

OOP_LANE_ROWS=1 has lanes take pages of so many tuples, where a run has several threads (OOP_THREADS=3).

Every Java that a test starts, by whatever process, is one that starts fast.
"""

from __future__ import annotations

import datetime
import gc
import os
import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType

import pytest
from hypothesis import HealthCheck, settings

from operators.streams import lanes
from tests.examples import PROFILES, its_turn, take_turn, use

# A Java that runs a minute compiles for longer than it gains by it; no answer depends on these.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, BRIEF)

for name, examples in PROFILES.items():
    settings.register_profile(
        name,
        deadline=None,
        derandomize=name == "unit",
        max_examples=examples.plain,
        print_blob=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )

if rows := os.environ.get("OOP_LANE_ROWS"):
    lanes.ROWS = lanes.KEYED_ROWS = lanes.ENOUGH = int(rows)

# While modules are imported and tests collected, nearly nothing becomes garbage.
gc.disable()

HERE = os.path.dirname(__file__)
LONGER = set(Path(HERE, "longer.txt").read_text(encoding="utf-8").splitlines())
PAGE = Path(HERE, os.pardir, "docs", "papers.md")
PAPERS = set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else ())
"""Tests of what is in the papers, none where the page is not there: archives of the sources have no docs."""
OUTSIDE = {"subprocess", "multiprocessing", "socket", "signal", "matplotlib", "pyspark"}
COMPILED = {"user_aggregate", "UserAggregate", "EdgeWindow", "ContextWindow"}
"""What compiles functions of a user: they are not kept on disk, so that such a test takes a second or more."""
FOLDERS = {"live", "processes", "spark"}
"""Tests in these go outside by way of what they test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--in-turn", action="store_true", help="run tests of the fifth of the modules whose week it is")
    parser.addoption("--most-seconds", type=float, help="fail tests that take more CPU seconds, kernels being compiled")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples are tried, and the seed unless one is given."""
    profile = os.environ.get("HYPOTHESIS_PROFILE") or ("unit" if config.option.markexpr == "unit" else "default")
    use(profile)
    if config.option.hypothesis_seed is None:
        now = datetime.datetime.now(datetime.UTC)
        config.option.hypothesis_seed = f"{now:%G%V%u}" if profile == "nightly" else f"{now:%G%V}"
    seed = str(config.option.hypothesis_seed)
    take_turn(None if profile == "nightly" else int(seed) if seed.isdigit() else 0)


def pytest_report_header(config: pytest.Config) -> str:
    return f"properties: {settings.default.max_examples} examples, seed {config.option.hypothesis_seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests of the papers and unit tests; leave out modules whose turn it is not where a part is asked for."""
    if config.option.in_turn:
        others = [item for item in items if not its_turn(item.nodeid.partition("::")[0])]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if its_turn(item.nodeid.partition("::")[0])]
    known: dict[object, bool] = {}
    for item in items:
        if item.nodeid.partition("[")[0] in PAPERS:
            item.add_marker(pytest.mark.papers)
        inside = isinstance(item, pytest.Function) and not FOLDERS & set(item.path.parts)
        if (
            inside
            and not {item.nodeid, item.nodeid.partition("[")[0]} & LONGER
            and item.get_closest_marker("slow") is None
        ):
            fixtures = (f.func for found in item._fixtureinfo.name2fixturedefs.values() for f in found)
            if not any(goes_outside(function, known) for function in (item.obj, *fixtures)):
                item.add_marker(pytest.mark.unit)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Leave what was imported and collected out of garbage collections, and have few of them: a sixth of the time.

    A process that hands tests out to others collects none, but comes here, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once and leave out what stays: pytest collects five times at its end, each time all there is."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    began = time.process_time()
    result = yield
    most, took = item.config.option.most_seconds, time.process_time() - began
    if most is not None and took > most:
        pytest.fail(
            f"It took {took:.1f} s of CPU time. Make it smaller, list it in tests/longer.txt, or mark it slow.",
            pytrace=False,
        )
    return result


def goes_outside(function: object, known: dict[object, bool]) -> bool:
    """Say whether a function of the tests uses what is outside, itself or through what it uses of the tests."""
    if isinstance(function, MethodType | staticmethod | classmethod):
        function = function.__func__
    if isinstance(function, FunctionType) and "hypothesis" in vars(function):
        function = vars(function)["hypothesis"].inner_test
    if not isinstance(function, FunctionType):
        function = getattr(function, "__wrapped__", function)  # of a function with a cache
    if not isinstance(function, FunctionType) or not function.__code__.co_filename.startswith(HERE):
        return False
    if function not in known:
        known[function] = False  # meanwhile, for what uses itself
        names = set(used(function.__code__))
        values = [function.__globals__[name] for name in names if name in function.__globals__]
        modules = {value.__name__ for value in values if isinstance(value, ModuleType)}
        names |= {type(value).__name__ for value in values}
        methods = [method for value in values if isinstance(value, type) for method in vars(value).values()]
        known[function] = bool((names | modules) & (OUTSIDE | COMPILED)) or any(
            goes_outside(v, known) for v in values + methods
        )
    return known[function]


def used(code: CodeType) -> Iterator[str]:
    """Give the names in a piece of code, and in the functions within it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from used(inner)
