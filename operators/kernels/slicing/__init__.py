"""Kernels of the slicing store."""
