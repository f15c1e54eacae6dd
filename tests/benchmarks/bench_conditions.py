"""Three conditions joined by AND, beside filters of one condition each in every order: microseconds a page.

    python tests/benchmarks/bench_conditions.py [tuples a page] [runs]

A pattern of text, a comparison of numbers and a membership, written in this order. Ways take turns, and keep equally
many tuples. "alone" are the conditions by themselves.
"""

from __future__ import annotations

import itertools
import sys
from statistics import median
from time import process_time

import numpy as np
import pyarrow as pa

from oop_engine.language.expressions import parse_expression
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from operators.rows.filter import Filter

SCHEMA = Schema.of(ts=pa.int64(), url=pa.string(), length=pa.int64(), port=pa.int64())
AMONG = "port IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 80, 443)"
CASES = {
    "the number keeps 2 %": ("url LIKE '%7/item-1%'", "length > 1470", AMONG),
    "the number keeps half": ("url LIKE '%7/item-1%'", "length > 750", AMONG),
    "all keep nine tenths": ("url LIKE '%item-%'", "length > 150", "port > 100"),
    "numbers alone": ("ts < 100", "length > 150", "port > 100"),
}
PAGES = 12


def page(n: int, rng: np.random.Generator) -> Page:
    numbers = zip(rng.integers(0, 100, n).tolist(), rng.integers(0, 10**6, n).tolist(), strict=True)
    texts = [f"/path/{a}/item-{b}.html" for a, b in numbers]
    columns = {"ts": np.arange(n), "length": rng.integers(0, 1500, n), "port": rng.integers(0, 1000, n)}
    return Page.of(SCHEMA, {**columns, "url": pa.array(texts)})


def kept(filters: list[Filter], pages: list[Page]) -> int:
    """Give how many tuples pass all filters."""
    total = 0
    for each in pages:
        found = [each]
        for one in filters:
            passed: list[Element] = []
            for some in found:
                one.process(some, passed.append)
            found = [some for some in passed if isinstance(some, Page)]
        total += sum(map(len, found))
    return total


def main(n: int = 8_192, runs: int = 9) -> None:
    """Print a line a case."""
    rng = np.random.default_rng(1)
    pages = [page(n, rng) for _ in range(PAGES)]
    for name, texts in CASES.items():
        parts = [parse_expression(text, SCHEMA) for text in texts]
        ways = {"AND": [Filter(parse_expression(" AND ".join(texts), SCHEMA))]}
        for order in itertools.permutations(range(3)):
            ways[", then ".join(map(str, order))] = [Filter(parts[i]) for i in order]
        ways |= {f"{i} alone": [Filter(part)] for i, part in enumerate(parts)}
        for one in itertools.chain.from_iterable(ways.values()):
            one.output_schema(SCHEMA)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        found = dict[str, int]()
        for _ in range(runs):
            for way, filters in ways.items():
                begun = process_time()
                found[way] = kept(filters, pages)
                seconds[way].append(process_time() - begun)
            assert len({many for way, many in found.items() if "alone" not in way}) == 1, found
        print(f"{name}: {found['AND']:,} of {n * PAGES:,} tuples")
        for way, spent in seconds.items():
            print(f"  {way:18}{1e6 * median(spent) / PAGES:10.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
