"""Logging in to remote servers."""
