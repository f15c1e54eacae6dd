"""Rates that are billed: percentiles over all slots of a period, and flows that count once."""
