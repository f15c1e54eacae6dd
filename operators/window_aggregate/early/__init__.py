"""Results of windows before they are complete: what of them is given when, and what is taken back by it."""
