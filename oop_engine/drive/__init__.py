"""Drive a plan: the circuit, the trio runtime, the synchronous driver, meters and locks."""
