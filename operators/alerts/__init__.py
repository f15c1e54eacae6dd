"""Alerts over the results of windows: when they open, stay open and close, and what disproves them."""
