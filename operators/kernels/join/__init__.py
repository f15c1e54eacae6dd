"""Kernels of window joins."""
