"""Sources turn outside bytes into pages: a thin shell that reads, and a pure decoder beside it."""
