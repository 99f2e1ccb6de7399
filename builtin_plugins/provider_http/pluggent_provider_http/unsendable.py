"""Requests that a wire cannot say.

Light on purpose: settings check what they hold with it.
"""

from __future__ import annotations


class UnsendableError(ValueError):
    """A request holds what a wire cannot say; the message names it."""


UNSENDABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What encoding a request raises: a lone surrogate is a ValueError, a huge integer an OverflowError."""
