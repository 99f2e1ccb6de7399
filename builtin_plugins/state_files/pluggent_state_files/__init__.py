"""Keeps sessions in files: one log a session, one writer at a time, sealed where the host says so."""
