"""Pending requests and approvals, as values and rules. Imports only common, settings, plugins, hooks and tools."""
