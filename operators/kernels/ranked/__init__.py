"""Kernels of windows that tuples define."""
