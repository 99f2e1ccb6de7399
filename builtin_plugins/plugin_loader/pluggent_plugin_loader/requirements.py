"""What a plugin requires and is not installed. Read after an import has failed, never before."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path


def install_command(location: str) -> str:
    """Return the command that installs what the distribution at *location* (its metadata) requires and is not here.

    By the names of packages, which need not be those of their modules. "" if all is here, or nothing is known.
    """
    missing = sorted(set(_missing(location)))
    return f"pip install {' '.join(map(shlex.quote, missing))}" if missing else ""


def _missing(location: str) -> Iterator[str]:
    # Here and not above (60 and 20 ms): only a plugin that cannot be imported pays for them.
    from importlib.metadata import PackageNotFoundError, PathDistribution, version

    # The same.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        listed = PathDistribution(Path(location)).requires or ()
    except (OSError, ValueError):  # in a zip file, or damaged
        return
    for line in listed:
        try:
            required = Requirement(line)
        except InvalidRequirement:
            continue
        if required.marker is not None and not required.marker.evaluate({"extra": ""}):
            continue
        try:
            if required.specifier.contains(version(required.name), prereleases=True):
                continue
        except PackageNotFoundError:
            pass
        required.marker = None
        yield str(required)
