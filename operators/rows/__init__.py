"""Operators that work on one tuple at a time: filter, project, apply, distinct, number, spread."""
