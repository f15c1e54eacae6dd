"""Stores that group by window-id or by slice, and carry aggregates from window to window."""
