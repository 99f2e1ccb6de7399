"""Any OpenAI-compatible chat completions server as a pluggent provider; see ``plugin.OpenAI``."""
