"""Compiled functions on arrays and scalars; this room sees numpy and numba alone."""
