"""Tries failed model calls again, asks other models instead, and leaves a dead server alone; see ``plugin.Retry``."""
