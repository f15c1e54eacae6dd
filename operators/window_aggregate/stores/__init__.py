"""The stores of window aggregates: per window, in slices, on stacks, and by rank."""
