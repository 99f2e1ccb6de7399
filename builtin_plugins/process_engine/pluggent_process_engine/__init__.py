"""Starts programs, confines them, and ends them with all their descendants; see ``running.run``."""
