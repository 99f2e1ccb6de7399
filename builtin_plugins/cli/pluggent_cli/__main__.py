"""``python -m pluggent_cli`` is the command ``pluggent``."""

import sys

if not sys.flags.safe_path:
    # Python has put the working directory first: a folder there must not stand in for a plugin.
    del sys.path[0]

from pluggent_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
