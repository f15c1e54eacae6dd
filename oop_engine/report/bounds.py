"""A bound is the memory that a plan is explained for, and its policy."""

from __future__ import annotations

import attrs

from oop_engine.plan.graph import Plan
from oop_engine.rewrite.lanes import Division, divisions


@attrs.frozen
class Bound:
    """Hold how many bytes the operators of a run may hold, None if that is not said, and what becomes of more."""

    policy: str = "spill"
    size: int | None = None

    def told(self, plan: Plan) -> list[str]:
        """Return what each node of a plan does beyond it, in the order of `plan.nodes`."""
        found = divisions(plan, to_disk=True)
        share = self._share(sum(bool(division.keys) for division in found))
        nodes = zip(plan.nodes, found, strict=True)
        if self.policy == "shed":
            return [division.shed(node, share) for node, division in nodes]
        if self.policy == "spill":
            return [division.spilled(share) for division in found]
        return [self._counted(division) for division in found]

    def _share(self, operators: int) -> str:
        if self.size is None or not operators:
            return "its share of the memory"
        share = amount(self.size // operators)
        return share if operators == 1 else f"{share}, its share of {amount(self.size)},"

    def _counted(self, division: Division) -> str:
        if not division.keys:
            return f"counts towards the limit: {division.why or 'it holds next to nothing'}"
        whole = "the limit" if self.size is None else amount(self.size)
        return f"counts towards the limit: the run ends where all operators hold more than {whole}"


def amount(size: float) -> str:
    """Return a number of bytes as people say it.

    >>> amount(1_500_000_000), amount(2_000)
    ('1.5 GB', '2.0 kB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1e3:.1f} kB"
