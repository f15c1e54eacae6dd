"""The promises on an attribute: a bound for all exporters, and one for each exporter that is further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import pyarrow as pa

from operators.data.saved import read_batch, read_int
from operators.protocol import State, StateValue
from punctuation import NO_TIME, Punctuation, before, group_punctuation

EXPORTER: Final = "exporter"
_OWN: Final = pa.schema([(EXPORTER, pa.binary(16)), ("bound", pa.int64()), ("certain", pa.int64())])


@attrs.define
class Promised:
    """The promises on one attribute: for all, the part that was not assumed, and for each exporter."""

    bound: int = NO_TIME
    certain: int = NO_TIME
    own: dict[bytes, int] = attrs.field(factory=dict)
    own_certain: dict[bytes, int] = attrs.field(factory=dict)

    def state(self, attribute: str) -> State:
        """Return it for saving, under names that end with the attribute's."""
        rows = [
            {EXPORTER: address, "bound": bound, "certain": self.own_certain.get(address)}
            for address, bound in self.own.items()
        ]
        return {
            f"bound of {attribute}": self.bound,
            f"certain of {attribute}": self.certain,
            f"own of {attribute}": pa.RecordBatch.from_pylist(rows, schema=_OWN),
        }

    def until(self, given: int) -> Promised:
        """Return what of it is not beyond a bound."""
        if given >= self.bound:
            return self
        return Promised(given, min(given, self.certain))

    @classmethod
    def restored(cls, state: Mapping[str, StateValue], attribute: str) -> Promised:
        """Return what was saved of an attribute."""
        own = read_batch(state, f"own of {attribute}").to_pylist()
        return cls(
            read_int(state, f"bound of {attribute}"),
            read_int(state, f"certain of {attribute}"),
            {row[EXPORTER]: row["bound"] for row in own},
            {row[EXPORTER]: row["certain"] for row in own if row["certain"] is not None},
        )

    def repeated(self, attribute: str) -> list[Punctuation]:
        """Say once more what holds of an attribute."""
        of_all = [before(attribute, self.bound, assumed=self.certain < self.bound)] if self.bound > NO_TIME else []
        own = [(who, bound, self.own_certain.get(who) != bound) for who, bound in self.own.items()]
        return of_all + to_each(attribute, own)


def to_each(attribute: str, own: Sequence[tuple[bytes, int, bool]]) -> list[Punctuation]:
    """Promise of exporters, each with a bound of its own, which may be assumed."""
    alike: dict[tuple[int, bool], list[tuple[bytes]]] = {}
    for address, bound, assumed in own:
        alike.setdefault((bound, assumed), []).append((address,))
    return [
        attrs.evolve(punctuation, assumed=assumed)
        for (bound, assumed), addresses in sorted(alike.items())
        for punctuation in group_punctuation(((EXPORTER,), attribute), addresses, bound)
    ]
