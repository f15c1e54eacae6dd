"""Kernels of rates: which flows other flows count already."""
