"""AdaptWID: each group is aggregated eagerly or lazily, whichever takes less memory."""
