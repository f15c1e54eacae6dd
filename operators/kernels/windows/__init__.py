"""Kernels of window arithmetic, and of aggregates carried from window to window."""
