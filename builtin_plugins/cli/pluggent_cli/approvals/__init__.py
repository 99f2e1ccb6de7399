"""Requests that wait for a person: how they are shown, asked for at the terminal, and approved for good."""
