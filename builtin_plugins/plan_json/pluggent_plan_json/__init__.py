"""Reads plans written as JSON for pluggent."""
