"""The Python interface: streams, windows, sources and results, as users call them."""
