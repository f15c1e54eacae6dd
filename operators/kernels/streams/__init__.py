"""Kernels of progress: slack, clamps, and the measure of disorder."""
