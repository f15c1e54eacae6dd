"""Let a source that can be read only once be read once: a second reader gets an error, not nothing or half the rows."""

from __future__ import annotations

import attrs

from oop_engine.sources.errors import SourceError


@attrs.define(eq=False)
class Turn:
    """The one reading that a pipe or an iterator allows."""

    taken: bool = attrs.field(init=False, default=False)

    def take(self, name: str) -> None:
        """Take the turn; SourceError when it is gone."""
        if self.taken:
            raise SourceError(
                f"{name} can be read only once, and was read already: in an earlier run, or elsewhere in this plan.\n"
                "  Make the stream anew for another run. In one plan share one handle; where only a part of the plan\n"
                "  uses arrival_ts, open the stream with arrival_ts=True."
            )
        self.taken = True
