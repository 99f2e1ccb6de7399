"""The command ``pluggent``: arguments in, text out. What it does is done by the host's other rooms."""
