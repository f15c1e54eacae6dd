"""Rewrite passes: turn the plan that a user wrote into the one that runs."""
