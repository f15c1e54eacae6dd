"""Window aggregates of the papers, for comparison; the engine never chooses one by itself."""
