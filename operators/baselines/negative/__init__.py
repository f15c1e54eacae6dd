"""Negative tuples: a windowed stream as insertions and deletions of the relation that slides with the window."""
