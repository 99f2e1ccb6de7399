"""Limits on tokens, money, calls and time; see ``plugin.Budget``."""
