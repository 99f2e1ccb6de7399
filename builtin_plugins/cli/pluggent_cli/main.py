"""The entry point. ``--version`` ends here, so that it costs next to nothing; all else is dispatch.py's."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pluggent_host import __version__

COMPLETE = "__complete"
"""What the scripts of ``pluggent completion`` call: the shell, then the words typed so far."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments* (default: those of the process) and return its exit code.

    >>> main(["--version"])
    pluggent 0.1.0
    0
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given in (["--version"], ["-V"]) and sys.stdout is not None:
        try:
            sys.stdout.write(f"pluggent {__version__}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            pass  # dispatch ends quietly on a closed pipe, and so does this: it is tried again there
        else:
            return 0
    # Here and not above: the version needs none of it.
    from pluggent_cli.import_path import leave_project

    leave_project()  # before anything that is not this package is imported
    if given[:1] == [COMPLETE]:
        # as above
        from pluggent_cli.completion.words import complete

        return complete(given[1:])
    # Here and not above: argparse and what is behind it take longer than the version does.
    from pluggent_cli.dispatch import dispatch

    return dispatch(given)
