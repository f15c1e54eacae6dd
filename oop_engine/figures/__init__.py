"""Draw the figures of the papers anew, each measured here on generated data beside what its paper claims.

Only `oop-engine figures` loads this package. A figure is a `Figure` in one of the folders here, by paper; see
docs/figures.md for how to add one.
"""
