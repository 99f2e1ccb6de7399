"""Stored sessions as they are read, searched, answered, explained and exported."""
