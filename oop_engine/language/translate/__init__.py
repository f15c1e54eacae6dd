"""Translate a query text over named streams into a stream: the same handle that the Python interface would build."""

from oop_engine.language.translate.assemble import query

__all__ = ["query"]
