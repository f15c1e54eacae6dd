"""Kernels of addresses, keys, decimals and packed rows."""
