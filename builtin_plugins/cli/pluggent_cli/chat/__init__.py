"""The conversation of ``pluggent chat``: its editor, its lines, its slash commands."""
