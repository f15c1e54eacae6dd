"""What a join leaves plain and what it indexes, beside joins that always do the same.

    python tests/benchmarks/bench_join_choice.py [tuples] [runs] [case]

Each case is a workload: how keys are skewed, how far the right input is behind the left one, pages, volumes, bands, and
whether pairs come out or are counted. Each join takes its turn in each run; its time is the least of its runs, in CPU
seconds. All pairs are compared by their number and a sum over them. A line shows each time as a multiple of the best
fixed join's: all tuples indexed at once, none ever, and pages indexed after 2 to 32 looks.

The same is said of indexed tuples run a second time, which shows how much chance there is in these numbers.
"""

from __future__ import annotations

import sys
from statistics import median

from oop_engine.figures.extra.join_choice import BY_DELAY, BY_SKEW, CHOSEN, INDEXED, Answer, Case, joins, run

CASES = (
    *BY_SKEW,
    *BY_DELAY,
    Case("pages of 100", pages=(100, 100), part=0.2),
    Case("pages of 100, delay of two", pages=(100, 100), delay="2", part=0.2),
    Case("pages of 50,000", pages=(50_000, 50_000), part=5),
    Case("left ten times the right", every=(1, 10)),
    Case("right ten times the left", every=(10, 1)),
    Case("left 100 times the right", every=(1, 100)),
    Case("left 100 times, delay of ten", every=(1, 100), delay="10"),
    Case("1000 times, thin right", every=(1, 1000), pages=(4096, 4)),
    Case("100 times, thin right", every=(1, 100), pages=(4096, 4)),
    Case("wide", near=16),
    Case("narrow", near=0.2),
    Case("narrow, delay of ten", near=0.2, delay="10"),
    Case("counted", counted=True),
    Case("counted, wide, Zipf 1.0", "1.0", near=16, counted=True),
)
SWEEP = (2, 4, 8, 16, 32)
AGAIN = "indexed again"


def compare(case: Case, tuples: int, runs: int) -> float:
    """Print what each join takes; how far the chosen one is from the best fixed."""
    script, times = case.script(tuples), dict[str, list[float]]()
    answers: set[Answer] = set()
    works = dict(joins(case, SWEEP))
    works[AGAIN] = works[INDEXED]
    for _ in range(runs):
        for name, make in works.items():
            spent, answer = run(make, script)
            times.setdefault(name, []).append(spent)
            answers.add(answer)
    assert len(answers) == 1, (case, answers)
    least = {name: min(spent) for name, spent in times.items()}
    best = min(s for name, s in least.items() if name not in (CHOSEN, AGAIN))
    print(f"{case.name:30}{best * 1e3:8.1f} ms" + "".join(f"{s / best:9.2f}" for s in least.values()), flush=True)
    return least[CHOSEN] / best


def main(tuples: int, runs: int, only: str) -> None:
    cases = [case for case in CASES if only in case.name]
    for make in joins(cases[0], SWEEP).values():
        run(make, cases[0].script(tuples // 10))
    names = [name.removesuffix(" looks").replace(" again", "2") for name in (*joins(cases[0], SWEEP), AGAIN)]
    print(f"{'':30}{'best fixed':>11}" + "".join(f"{name:>9}" for name in names))
    ratios = [compare(case, tuples, runs) for case in cases]
    print(
        f"chosen: {sum(r <= 1.1 for r in ratios)} of {len(ratios)} within 10 % of the best fixed join, median"
        f" {median(ratios):.2f}, most {max(ratios):.2f}"
    )


if __name__ == "__main__":
    given = [int(float(text)) for text in sys.argv[1:3]]
    size, turns = [*given, *(100_000, 3)[len(given) :]]
    main(size, turns, sys.argv[3] if len(sys.argv) > 3 else "")
