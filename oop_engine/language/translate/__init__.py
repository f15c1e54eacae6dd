"""A query text over named streams becomes a stream: the same handle that the Python interface would have built."""

from oop_engine.language.translate.assemble import query

__all__ = ["query"]
