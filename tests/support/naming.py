"""Ids of parametrised tests that are the same in every process: no addresses in them."""

import re


def shown(value: object) -> str:
    """Return what *value* looks like, as far as that does not change from run to run."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (some test values cannot be shown, on purpose)
        text = type(value).__name__
    return re.sub(r" at 0x[0-9a-f]+", "", text)
