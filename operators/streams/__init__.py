"""Operators for the order and the promises of streams: input, guard, meld, merge, reorder, clamp."""
