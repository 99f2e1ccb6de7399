"""The command ``pluggent``: arguments in, text out. What it does is done by a host."""
