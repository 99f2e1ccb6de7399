"""The Interactions API: steps."""
