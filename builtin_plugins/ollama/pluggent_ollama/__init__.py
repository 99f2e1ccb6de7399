"""Ollama's own API as a pluggent provider. See README.md."""
