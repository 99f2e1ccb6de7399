"""``pluggent mcp`` and what its words do."""
