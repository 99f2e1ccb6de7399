"""``pluggent mcp remove``: a server taken out of the user's settings file."""

from __future__ import annotations

import argparse
import os

from pluggent_hookspecs import ConfigError

from pluggent_mcp.commands.list import meant
from pluggent_mcp.commands.printing import line
from pluggent_mcp.commands.settings_file import edited, read, servers_in, user_file, without_server, write


def run(options: argparse.Namespace) -> int:
    """Take a server out of the user's settings. Raises ConfigError."""
    path = user_file(os.environ)
    text = read(path)
    have = servers_in(text)
    if options.name not in have:
        unknown = f"{path} has no server {options.name!r}"
        raise ConfigError("pluggent mcp remove", [unknown + meant(options.name, have, "it has")])
    write(path, edited(path, options.name, without_server, text, options.name))
    line(f"removed {options.name} from {path}")
    if "oauth" in have[options.name]:
        line(f"who is logged in to it still is: pluggent mcp logout {options.name}")
    return 0
