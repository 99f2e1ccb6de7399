"""Finds pluggent plugins and runs agent turns with them, under their policies."""
