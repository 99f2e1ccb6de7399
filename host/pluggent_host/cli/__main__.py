"""``python -m pluggent_host.cli`` is the command ``pluggent``."""

import sys

from pluggent_host.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
