"""A pluggent plugin with two weather tools, small enough to copy."""
