"""Compiled loops of techniques that the engine does not use: figures measure its own beside them."""
