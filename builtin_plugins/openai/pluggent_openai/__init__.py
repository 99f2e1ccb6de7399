"""Any OpenAI-compatible server as a pluggent provider, by chat completions or Responses; see ``plugin.OpenAI``."""
