"""Report on plans, runs and streams: explanations, pictures, warnings, and disorder."""
