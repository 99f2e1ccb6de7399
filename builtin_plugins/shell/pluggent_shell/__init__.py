"""Runs commands for a model: confined, approved part by part, ended with all their processes; see ``plugin.Shell``."""
