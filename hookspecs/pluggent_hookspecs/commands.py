"""A command that a plugin adds to ``pluggent``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:  # costs nothing until a command is typed
    import argparse


@attrs.frozen
class Command:
    """``configure`` adds arguments to the parser; ``run`` returns the exit code."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    configure: Callable[[argparse.ArgumentParser], None] | None = None
