"""The entry point. ``--version`` ends here, so that it costs next to nothing; all else is dispatch.py's."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130
COMPLETE = "__complete"
"""What the scripts of ``pluggent completion`` call: the shell, then the words typed so far."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments* (default: those of the process) and return its exit code.

    >>> main(["--version"])
    pluggent 0.1.0
    0
    """
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while modules are imported: dispatch reports one that comes later
        _say("error: interrupted\n")
        return INTERRUPTED


def _say(text: str) -> None:
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except OSError:
        pass  # nothing can be said


def _run(given: list[str]) -> int:
    if given in (["--version"], ["-V"]) and sys.stdout is not None:
        # Here and not above, as everything that takes time: an interrupt meanwhile ends without a traceback.
        from pluggent_host import __version__

        try:
            sys.stdout.write(f"pluggent {__version__}\n")
            sys.stdout.flush()
        except OSError:
            pass  # a closed pipe or a full disk: it is tried again by dispatch, which reports it
        else:
            return 0
    # Here and not above: the version needs none of it.
    from pluggent_cli.import_path import leave_project

    leave_project()  # before anything that is not this package is imported
    if given[:1] == [COMPLETE]:
        # as above
        from pluggent_cli.completion.words import complete

        try:
            return complete(given[1:])
        except OSError:
            # Only now: completing needs none of it.
            from pluggent_cli.dispatch import drop_unwritable

            drop_unwritable()
            return 1
    # Here and not above: argparse and what is behind it take longer than the version does.
    from pluggent_cli.dispatch import dispatch

    return dispatch(given)
