"""The checks of ``pluggent doctor``."""
