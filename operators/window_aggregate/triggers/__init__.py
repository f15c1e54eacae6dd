"""Windows give what they have so far when tuples, events or a clock say so."""
