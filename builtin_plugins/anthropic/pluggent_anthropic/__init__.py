"""Anthropic's Messages API, and servers that speak it, as a pluggent provider; see ``plugin.Anthropic``."""
