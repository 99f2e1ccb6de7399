"""Finds the plugins that are installed, decides which of them may run, checks and loads them. Runs none."""
