"""Checkpoints of a run: what is kept, how it is committed, and how a run goes on from the last one."""
