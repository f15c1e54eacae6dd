"""Kernels of aggregate functions: update, combine and finalize states by slot."""
