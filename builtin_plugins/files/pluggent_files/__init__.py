"""Tools that list, read, find, search, edit, write, move and delete files in the session's workspace."""
