"""Buffering: windows keep their tuples until they are complete; and what all ways of holding windows share."""
