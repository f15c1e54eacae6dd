"""A plan in words: a tree from the output up to the sources, each node with its attributes, promises and choices."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

import attrs

from oop_engine.plan.graph import Plan
from oop_engine.report.bounds import Bound
from oop_engine.report.facts import Facts, facts

WIDTH: Final = 96
"""Columns a line may have; a tree too deep for that still gets 40 for its text."""


def explain(
    plan: Plan,
    *,
    width: int = WIDTH,
    threads: int = 1,
    bound: Bound | None = None,
    seen: Sequence[Sequence[str]] = (),
) -> str:
    """Write a plan as text, outputs first; a node with several readers is written once and then referred to.

    Of several `threads` it says which operators share their work among them, and why others do not; with
    a `bound` of the memory, what each does beyond it; `seen` is what each chose in a run of the plan, and why.
    """
    found = facts(plan, threads, bound=bound, seen=seen)
    tree = _Tree(found, width)
    parts: list[str] = []
    for number, output in enumerate(plan.outputs):
        if len(plan.outputs) > 1:
            parts.append(f"output {number}")
        tree.write(plan.position(output))
        parts += tree.taken()
    return "\n".join(parts)


@attrs.define
class _Tree:
    found: tuple[Facts, ...]
    width: int
    _lines: list[str] = attrs.field(factory=list, init=False)
    _numbers: dict[int, int] = attrs.field(factory=dict, init=False)
    """The numbers of shared nodes that have been written, by place."""

    def write(self, place: int) -> None:
        """Write the tree under a node; a path from output to source may be longer than Python's stack is deep."""
        stack: list[tuple[int, str, str]] = [(place, "", "")]
        while stack:
            at, first, rest = stack.pop()
            node = self.found[at]
            if at in self._numbers:
                self._lines.append(f"{first}{node.label} [see {self._numbers[at]} above]")
                continue
            mark = ""
            if node.readers > 1:
                self._numbers[at] = len(self._numbers) + 1
                mark = f"[{self._numbers[at]}] "
            self._describe(node, first, rest, mark)
            last = len(node.inputs) - 1
            for port in range(last, -1, -1):
                corner, line = ("└─ ", "   ") if port == last else ("├─ ", "│  ")
                stack.append((node.inputs[port], rest + corner, rest + line))

    def _describe(self, node: Facts, first: str, rest: str, mark: str) -> None:
        below = rest + ("│  " if node.inputs else "   ")
        self._wrap(mark + node.label, first, below + "  ")
        self._fact("attributes", node.attributes, below)
        self._fact("punctuated", f"on {node.promises}" if node.promised else _unpromised(node), below)
        for remark in node.remarks:
            self._wrap(remark, below + "- ", below + "  ")

    def _fact(self, head: str, text: str, prefix: str) -> None:
        self._wrap(text, f"{prefix}{head:<11} ", prefix + " " * 12)

    def _wrap(self, text: str, first: str, rest: str) -> None:
        width = max(self.width, len(rest) + 40)
        self._lines += textwrap.wrap(
            text or "-",
            width,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            drop_whitespace=True,
        )

    def taken(self) -> list[str]:
        """Return the lines written since the last call."""
        lines, self._lines = self._lines, []
        return lines


def _unpromised(node: Facts) -> str:
    if node.source:
        return "on nothing before its end: nothing downstream asks for it"
    return "on nothing before its end"
