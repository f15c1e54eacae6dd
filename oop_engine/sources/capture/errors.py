"""An error of a capture says where reading stopped, and what was found there."""

from __future__ import annotations

from punctuation.errors import StreamError


class DecodeError(StreamError, ValueError):
    """Report that data is no capture, or, with `strict=True`, that a capture is cut or damaged."""
