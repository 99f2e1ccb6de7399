"""``pluggent setup``: asks for a provider, its key and a model, tries them, and writes the user's settings."""
