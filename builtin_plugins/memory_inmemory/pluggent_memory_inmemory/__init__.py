"""A pluggent memory store that lives as long as the process."""
