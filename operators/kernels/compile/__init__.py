"""Compile kernels, and keep the machine code on disk under a fingerprint of all it depends on."""
