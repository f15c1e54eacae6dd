"""Kernels of alerts."""
