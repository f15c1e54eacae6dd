"""A capture that cannot be read says where it stopped and what was seen there."""

from __future__ import annotations

from punctuation.errors import StreamError


class DecodeError(StreamError, ValueError):
    """Report data at fault: no capture at all, or (with ``strict=True``) a cut or damaged one."""
