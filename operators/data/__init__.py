"""Pages, schemas, keys, and saved state: the data that operators take, give and keep."""
