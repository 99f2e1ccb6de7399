"""Where paths in the workspace of a session lead, and files that are written whole or not at all."""
