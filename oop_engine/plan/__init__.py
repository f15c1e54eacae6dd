"""Plans: the frozen graph of sources and operators, and amounts of time and rows as ticks."""
