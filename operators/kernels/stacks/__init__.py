"""Kernels of the stacks store: panes, and aggregates of every window by four techniques."""
